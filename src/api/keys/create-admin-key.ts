import * as z from "zod";
import { MODES, SCOPES } from "../../auth/scopes.ts";
import { createAdminKey } from "../../catalog/admin-keys.ts";
import { displayName, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { adminKeyFields, exampleAdminKey, newAdminKey, scope } from "./key-shapes.ts";

const createAdminKeyOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...adminKeyFields,
      key: z.string().meta(words("The key. Returned only here.", "ak_6nPz0vQ4tH8kXw2yBc5mAb3CdEfG")),
    })
    .meta({ id: "NewAdminKey" }),
);

const APPS_MAX = 100;

/** Returns the schema of a list that is not empty and has no value twice. */
const scopeListOf = <Item extends z.ZodType>(item: Item, max: number) =>
  z
    .array(item)
    .min(1, "must not be empty")
    .max(max)
    .transform((values) => [...new Set(values)]);

export const createAdminKeyInput = lazy(() =>
  z
    .strictObject({
      name: displayName().meta(words("The name, for people.", "Support desk")),
      scopes: scopeListOf(scope, Object.keys(SCOPES).length).meta(
        words("What the key allows. No scope includes another.", ["read", "people"]),
      ),
      apps: scopeListOf(z.string(), APPS_MAX)
        .optional()
        .meta(words("The ids of its applications. Default: all, also later ones.", ["app_3kDw9pX1sB6vMn0qTzR7Ge"])),
      modes: scopeListOf(mode, MODES.length)
        .optional()
        .meta(words("Its modes. Default: both. Objects without a mode, such as packs, need both.", ["live"])),
    })
    .meta({ id: "CreateAdminKey" }),
);

export default operation({
  id: "createAdminKey",
  method: "post",
  path: "/api/v1/admin/keys",
  tag: "Administration",
  access: administration(null),
  body: createAdminKeyInput,
  ...(WITH_REFERENCE && {
    output: () => createAdminKeyOutput,
    summary: "Create an administration key",
    description:
      "Creates a key for a person or a service that must not have the admin token. It has scopes, and may be " +
      "limited to some applications or to one mode. It is returned only once, because Purser stores only its hash. " +
      "Its rights cannot be changed later. A key with the scope `access` can read everything in its applications, " +
      "because it can create their secret keys.",
    returns: "The key.",
    example: () => ({ body: newAdminKey, output: { ...exampleAdminKey, key: "ak_6nPz0vQ4tH8kXw2yBc5mAb3CdEfG" } }),
  }),
  handler: (admin, { body }) => createAdminKey(admin, body),
});
