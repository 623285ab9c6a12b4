import * as z from "zod";
import { sumOutput, unit } from "../../books/amounts/amount-fields.ts";
import { mode } from "../../http/fields.ts";
import { EXAMPLE } from "../common.ts";

export const statement = {
  statementId: "stm_4vKq9bT2xN7cRw1sHdE8Ja",
  mode: "live",
  month: "2025-12",
  status: "ready",
  madeAt: EXAMPLE.createdAt,
};

const amount = sumOutput;

const statementLine = z.lazy(() =>
  z
    .strictObject({
      unit,
      packId: z.string(),
      packName: z.string().describe("The pack's name when the statement was made."),
      opening: amount.describe(
        "The remaining amount when the month began, of balances that had not expired, including held amounts.",
      ),
      granted: z
        .strictObject({
          purchase: amount,
          grant: amount,
          refund: amount,
          manual: amount,
          payment: amount,
          recurring: amount,
        })
        .meta({ id: "StatementGranted" })
        .describe("Grants by payments, by recurring grants, and other grants by their `source`."),
      spent: amount.describe("Debits by usage, by the time at which it was recorded."),
      refunded: amount,
      taken: amount.describe("Amounts taken back because of refunds and disputes of payments."),
      restored: amount.describe("Amounts given back to payments."),
      revoked: amount,
      adjusted: amount.describe("Adjustments by hand: added less deducted amounts."),
      erased: amount.describe("Amounts removed by erasures of people."),
      expired: amount.describe(
        "The remaining amounts of expired balances at the month's end, minus those at its beginning.",
      ),
      closing: amount.describe("Like `opening`, at the month's end."),
      held: amount.describe("The part of `closing` that open reservations hold."),
    })
    .meta({ id: "StatementLine" }),
);

export const summary = {
  statementId: z.string(),
  mode,
  month: z.string(),
  status: z.lazy(() => z.lazy(() => z.lazy(() => z.enum(["running", "ready"]).meta({ id: "StatementStatus" })))),
  madeAt: z.string().meta({ format: "date-time" }).nullable(),
};

export const statementOutput = z.lazy(() =>
  z
    .strictObject({
      ...summary,
      lines: z.array(statementLine).nullable().describe("By unit and pack. Null while the statement is being made."),
    })
    .meta({ id: "Statement" }),
);
