import { zValidator } from "@hono/zod-validator";
import type { Context, ValidationTargets } from "hono";
import type * as z from "zod";
import { invalid } from "../errors.ts";
import { explain } from "./explain.ts";
import type { AppEnv } from "./factory.ts";

/** Percent-escapes that are not UTF-8 are kept raw by lenient readers, and two ids could become one. */
function assertDecodable(url: string): void {
  const query = url.indexOf("?");
  if (query === -1) return;
  try {
    decodeURIComponent(url.slice(query + 1));
  } catch {
    throw invalid("query", "The query string has an escape that is not valid UTF-8.");
  }
}

/** A known query parameter given twice is refused (W14): Hono makes a list of it. */
function assertGivenOnce(values: object, issues: readonly z.core.$ZodIssue[]): void {
  const given = new Map<PropertyKey, unknown>(Object.entries(values));
  const [name] = issues.flatMap((issue) => issue.path.slice(0, 1)).filter((key) => Array.isArray(given.get(key)));
  if (name !== undefined) throw invalid(String(name), "must be given once");
}

/** The one validator: what the schema refuses is thrown as `invalid_request` with the argument's name. */
export function validate<Target extends keyof ValidationTargets, Schema extends z.ZodType>(
  target: Target,
  schema: Schema,
) {
  return zValidator(target, schema, (result, c) => {
    // The validator's types know no app; every route here is of this one.
    const { malformedHeader } = (c as Context<AppEnv>).var;
    if (malformedHeader !== undefined) throw malformedHeader;
    if (target === "query") assertDecodable(c.req.url);
    if (result.success) return;
    if (target === "query") assertGivenOnce(Object(result.data), result.error.issues);
    throw explain(result.error.issues, target === "json" ? "body" : target);
  });
}
