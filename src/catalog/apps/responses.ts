import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/responses.ts";
import { kind } from "./schemas.ts";

export const appOutputSchema = z
  .strictObject({
    appId: z.string(),
    name: z.string(),
    database: z.string().describe("The application's database."),
    createdAt: time,
  })
  .meta({ id: "App" });
export type AppOutput = z.infer<typeof appOutputSchema>;

export const listAppsOutput = z
  .strictObject({
    apps: z.array(appOutputSchema),
    unreachable: z
      .array(z.string())
      .optional()
      .describe("Databases that did not answer: their applications are missing."),
  })
  .meta({ id: "AppList" });
export type ListAppsOutput = z.infer<typeof listAppsOutput>;

export const createKeyOutput = z
  .strictObject({
    keyId: z.string(),
    key: z.string().describe("The key. Returned only once."),
    hint: z.string(),
    kind,
    mode,
    createdAt: time,
  })
  .meta({ id: "NewApiKey" });
export type CreateKeyOutput = z.infer<typeof createKeyOutput>;

export const key = z
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
  .meta({ id: "ApiKey" });
export type KeyOutput = z.infer<typeof key>;

export const listKeysOutput = z
  .strictObject({
    keys: z.array(key),
    nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
  })
  .meta({ id: "ApiKeyList" });
export type ListKeysOutput = z.infer<typeof listKeysOutput>;

/** The visible part of the setting, without the secret. */
const shownEndUserAuth = z
  .strictObject({
    type: z.enum(["jwks", "hs256"]),
    url: z.string().optional(),
    issuer: z.string().optional(),
    audience: z.string().optional(),
    claim: z.string().optional(),
    origins: z.array(z.string()).optional(),
  })
  .meta({ id: "ShownEndUserSetting" });

export const endUserAuthOutput = z
  .strictObject({ appId: z.string(), mode, setting: shownEndUserAuth.nullable() })
  .meta({ id: "EndUserAuth" });
export type EndUserAuthOutput = z.infer<typeof endUserAuthOutput>;
