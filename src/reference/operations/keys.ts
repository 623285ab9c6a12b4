import * as z from "zod";
import { createKeyOutput, key, listKeysOutput } from "../../catalog/apps/responses.ts";
import { createKeyInput, listKeysInput } from "../../catalog/apps/schemas.ts";
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
    description: "In pages, oldest first. Revoked keys are included. With an administration key those of its modes.",
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
