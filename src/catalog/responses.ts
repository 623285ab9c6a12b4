import * as z from "zod";
import { matchRule, unit } from "../books/amounts/schemas.ts";
import { mode } from "../http/fields.ts";
import { time } from "../http/responses.ts";
import { ACTIONS } from "./audit.ts";
import { kind, scope } from "./schemas.ts";

export const appOutputSchema = z.lazy(() =>
  z
    .strictObject({
      appId: z.string(),
      name: z.string(),
      database: z.string().describe("The application's database."),
      createdAt: time,
    })
    .meta({ id: "App" }),
);
export type AppOutput = z.infer<typeof appOutputSchema>;

export const createKeyOutput = z.lazy(() =>
  z
    .strictObject({
      keyId: z.string(),
      key: z.string().describe("The key. Returned only once."),
      hint: z.string(),
      kind,
      mode,
      createdAt: time,
    })
    .meta({ id: "NewApiKey" }),
);
export type CreateKeyOutput = z.infer<typeof createKeyOutput>;

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
export type KeyOutput = z.infer<typeof key>;

/** The visible part of the setting, without the secret. */
const shownEndUserAuth = z.lazy(() =>
  z
    .strictObject({
      type: z.enum(["jwks", "hs256"]),
      url: z.string().optional(),
      issuer: z.string().optional(),
      audience: z.string().nullable().optional(),
      claim: z.string().optional(),
      trustUnverified: z.boolean().optional(),
      trustUserWritten: z.boolean().optional(),
      origins: z.array(z.string()).optional(),
    })
    .meta({ id: "ShownEndUserSetting" }),
);

export const endUserAuthOutput = z.lazy(() =>
  z.strictObject({ appId: z.string(), mode, setting: shownEndUserAuth.nullable() }).meta({ id: "EndUserAuth" }),
);
export type EndUserAuthOutput = z.infer<typeof endUserAuthOutput>;

export const pack = z.lazy(() =>
  z
    .strictObject({
      packId: z.string(),
      packName: z.string(),
      defaultExpiryDays: z.number().nullable(),
      items: z.array(
        z
          .strictObject({
            packItemId: z.string(),
            amount: z.number(),
            unit,
            matches: z.array(matchRule),
            priority: z.number(),
          })
          .meta({ id: "CreditPackItem" }),
      ),
      unit: z.nullable(unit).describe("Null for a pack with items, as are `matches` and `priority`."),
      matches: z.array(matchRule).nullable(),
      priority: z.number().nullable(),
      createdAt: time,
      archivedAt: time.nullable(),
      version: z.int().describe("Grows by one with each change, archiving and restoring."),
    })
    .meta({ id: "CreditPack" }),
);
export type PackOutput = z.infer<typeof pack>;

const adminKeyFields = {
  adminKeyId: z.string(),
  hint: z.string().describe("The beginning and the end of the key, to recognise it by."),
  name: z.string(),
  scopes: z.array(scope),
  apps: z.array(z.string()).nullable().describe("The ids of its applications. Null: all."),
  modes: z.array(mode).nullable().describe("Null: both."),
  createdAt: time,
};

export const createAdminKeyOutput = z.lazy(() =>
  z
    .strictObject({ ...adminKeyFields, key: z.string().describe("The key. Returned only here.") })
    .meta({ id: "NewAdminKey" }),
);
export type CreateAdminKeyOutput = z.infer<typeof createAdminKeyOutput>;

export const adminKeyOutput = z.lazy(() =>
  z.strictObject({ ...adminKeyFields, revokedAt: time.nullable() }).meta({ id: "AdminKey" }),
);
export type AdminKeyOutput = z.infer<typeof adminKeyOutput>;

const auditEntry = z.lazy(() =>
  z
    .strictObject({
      at: z.string().meta({ format: "date-time" }),
      by: z
        .string()
        .describe(
          "The e-mail address or subject that Cloudflare Access verified; the name of a sign-in; `ak:` and the id of an " +
            "administration key; or `api`.",
        ),
      action: z.enum(ACTIONS),
      target: z.string().describe("The id of the changed application, key or pack."),
      userId: z
        .string()
        .nullable()
        .describe(
          "The current id of the user whom the action is about; an erased user has a pseudonym. Null for an action about no user, and for an administration key without the scope `people`.",
        ),
      details: z.looseObject({}).describe("Details of the action. They contain no secret, user id or free text."),
    })
    .meta({ id: "AuditEntry" }),
);

export type AuditEntry = z.infer<typeof auditEntry>;

export const listAuditOutput = z.lazy(() =>
  z
    .strictObject({
      entries: z.array(auditEntry),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "AuditPage" }),
);
export type ListAuditOutput = z.infer<typeof listAuditOutput>;
