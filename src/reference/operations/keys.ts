import * as z from "zod";
import {
  adminKeyOutput,
  createAdminKeyOutput,
  createKeyOutput,
  key,
  listAdminKeysOutput,
  listAuditOutput,
  listKeysOutput,
} from "../../catalog/responses.ts";
import {
  createAdminKeyInput,
  createKeyInput,
  listAuditInput,
  listKeysInput,
  pageInput,
} from "../../catalog/schemas.ts";
import type { Operation } from "../operation.ts";
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const { createdAt } = EXAMPLE;
const exampleKey = {
  keyId: "key_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "sk_live_…AbCd",
  kind: "secret",
  mode: "live",
  createdAt,
};

const newAdminKey = { name: "Support desk", scopes: ["read", "people"], modes: ["live"] } as const;
const exampleAdminKey = {
  ...newAdminKey,
  adminKeyId: "adk_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "ak_…XwBc",
  apps: null,
  createdAt,
};

/** Keys of applications, administration keys, and the audit of administration. */
export const keyOperations: readonly Operation[] = ofAdministration([
  {
    id: "createKey",
    method: "post",
    path: "/apps/{appId}/keys",
    summary: "Create a key",
    description: "Creates a key. It is returned only once, because Purser stores only its hash.",
    params: appParams,
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
    path: "/apps/{appId}/keys",
    summary: "List an application's keys",
    description:
      "Returns a page of keys, oldest first, including revoked ones. An administration key gets only the keys of " +
      "its modes.",
    params: appParams,
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
    path: "/apps/{appId}/keys/{keyId}",
    summary: "Revoke a key",
    description:
      "Revokes a key. It stops working at once, for reads at a replica within seconds. Revoking it again changes " +
      "nothing.",
    params: z.object({ appId, keyId: z.string().describe("The id of the key, `key_…`.") }),
    success: {
      description: "The revoked key.",
      schema: key,
      example: { ...exampleKey, name: "Backend", revokedAt: "2026-02-01T09:00:00.000Z", lastUsedOn: null },
    },
    errors: [],
  },
  {
    id: "createAdminKey",
    method: "post",
    path: "/keys",
    summary: "Create an administration key",
    description:
      "Creates a key for a person or a service that must not have the admin token. It has scopes, and may be " +
      "limited to some applications or to one mode. It is returned only once, because Purser stores only its hash. " +
      "Its rights cannot be changed later. A key with the scope `access` can read everything in its applications, " +
      "because it can create their secret keys.",
    body: { schema: createAdminKeyInput, example: newAdminKey },
    success: {
      description: "The key.",
      schema: createAdminKeyOutput,
      example: { ...exampleAdminKey, key: "ak_6nPz0vQ4tH8kXw2yBc5mAb3CdEfG" },
    },
    errors: [],
  },
  {
    id: "listAdminKeys",
    method: "get",
    path: "/keys",
    summary: "List administration keys",
    description: "Returns all administration keys, oldest first, including revoked ones.",
    success: {
      description: "The keys. A key itself is not shown; `hint` identifies it.",
      schema: listAdminKeysOutput,
      example: { keys: [{ ...exampleAdminKey, revokedAt: null }] },
    },
    errors: [],
  },
  {
    id: "revokeAdminKey",
    method: "delete",
    path: "/keys/{adminKeyId}",
    summary: "Revoke an administration key",
    description: "Revokes an administration key at once. Revoking it again changes nothing.",
    params: z.object({ adminKeyId: z.string().describe("The id of the key, `adk_…`.") }),
    success: {
      description: "The revoked key.",
      schema: adminKeyOutput,
      example: { ...exampleAdminKey, revokedAt: "2026-02-01T09:00:00.000Z" },
    },
    errors: [],
  },
  {
    id: "listAudit",
    method: "get",
    path: "/apps/{appId}/audit",
    summary: "List an application's audit log",
    description:
      "Returns every administrative action on the application, by API or dashboard, newest first. Requests that " +
      "were refused, repeated or without effect are not recorded.",
    params: appParams,
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
            target: EXAMPLE.packId,
            userId: null,
            details: { version: 2, fields: ["packName"] },
          },
        ],
        nextCursor: null,
      },
    },
    errors: [],
  },
  {
    id: "listDeploymentAudit",
    method: "get",
    path: "/audit",
    summary: "List the audit log of the deployment",
    description:
      "Returns the actions that belong to no application, newest first: administration keys that were created or " +
      "revoked.",
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
            target: exampleAdminKey.adminKeyId,
            userId: null,
            details: { scopes: newAdminKey.scopes, apps: null, modes: newAdminKey.modes },
          },
        ],
        nextCursor: null,
      },
    },
    errors: [],
  },
]);
