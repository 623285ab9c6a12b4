import * as z from "zod/mini";

/** A copy of a schema with what the reference says of it: a description, or parts of its JSON Schema. */
export function described<Schema extends z.ZodMiniType>(schema: Schema, about: string | z.core.GlobalMeta): Schema {
  // zod types a copy by its definition alone. It is of the same class.
  const copy = z.clone(schema) as Schema;
  z.globalRegistry.add(copy, typeof about === "string" ? { description: about } : about);
  return copy;
}
