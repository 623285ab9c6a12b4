import { zValidator } from "@hono/zod-validator";
import type { Context, ValidationTargets } from "hono";
import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import type { AppEnv } from "./factory.ts";
import { plainWords } from "./words.ts";

z.config({ customError: plainWords });

/** Of a name that a caller made up, as much as an answer repeats. */
const PARAM_CHARACTERS_MAX = 200;

/** `items[0].amount` for the path ["items", 0, "amount"]. */
function writtenPath(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>((above, key) => {
    if (typeof key === "number") return `${above}[${key}]`;
    return above === "" ? String(key) : `${above}.${String(key)}`;
  }, "");
  return text.slice(0, PARAM_CHARACTERS_MAX).toWellFormed();
}

/** The issue that tells most: within a union, what the branch that came furthest found. */
function innermost(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== "invalid_union") return issue;
  const firsts = issue.errors.flatMap((branch) => branch.slice(0, 1)).map(innermost);
  const furthest = firsts.toSorted((a, b) => b.path.length - a.path.length)[0];
  if (furthest === undefined || furthest.path.length === 0) return issue;
  return { ...furthest, path: [...issue.path, ...furthest.path] };
}

/** The first thing wrong, in words that name the argument and never repeat its value. */
export function explain(issues: readonly z.core.$ZodIssue[], whole: string): PurserError {
  const first = issues[0];
  if (first === undefined) return invalid(whole, "is malformed");
  const issue = innermost(first);
  if (issue.code === "unrecognized_keys") {
    return invalid(writtenPath([...issue.path, issue.keys[0] ?? ""]) || whole, "This field is not known here.");
  }
  const param = writtenPath(issue.path);
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
