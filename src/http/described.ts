import * as z from "zod/mini";

/** What the reference says of a schema: a description, or parts of its JSON Schema. The Worker is built without it. */
export const about = (text: string | z.core.GlobalMeta): z.core.GlobalMeta =>
  typeof text === "string" ? { description: text } : text;

/** A copy of a schema with what the reference says of it. */
export function described<Schema extends z.ZodMiniType>(schema: Schema, meta: string | z.core.GlobalMeta): Schema {
  // zod types a copy by its definition alone. It is of the same class.
  const copy = z.clone(schema) as Schema;
  z.globalRegistry.add(copy, typeof meta === "string" ? { description: meta } : meta);
  return copy;
}
