import { Validator } from "@cfworker/json-schema";
import { expect, it } from "vitest";
import * as z from "zod";
import packageFile from "../../package.json" with { type: "json" };
import { createWorkerApp } from "../../src/app.ts";
import { errorStatus } from "../../src/errors.ts";
import { apiDocument, describedOperations as operations } from "../../src/reference/api-document.ts";
import { errorCodes } from "../../src/reference/describe-operation.ts";
import { fieldsWithoutWords } from "../../src/reference/words-of-fields.ts";
import { checkResponse, codesIn } from "../support/openapi-check.ts";
import { Clock, makeClient } from "../support/world.ts";

/** Pages for people, files, and paths of PostHog's clients with a slash at the end. */
const NOT_DESCRIBED: readonly RegExp[] = [
  /^GET \/(docs(\/(docs\.css|docs\.js|scalar\.js))?|purser-balance\.js|llms\.txt)?$/,
  /^(GET|POST) \/admin(\/|$)/,
  /^POST \/.*\/$/,
];

const served = (): string[] =>
  createWorkerApp()
    .routes.filter((route) => route.method !== "ALL")
    .map((route) => `${route.method} ${route.path.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}")}`);

const described = operations.map((operation) => `${operation.method.toUpperCase()} ${operation.path}`);

async function readDocument() {
  const { status, headers, body } = await makeClient(new Clock())("GET", "/api/v1/openapi.json");
  expect(status).toBe(200);
  return { headers, body };
}

it("openapi.json describes every route, and nothing else", () => {
  const servedRoutes = served().filter((route) => !NOT_DESCRIBED.some((pattern) => pattern.test(route)));
  expect([...new Set(servedRoutes)].sort()).toEqual([...described].sort());
});

it("openapi.json is OpenAPI 3.1, served as JSON without a key", async () => {
  const { headers, body } = await readDocument();
  expect(body.openapi).toMatch(/^3\.1\.\d$/);
  expect(headers.get("content-type")).toMatch(/^application\/json/);
});

it("openapi.json is served with the content that the current schemas define", async () => {
  const { body } = await readDocument();
  expect(body).toEqual(JSON.parse(JSON.stringify(apiDocument())));
});

it("openapi.json answers HEAD, rejects other methods with 405, and returns 500 when the file is missing", async () => {
  const path = "/api/v1/openapi.json";
  const send = makeClient(new Clock());
  const head = await send("HEAD", path);
  expect([head.status, head.body, head.headers.get("content-type")]).toEqual([200, "", "application/json"]);
  const post = await send("POST", path);
  expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);

  const fetch = async () => new Response(null, { status: 404 });
  const lost = await makeClient(new Clock(), { REFERENCE: { fetch } as unknown as Fetcher })("GET", path);
  expect([lost.status, lost.body.error.code]).toEqual([500, "internal_error"]);
});

it("openapi.json names each operation once", () => {
  const ids = operations.map((operation) => operation.id);
  expect(new Set(ids).size).toBe(ids.length);
});

it("openapi.json gives each operation a response for each status of its error codes, with exactly those codes", async () => {
  const { body } = await readDocument();
  for (const operation of operations) {
    const { responses } = body.paths[operation.path][operation.method];
    const statuses = new Set(["200", ...errorCodes(operation).map((code) => `${errorStatus[code]}`)]);
    expect(Object.keys(responses).sort()).toEqual([...statuses].sort());
    for (const status of [...statuses].filter((text) => text !== "200")) {
      const { $ref, description } = responses[status];
      const { schema } = body.components.responses[$ref.split("/").at(-1)].content["application/json"];
      expect(schema).toEqual({ $ref: "#/components/schemas/Error" });
      const codes = errorCodes(operation).filter((code) => `${errorStatus[code]}` === status);
      expect(codesIn(description)).toEqual(codes);
    }
  }
});

it("openapi.json has one name for each body and each result, and no generated names", async () => {
  const { body } = await readDocument();
  const isNamed = (schema: { $ref?: string; items?: object; anyOf?: object[]; type?: string }): boolean =>
    schema.$ref !== undefined ||
    (schema.items !== undefined && isNamed(schema.items)) ||
    schema.anyOf?.every(isNamed) === true ||
    schema.type === "string";
  for (const { id, path, method } of operations) {
    const { requestBody, responses } = body.paths[path][method];
    for (const content of [requestBody?.content, responses["200"].content]) {
      for (const { schema } of Object.values(content ?? {}) as { schema: object }[]) {
        expect(isNamed(schema), `${id}: ${JSON.stringify(schema)}`).toBe(true);
      }
    }
  }
  const names = Object.keys(body.components.schemas);
  expect(names.filter((name) => !/^[A-Z][A-Za-z0-9]+$/.test(name) || /(Input|Output)$/.test(name))).toEqual([]);
});

it("openapi.json describes every parameter, and has the version of the package", async () => {
  const { body } = await readDocument();
  for (const { id, path, method } of operations) {
    for (const parameter of body.paths[path][method].parameters ?? []) {
      const shared = body.components.parameters[parameter.$ref?.split("/").at(-1)];
      const { name, description } = shared ?? parameter;
      expect(description, `${id}: ${name}`).toMatch(/\.$/);
    }
  }
  expect(body.info.version).toBe(packageFile.version);
});

it("openapi.json has a description and an example for every field and every parameter", async () => {
  const { body } = await readDocument();
  expect(fieldsWithoutWords(body)).toEqual([]);
  const undescribed = { properties: { name: { type: "string" } } };
  expect(fieldsWithoutWords({ components: { schemas: { Thing: undescribed } } })).toEqual([
    "Thing.name: no description",
    "Thing.name: no example",
  ]);
});

it("openapi.json has one component for each shape that repeats", async () => {
  const { body } = await readDocument();
  const places = new Map<string, string[]>();
  const visit = (value: unknown, place: string, isComponent = false): void => {
    if (typeof value !== "object" || value === null) return;
    const { description, examples, ...shape } = value as Record<string, unknown>;
    if (!isComponent && (shape.properties !== undefined || Array.isArray(shape.enum))) {
      const key = JSON.stringify(shape);
      places.set(key, [...(places.get(key) ?? []), place]);
    }
    for (const [name, inner] of Object.entries(value)) {
      if (!/^examples?$/.test(name)) visit(inner, `${place}/${name}`);
    }
  };
  for (const [name, schema] of Object.entries(body.components.schemas)) visit(schema, name, true);
  visit(body.paths, "paths");
  expect([...places.values()].filter((same) => same.length > 1)).toEqual([]);
});

it("openapi.json describes the details of each code, in one form of ErrorDetail", async () => {
  const { body } = await readDocument();
  const { schemas } = body.components;
  const { oneOf, discriminator } = schemas.ErrorDetail;
  const forms = oneOf.map(({ $ref }: { $ref: string }) => schemas[$ref.split("/").at(-1) ?? ""].properties);
  const codes = forms.flatMap(({ code }: { code: { const?: string; enum?: string[] } }) => code.enum ?? [code.const]);
  expect(codes.toSorted()).toEqual(Object.keys(errorStatus).toSorted());
  expect(Object.keys(discriminator.mapping).toSorted()).toEqual(codes.toSorted());
  expect(schemas.InsufficientCreditsError.properties.details.required).toContain("uncovered");
  expect(schemas.InvalidUserTokenError.required).not.toContain("details");
  expect(schemas.OtherError.properties.details).toBeUndefined();
});

it("openapi.json declares keys only in the header Authorization, so that no client sends a secret key as a user's token", async () => {
  const { body } = await readDocument();
  const schemes = Object.values(body.components.securitySchemes) as { type: string; scheme: string }[];
  expect(schemes.map(({ type, scheme }) => `${type} ${scheme}`)).toEqual(schemes.map(() => "http bearer"));
  for (const { access, path, method } of operations) {
    const parameters: { $ref?: string }[] = body.paths[path][method].parameters ?? [];
    const takesToken = parameters.some(({ $ref }) => $ref === "#/components/parameters/endUserToken");
    expect(takesToken).toBe(access === "end-user");
  }
});

it("openapi.json allows any properties, requires no field with a default, and describes lists of events separately", async () => {
  const { body } = await readDocument();
  const { schemas } = body.components;
  const { properties, quantities } = schemas.UsageEvent.properties;
  expect(properties.anyOf).toEqual([{ type: "object", additionalProperties: true }, { type: "null" }]);
  expect(quantities.$ref).toBe("#/components/schemas/UsageQuantities");
  expect(schemas.UsageEvent.required).toEqual(["eventId", "userId", "event"]);
  const fields = Object.values(schemas).flatMap((schema) => Object.values(Object(schema).properties ?? {}));
  expect(fields.filter((field) => "default" in Object(field))).toEqual([]);
  const schemaOf = (path: string) => {
    const { requestBody, responses } = body.paths[path].post;
    return [requestBody, responses["200"]].map(({ content }) => content["application/json"].schema);
  };
  const [event, result] = schemaOf("/api/v1/usage/events");
  expect([event.$ref, result.$ref]).toEqual([
    "#/components/schemas/UsageEvent",
    "#/components/schemas/UsageEventResult",
  ]);
  const [list, results] = schemaOf("/api/v1/usage/events/batch");
  expect([list.items.$ref, results.$ref]).toEqual([
    "#/components/schemas/UsageEvent",
    "#/components/schemas/UsageEventList",
  ]);
});

it("openapi.json shows examples that its own schemas accept", async () => {
  const { body } = await readDocument();
  const contents = operations.flatMap((operation) => {
    const { requestBody, responses } = body.paths[operation.path][operation.method];
    return [requestBody?.content, responses["200"].content].flatMap((content) => Object.values(content ?? {}));
  });
  expect(contents.length).toBeGreaterThanOrEqual(operations.length);
  for (const { schema, example } of contents as { schema: object; example: unknown }[]) {
    const result = new Validator({ ...schema, components: body.components }, "2020-12").validate(example);
    expect(result.errors, JSON.stringify(example)).toEqual([]);
  }
});

it("openapi.json shows request examples that the validators themselves accept", () => {
  for (const { id, body } of operations) {
    if (body === undefined) continue;
    for (const content of [body, ...Object.values(body.alternatives ?? {})]) {
      expect(z.safeParse(content.schema, content.example).error, id).toBeUndefined();
    }
  }
});

it("openapi.json shows examples of query parameters that the validators themselves accept", async () => {
  const { body } = await readDocument();
  for (const { id, path, method, query } of operations) {
    if (!(query instanceof z.ZodObject)) continue;
    for (const { name, example } of body.paths[path][method].parameters) {
      const field = query.shape[name];
      if (field !== undefined) expect(z.safeParse(field, String(example)).error, `${id}: ${name}`).toBeUndefined();
    }
  }
});

const headers = new Headers({ "content-type": "application/json", "x-request-id": "req_1" });
const check = (status: number, body: unknown, extra: Record<string, string> = {}) =>
  checkResponse("GET", "/api/v1/credits?userId=u", status, new Headers([...headers, ...Object.entries(extra)]), body);

it("the check of every answer in these tests against openapi.json passes a described answer", () => {
  expect(() => check(200, { credits: [] }, { "x-d1-bookmark": "b" })).not.toThrow();
});

it("the check of every answer in these tests against openapi.json fails on a status, a body, an error code or a header that is not described", () => {
  const error = { message: "m", requestId: "req_1" };
  expect(() => check(201, { credits: [] })).toThrow("does not describe");
  expect(() => check(200, { credits: [{}] })).toThrow("not as openapi.json describes it");
  expect(() => check(200, { credits: [], extra: 1 })).toThrow("not as openapi.json describes it");
  expect(() => check(403, { error: { ...error, code: "forbidden" } })).not.toThrow();
  expect(() => check(403, { error: { ...error, code: "invalid_key" } })).toThrow("does not describe");
  expect(() => check(403, { error: { ...error, code: "no_such_code" } })).toThrow("shape of W4");
  expect(() => check(200, { credits: [] }, { "idempotent-replayed": "true" })).toThrow("does not describe");
});
