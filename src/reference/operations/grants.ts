import * as z from "zod";
import { adjustOutput, grantOutput, refundOutput, revokeOutput } from "../../books/credits/responses.ts";
import { adjustInput, grantInput, refundInput, revokeInput } from "../../books/credits/schemas.ts";
import { recurringListOutput, recurringOutput } from "../../books/recurring/responses.ts";
import {
  cancelRecurringInput,
  createRecurringInput,
  listRecurringInput,
  recurringParams,
  resumeRecurringInput,
} from "../../books/recurring/schemas.ts";
import type { Operation } from "../operation.ts";
import { EXAMPLE, ofAdministration } from "./common.ts";

const { balanceId, packItemId } = EXAMPLE;
const grantExpiresAt = "2027-01-15T12:00:00.000Z";
const issued = { balanceId, packItemId, remaining: 400, expiresAt: grantExpiresAt };

const recurring = {
  recurringId: "rec_free-user_42",
  userId: "user_42",
  packId: EXAMPLE.packId,
  packName: "Free",
  quantity: null,
  every: "month",
  startsAt: "2026-01-16T08:30:00.000Z",
  endsAt: null,
  rolloverPeriods: 0,
  status: "active",
  reason: null,
  period: { n: 1, from: "2026-01-16T08:30:00.000Z", to: "2026-02-16T08:30:00.000Z" },
  nextAt: "2026-02-16T08:30:00.000Z",
  createdAt: "2026-01-16T08:30:00.000Z",
};

/** Credits that are granted, once or every period, taken back and adjusted. */
export const grantOperations: readonly Operation[] = [
  {
    id: "grantCredits",
    method: "post",
    path: "/api/v1/credits/grant",
    tag: "Credits",
    summary: "Grant a pack to a user",
    description:
      "Issues one balance for each item of the pack. For a legacy pack, which has no items, issues one balance of " +
      "`quantity`. Either all balances are issued or none. With an `externalRef`, such as a payment's id, the pack " +
      "is granted once: a repeat returns the existing balances, with `idempotent-replayed: true`.",
    access: "secret",
    body: {
      schema: grantInput,
      example: { userId: "user_42", packId: "starter", externalRef: "cs_test_a1b2c3", notes: "January campaign" },
    },
    success: {
      description: "The issued balances. The other fields are those of the first balance.",
      schema: grantOutput,
      example: { balances: [issued], balanceId, remaining: 400, expiresAt: grantExpiresAt },
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
      "Takes back a share of the issued amount of each balance under an `externalRef`, as far as credits remain. " +
      "The shares of several refunds add up exactly. A refund that would bring the sum above 1 is refused. When the " +
      "sum is 1, the balance is revoked, with everything that remains. The same `refundRef` with the same body " +
      "returns the first result, with `idempotent-replayed: true`.",
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
      description: "The amount taken from each balance, in the order of the grant.",
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
    id: "createRecurringGrant",
    method: "post",
    path: "/api/v1/credits/recurring",
    tag: "Credits",
    summary: "Grant a pack every period",
    description:
      "Grants the pack to the user once each period, with the pack's current version. Due periods are granted at " +
      "once. Periods are computed from `startsAt` by the calendar, in UTC; if a month lacks that day, the period " +
      "begins on its last day. The credits of a period have the `externalRef` `recurring:<recurringId>:<n>`, and " +
      "expire at its end, or `rolloverPeriods` periods later. With your own `recurringId` the call is idempotent: a " +
      "repeat returns the recurring grant as it stands now. A " +
      "user may have at most 100 recurring grants that have not ended.",
    access: "secret",
    body: {
      schema: createRecurringInput,
      example: { recurringId: "rec_free-user_42", userId: "user_42", packId: "Free", every: "month" },
    },
    success: {
      description: "The recurring grant.",
      schema: recurringOutput,
      example: recurring,
      replayable: true,
      warns: true,
    },
    errors: ["credit_pack_not_found", "invalid_quantity", "idempotency_conflict", "test_quota_exceeded"],
    writesForId: "refused",
  },
  {
    id: "listRecurringGrants",
    method: "get",
    path: "/api/v1/credits/recurring",
    tag: "Credits",
    summary: "List a user's recurring grants",
    description:
      "Returns the user's recurring grants in the order of creation, including ended ones, with their current " +
      "state: a due period is included even if it is not written yet. A publishable key needs the user's own token.",
    access: "end-user",
    query: listRecurringInput,
    success: {
      description: "The recurring grants.",
      schema: recurringListOutput,
      example: { recurring: [recurring] },
    },
    errors: [],
  },
  {
    id: "cancelRecurringGrant",
    method: "post",
    path: "/api/v1/credits/recurring/{recurringId}/cancel",
    tag: "Credits",
    summary: "End a recurring grant",
    description:
      'Ends the recurring grant. With `at: "now"` its balances that have not expired are revoked too, even if it has ' +
      "already ended. A repeat changes nothing.",
    access: "secret",
    params: recurringParams,
    body: { schema: cancelRecurringInput, example: { at: "period_end" } },
    success: {
      description: "The recurring grant, ended.",
      schema: recurringOutput,
      example: { ...recurring, status: "ended", nextAt: null },
    },
    errors: ["not_found"],
    writesForId: "refused",
  },
  {
    id: "resumeRecurringGrant",
    method: "post",
    path: "/api/v1/credits/recurring/{recurringId}/resume",
    tag: "Credits",
    summary: "Resume a suspended recurring grant",
    description:
      "Continues the recurring grant with the current period, which is granted at once. While the cause of the " +
      "suspension remains, the call returns that error and changes nothing. If no period is left, the recurring " +
      "grant ends. With `undoCancel` it continues one that was cancelled at a period's end, until that end.",
    access: "secret",
    params: recurringParams,
    body: { schema: resumeRecurringInput, example: {} },
    success: { description: "The recurring grant.", schema: recurringOutput, example: recurring },
    errors: ["not_found", "credit_pack_not_found", "invalid_quantity", "test_quota_exceeded"],
    writesForId: "refused",
  },
  ...ofAdministration([
    {
      id: "adjustBalance",
      method: "post",
      path: "/balances/{balanceId}/adjust",
      summary: "Adjust a balance",
      description: "Adds credits to a balance, or deducts credits from it. The ledger records the note.",
      params: z.object({ balanceId: z.string().describe("The id of the balance, `crb_…`.") }),
      body: { schema: adjustInput, example: { delta: 50, note: "Sorry for the outage" } },
      success: {
        description: "The balance after the adjustment.",
        schema: adjustOutput,
        example: { balanceId, remaining: 330 },
        replayable: true,
      },
      errors: ["invalid_quantity", "idempotency_conflict", "credit_balance_not_found"],
      writesForId: "refused",
    },
  ]),
];
