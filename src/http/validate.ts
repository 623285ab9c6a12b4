import { zValidator } from "@hono/zod-validator";
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as z from "zod";
import { invalid, PurserError } from "../errors.ts";
import { parseExactJson } from "../lib/exact-json.ts";
import type { AppEnv } from "./factory.ts";
import { refusalOfIssues } from "./refusal-of-issues.ts";

/** Refuses percent-escapes that are not UTF-8. A lenient reader could turn two ids into one. */
function assertDecodable(url: string): void {
  const query = url.indexOf("?");
  if (query === -1) return;
  try {
    decodeURIComponent(url.slice(query + 1));
  } catch {
    throw invalid("query", "The query string has an escape that is not valid UTF-8.");
  }
}

/** Refuses a known query parameter that is given twice (W14). Hono reads it as a list. */
function assertGivenOnce(values: object, issues: readonly z.core.$ZodIssue[]): void {
  const given = new Map<PropertyKey, unknown>(Object.entries(values));
  const [name] = issues.flatMap((issue) => issue.path.slice(0, 1)).filter((key) => Array.isArray(given.get(key)));
  if (name !== undefined) throw invalid(String(name), "must be given once");
}

interface JsonOf<Schema extends z.ZodType> {
  readonly in: { readonly json: z.input<Schema> };
  readonly out: { readonly json: z.output<Schema> };
}

/** Validates the text that `readBody` read. */
function validateJson<Schema extends z.ZodType>(schema: Schema) {
  return createMiddleware<AppEnv, string, JsonOf<Schema>>(async (c, next) => {
    const value = parseBody(c.var.bodyText);
    if (c.var.malformedHeader !== undefined) throw c.var.malformedHeader;
    const result = schema.safeParse(value);
    if (!result.success) throw refusalOfIssues(result.error.issues, "body");
    // Hono types validated data as `{}`. The schema's output is a value in any case.
    c.req.addValidatedData("json", result.data as object);
    await next();
  });
}

function parseBody(text: string): unknown {
  try {
    // An amount is checked by its digits, which JSON.parse would round.
    return parseExactJson(text);
  } catch (cause) {
    throw new PurserError("invalid_request", "The body is not valid JSON.", { param: "body", cause });
  }
}

function validateOther<Target extends "query" | "param", Schema extends z.ZodType>(target: Target, schema: Schema) {
  return zValidator(target, schema, (result, c) => {
    // The validator's types do not know the app's environment, which all routes share.
    const { malformedHeader } = (c as Context<AppEnv>).var;
    if (malformedHeader !== undefined) throw malformedHeader;
    if (target === "query") assertDecodable(c.req.url);
    if (result.success) return;
    if (target === "query") assertGivenOnce(Object(result.data), result.error.issues);
    throw refusalOfIssues(result.error.issues, target);
  });
}

/**
 * The only validator. If the schema refuses, it throws `invalid_request` with the argument's name. For JSON it validates what
 * `readBody` read.
 */
export function validate<Schema extends z.ZodType>(
  target: "json",
  schema: Schema,
): ReturnType<typeof validateJson<Schema>>;
export function validate<Target extends "query" | "param", Schema extends z.ZodType>(
  target: Target,
  schema: Schema,
): ReturnType<typeof validateOther<Target, Schema>>;
export function validate(target: "json" | "query" | "param", schema: z.ZodType) {
  return target === "json" ? validateJson(schema) : validateOther(target, schema);
}
