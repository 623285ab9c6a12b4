import * as z from "zod";
import { adminKeyOutput, createAdminKeyOutput, listAdminKeysOutput } from "../../catalog/admin-keys/responses.ts";
import { createAdminKeyInput } from "../../catalog/admin-keys/schemas.ts";
import { createKeyOutput, key, listKeysOutput } from "../../catalog/apps/responses.ts";
import { createKeyInput, listKeysInput } from "../../catalog/apps/schemas.ts";
import { listAuditOutput } from "../../catalog/audit/responses.ts";
import { pageInput } from "../../catalog/audit/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

const exampleKey = {
  keyId: "key_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "sk_live_…AbCd",
  kind: "secret",
  mode: "live",
  createdAt,
};

export const keyOperations: readonly Operation[] = [
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
    description:
      "In pages, oldest first, including revoked keys. An administration key gets only the keys of its modes.",
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

const given = { name: "Support desk", scopes: ["read", "people"], modes: ["live"] } as const;
const shown = {
  ...given,
  adminKeyId: "adk_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "ak_…XwBc",
  apps: null,
  createdAt,
};

export const adminKeyOperations: readonly Operation[] = [
  {
    id: "createAdminKey",
    method: "post",
    path: path("/keys"),
    tag,
    access,
    summary: "Create an administration key",
    description:
      "A key for a person or a service that must not have the admin token: with scopes, and optionally for some " +
      "applications or one mode. It is returned only once; Purser stores its hash. Its rights cannot be changed later. " +
      "A key with the scope `access` can read everything that its applications hold, because it can create their secret " +
      "keys.",
    body: { schema: createAdminKeyInput, example: given },
    success: {
      description: "The key.",
      schema: createAdminKeyOutput,
      example: { ...shown, key: "ak_6nPz0vQ4tH8kXw2yBc5mAb3CdEfG" },
    },
    errors: [],
  },
  {
    id: "listAdminKeys",
    method: "get",
    path: path("/keys"),
    tag,
    access,
    summary: "List administration keys",
    description: "All keys, oldest first. Revoked keys are included.",
    success: {
      description: "The keys. A key itself is not shown; `hint` identifies it.",
      schema: listAdminKeysOutput,
      example: { keys: [{ ...shown, revokedAt: null }] },
    },
    errors: [],
  },
  {
    id: "revokeAdminKey",
    method: "delete",
    path: path("/keys/{adminKeyId}"),
    tag,
    access,
    summary: "Revoke an administration key",
    description: "Takes effect at once. Revoking it again changes nothing.",
    params: z.object({ adminKeyId: z.string().describe("The id of the key, `adk_…`.") }),
    success: {
      description: "The revoked key.",
      schema: adminKeyOutput,
      example: { ...shown, revokedAt: "2026-02-01T09:00:00.000Z" },
    },
    errors: [],
  },
  {
    id: "listDeploymentAudit",
    method: "get",
    path: path("/audit"),
    tag,
    access,
    summary: "List the audit log of the deployment",
    description: "Actions that belong to no application: created and revoked administration keys. Newest first.",
    query: pageInput,
    success: {
      description: "A page of the audit log.",
      schema: listAuditOutput,
      example: {
        entries: [
          {
            at: createdAt,
            by: "ann@example.com",
            action: "admin_key.created",
            target: shown.adminKeyId,
            userId: null,
            details: { scopes: given.scopes, apps: null, modes: given.modes },
          },
        ],
        nextCursor: null,
      },
    },
    errors: [],
  },
];
