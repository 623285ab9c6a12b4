import { zValidator } from "@hono/zod-validator";
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as z from "zod";
import { invalid, PurserError } from "../errors.ts";
import { parseExactJson } from "../lib/json.ts";
import type { AppEnv } from "./factory.ts";
import { IS_REQUIRED, rejectionOfIssues } from "./issue-text.ts";
import { jsonAdvice } from "./json-body.ts";
import { fieldNames, type ObjectSchema } from "./lazy.ts";
import { warn } from "./warnings.ts";
import { plainName } from "./wrong-names.ts";

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Rejects a known parameter with percent-escapes that are not UTF-8, because a lenient decoder could turn two ids into one.
 * Ignores unknown parameters (W14). `known` has the known parameters.
 */
function assertDecodable(url: string, known: object): void {
  const query = url.indexOf("?");
  if (query === -1 || isDecodable(url.slice(query + 1))) return;
  for (const pair of url.slice(query + 1).split("&")) {
    const [name = ""] = pair.split("=", 1);
    if (isDecodable(pair) || !isDecodable(name) || !Object.hasOwn(known, decodeURIComponent(name))) continue;
    throw invalid(
      "query",
      "The query string has an escape that is not valid UTF-8. Encode each value with encodeURIComponent or a similar function.",
    );
  }
}

/** Rejects a known query parameter that is given twice (W14). Hono reads such a parameter as a list. */
function assertGivenOnce(values: object, issues: readonly z.core.$ZodIssue[]): void {
  const valuesByName = new Map<PropertyKey, unknown>(Object.entries(values));
  const [name] = issues
    .flatMap((issue) => issue.path.slice(0, 1))
    .filter((key) => Array.isArray(valuesByName.get(key)));
  if (name !== undefined) throw invalid(String(name), "must be given once");
}

interface JsonOf<Schema extends z.ZodType> {
  readonly in: { readonly json: z.input<Schema> };
  readonly out: { readonly json: z.output<Schema> };
}

/** Validates the text that `readBody` read. `zValidator` would parse the body itself, with rounded numbers. */
function validateJson<Schema extends z.ZodType>(schema: Schema) {
  return createMiddleware<AppEnv, string, JsonOf<Schema>>(async (c, next) => {
    const value = parseBody(c.get("bodyText"));
    if (c.get("malformedHeader") !== undefined) throw c.get("malformedHeader");
    const result = schema.safeParse(value);
    if (!result.success) throw adviseOnBody(c, rejectionOfIssues(result.error.issues, "body"));
    // Hono types validated data as `{}`. The schema's output is always a value.
    const data = result.data as object;
    c.get("checkArguments")?.(data);
    c.req.addValidatedData("json", data);
    await next();
  });
}

/** Returns the middleware that reads a body by its media type. `read` throws `invalid_request`. */
export const validateBodyBy = (read: (contentType: string | undefined, sent: unknown) => unknown) =>
  createMiddleware<AppEnv>(async (c, next) => {
    const sent = parseBody(c.get("bodyText"));
    if (c.get("malformedHeader") !== undefined) throw c.get("malformedHeader");
    const data = read(c.req.header("content-type"), sent);
    c.req.addValidatedData("json", data as object);
    await next();
  });

/** Returns a clearer rejection when the query string has the argument that is missing in the body. */
function adviseOnBody(c: Context<AppEnv>, rejection: PurserError): PurserError {
  const { param } = rejection;
  if (param === undefined || rejection.message !== `${param} ${IS_REQUIRED}.`) return rejection;
  return c.req.query(param) === undefined
    ? rejection
    : invalid(param, `${IS_REQUIRED} in the body: this operation does not read the query string`);
}

function parseBody(text: string): unknown {
  try {
    // Amounts are checked by their digits, which JSON.parse would round.
    return parseExactJson(text);
  } catch (cause) {
    throw new PurserError("invalid_request", jsonAdvice(text, cause), { param: "body", cause });
  }
}

/** Returns a clearer rejection for an argument that is missing in the query string: it says the right spelling or place. */
function adviseOnQuery(c: Context, rejection: PurserError): PurserError {
  const { param } = rejection;
  if (param === undefined || rejection.message !== `${param} ${IS_REQUIRED}.`) return rejection;
  // The misspelt name has the letters of the right one, so the message contains no other text of the caller.
  const misspelt = Object.keys(c.req.query()).find((name) => plainName(name) === plainName(param));
  if (misspelt !== undefined) return invalid(param, `${IS_REQUIRED}: write it like this, not \`${misspelt}\``);
  const hasBody = c.req.header("content-type") !== undefined;
  return invalid(param, `${IS_REQUIRED} in the query string${hasBody ? ": the body of a GET is not read" : ""}`);
}

/** Warns about an unknown parameter that is a known one but for letter case or underscores (W16). */
function warnOfUnknown(c: Context<AppEnv>, known: readonly string[]): void {
  const isSimilar = (sent: string) =>
    !known.includes(sent) && known.some((name) => plainName(name) === plainName(sent));
  if (Object.keys(c.req.query()).some(isSimilar)) warn(c.var.runtime, "parameter_unknown");
}

function validateOther<Target extends "query" | "param", Schema extends ObjectSchema>(target: Target, schema: Schema) {
  return zValidator(target, schema, (result, c) => {
    // The validator's types do not know the app's environment, which all routes share.
    const { malformedHeader, checkArguments } = (c as Context<AppEnv>).var;
    if (malformedHeader !== undefined) throw malformedHeader;
    if (result.success) {
      if (target !== "query") return;
      assertDecodable(c.req.url, Object(result.data));
      checkArguments?.(Object(result.data));
      warnOfUnknown(c as Context<AppEnv>, fieldNames(schema));
      return;
    }
    // A parameter that holds a list, such as `groupBy=day,week`, is one argument.
    const issues = result.error.issues.map((issue) => ({ ...issue, path: issue.path.slice(0, 1) }));
    const rejection = rejectionOfIssues(issues, target);
    if (target !== "query") throw rejection;
    assertGivenOnce(Object(result.data), result.error.issues);
    throw adviseOnQuery(c, rejection);
  });
}

/**
 * Returns the middleware that validates all requests. It throws `invalid_request` with the argument's name when the schema rejects.
 * For JSON it validates the text that `readBody` read.
 */
export function validate<Schema extends z.ZodType>(
  target: "json",
  schema: Schema,
): ReturnType<typeof validateJson<Schema>>;
export function validate<Target extends "query" | "param", Schema extends ObjectSchema>(
  target: Target,
  schema: Schema,
): ReturnType<typeof validateOther<Target, Schema>>;
export function validate(target: "json" | "query" | "param", schema: ObjectSchema) {
  return target === "json" ? validateJson(schema) : validateOther(target, schema);
}
