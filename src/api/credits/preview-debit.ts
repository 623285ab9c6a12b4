import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput, unit } from "../../books/amounts/amount-fields.ts";
import { planUsage } from "../../books/usage/plan.ts";
import { lazy } from "../../http/lazy.ts";
import { eventNames, usageNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { isOneOf, usageFields } from "../usage/usage-shapes.ts";
import { rejectingLimitOutput } from "../usage-limits/usage-limit-shapes.ts";

const skipReason = /* @__PURE__ */ lazy(() =>
  z.enum(["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]).meta({ id: "SkipReason" }),
);

const planOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      memberId: z.string().nullable().meta(words("The member who would use it. Null for none.", null)),
      quantities: quantitiesOutput.meta(words("The quantities of the event.")),
      ...metersAndVersion(),
      debits: z.array(debit).meta(words("The debits, in spending order.")),
      uncovered: quantitiesOutput
        .nullable()
        .meta(words("The quantities that no balance covers. Null when all are covered.")),
      skipped: z
        .array(
          z
            .strictObject({
              balanceId: z.string().meta(words("The balance's id.", "crb_2aFw6qH1xR9pLj4sNyT8Kc")),
              packName: z.string().meta(words("The pack's name.", "Starter")),
              unit,
              remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 500)),
              reason: skipReason.meta(words("The reason.", "not_needed")),
            })
            .meta({ id: "SkippedBalance" }),
        )
        .meta(words("The balances that would not be debited, and why.")),
      limits: z
        .array(rejectingLimitOutput)
        .meta(words("The usage limits that would reject it, oldest first. None for `partial`.")),
    })
    .meta({ id: "DebitPlan" }),
);

export const planInput = lazy(() =>
  z
    .strictObject(usageFields())
    .refine(...isOneOf)
    .meta({ id: "PreviewDebit", wrongNames: { ...usageNames, ...eventNames } }),
);

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "previewDebit",
  method: "post",
  path: "/api/v1/credits/plan",
  tag: "Credits",
  access: secretKey({ reads: true }),
  body: planInput,
  errors: ["price_not_found"],
  warns: true,
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => planOutput,
    summary: "Preview a debit",
    description:
      "Takes the body of a usage event, without its id. Returns the debits that the event would make now, the " +
      "quantities that no balance covers, why other balances would not be debited, and the usage limits that would " +
      "refuse it. Changes nothing.",
    returns: "The debits that the event would make. `uncovered` is the part that no balance covers.",
    example: () => ({
      body: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 } },
      output: {
        memberId: null,
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
  }),
  handler: (ctx, { body }) => planUsage(ctx, body),
});
