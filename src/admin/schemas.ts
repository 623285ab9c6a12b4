import * as z from "zod";
import { endUserSetting } from "../access/end-user-setting.ts";
import { identifier } from "../http/fields.ts";

const mode = z.enum(["live", "test"]);
const kind = z.enum(["secret", "publishable"]);
const time = z.string().meta({ format: "date-time" });

export const createAppInput = z.strictObject({ name: identifier() });
export type CreateAppInput = z.infer<typeof createAppInput>;

export const app = z.strictObject({ appId: z.string(), name: z.string(), createdAt: time }).meta({ id: "App" });
export type AppOutput = z.infer<typeof app>;

export const listAppsOutput = z.strictObject({ apps: z.array(app) });
export type ListAppsOutput = z.infer<typeof listAppsOutput>;

export const createKeyInput = z.strictObject({ kind, mode, name: identifier().optional() });
export type CreateKeyInput = z.infer<typeof createKeyInput>;

export const createKeyOutput = z.strictObject({
  keyId: z.string(),
  key: z.string().describe("Shown here alone: only its hash is kept."),
  hint: z.string(),
  kind,
  mode,
  createdAt: time,
});
export type CreateKeyOutput = z.infer<typeof createKeyOutput>;

export const key = z
  .strictObject({
    keyId: z.string(),
    name: z.string().nullable(),
    hint: z.string().describe("The key's beginning and end, for people to tell it by."),
    kind,
    mode,
    createdAt: time,
    revokedAt: time.nullable(),
  })
  .meta({ id: "ApiKey" });
export type KeyOutput = z.infer<typeof key>;

export const listKeysOutput = z.strictObject({ keys: z.array(key) });
export type ListKeysOutput = z.infer<typeof listKeysOutput>;

export const setEndUserAuthInput = z.strictObject({
  mode,
  setting: endUserSetting.nullable().describe("Null: publishable keys read nothing."),
});
export type SetEndUserAuthInput = z.infer<typeof setEndUserAuthInput>;

/** The setting as it may be shown: without the secret. */
export const shownSetting = z.strictObject({
  type: z.enum(["jwks", "hs256"]),
  url: z.string().optional(),
  issuer: z.string().optional(),
  audience: z.string().optional(),
  claim: z.string().optional(),
});

export const endUserAuthOutput = z.strictObject({ appId: z.string(), mode, setting: shownSetting.nullable() });
export type EndUserAuthOutput = z.infer<typeof endUserAuthOutput>;
