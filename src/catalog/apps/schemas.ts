import * as z from "zod";
import { endUserSetting } from "../../auth/end-user-setting.ts";
import { cursor, displayName, mode, pageLimit } from "../../http/fields.ts";

export const kind = z.lazy(() =>
  z.enum(["secret", "publishable", "relay"]).meta({
    id: "KeyKind",
    description:
      "`secret`: for your backend. `publishable`: for browsers and apps. `relay`: for a service that forwards the events of others, such as " +
      "a reverse proxy or a customer-data platform; it sends analytics and nothing else.",
  }),
);

export const createAppInput = z.lazy(() =>
  z
    .strictObject({
      name: displayName(),
      database: z
        .string()
        .optional()
        .describe(
          "The database that permanently holds the application, such as `DB_1`. Default: the database for new applications.",
        ),
    })
    .meta({ id: "CreateApp" }),
);
export type CreateAppInput = z.infer<typeof createAppInput>;

export const createKeyInput = z.lazy(() =>
  z.strictObject({ kind, mode, name: displayName().optional() }).meta({
    id: "CreateApiKey",
  }),
);
export type CreateKeyInput = z.infer<typeof createKeyInput>;

export const listKeysInput = z.lazy(() =>
  z.object({
    limit: pageLimit("keys", 100),
    cursor,
  }),
);
export type ListKeysInput = z.infer<typeof listKeysInput>;

export const setEndUserAuthInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      setting: endUserSetting
        .meta({ id: "EndUserSetting" })
        .nullable()
        .describe("Null: publishable keys cannot read anything."),
    })
    .meta({ id: "SetEndUserAuth" }),
);
export type SetEndUserAuthInput = z.infer<typeof setEndUserAuthInput>;
