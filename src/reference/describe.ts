import type * as z from "zod";
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverride,
  type ZodOpenApiPathsObject,
} from "zod-openapi";
import type { ErrorCode } from "../errors.ts";
import { errorDetail } from "../http/error-body.ts";
import { isJsonObject } from "../lib/json.ts";
import { errorComponents, errorDetailSchema } from "./error-details.ts";
import { errorResponses, inOrder, sharedResponses } from "./error-responses.ts";
import { type HeaderName, headerRefs, headers } from "./headers.ts";

/**
 * What a request must send. `end-user`: a secret key, or a publishable key with the end-user's token. `client`: a key of
 * either kind. `key-inside`: a key in the body or in the path.
 */
type Access = "open" | "secret" | "end-user" | "admin" | "client" | "key-inside";

/** The description of one operation, with the schemas that its route validates with. */
export interface Operation {
  /** Unique. Generated clients use it as the name of a method: `grantCredits`. */
  readonly id: string;
  readonly method: "get" | "post" | "put" | "patch" | "delete";
  /** With parameters in braces: `/api/v1/admin/apps/{appId}/keys`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** CommonMark. */
  readonly description: string;
  readonly access: Access;
  /** The code for a publishable key where a secret key is required (W13). Given if it is not the usual one of the method. */
  readonly publishableGets?: "forbidden" | "requires_secret_key";
  readonly params?: z.core.$ZodObject;
  readonly query?: z.core.$ZodObject;
  readonly body?: Content & { readonly alternatives?: Readonly<Record<string, Content>> };
  readonly success: Content & {
    readonly description: string;
    /** Whether a repeat is marked by `idempotent-replayed`. */
    readonly replayable?: boolean;
    readonly headers?: Readonly<Record<string, string>>;
  };
  /** The operation's own codes. Those that follow from its key, body and arguments are added. */
  readonly errors: readonly ErrorCode[];
  /** Whether it writes for an id, which may be erased (E4): with a code of its own, or in silence, as analytics are. */
  readonly writesForId?: "refused" | "silent";
}

interface Content {
  /** `application/json` unless given. */
  readonly type?: string;
  readonly schema: z.core.$ZodType;
  readonly example: unknown;
}

export type OpenApiDocument = ReturnType<typeof createDocument>;

const SECURITY: Readonly<Record<Access, Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  "end-user": [{ secretKey: [] }, { publishableKey: [] }],
  admin: [{ adminToken: [] }],
  client: [{ publishableKey: [] }, { secretKey: [] }],
  "key-inside": [],
};

const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });

/**
 * All of them stand in the header `Authorization`. The end-user's token is a parameter and no scheme: a generated client that
 * has one credential would send it by every scheme, and so a secret key as `X-User-Token`.
 */
const securitySchemes = {
  secretKey: bearer("A secret key, `sk_live_…` or `sk_test_…`. Only for your backend."),
  publishableKey: bearer(
    "A publishable key, `pk_live_…` or `pk_test_…`. Safe to use in a browser. Does not identify a user.",
  ),
  adminToken: bearer("The admin token, set by the deployment in `ADMIN_TOKEN`."),
};

/** Every error code of the operation, in the order of the catalogue. */
export function errorCodes(operation: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...operation.errors, "internal_error", "temporarily_unavailable"]);
  const wrongKind = operation.publishableGets ?? (operation.method === "get" ? "requires_secret_key" : "forbidden");
  if (operation.access !== "open") codes.add("invalid_key").add("rate_limited");
  if (operation.access === "secret") codes.add(wrongKind);
  if (operation.access === "end-user") codes.add("forbidden").add("invalid_user_token").add("secrets_unavailable");
  if (operation.access === "admin") codes.add("not_found");
  if (operation.writesForId !== undefined) codes.add("erasure_unavailable");
  if (operation.writesForId === "refused") codes.add("person_erased");
  // A request with a key may also send a bookmark, which may be malformed. A POST without fields also checks its body.
  const hasBody = operation.body !== undefined || operation.method === "post";
  if (hasBody || operation.query !== undefined || isKeyed(operation)) codes.add("invalid_request");
  if (hasBody) codes.add("payload_too_large");
  return inOrder(codes);
}

const isKeyed = ({ access }: Operation): boolean => access === "secret" || access === "end-user";
/** Whether responses have a bookmark: with every key, wherever it was sent. */
const hasBookmark = (operation: Operation): boolean =>
  isKeyed(operation) || operation.access === "client" || operation.access === "key-inside";

function describeOperation(operation: Operation): ZodOpenApiOperationObject {
  const { id, tag, summary, description, access, params, query, body, success } = operation;
  const names: HeaderName[] = ["x-request-id"];
  if (hasBookmark(operation)) names.push("x-d1-bookmark");
  if (success.replayable === true) names.push("idempotent-replayed");
  const own = Object.entries(success.headers ?? {}).map(([name, meaning]) => [
    name,
    { description: meaning, schema: { type: "string" as const } },
  ]);
  const sharedParameters = [
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
    security: SECURITY[access],
    requestParams: {
      ...(params === undefined ? {} : { path: params }),
      ...(query === undefined ? {} : { query }),
    },
    ...(sharedParameters.length === 0 ? {} : { parameters: sharedParameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contents(body, body.alternatives) } }),
    responses: {
      "200": {
        description: success.description,
        headers: { ...headerRefs(names), ...Object.fromEntries(own) },
        content: contents(success),
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

/** A message that endpoints get. */
export interface DescribedMessage {
  readonly type: string;
  readonly description: string;
  readonly schema: z.core.$ZodType;
}

function describeMessage({ type, description, schema }: DescribedMessage): ZodOpenApiOperationObject {
  return {
    operationId: `on${type.replace(/(^|\.)([a-z])/g, (_, _dot, letter: string) => letter.toUpperCase())}`,
    tags: ["Messages"],
    summary: `\`${type}\``,
    description,
    security: [],
    requestBody: { required: true, content: { "application/json": { schema } } },
    responses: {
      "2XX": { description: "The message is delivered. Nothing of the answer is read." },
      "4XX": { description: "It is sent again. 410 switches the endpoint off." },
    },
  };
}

/** The OpenAPI 3.1 document of these operations and messages. */
export function openApiDocument(
  about: About,
  operations: readonly Operation[],
  messages: readonly DescribedMessage[],
): OpenApiDocument {
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
    webhooks: Object.fromEntries(messages.map((message) => [message.type, { post: describeMessage(message) }])),
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
  return document;
}

const isEmptyObject = (value: unknown): boolean => isJsonObject(value) && Object.keys(value).length === 0;

/** Corrections of zod's output. */
const correctSchema: ZodOpenApiOverride = ({ jsonSchema, zodSchema, io }) => {
  const { def } = zodSchema._zod;
  // zod leaves out the default of a transformed argument.
  if (io === "input" && def.type === "default") jsonSchema.default ??= def.defaultValue;
  const { additionalProperties, properties } = jsonSchema;
  // zod writes "any other field" as an empty schema, and no known ones as an empty list, which some generators misread.
  if (isEmptyObject(additionalProperties)) jsonSchema.additionalProperties = true;
  if (isEmptyObject(properties) && jsonSchema.additionalProperties === true) delete jsonSchema.properties;
  if (zodSchema === errorDetail) {
    for (const name of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, name);
    Object.assign(jsonSchema, errorDetailSchema);
  }
};

const hasDefault = (field: unknown): field is { default?: unknown; description?: string } =>
  isJsonObject(field) && "default" in field;

/** Tells the default of a body's field in words: some generators make a field with a default one that must be sent. */
function describeDefaults(schema: unknown): void {
  if (!isJsonObject(schema) || !isJsonObject(schema.properties)) return;
  for (const field of Object.values(schema.properties)) {
    if (!hasDefault(field)) continue;
    const value: unknown = field.default;
    delete field.default;
    // An empty object or list is what is taken where nothing is sent.
    if (typeof value === "object") continue;
    field.description = `${field.description ?? ""} Default: \`${String(value)}\`.`.trim();
  }
}
