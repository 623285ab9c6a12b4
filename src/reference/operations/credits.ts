import { grantOutput, historyOutput, listOutput, revokeOutput } from "../../credits/responses.ts";
import { grantInput, historyInput, listInput, revokeInput } from "../../credits/schemas.ts";
import { planOutput } from "../../usage/responses.ts";
import { planInput } from "../../usage/schemas.ts";
import type { Operation } from "../describe.ts";

const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";
const packId = "cpk_1mVt9sD4gE6uXa8oPzJ2Rq";
const packItemId = "cpi_7hWk3yB5nC0eUi9fMvS4Lx";
const expiresAt = "2027-01-15T12:00:00.000Z";

const issued = { balanceId, packItemId, remaining: 400, expiresAt };

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
  eventId: "chat-2026-01-16-0001",
  reservationId: null,
  occurredAt: "2026-01-16T08:30:00.000Z",
  note: null,
};

export const creditOperations: readonly Operation[] = [
  {
    id: "grantCredits",
    method: "post",
    path: "/api/v1/credits/grant",
    tag: "Credits",
    summary: "Grant a pack to a user",
    description:
      "Issues one balance for each item of the pack, or one of `quantity` for a legacy pack; all or none. With an " +
      "`externalRef`, such as a payment's id, it lands once however often it is sent: a repeat answers the balances " +
      "that are there, with `idempotent-replayed: true`.",
    access: "secret",
    body: {
      schema: grantInput,
      example: { userId: "user_42", packId: "starter", externalRef: "cs_test_a1b2c3", notes: "January campaign" },
    },
    success: {
      description: "The balances issued. The fields beside `balances` are those of its first.",
      schema: grantOutput,
      example: { balances: [issued], balanceId, remaining: 400, expiresAt },
      replayable: true,
    },
    errors: ["invalid_quantity", "credit_pack_not_found", "test_quota_exceeded"],
  },
  {
    id: "revokeBalance",
    method: "post",
    path: "/api/v1/credits/revoke",
    tag: "Credits",
    summary: "Revoke a balance",
    description:
      "Zeroes what remains of one balance. What was spent stays spent, and the ledger tells the reason. Again: 200, " +
      "and nothing happens.",
    access: "secret",
    body: { schema: revokeInput, example: { balanceId, reason: "Payment refunded" } },
    success: {
      description: "The balance has nothing left.",
      schema: revokeOutput,
      example: { balanceId, remaining: 0 },
    },
    errors: ["credit_balance_not_found"],
  },
  {
    id: "planUsage",
    method: "post",
    path: "/api/v1/credits/plan",
    tag: "Credits",
    summary: "Ask what an event would debit",
    description:
      "Takes the body of a usage event, without its id. Answers which balances would pay how much if it came now, what " +
      "nothing would pay for, and why each other balance would not pay. Changes nothing.",
    access: "secret",
    body: { schema: planInput, example: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 } } },
    success: {
      description: "The debits that would follow. Short of credits, `uncovered` says what nothing would pay for.",
      schema: planOutput,
      example: {
        debits: [{ balanceId, packId, unit: "tokens", amount: 120, remaining: 280 }],
        uncovered: null,
        skipped: [{ balanceId: "crb_2aFw6qH1xR9pLj4sNyT8Kc", reason: "not_needed" }],
      },
    },
    errors: [],
  },
  {
    id: "listCredits",
    method: "get",
    path: "/api/v1/credits",
    tag: "Credits",
    summary: "List a user's balances",
    description:
      "The balances that can pay now, in the order in which they will be spent; with `includeExpired` all the others " +
      "as well. May be called from a browser with a publishable key, for the end-user whom `X-User-Token` proves.",
    access: "end-user",
    query: listInput,
    success: {
      description: "The balances, first to be spent first. A user nobody has heard of has none.",
      schema: listOutput,
      example: { credits: [balance] },
    },
    errors: [],
  },
  {
    id: "readHistory",
    method: "get",
    path: "/api/v1/credits/history",
    tag: "Credits",
    summary: "Read a user's ledger",
    description: "Every motion of the user's credits, newest first; of one balance with `balanceId`.",
    access: "secret",
    query: historyInput,
    success: {
      description: "A page of the ledger. `nextCursor` asks for the next; null when there is none.",
      schema: historyOutput,
      example: { entries: [entry], nextCursor: null },
    },
    errors: ["credit_balance_not_found"],
  },
];
