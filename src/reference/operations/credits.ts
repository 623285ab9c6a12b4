import {
  grantOutput,
  historyOutput,
  listOutput,
  refundOutput,
  revokeOutput,
  usersOutput,
  verifyOutput,
} from "../../books/credits/responses.ts";
import {
  grantInput,
  historyInput,
  listInput,
  refundInput,
  revokeInput,
  usersInput,
  verifyInput,
} from "../../books/credits/schemas.ts";
import { planOutput } from "../../books/usage/responses.ts";
import { planInput } from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { recurringOperations } from "./recurring.ts";

const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";
const packId = "cpk_1mVt9sD4gE6uXa8oPzJ2Rq";
const packItemId = "cpi_7hWk3yB5nC0eUi9fMvS4Lx";
const expiresAt = "2027-01-15T12:00:00.000Z";

const balance = {
  balanceId,
  packId,
  packName: "Starter",
  packItemId,
  kind: "per_type",
  unit: "tokens",
  remaining: 280,
  initial: 400,
  grantedAt: "2026-01-15T12:00:00.000Z",
  expiresAt,
  status: "active",
  matches: [{ event: "chat.*" }],
  priority: 100,
};

const entry = {
  id: "led_5cQx2vN8bT0rKf7yLwZ3Hd_9",
  balanceId,
  packId,
  delta: -120,
  unit: "tokens",
  reason: "event_committed",
  cause: "usage",
  eventId: "chat-2026-01-16-0001",
  reservationId: null,
  occurredAt: "2026-01-16T08:30:00.000Z",
  note: null,
  by: "key_4mLr9sGz1bFq0XnTdH7uYp",
};

/** The operations that read balances and the ledger. */
const balanceOperations: readonly Operation[] = [
  {
    id: "listBalances",
    method: "get",
    path: "/api/v1/credits",
    tag: "Credits",
    summary: "List a user's balances",
    description:
      "The active balances, in spending order; with `includeExpired` all balances. A browser may call it with a " +
      "publishable key and the user's token in `X-User-Token`, for that user only. `externalRef` lists the balances " +
      "granted under a reference, and `asOf` the balances at a moment; both need a secret key.",
    access: "end-user",
    query: listInput,
    success: {
      description: "The balances, in spending order. Empty for an unknown user.",
      schema: listOutput,
      example: { credits: [balance] },
    },
    errors: ["requires_secret_key"],
  },
  {
    id: "listLedgerEntries",
    method: "get",
    path: "/api/v1/credits/history",
    tag: "Credits",
    summary: "List a user's ledger entries",
    description: "Every change of the user's balances, newest first. `balanceId` limits it to one balance.",
    access: "secret",
    query: historyInput,
    success: {
      description: "A page of the ledger.",
      schema: historyOutput,
      example: { entries: [entry], nextCursor: null },
    },
    errors: ["credit_balance_not_found"],
  },
  {
    id: "listCreditUsers",
    method: "get",
    path: "/api/v1/credits/users",
    tag: "Credits",
    summary: "List the users who have credits",
    description:
      "The users with active balances, by user id in the order of code points. A page may have fewer users than " +
      "`limit`, even none, while `nextCursor` is not null.",
    access: "secret",
    query: usersInput,
    success: {
      description: "A page of users.",
      schema: usersOutput,
      example: {
        users: [{ userId: "user_42", balances: 2, remaining: { tokens: 280, cents: 5 }, nextExpiresAt: expiresAt }],
        nextCursor: null,
      },
    },
    errors: [],
  },
  {
    id: "verifyUser",
    method: "get",
    path: "/api/v1/credits/verify",
    tag: "Credits",
    summary: "Verify a user's balances",
    description:
      "Recomputes the user's balances from the ledger, in pages of at most 10,000 entries, and returns all flaws.",
    access: "secret",
    query: verifyInput,
    success: {
      description: "A page of the verification. The ledger is sound if every page is.",
      schema: verifyOutput,
      example: { userId: "user_42", balances: 3, entries: 41, isSound: true, flaws: [], nextCursor: null },
    },
    errors: [],
  },
];

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
      "Takes back a share of the issued amount of each balance under an `externalRef`, as far as credits remain. Shares " +
      "of several refunds add up exactly; a sum above 1 refuses the whole refund. At 1 a balance is revoked, with " +
      "everything that remains. The same `refundRef` with the same body returns the first result, with " +
      "`idempotent-replayed: true`.",
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
