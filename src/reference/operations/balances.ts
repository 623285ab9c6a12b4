import * as z from "zod";
import {
  historyOutput,
  listOutput,
  usersOutput,
  verifyOutput,
  verifyUsersOutput,
} from "../../books/credits/responses.ts";
import { historyInput, listInput, usersInput, verifyInput, verifyUsersInput } from "../../books/credits/schemas.ts";
import { statementListOutput, statementOutput } from "../../books/statements/responses.ts";
import { createStatementInput, listStatementsInput, readStatementInput } from "../../books/statements/schemas.ts";
import { planOutput } from "../../books/usage/responses.ts";
import { planInput } from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const { balanceId, packId } = EXAMPLE;
const nextExpiresAt = "2027-01-15T12:00:00.000Z";

const exampleBalance = {
  balanceId,
  packId,
  packName: "Starter",
  packItemId: EXAMPLE.packItemId,
  kind: "per_type",
  unit: "tokens",
  remaining: 280,
  initial: 400,
  grantedAt: EXAMPLE.createdAt,
  expiresAt: nextExpiresAt,
  status: "active",
  matches: [{ event: "chat.*" }],
  priority: 100,
};

const exampleLedgerEntry = {
  id: "led_5cQx2vN8bT0rKf7yLwZ3Hd_9",
  balanceId,
  packId,
  delta: -120,
  unit: "tokens",
  reason: "event_committed",
  cause: "usage",
  eventId: EXAMPLE.eventId,
  reservationId: null,
  occurredAt: "2026-01-16T08:30:00.000Z",
  note: null,
  by: "key_4mLr9sGz1bFq0XnTdH7uYp",
};
const statementParams = z.object({
  appId,
  statementId: z
    .string()
    .describe("The id of the statement, `stm_…`. With `.csv` appended, the response is CSV with the same columns."),
});
const statement = {
  statementId: "stm_4vKq9bT2xN7cRw1sHdE8Ja",
  mode: "live",
  month: "2025-12",
  status: "ready",
  madeAt: EXAMPLE.createdAt,
};
const exampleStatementLine = {
  unit: "tokens",
  packId,
  packName: "Starter",
  opening: 12_000,
  granted: { purchase: 0, grant: 500, refund: 0, manual: 0, payment: 40_000, recurring: 0 },
  ...{ spent: 31_250.5, refunded: 0, taken: 1_000, restored: 0, revoked: 0, adjusted: 50, erased: 0, expired: 299.5 },
  ...{ closing: 20_000, held: 600 },
};

/** Balances and the ledger: read, previewed, verified, and summed up in statements. */
export const balanceOperations: readonly Operation[] = [
  {
    id: "listBalances",
    method: "get",
    path: "/api/v1/credits",
    tag: "Credits",
    summary: "List a user's balances",
    description:
      "Returns the active balances in spending order, or with `includeExpired` all balances. `externalRef` returns " +
      "the balances granted under a reference, and `asOf` the balances at a moment; both need a secret key. A " +
      "browser may call it with a publishable key and the user's token in `X-User-Token`, for that user only.",
    access: "end-user",
    query: listInput,
    success: {
      description: "The balances, in spending order. Empty for an unknown user.",
      schema: listOutput,
      example: { credits: [exampleBalance] },
    },
    errors: ["requires_secret_key"],
  },
  {
    id: "listLedgerEntries",
    method: "get",
    path: "/api/v1/credits/history",
    tag: "Credits",
    summary: "List a user's ledger entries",
    description: "Returns every change of the user's balances, newest first. `balanceId` limits it to one balance.",
    access: "secret",
    query: historyInput,
    success: {
      description: "A page of the ledger.",
      schema: historyOutput,
      example: { entries: [exampleLedgerEntry], nextCursor: null },
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
      "Returns the users with active balances, by user id in the order of code points. A page may have fewer users " +
      "than `limit`, even none, while `nextCursor` is not null.",
    access: "secret",
    query: usersInput,
    success: {
      description: "A page of users.",
      schema: usersOutput,
      example: {
        users: [{ userId: "user_42", balances: 2, remaining: { tokens: 280, cents: 5 }, nextExpiresAt }],
        nextCursor: null,
      },
    },
    errors: [],
  },
  {
    id: "previewDebit",
    method: "post",
    path: "/api/v1/credits/plan",
    tag: "Credits",
    summary: "Preview a debit",
    description:
      "Takes the body of a usage event, without its id. Returns the debits that the event would make now, the " +
      "quantities that no balance covers, why other balances would not be debited, and the usage limits that would " +
      "refuse it. Changes nothing.",
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
  ...ofAdministration([
    {
      id: "verifyUsers",
      method: "post",
      path: "/apps/{appId}/verify",
      summary: "Verify the balances of an application's users",
      description:
        "Recomputes the balances of one user after another from the ledger. A page verifies at most 10,000 entries; " +
        "a user with more continues on the next page. The call changes nothing, and is not recorded in the audit " +
        "log.",
      params: appParams,
      body: { schema: verifyUsersInput, example: { mode: "live" } },
      success: {
        description: "A page of users, each verified as by `GET /api/v1/credits/verify`.",
        schema: verifyUsersOutput,
        example: {
          users: [{ userId: "user_42", balances: 3, entries: 41, isSound: true, flaws: [], nextCursor: null }],
          nextCursor: null,
        },
      },
      errors: [],
    },
    {
      id: "createStatement",
      method: "post",
      path: "/apps/{appId}/statements",
      summary: "Request the statement of a month",
      description:
        "Requests the statement of a month by unit and pack, for accounting. The cron creates it. It balances " +
        "exactly: `opening` + `granted` − `spent` − `refunded` − `taken` + `restored` − `revoked` + `adjusted` − " +
        "`erased` − `expired` = `closing`. A repeat returns the first statement.",
      params: appParams,
      body: { schema: createStatementInput, example: { mode: "live", month: "2025-12" } },
      success: {
        description: "The statement, without lines while it is being made.",
        schema: statementOutput,
        example: { ...statement, status: "running", madeAt: null, lines: null },
      },
      errors: [],
    },
    {
      id: "listStatements",
      method: "get",
      path: "/apps/{appId}/statements",
      summary: "List statements",
      description: "Returns the statements of one mode, the newest month first, without their lines.",
      params: appParams,
      query: listStatementsInput,
      success: { description: "The statements.", schema: statementListOutput, example: { statements: [statement] } },
      errors: [],
    },
    {
      id: "getStatement",
      method: "get",
      path: "/apps/{appId}/statements/{statementId}",
      summary: "Get a statement",
      description: "Returns a statement, with its lines once it is ready. `{statementId}.csv` returns the same as CSV.",
      params: statementParams,
      query: readStatementInput,
      success: {
        description: "The statement.",
        schema: statementOutput,
        example: { ...statement, lines: [exampleStatementLine] },
        alternatives: { "text/csv": { schema: z.string(), example: "unit,packId,packName,opening,…" } },
      },
      errors: [],
    },
  ]),
];
