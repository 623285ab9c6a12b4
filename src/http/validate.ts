import { zValidator } from "@hono/zod-validator";
import type { ValidationTargets } from "hono";
import type * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";

/** `items[0].amount` for the path ["items", 0, "amount"]. */
function writtenPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, "");
}

/** The first thing wrong, in words that name the argument and never repeat its value. */
export function explain(issues: readonly z.core.$ZodIssue[], whole: string): PurserError {
  const issue = issues[0];
  if (issue === undefined) return invalid(whole, "The request is malformed.");
  const param = writtenPath(issue.path);
  if (issue.code === "unrecognized_keys") {
    const unknown = writtenPath([...issue.path, issue.keys[0] ?? ""]);
    return invalid(unknown, `${whole === "body" ? "The body" : "The request"} has a field that is not known here.`);
  }
  return invalid(param === "" ? whole : param, issue.message);
}

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

/** The one validator: what the schema refuses is thrown as `invalid_request` with the argument's name. */
export function validate<Target extends keyof ValidationTargets, Schema extends z.ZodType>(
  target: Target,
  schema: Schema,
) {
  return zValidator(target, schema, (result, c) => {
    if (target === "query") assertDecodable(c.req.url);
    if (!result.success) throw explain(result.error.issues, target === "json" ? "body" : target);
  });
}
