import * as z from "zod";
import { adminKeyOutput, createAdminKeyOutput, listAdminKeysOutput } from "../../catalog/admin-keys/responses.ts";
import { createAdminKeyInput } from "../../catalog/admin-keys/schemas.ts";
import { listAuditOutput } from "../../catalog/audit/responses.ts";
import { pageInput } from "../../catalog/audit/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, createdAt, path, tag } from "./administration.ts";

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
      "A key for a person or a service that must not have the admin token: with scopes, for some applications, for one mode. It is " +
      "returned only once; Purser stores its hash. Its rights are not changed later. With the scope `access` a key can get all that its " +
      "applications hold, because it makes their secret keys.",
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
    description: "What concerns no application: administration keys that were created and revoked. Newest first.",
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
