import { zValidator } from "@hono/zod-validator";
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as z from "zod";
import { invalid, PurserError } from "../errors.ts";
import { parseExactJson } from "../lib/exact-json.ts";
import type { AppEnv } from "./factory.ts";
import { IS_REQUIRED } from "./issue-text.ts";
import { jsonAdvice } from "./json-shape.ts";
import { refusalOfIssues } from "./refusal-of-issues.ts";
import { plainName } from "./wrong-names.ts";

/** Refuses percent-escapes that are not UTF-8. A lenient reader could turn two ids into one. */
function assertDecodable(url: string): void {
  const query = url.indexOf("?");
  if (query === -1) return;
  try {
    decodeURIComponent(url.slice(query + 1));
  } catch {
    throw invalid(
      "query",
      "The query string has an escape that is not valid UTF-8. Encode each value by itself, as encodeURIComponent does.",
    );
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
    const value = parseBody(c.get("bodyText"));
    if (c.get("malformedHeader") !== undefined) throw c.get("malformedHeader");
    const result = schema.safeParse(value);
    if (!result.success) throw inRightPlace(c, refusalOfIssues(result.error.issues, "body"));
    // Hono types validated data as `{}`. The schema's output is a value in any case.
    c.req.addValidatedData("json", result.data as object);
    await next();
  });
}

/** Says of an argument that is missing in the body and stands in the address that it belongs into the body. */
function inRightPlace(c: Context<AppEnv>, refusal: PurserError): PurserError {
  const { param } = refusal;
  if (param === undefined || refusal.message !== `${param} ${IS_REQUIRED}.`) return refusal;
  return c.req.query(param) === undefined
    ? refusal
    : invalid(param, `${IS_REQUIRED} in the body: the query string of this call is not read`);
}

function parseBody(text: string): unknown {
  try {
    // An amount is checked by its digits, which JSON.parse would round.
    return parseExactJson(text);
  } catch (cause) {
    throw new PurserError("invalid_request", jsonAdvice(text, cause), { param: "body", cause });
  }
}

/** Says of an argument that is missing in the query string where it belongs, or how it is written. */
function inQuery(c: Context, refusal: PurserError): PurserError {
  const { param } = refusal;
  if (param === undefined || refusal.message !== `${param} ${IS_REQUIRED}.`) return refusal;
  // The name is made of the same letters as the known one, so that nothing of the caller's is repeated.
  const misspelt = Object.keys(c.req.query()).find((name) => plainName(name) === plainName(param));
  if (misspelt !== undefined) return invalid(param, `${IS_REQUIRED}: write it so, not \`${misspelt}\``);
  const hasBody = c.req.header("content-type") !== undefined;
  return invalid(param, `${IS_REQUIRED} in the query string${hasBody ? ": the body of a GET is not read" : ""}`);
}

function validateOther<Target extends "query" | "param", Schema extends z.ZodType>(target: Target, schema: Schema) {
  return zValidator(target, schema, (result, c) => {
    // The validator's types do not know the app's environment, which all routes share.
    const malformedHeader = (c as Context<AppEnv>).get("malformedHeader");
    if (malformedHeader !== undefined) throw malformedHeader;
    if (target === "query") assertDecodable(c.req.url);
    if (result.success) return;
    const refusal = refusalOfIssues(result.error.issues, target);
    if (target !== "query") throw refusal;
    assertGivenOnce(Object(result.data), result.error.issues);
    throw inQuery(c, refusal);
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
