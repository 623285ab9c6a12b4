import { recurringListOutput, recurringOutput } from "../../books/recurring/responses.ts";
import {
  cancelRecurringInput,
  createRecurringInput,
  listRecurringInput,
  recurringParams,
} from "../../books/recurring/schemas.ts";
import type { Operation } from "../operation.ts";

const recurring = {
  recurringId: "rec_free-user_42",
  userId: "user_42",
  packId: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
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

export const recurringOperations: readonly Operation[] = [
  {
    id: "createRecurringGrant",
    method: "post",
    path: "/api/v1/credits/recurring",
    tag: "Credits",
    summary: "Grant a pack every period",
    description:
      "Grants the pack to the user once each period, with the pack's current version. Due periods are granted at once. " +
      "Periods are computed from `startsAt` by the calendar, in UTC; if a month lacks that day, the period begins on " +
      "its last day. The credits of a period have the `externalRef` `recurring:<recurringId>:<n>`, and expire at its " +
      "end, or `rolloverPeriods` periods later. With your own `recurringId` the call is idempotent. A user has at most " +
      "100 that have not ended.",
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
      "The user's recurring grants in the order of creation, including ended ones, with their current state: a due " +
      "period is included even if it is not written yet. A publishable key needs the user's own token.",
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
      "Continues with the current period, which is granted at once. While the cause of the suspension remains, the call " +
      "returns that error and changes nothing. If no period is left, the recurring grant ends.",
    access: "secret",
    params: recurringParams,
    success: { description: "The recurring grant.", schema: recurringOutput, example: recurring },
    errors: ["not_found", "credit_pack_not_found", "invalid_quantity", "test_quota_exceeded"],
    writesForId: "refused",
  },
];
