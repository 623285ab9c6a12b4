import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput, unit } from "../../books/amounts/amount-fields.ts";
import { planUsage } from "../../books/usage/plan.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { isOneOf, usageFields } from "../usage/usage-shapes.ts";
import { refusingLimitOutput } from "../usage-limits/usage-limit-shapes.ts";

const skipReason = z.lazy(() =>
  z.enum(["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]).meta({ id: "SkipReason" }),
);

const planOutput = z.lazy(() =>
  z
    .strictObject({
      quantities: quantitiesOutput.describe("The quantities of the event."),
      ...metersAndVersion(),
      debits: z.array(debit).describe("The debits, in spending order."),
      uncovered: quantitiesOutput
        .nullable()
        .describe("The quantities that no balance covers. Null when all are covered."),
      skipped: z
        .array(
          z
            .strictObject({
              balanceId: z.string(),
              packName: z.string(),
              unit,
              remaining: z.number(),
              reason: skipReason,
            })
            .meta({ id: "SkippedBalance" }),
        )
        .describe("The balances that would not be debited, and why."),
      limits: z
        .array(refusingLimitOutput)
        .describe("The usage limits that would refuse it, oldest first. None for `partial`."),
    })
    .meta({ id: "DebitPlan" }),
);

export const planInput = z.lazy(() =>
  z
    .strictObject(usageFields())
    .refine(...isOneOf)
    .meta({ id: "PreviewDebit" }),
);

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "previewDebit",
  method: "post",
  path: "/api/v1/credits/plan",
  tag: "Credits",
  access: secretKey({ reads: true }),
  body: planInput,
  output: () => planOutput,
  errors: ["price_not_found"],
  warns: true,
  idempotent: true,
  summary: "Preview a debit",
  description:
    "Takes the body of a usage event, without its id. Returns the debits that the event would make now, the " +
    "quantities that no balance covers, why other balances would not be debited, and the usage limits that would " +
    "refuse it. Changes nothing.",
  returns: "The debits that the event would make. `uncovered` is the part that no balance covers.",
  example: () => ({
    body: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 } },
    output: {
      quantities: { count: 1, tokens: 120 },
      ...{ meters: null, priceVersion: null },
      debits: [{ balanceId, packId, unit: "tokens", amount: 120, remaining: 280 }],
      uncovered: null,
      skipped: [
        {
          balanceId: "crb_2aFw6qH1xR9pLj4sNyT8Kc",
          packName: "Starter",
          unit: "cents",
          remaining: 500,
          reason: "not_needed",
        },
      ],
      limits: [],
    },
  }),
  handler: (ctx, { body }) => planUsage(ctx, body),
});
