import { grantOutput, refundOutput, revokeOutput } from "../../books/credits/responses.ts";
import { grantInput, refundInput, revokeInput } from "../../books/credits/schemas.ts";
import { planOutput } from "../../books/usage/responses.ts";
import { planInput } from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { balanceId, balanceOperations, expiresAt, packId, packItemId } from "./balances.ts";
import { recurringOperations } from "./recurring.ts";

const issued = { balanceId, packItemId, remaining: 400, expiresAt };

export const creditOperations: readonly Operation[] = [
  {
    id: "grantCredits",
    method: "post",
    path: "/api/v1/credits/grant",
    tag: "Credits",
    summary: "Grant a pack to a user",
    description:
      "Issues one balance for each item of the pack, or one of `quantity` for a legacy pack, which has no items; all or none. With an " +
      "`externalRef`, such as a payment's id, it happens once: a repeat returns the existing balances, with " +
      "`idempotent-replayed: true`.",
    access: "secret",
    body: {
      schema: grantInput,
      example: { userId: "user_42", packId: "starter", externalRef: "cs_test_a1b2c3", notes: "January campaign" },
    },
    success: {
      description: "The issued balances. The other fields are those of the first balance.",
      schema: grantOutput,
      example: { balances: [issued], balanceId, remaining: 400, expiresAt },
      replayable: true,
      warns: true,
    },
    errors: ["invalid_quantity", "credit_pack_not_found", "test_quota_exceeded"],
    writesForId: "refused",
  },
  {
    id: "revokeBalance",
    method: "post",
    path: "/api/v1/credits/revoke",
    tag: "Credits",
    summary: "Revoke a balance",
    description:
      "Sets a balance's remaining amount to 0. Credits already spent stay spent. The ledger records the reason. Revoking it " +
      "again returns 200 and changes nothing.",
    access: "secret",
    body: { schema: revokeInput, example: { balanceId, reason: "Payment refunded" } },
    success: {
      description: "The revoked balance.",
      schema: revokeOutput,
      example: { balanceId, remaining: 0 },
    },
    errors: ["credit_balance_not_found"],
    writesForId: "refused",
  },
  {
    id: "refundCredits",
    method: "post",
    path: "/api/v1/credits/refund",
    tag: "Credits",
    summary: "Refund a grant by its reference",
    description:
      "Takes back a share of what each balance under an `externalRef` was issued with, as far as it is there. Shares of " +
      "several refunds add up exactly; a sum above 1 refuses the whole refund. At 1 a balance is revoked, with all that " +
      "remains. The same `refundRef` with the same body returns the first result, with `idempotent-replayed: true`.",
    access: "secret",
    body: {
      schema: refundInput,
      example: {
        userId: "user_42",
        externalRef: "cs_test_a1b2c3",
        refundRef: "re_3Kd9",
        share: { part: 500, of: 1_500 },
        reason: "Payment refunded in part",
      },
    },
    success: {
      description: "What each balance gave, in the order of the grant.",
      schema: refundOutput,
      example: {
        refundRef: "re_3Kd9",
        externalRef: "cs_test_a1b2c3",
        balances: [{ balanceId, packItemId, unit: "tokens", taken: 120, short: 13.333, remaining: 0 }],
      },
      replayable: true,
    },
    errors: ["idempotency_conflict", "credit_balance_not_found"],
    writesForId: "refused",
  },
  {
    id: "previewDebit",
    method: "post",
    path: "/api/v1/credits/plan",
    tag: "Credits",
    summary: "Preview a debit",
    description:
      "Takes the body of a usage event, without its id. Returns the debits that it would make now, the quantities that no " +
      "balance covers, why other balances would not be debited, and the usage limits that would refuse it. Changes nothing.",
    access: "secret",
    body: { schema: planInput, example: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 } } },
    success: {
      warns: true,
      description: "The debits that the event would make. `uncovered` is the part that no balance covers.",
      schema: planOutput,
      example: {
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
    },
    errors: [],
  },
  ...recurringOperations,
  ...balanceOperations,
];
