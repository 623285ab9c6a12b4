import * as z from "zod";
import { type OpenApiDocument, type Operation, openApiDocument } from "./describe.ts";
import { adminOperations } from "./operations/admin.ts";
import { creditOperations } from "./operations/credits.ts";
import { exportOperations } from "./operations/exports.ts";
import { peopleOperations } from "./operations/people.ts";
import { usageOperations } from "./operations/usage.ts";

const serviceOperations: readonly Operation[] = [
  {
    id: "checkHealth",
    method: "get",
    path: "/health",
    tag: "Service",
    summary: "Ask whether the service is up",
    description: "One trivial query to the database.",
    access: "open",
    success: {
      description: "It is.",
      schema: z.strictObject({ status: z.literal("ok") }),
      example: { status: "ok" },
    },
    errors: [],
  },
  {
    id: "describeApi",
    method: "get",
    path: "/api/v1/openapi.json",
    tag: "Service",
    summary: "Read this document",
    description: "The whole interface as OpenAPI 3.1, made of the schemas that requests are checked with.",
    access: "open",
    success: {
      description: "The document.",
      schema: z.looseObject({ openapi: z.string(), info: z.looseObject({}), paths: z.looseObject({}) }),
      example: { openapi: "3.1.1", info: { title: "Purser", version: "0.1.0" }, paths: {} },
    },
    errors: [],
  },
];

/** Every operation of Purser. Its routes and these are held against each other by test/worker/openapi.test.ts. */
export const operations: readonly Operation[] = [
  ...creditOperations,
  ...usageOperations,
  ...peopleOperations,
  ...exportOperations,
  ...adminOperations,
  ...serviceOperations,
];

const about = {
  title: "Purser",
  version: "1",
  description: `Prepaid credits, and a person's data on request.

**Keys.** Send \`Authorization: Bearer <key>\`. A secret key (\`sk_…\`) is for your backend. A publishable key (\`pk_…\`) may be
shown in a browser, where the end-user's own token goes beside it as \`X-User-Token\`. Each key works in one mode, live or test.

**Errors** have one shape, whatever went wrong: \`{ "error": { "code", "message", "param"?, "details"?, "requestId" } }\`.
Rely on \`code\`; it is one of a closed list. What is wrong is told in this order: path, method, key, kind of key, size, shape of the arguments,
existence, rule.

**Unknown fields** of a body are refused, so that a misspelt one costs you nothing. Unknown query parameters are ignored.

**Amounts** are exact: three decimals of \`count\`, \`tokens\` and \`seconds\`, six of \`cents\`. **Times** are ISO 8601.

**Reads after writes.** Every answer to a valid key carries \`x-d1-bookmark\`. A read that sends it back sees at least that state.`,
  tags: [
    { name: "Credits", description: "Prepaid balances: granted from packs, spent, revoked, told in a ledger." },
    { name: "Usage", description: "What draws balances down: events, reservations, and what was used in total." },
    { name: "People", description: "Who they are, what they agreed to, and all that is held about them." },
    {
      name: "Administration",
      description: "Applications, keys, packs and corrections, with the administrator's token.",
    },
    { name: "Service", description: "The service itself. No key." },
  ],
};

let document: OpenApiDocument | undefined;

/** The OpenAPI document. */
export function apiDocument(): OpenApiDocument {
  document ??= openApiDocument(about, operations);
  return document;
}
