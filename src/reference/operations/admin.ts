import * as z from "zod";
import { adjustOutput, verifyUsersOutput } from "../../books/credits/responses.ts";
import { adjustInput, verifyUsersInput } from "../../books/credits/schemas.ts";
import { listAuditOutput } from "../../catalog/audit/responses.ts";
import { listAuditInput } from "../../catalog/audit/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, createdAt, ofApp, path, tag } from "./administration.ts";
import { alertOperations } from "./alerts.ts";
import { appOperations, clockOperations } from "./apps.ts";
import { adminKeyOperations, keyOperations } from "./keys.ts";
import { packOperations } from "./packs.ts";
import { statementOperations } from "./statements.ts";
import { environmentUsageOperations } from "./usage.ts";
import { limitOperations, usageLimitOperations } from "./usage-limits.ts";
import { webhookOperations } from "./webhooks.ts";

const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";

const audit: readonly Operation[] = [
  {
    id: "listAudit",
    method: "get",
    path: path("/apps/{appId}/audit"),
    tag,
    access,
    summary: "List an application's audit log",
    description:
      "Every administrative action, by API or dashboard, newest first. Requests that were refused, repeated or without effect " +
      "are not recorded.",
    params: ofApp,
    query: listAuditInput,
    success: {
      description: "A page of the audit log.",
      schema: listAuditOutput,
      example: {
        entries: [
          {
            at: createdAt,
            by: "ann@example.com",
            action: "pack.changed",
            target: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
            userId: null,
            details: { version: 2, fields: ["packName"] },
          },
        ],
        nextCursor: null,
      },
    },
    errors: [],
  },
];

export const adminOperations: readonly Operation[] = [
  ...adminKeyOperations,
  ...appOperations,
  ...limitOperations,
  ...keyOperations,
  ...packOperations,
  ...webhookOperations,
  ...alertOperations,
  ...usageLimitOperations,
  ...statementOperations,
  ...environmentUsageOperations,
  ...clockOperations,
  ...audit,
  {
    id: "verifyUsers",
    method: "post",
    path: path("/apps/{appId}/verify"),
    tag,
    access,
    summary: "Verify the balances of an application's users",
    description:
      "Recomputes the balances of one user after another from the ledger. A page has at most 10,000 entries; a user " +
      "with more continues on the next page. It changes nothing, and is not recorded in the audit log.",
    params: ofApp,
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
    id: "adjustBalance",
    method: "post",
    path: path("/balances/{balanceId}/adjust"),
    tag,
    access,
    summary: "Adjust a balance",
    description: "Adds to or deducts from a balance. The ledger records the note.",
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
];
