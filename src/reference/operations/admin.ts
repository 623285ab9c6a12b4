import * as z from "zod";
import { app, createKeyOutput, endUserAuthOutput, key, listAppsOutput, listKeysOutput } from "../../apps/responses.ts";
import { createAppInput, createKeyInput, listKeysInput, setEndUserAuthInput } from "../../apps/schemas.ts";
import { listAuditOutput } from "../../audit/responses.ts";
import { listAuditInput } from "../../audit/schemas.ts";
import { adjustOutput, verifyUsersOutput } from "../../credits/responses.ts";
import { adjustInput, verifyUsersInput } from "../../credits/schemas.ts";
import { analyticsDefaults } from "../../limits/analytics-limits.ts";
import { limitsOutput } from "../../limits/responses.ts";
import { readLimitsInput, setLimitsInput } from "../../limits/schemas.ts";
import type { Operation } from "../describe.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";
import { alertOperations } from "./alerts.ts";
import { clockOperations } from "./clocks.ts";
import { packOperations } from "./packs.ts";
import { webhookOperations } from "./webhooks.ts";

const balanceId = "crb_5cQx2vN8bT0rKf7yLwZ3Hd";

const exampleApp = { appId: "app_3kDw9pX1sB6vMn0qTzR7Ge", name: "Writing desk", database: "DB", createdAt };

const exampleKey = {
  keyId: "key_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "sk_live_…AbCd",
  kind: "secret",
  mode: "live",
  createdAt,
};

const setting = { type: "jwks", url: "https://auth.example.com/.well-known/jwks.json", audience: "writing-desk" };

const apps: readonly Operation[] = [
  {
    id: "createApp",
    method: "post",
    path: path("/apps"),
    tag,
    access,
    summary: "Create an application",
    description: "Creates its live and test environments, without keys.",
    body: { schema: createAppInput, example: { name: "Writing desk" } },
    success: { description: "The application.", schema: app, example: exampleApp },
    errors: [],
  },
  {
    id: "listApps",
    method: "get",
    path: path("/apps"),
    tag,
    access,
    summary: "List applications",
    description: "All applications, oldest first.",
    success: { description: "The applications.", schema: listAppsOutput, example: { apps: [exampleApp] } },
    errors: [],
  },
  {
    id: "setEndUserAuth",
    method: "put",
    path: path("/apps/{appId}/end-user-auth"),
    tag,
    access,
    summary: "Set how user tokens are verified",
    description:
      "For one mode. Takes effect at once, and for reads at a replica within seconds. A secret is not shown again.",
    params: ofApp,
    body: { schema: setEndUserAuthInput, example: { mode: "live", setting } },
    success: {
      description: "The setting, without its secret.",
      schema: endUserAuthOutput,
      example: { appId: exampleApp.appId, mode: "live", setting },
    },
    errors: ["secrets_unavailable"],
  },
];

const limits = {
  appId: exampleApp.appId,
  mode: "live",
  analytics: { ...analyticsDefaults, eventsADay: 5_000_000 },
  today: { day: "2026-01-15", events: 61_204, bytes: 31_990_112, eventsOfOneId: 412, bytesOfOneId: 260_118 },
  reached: [{ limit: "eventsADay", at: "2026-01-12T21:14:09.120Z" }],
};

const limitOperations: readonly Operation[] = [
  {
    id: "setLimits",
    method: "put",
    path: path("/apps/{appId}/limits"),
    tag,
    access,
    summary: "Set the limits of analytics",
    description: "For one mode. Takes effect at once. They count and drop only what publishable keys send.",
    params: ofApp,
    body: { schema: setLimitsInput, example: { mode: "live", analytics: { eventsADay: 5_000_000 } } },
    success: { description: "The limits in force, and what was used today.", schema: limitsOutput, example: limits },
    errors: [],
  },
  {
    id: "getLimits",
    method: "get",
    path: path("/apps/{appId}/limits"),
    tag,
    access,
    summary: "Get the limits of analytics, and what was used today",
    description: "For one mode.",
    params: ofApp,
    query: readLimitsInput,
    success: { description: "The limits in force, and what was used today.", schema: limitsOutput, example: limits },
    errors: [],
  },
];

const keys: readonly Operation[] = [
  {
    id: "createKey",
    method: "post",
    path: path("/apps/{appId}/keys"),
    tag,
    access,
    summary: "Create a key",
    description: "The key is returned only once. Purser stores its hash.",
    params: ofApp,
    body: { schema: createKeyInput, example: { kind: "secret", mode: "live", name: "Backend" } },
    success: {
      description: "The key.",
      schema: createKeyOutput,
      example: { ...exampleKey, key: "sk_live_6nPz0vQ4tH8kXw2yBc5mAbCd" },
    },
    errors: [],
  },
  {
    id: "listKeys",
    method: "get",
    path: path("/apps/{appId}/keys"),
    tag,
    access,
    summary: "List an application's keys",
    description: "In pages, oldest first. Revoked keys are included.",
    params: ofApp,
    query: listKeysInput,
    success: {
      description: "A page of keys. A key itself is not shown; `hint` identifies it.",
      schema: listKeysOutput,
      example: {
        keys: [{ ...exampleKey, name: "Backend", revokedAt: null, lastUsedOn: "2026-01-20" }],
        nextCursor: null,
      },
    },
    errors: [],
  },
  {
    id: "revokeKey",
    method: "delete",
    path: path("/apps/{appId}/keys/{keyId}"),
    tag,
    access,
    summary: "Revoke a key",
    description: "Takes effect at once, and for reads at a replica within seconds. Revoking it again changes nothing.",
    params: z.object({ appId, keyId: z.string().describe("The id of the key, `key_…`.") }),
    success: {
      description: "The revoked key.",
      schema: key,
      example: { ...exampleKey, name: "Backend", revokedAt: "2026-02-01T09:00:00.000Z", lastUsedOn: null },
    },
    errors: [],
  },
];

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
  ...apps,
  ...limitOperations,
  ...keys,
  ...packOperations,
  ...webhookOperations,
  ...alertOperations,
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
      "Recomputes the balances of one user after another from the ledger. A page has at most 10,000 entries; a user with more " +
      "goes on in the next. It changes nothing, and is not recorded in the audit log.",
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
