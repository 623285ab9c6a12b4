import * as z from "zod/mini";
import { about, described } from "#described";
import { endUserSetting } from "../access/end-user-setting.ts";
import { cursor, displayName, mode, pageLimit } from "../http/fields.ts";

export const kind = described(
  z.enum(["secret", "publishable", "relay"]),
  about({
    id: "KeyKind",
    description:
      "`secret`: for your backend. `publishable`: for browsers and apps. `relay`: for what passes on the words of others, such as " +
      "a reverse proxy or a customer-data platform; it sends analytics and nothing else.",
  }),
);

export const createAppInput = described(
  z.strictObject({
    name: displayName(),
    database: described(
      z.optional(z.string()),
      about("Where it lives for good, such as `DB_1`. Default: where new ones go."),
    ),
  }),
  about({ id: "CreateApp" }),
);
export type CreateAppInput = z.infer<typeof createAppInput>;

export const createKeyInput = described(
  z.strictObject({ kind, mode, name: z.optional(displayName()) }),
  about({
    id: "CreateApiKey",
  }),
);
export type CreateKeyInput = z.infer<typeof createKeyInput>;

export const listKeysInput = z.object({
  limit: pageLimit("keys", 100),
  cursor,
});
export type ListKeysInput = z.infer<typeof listKeysInput>;

export const setEndUserAuthInput = described(
  z.strictObject({
    mode,
    setting: described(
      z.nullable(described(endUserSetting, about({ id: "EndUserSetting" }))),
      about("Null: publishable keys cannot read anything."),
    ),
  }),
  about({ id: "SetEndUserAuth" }),
);
export type SetEndUserAuthInput = z.infer<typeof setEndUserAuthInput>;
