import * as z from "zod";
import { once } from "../lib/once.ts";

/** Returns a schema that is built when it is first used. The bundler removes a schema that nothing uses. */
/* @__NO_SIDE_EFFECTS__ */
export function lazy<Schema extends z.ZodType>(make: () => Schema): z.ZodLazy<Schema> {
  return z.lazy(once(make));
}
