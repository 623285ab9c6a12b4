import * as z from "zod";
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverride,
  type ZodOpenApiPathsObject,
} from "zod-openapi";
import { message } from "../api/webhooks/webhook-shapes.ts";
import { requirementText } from "../auth/scopes.ts";
import { errorDetail } from "../http/error-body.ts";
import { isJsonObject } from "../lib/json.ts";
import { words } from "../lib/words.ts";
import { messageData } from "../webhooks/message-data.ts";
import {
  type Content,
  type DescribedOperation,
  describeSecurity,
  errorCodes,
  isKeyed,
  securitySchemes,
  takesAuditEntry,
} from "./describe-operation.ts";
import {
  errorComponents,
  errorDetailSchema,
  errorResponses,
  type HeaderName,
  headerRefs,
  headers,
  sharedResponses,
} from "./response-components.ts";
import { describeParameters } from "./words-of-fields.ts";

const isEmptyObject = (value: unknown): boolean => isJsonObject(value) && Object.keys(value).length === 0;

/** Corrects the JSON Schema that zod writes. */
const correctSchema: ZodOpenApiOverride = ({ jsonSchema, zodSchema, io }) => {
  // zod leaves out the default of a transformed argument.
  if (io === "input" && zodSchema instanceof z.ZodDefault) jsonSchema.default ??= zodSchema.def.defaultValue;
  // zod leaves out the `examples` of a transformed argument, so `words` writes `example`, an older keyword.
  if (jsonSchema.example !== undefined) jsonSchema.examples = [jsonSchema.example];
  delete jsonSchema.example;
  delete jsonSchema.wrongNames;
  const { additionalProperties, properties } = jsonSchema;
  // zod writes "any other field" as an empty schema, and no known fields as an empty list. Some generators misread both.
  if (isEmptyObject(additionalProperties)) jsonSchema.additionalProperties = true;
  if (isEmptyObject(properties) && jsonSchema.additionalProperties === true) delete jsonSchema.properties;
  if (zodSchema === errorDetail.unwrap()) {
    for (const name of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, name);
    Object.assign(jsonSchema, errorDetailSchema);
  }
};

const hasDefault = (field: unknown): field is { default?: unknown; description?: string } =>
  isJsonObject(field) && "default" in field;

/**
 * Writes the default of a body's field into its description instead. Some generators treat a field with a default as required.
 */
function describeDefaults(schema: unknown): void {
  if (!isJsonObject(schema) || !isJsonObject(schema.properties)) return;
  for (const field of Object.values(schema.properties)) {
    if (!hasDefault(field)) continue;
    const value: unknown = field.default;
    delete field.default;
    // An empty object or list only means that nothing was sent.
    if (typeof value === "object") continue;
    field.description = `${field.description ?? ""} Default: \`${String(value)}\`.`.trim();
  }
}

export type OpenApiDocument = ReturnType<typeof createDocument>;

/** Returns whether responses have a bookmark: those to every request with a key, wherever the key was sent. */
const hasBookmark = (operation: DescribedOperation): boolean =>
  isKeyed(operation) || operation.access === "client" || operation.access === "key-inside";

function describeOperation(operation: DescribedOperation): ZodOpenApiOperationObject {
  const { id, tag, summary, access, params, query, body, success } = operation;
  const demanded = operation.requirement === undefined ? "" : requirementText(operation.requirement);
  const description = `${operation.description}${demanded && `\n\n${demanded}`}`;
  const names: HeaderName[] = ["x-request-id"];
  if (hasBookmark(operation)) names.push("x-d1-bookmark");
  if (success.replayable === true) names.push("idempotent-replayed");
  if (success.warns === true) names.push("purser-warning");
  const ownHeaders = Object.entries(success.headers ?? {}).map(([name, meaning]) => [
    name,
    { description: meaning, schema: { type: "string" as const } },
  ]);
  const sharedParameters = [
    ...(takesAuditEntry(operation) ? [{ $ref: "#/components/parameters/auditEntry" as const }] : []),
    ...(access === "end-user" ? [{ $ref: "#/components/parameters/endUserToken" as const }] : []),
    ...(isKeyed(operation) && operation.method === "get"
      ? [{ $ref: "#/components/parameters/bookmark" as const }]
      : []),
  ];
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    ...(operation.idempotent === undefined ? {} : { "x-idempotent": operation.idempotent }),
    security: describeSecurity(operation),
    requestParams: {
      ...(params === undefined ? {} : { path: params }),
      ...(query === undefined ? {} : { query: query }),
    },
    ...(sharedParameters.length === 0 ? {} : { parameters: sharedParameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contents(body, body.alternatives) } }),
    responses: {
      "200": {
        description: success.description,
        headers: { ...headerRefs(names), ...Object.fromEntries(ownHeaders) },
        content: contents(success, success.alternatives),
      },
      ...errorResponses(errorCodes(operation)),
    },
  };
}

function contents(main: Content, alternatives: Readonly<Record<string, Content>> = {}) {
  const all = Object.entries({ [main.type ?? "application/json"]: main, ...alternatives });
  return Object.fromEntries(all.map(([type, { schema, example }]) => [type, { schema, example }]));
}

export interface About {
  readonly title: string;
  readonly version: string;
  /** CommonMark. */
  readonly description: string;
  readonly tags: readonly { readonly name: string; readonly description: string }[];
}

/** A message that webhook endpoints receive. */
function describeMessage(type: string, description: string, data: z.ZodRawShape): ZodOpenApiOperationObject {
  const schema = message.unwrap().extend({
    type: z.literal(type).meta(words("The type of the message.")),
    data: z.strictObject(data).meta(words("The data of this type of message.", isEmptyObject(data) ? {} : undefined)),
  });
  return {
    operationId: `on${type.replace(/(^|\.)([a-z])/g, (_, _dot, letter: string) => letter.toUpperCase())}`,
    tags: ["Messages"],
    summary: type,
    description,
    security: [],
    requestBody: { required: true, content: { "application/json": { schema } } },
    responses: {
      "2XX": { description: "The message is delivered. The response's body is not read." },
      "4XX": { description: "The message is sent again. A 410 disables the endpoint." },
    },
  };
}

/** Returns the OpenAPI 3.1 document of these operations and messages. */
export function openApiDocument(about: About, operations: readonly DescribedOperation[]): OpenApiDocument {
  const paths: ZodOpenApiPathsObject = {};
  for (const operation of operations) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method]: describeOperation(operation),
    };
  }
  const plan: ZodOpenApiObject = {
    openapi: "3.1.1",
    info: {
      title: about.title,
      version: about.version,
      description: about.description,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "This deployment" }],
    tags: about.tags.map((tag) => ({ ...tag })),
    paths,
    webhooks: Object.fromEntries(
      Object.entries(messageData).map(([type, [tells, data]]) => [type, { post: describeMessage(type, tells, data) }]),
    ),
    components: {
      headers,
      responses: sharedResponses(new Set(operations.flatMap(errorCodes))),
      schemas: errorComponents,
      parameters: {
        endUserToken: {
          name: "X-User-Token",
          in: "header",
          required: false,
          description:
            "The user's JWT from your own sign-in, without `Bearer`. Required with a publishable key, and not read with a " +
            "secret one. The application's end-user token setting says how it is verified.",
          schema: { type: "string" },
        },
        auditEntry: {
          name: "if-latest-audit-entry",
          in: "header",
          required: false,
          description:
            "The header `latest-audit-entry` of the application's audit log, as you read it last. If another entry " +
            "follows it, the call changes nothing and answers `changed_meanwhile`.",
          schema: { type: "integer", minimum: 0 },
        },
        bookmark: {
          name: "x-d1-bookmark",
          in: "header",
          required: false,
          description: "The bookmark of an earlier response. The read then sees at least the state of that response.",
          schema: { type: "string" },
        },
      },
      securitySchemes,
    },
  };
  const document = createDocument(plan, { override: correctSchema });
  for (const schema of Object.values(document.components?.schemas ?? {})) describeDefaults(schema);
  // A copy, because the document may have one object at several places. It has the type of the document that it copies.
  const written = JSON.parse(JSON.stringify(document)) as OpenApiDocument;
  describeParameters(Object(written));
  return written;
}
