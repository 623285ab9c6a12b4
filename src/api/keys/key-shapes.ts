import * as z from "zod";
import { SCOPES } from "../../auth/scopes.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import type { Scope } from "../../runtime.ts";
import { EXAMPLE } from "../common.ts";

const { createdAt } = EXAMPLE;

export const exampleKey = {
  keyId: "key_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "sk_live_…AbCd",
  kind: "secret",
  mode: "live",
  createdAt,
};

export const newAdminKey = { name: "Support desk", scopes: ["read", "people"], modes: ["live"] } as const;

export const exampleAdminKey = {
  ...newAdminKey,
  adminKeyId: "adk_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "ak_…XwBc",
  apps: null,
  createdAt,
};

export const kind = lazy(() =>
  z.enum(["secret", "publishable", "relay"]).meta({
    id: "KeyKind",
    ...words(
      "`secret`: for your backend. `publishable`: for browsers and apps. `relay`: for a service that forwards the events of others, such as " +
        "a reverse proxy or a customer-data platform; it sends analytics and nothing else.",
      "secret",
    ),
  }),
);

export const scope = lazy(() =>
  z.enum(Object.keys(SCOPES) as [Scope, ...Scope[]]).meta({
    id: "Scope",
    ...words(
      Object.entries(SCOPES)
        .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
        .join(" "),
      "read",
    ),
  }),
);

export const key = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      keyId: z.string().meta(words("The key's id.", "key_8tLf2mY4cJ7hWs1xNvQ9Ba")),
      name: z.string().nullable().meta(words("The name, for people.", "Backend")),
      hint: z.string().meta(words("The start and end of the key, to recognise it.", "sk_live_…AbCd")),
      kind,
      mode,
      createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
      revokedAt: time.nullable().meta(words("When it was revoked. Null if it is valid.", "2026-02-01T09:00:00.000Z")),
      lastUsedOn: z
        .string()
        .nullable()
        .meta(words("The day (UTC) of its last use, as far as is known. It is written after responses.", "2026-01-20")),
    })
    .meta({ id: "ApiKey" }),
);

export const adminKeyFields = {
  adminKeyId: z.string().meta(words("The administration key's id.", "adk_8tLf2mY4cJ7hWs1xNvQ9Ba")),
  hint: z.string().meta(words("The beginning and the end of the key, to recognise it by.", "ak_…XwBc")),
  name: z.string().meta(words("The name, for people.", "Support desk")),
  scopes: z.array(scope).meta(words("What the key allows. No scope includes another.", ["read", "people"])),
  apps: z
    .array(z.string())
    .nullable()
    .meta(words("The ids of its applications. Null: all.", ["app_3kDw9pX1sB6vMn0qTzR7Ge"])),
  modes: z
    .array(mode)
    .nullable()
    .meta(words("Null: both.", ["live"])),
  createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
};

export const adminKeyOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...adminKeyFields,
      revokedAt: time.nullable().meta(words("When it was revoked. Null if it is valid.", "2026-02-01T09:00:00.000Z")),
    })
    .meta({ id: "AdminKey" }),
);
