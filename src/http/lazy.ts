import * as z from "zod";
import { once } from "../lib/once.ts";

/** Returns a schema that is built when it is first used. The bundler removes a schema that nothing uses. */
/* @__NO_SIDE_EFFECTS__ */
export function lazy<Schema extends z.ZodType>(make: () => Schema): z.ZodLazy<Schema> {
  return z.lazy(once(make));
}

/** The schema of a query string, of the parameters in a path, or of most bodies. */
export type ObjectSchema = z.ZodObject | z.ZodLazy<z.ZodObject>;

/** Returns the names of a schema's fields. */
export const fieldNames = (schema: ObjectSchema): string[] =>
  Object.keys("unwrap" in schema ? schema.unwrap().shape : schema.shape);
