import * as z from "zod";
import { sumOutput, unit } from "../../books/amounts/amount-fields.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { EXAMPLE } from "../common.ts";

export const statement = {
  statementId: "stm_4vKq9bT2xN7cRw1sHdE8Ja",
  mode: "live",
  month: "2025-12",
  status: "ready",
  madeAt: EXAMPLE.createdAt,
};

const amount = sumOutput;

const statementLine = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      unit,
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      packName: z.string().meta(words("The pack's name when the statement was made.", "Starter")),
      opening: amount.meta(
        words(
          "The remaining amount when the month began, of balances that had not expired, including held amounts.",
          12_000,
        ),
      ),
      granted: z
        .strictObject({
          purchase: amount.meta(words("Grants with the source `purchase`.", 0)),
          grant: amount.meta(words("Grants with the source `grant`.", 500)),
          refund: amount.meta(words("Grants with the source `refund`.", 0)),
          manual: amount.meta(words("Grants with the source `manual`.", 0)),
          payment: amount.meta(words("Grants by Stripe's payments.", 40_000)),
          recurring: amount.meta(words("Recurring grants.", 0)),
        })
        .meta({ id: "StatementGranted" })
        .meta(words("Grants by payments, by recurring grants, and other grants by their `source`.")),
      spent: amount.meta(words("Debits by usage, by the time at which it was recorded.", 31250.5)),
      refunded: amount.meta(words("The refunded amount.", 0)),
      taken: amount.meta(words("Amounts taken back because of refunds and disputes of payments.", 1_000)),
      restored: amount.meta(words("Amounts given back to payments.", 0)),
      revoked: amount.meta(words("The revoked amount.", 0)),
      adjusted: amount.meta(words("Adjustments by hand: added less deducted amounts.", 50)),
      erased: amount.meta(words("Amounts removed by erasures of people.", 0)),
      expired: amount.meta(
        words("The remaining amounts of expired balances at the month's end, minus those at its beginning.", 299.5),
      ),
      closing: amount.meta(words("Like `opening`, at the month's end.", 20_000)),
      held: amount.meta(words("The part of `closing` that open reservations hold.", 600)),
    })
    .meta({ id: "StatementLine" }),
);

export const summary = {
  statementId: z.string().meta(words("The statement's id.", "stm_4vKq9bT2xN7cRw1sHdE8Ja")),
  mode,
  month: z.string().meta(words("The month, in UTC.", "2025-12")),
  status: lazy(() => lazy(() => lazy(() => z.enum(["running", "ready"]).meta({ id: "StatementStatus" })))).meta(
    words("The status.", "running"),
  ),
  madeAt: z
    .string()
    .meta({ format: "date-time" })
    .nullable()
    .meta(words("When it was made. Null until then.", "2026-01-15T12:00:00.000Z")),
};

export const statementOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...summary,
      lines: z.array(statementLine).nullable().meta(words("By unit and pack. Null while the statement is being made.")),
    })
    .meta({ id: "Statement" }),
);
