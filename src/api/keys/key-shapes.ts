import * as z from "zod";
import { SCOPES } from "../../auth/scopes.ts";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
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

export const kind = z.lazy(() =>
  z.enum(["secret", "publishable", "relay"]).meta({
    id: "KeyKind",
    description:
      "`secret`: for your backend. `publishable`: for browsers and apps. `relay`: for a service that forwards the events of others, such as " +
      "a reverse proxy or a customer-data platform; it sends analytics and nothing else.",
  }),
);

export const scope = z.lazy(() =>
  z.enum(Object.keys(SCOPES) as [Scope, ...Scope[]]).meta({
    id: "Scope",
    description: Object.entries(SCOPES)
      .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
      .join(" "),
  }),
);

export const key = z.lazy(() =>
  z
    .strictObject({
      keyId: z.string(),
      name: z.string().nullable(),
      hint: z.string().describe("The start and end of the key, to recognise it."),
      kind,
      mode,
      createdAt: time,
      revokedAt: time.nullable(),
      lastUsedOn: z.string().nullable().meta({
        description: "The day (UTC) of its last use, as far as is known. It is written after responses.",
      }),
    })
    .meta({ id: "ApiKey" }),
);

export const adminKeyFields = {
  adminKeyId: z.string(),
  hint: z.string().describe("The beginning and the end of the key, to recognise it by."),
  name: z.string(),
  scopes: z.array(scope),
  apps: z.array(z.string()).nullable().describe("The ids of its applications. Null: all."),
  modes: z.array(mode).nullable().describe("Null: both."),
  createdAt: time,
};

export const adminKeyOutput = z.lazy(() =>
  z.strictObject({ ...adminKeyFields, revokedAt: time.nullable() }).meta({ id: "AdminKey" }),
);
