import { historyOutput, listOutput, usersOutput, verifyOutput } from "../../books/credits/responses.ts";
import { historyInput, listInput, usersInput, verifyInput } from "../../books/credits/schemas.ts";
import type { Operation } from "../operation.ts";

export const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";
export const packId = "cpk_1mVt9sD4gE6uXa8oPzJ2Rq";
export const packItemId = "cpi_7hWk3yB5nC0eUi9fMvS4Lx";
export const expiresAt = "2027-01-15T12:00:00.000Z";

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
export const balanceOperations: readonly Operation[] = [
  {
    id: "listBalances",
    method: "get",
    path: "/api/v1/credits",
    tag: "Credits",
    summary: "List a user's balances",
    description:
      "The active balances, in spending order; with `includeExpired` all balances. A browser may call it with a publishable " +
      "key and the user's token in `X-User-Token`, for that user only. `externalRef` lists what was granted under a reference, " +
      "and `asOf` the balances as they were at a moment; both need a secret key.",
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
      "Who has balances that can pay now, by user id in the order of code points. A page may hold fewer users than `limit`, " +
      "even none, while `nextCursor` is not null.",
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
      "Recomputes the user's balances from the ledger, in pages of at most 10,000 entries, and says what does not add up.",
    access: "secret",
    query: verifyInput,
    success: {
      description: "A page of the verification. All pages together are sound when each of them is.",
      schema: verifyOutput,
      example: { userId: "user_42", balances: 3, entries: 41, isSound: true, flaws: [], nextCursor: null },
    },
    errors: [],
  },
];
