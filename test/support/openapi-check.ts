import { type Schema, Validator } from "@cfworker/json-schema";
import { errorBody } from "../../src/http/error-body.ts";
import { apiDocument } from "../../src/reference/api-document.ts";
import { oneOfEachShape, shapeOf } from "./shape-of.ts";

interface Described {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<
    Record<string, DescribedResponse | { readonly $ref: string; readonly description?: string }>
  >;
}

interface DescribedResponse {
  readonly description?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

// The document in the form that a client reads, without undefined values.
const document = JSON.parse(JSON.stringify(apiDocument())) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly responses: Readonly<Record<string, DescribedResponse>> };
};

const asPattern = (path: string): RegExp => new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`);
const paths = Object.entries(document.paths).map(([path, item]) => ({ pattern: asPattern(path), path, item }));

const withoutFormats = <T>(value: T): T =>
  JSON.parse(
    JSON.stringify(value, (key, inner) => (key === "format" && typeof inner === "string" ? undefined : inner)),
  );

/**
 * Creates a function that returns how a value differs from a schema, with one validator for each schema. References point into the
 * document's components. Values of a shape that was valid before are not validated again: that took a quarter of the tests' time.
 */
function differencesBy(change: <T>(value: T) => T): (schema: Schema, value: unknown) => string[] {
  const kept = new WeakMap<object, { readonly validator: Validator; readonly valid: Set<string> }>();
  const components = change(document.components);
  return (schema, value) => {
    const found = kept.get(schema) ?? {
      validator: new Validator({ ...change(schema), components }, "2020-12", false),
      valid: new Set(),
    };
    kept.set(schema, found);
    const shape = shapeOf(value);
    if (found.valid.has(shape)) return [];
    const { valid, errors } = found.validator.validate(oneOfEachShape(value));
    if (valid) found.valid.add(shape);
    return errors.map((error) => `${error.instanceLocation} ${error.error}`);
  };
}

const differences = differencesBy((value) => value);

/** Without formats, because a timestamp of a request may leave out seconds, unlike `date-time` (W10). */
const lenientDifferences = differencesBy(withoutFormats);

function responseOf(operation: Described, status: number): DescribedResponse | undefined {
  const response = operation.responses[`${status}`];
  if (response === undefined || !("$ref" in response)) return response;
  const shared = document.components.responses[response.$ref.replace("#/components/responses/", "")];
  return response.description === undefined ? shared : { ...shared, description: response.description };
}

/** The codes of an error response, as its description lists them. */
export function codesIn(description: string): string[] {
  return Array.from(description.matchAll(/^`(\w+)`:/gm), ([, code = ""]) => code);
}

/** Checks the parts that every response must have, even if its path is not described. */
function checkCommonParts(where: string, status: number, headers: Headers, body: unknown): void {
  if (headers.get("x-request-id") === null) throw new Error(`${where}: no x-request-id`);
  const isJson = (headers.get("content-type") ?? "").includes("json");
  if (status >= 400 && isJson && body !== "" && !errorBody.safeParse(body).success) {
    throw new Error(`${where}: the error body does not have the shape of W4: ${JSON.stringify(body)}`);
  }
}

const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/]+/, "").replace(/[?#].*$/, "");

function operationAt(method: string, path: string): Described | undefined {
  const item = paths.find((candidate) => candidate.path === path) ?? paths.find(({ pattern }) => pattern.test(path));
  return item?.item[(method === "HEAD" ? "GET" : method).toLowerCase()];
}

/**
 * Checks that the document allows a body that Purser accepted. It ignores lists, because Purser accepts a list with a rejected
 * element.
 */
export function checkRequest(method: string, url: string, contentType: string, sent: string): void {
  const content = operationAt(method, pathOf(url))?.requestBody?.content;
  if (content === undefined) return;
  const { schema } = content[contentType.replace(/;.*$/, "").trim()] ?? content["application/json"] ?? {};
  if (schema === undefined) throw new Error(`${method} ${url}: openapi.json describes no JSON body`);
  // PostHog's clients may send a compressed or encoded body.
  if (!/^\s*\{/.test(sent)) return;
  const body = JSON.parse(sent) as { readonly batch?: unknown };
  if (Array.isArray(body.batch)) return;
  const found = lenientDifferences(schema, body);
  if (found.length === 0) return;
  throw new Error(`${method} ${url} accepted a body that openapi.json does not allow:\n${found.join("\n")}`);
}

/** Lists of events are described on a separate path, but also accepted on the path of single events (U1). */
const isListed = (path: string, body: unknown): boolean =>
  path === "/api/v1/usage/events" && typeof body === "object" && body !== null && "results" in body;

/**
 * Checks a response against the OpenAPI document: its status, its body, its error code and its headers must be described.
 * Throws an error that names the difference.
 */
export function checkResponse(method: string, url: string, status: number, headers: Headers, body: unknown): void {
  const path = pathOf(url);
  const where = `${method} ${path} answered ${status}`;
  checkCommonParts(where, status, headers, body);
  const operation = operationAt(method, isListed(path, body) ? `${path}/batch` : path);
  if (operation === undefined) return;

  const response = responseOf(operation, status);
  if (response === undefined) throw new Error(`${where}, which openapi.json does not describe`);
  const headerNames = ["x-d1-bookmark", "idempotent-replayed", "purser-warning", "retry-after", "www-authenticate"];
  for (const name of headerNames) {
    if (headers.has(name) && response.headers?.[name] === undefined) {
      throw new Error(`${where} with ${name}, which openapi.json does not describe`);
    }
  }
  if (method === "HEAD") return;
  const type = (headers.get("content-type") ?? "").replace(/;.*$/, "");
  const media = response.content?.[type];
  if (media === undefined) throw new Error(`${where} as ${type}, which openapi.json does not describe`);
  const found = differences(media.schema, body);
  if (found.length > 0) {
    throw new Error(`${where}, not as openapi.json describes it:\n${found.join("\n")}\n${JSON.stringify(body)}`);
  }
  if (status < 400) return;
  const { code } = (body as { error: { code: string } }).error;
  if (!codesIn(response.description ?? "").includes(code)) {
    throw new Error(`${where} with ${code}, which openapi.json does not describe`);
  }
}
