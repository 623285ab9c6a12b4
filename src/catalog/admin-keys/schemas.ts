import * as z from "zod";
import { MODES, SCOPES } from "../../auth/scopes.ts";
import { displayName, mode } from "../../http/fields.ts";
import type { Scope } from "../../runtime.ts";

const APPS_MAX = 100;

export const scope = z.lazy(() =>
  z.enum(Object.keys(SCOPES) as [Scope, ...Scope[]]).meta({
    id: "Scope",
    description: Object.entries(SCOPES)
      .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
      .join(" "),
  }),
);

/** Returns the schema of a list that is not empty and has no value twice. */
const scopeListOf = <Item extends z.ZodType>(item: Item, max: number) =>
  z
    .array(item)
    .min(1, "must not be empty")
    .max(max)
    .transform((values) => [...new Set(values)]);

export const createAdminKeyInput = z.lazy(() =>
  z
    .strictObject({
      name: displayName(),
      scopes: scopeListOf(scope, Object.keys(SCOPES).length).describe(
        "What the key allows. No scope includes another.",
      ),
      apps: scopeListOf(z.string(), APPS_MAX)
        .optional()
        .describe("The ids of its applications. Default: all, also later ones."),
      modes: scopeListOf(mode, MODES.length)
        .optional()
        .describe("Its modes. Default: both. Objects without a mode, such as packs, need both."),
    })
    .meta({ id: "CreateAdminKey" }),
);
export type CreateAdminKeyInput = z.infer<typeof createAdminKeyInput>;
