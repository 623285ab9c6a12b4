import type * as z from "zod";
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverride,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
} from "zod-openapi";
import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { errorBody } from "../http/error-body.ts";

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
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: Content & { readonly alternatives?: Readonly<Record<string, Content>> };
  readonly success: Content & {
    readonly description: string;
    /** Whether a repeat is marked by `idempotent-replayed`. */
    readonly replayable?: boolean;
    readonly headers?: Readonly<Record<string, string>>;
  };
  /** The operation's own codes. Those that follow from its key, body and arguments are added. */
  readonly errors: readonly ErrorCode[];
}

interface Content {
  /** `application/json` unless given. */
  readonly type?: string;
  readonly schema: z.ZodType;
  readonly example: unknown;
}

export type OpenApiDocument = ReturnType<typeof createDocument>;

const SECURITY: Readonly<Record<Access, Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  "end-user": [{ secretKey: [] }, { publishableKey: [], endUserToken: [] }],
  admin: [{ adminToken: [] }],
  client: [{ publishableKey: [] }, { secretKey: [] }],
  "key-inside": [],
};

const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });

const securitySchemes = {
  secretKey: bearer("A secret key, `sk_live_…` or `sk_test_…`. Only for your backend."),
  publishableKey: bearer(
    "A publishable key, `pk_live_…` or `pk_test_…`. Safe to use in a browser. Does not identify a user.",
  ),
  adminToken: bearer("The admin token, set by the deployment in `ADMIN_TOKEN`."),
  endUserToken: {
    type: "apiKey" as const,
    in: "header" as const,
    name: "X-User-Token",
    description:
      "The user's JWT from your own sign-in. The application's end-user token setting says how it is verified.",
  },
};

const text = (description: string, example: string) => ({ description, schema: { type: "string" as const }, example });

const headers = {
  "x-request-id": text("The request's id. Also in `error.requestId`.", "req_4ZkX0uTn2mWq8hYc1LfRsa"),
  "x-d1-bookmark": text(
    "The database state of this response. Send it with a later read to see at least this state.",
    "00000085-00000002-00004f5c-4c2bb2e0d0a7f5f2d9f3b0e6b1a2c3d4",
  ),
  "idempotent-replayed": text(
    "`true` when the request was a repeat: nothing was done, and the first result is returned.",
    "true",
  ),
  "retry-after": text("Seconds to wait before the next attempt.", "1"),
  "www-authenticate": text("How to send a key.", "Bearer"),
  link: text("The way to this reference, of a path at which there is nothing.", '</docs>; rel="help"'),
};

type HeaderName = keyof typeof headers;

const headerRefs = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]));

/** Every error code of the operation, in the order of the catalogue. */
export function errorCodes(operation: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...operation.errors, "internal_error", "temporarily_unavailable"]);
  const wrongKind = operation.publishableGets ?? (operation.method === "get" ? "requires_secret_key" : "forbidden");
  if (operation.access !== "open") codes.add("invalid_key").add("rate_limited");
  if (operation.access === "secret") codes.add(wrongKind);
  if (operation.access === "end-user") codes.add("forbidden").add("invalid_user_token");
  if (operation.access === "admin") codes.add("not_found");
  // A request with a key may also send a bookmark, which may be malformed. A POST without fields also checks its body.
  const hasBody = operation.body !== undefined || operation.method === "post";
  if (hasBody || operation.query !== undefined || isKeyed(operation)) codes.add("invalid_request");
  if (hasBody) codes.add("payload_too_large");
  return (Object.keys(errorStatus) as ErrorCode[]).filter((code) => codes.has(code));
}

const isKeyed = ({ access }: Operation): boolean => access === "secret" || access === "end-user";
/** Whether responses have a bookmark: with every key, wherever it was sent. */
const hasBookmark = (operation: Operation): boolean =>
  isKeyed(operation) || operation.access === "client" || operation.access === "key-inside";

/** One response for each status. An operation refers to it, and says which of its codes it may return. */
const RESPONSE_NAMES: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  402: "PaymentRequired",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  413: "PayloadTooLarge",
  429: "TooManyRequests",
  500: "InternalError",
  503: "Unavailable",
};

function responseName(status: number): string {
  const name = RESPONSE_NAMES[status];
  if (name === undefined) throw new Error(`The status ${status} has no response in the reference.`);
  return name;
}

const meanings = (codes: readonly ErrorCode[]): string =>
  codes.map((code) => `\`${code}\`: ${errorMeaning[code]}`).join("\n\n");

const byStatus = (codes: readonly ErrorCode[]) => Map.groupBy(codes, (code) => errorStatus[code]);

/** The error responses of one operation: each refers to the response of its status, with the operation's own codes. */
function errorResponses(operation: Operation) {
  return Object.fromEntries(
    [...byStatus(errorCodes(operation))].map(([status, codes]) => [
      `${status}`,
      { $ref: `#/components/responses/${responseName(status)}` as const, description: meanings(codes) },
    ]),
  );
}

/** The error responses that the operations refer to, by name. */
function sharedResponses(operations: readonly Operation[]): Record<string, ZodOpenApiResponseObject> {
  const used = new Set(operations.flatMap(errorCodes));
  const codes = (Object.keys(errorStatus) as ErrorCode[]).filter((code) => used.has(code));
  return Object.fromEntries([...byStatus(codes)].map(([status, some]) => [responseName(status), errorResponse(some)]));
}

function errorResponse(codes: readonly ErrorCode[]): ZodOpenApiResponseObject {
  const names: HeaderName[] = ["x-request-id", "x-d1-bookmark"];
  if (codes.includes("invalid_key")) names.push("www-authenticate");
  if (codes.includes("not_found")) names.push("link");
  if (codes.some((code) => code === "rate_limited" || errorStatus[code] === 503)) names.push("retry-after");
  const example = (code: ErrorCode) => ({
    summary: code,
    value: { error: { code, message: errorMeaning[code], requestId: headers["x-request-id"].example } },
  });
  return {
    description: meanings(codes),
    headers: headerRefs(names),
    content: {
      "application/json": {
        schema: errorBody,
        examples: Object.fromEntries(codes.map((code) => [code, example(code)])),
      },
    },
  };
}

function describeOperation(operation: Operation): ZodOpenApiOperationObject {
  const { id, tag, summary, description, access, params, query, body, success } = operation;
  const names: HeaderName[] = ["x-request-id"];
  if (hasBookmark(operation)) names.push("x-d1-bookmark");
  if (success.replayable === true) names.push("idempotent-replayed");
  const own = Object.entries(success.headers ?? {}).map(([name, meaning]) => [
    name,
    { description: meaning, schema: { type: "string" as const } },
  ]);
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
    ...(isKeyed(operation) && operation.method === "get"
      ? { parameters: [{ $ref: "#/components/parameters/bookmark" }] }
      : {}),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contents(body, body.alternatives) } }),
    responses: {
      "200": {
        description: success.description,
        headers: { ...headerRefs(names), ...Object.fromEntries(own) },
        content: contents(success),
      },
      ...errorResponses(operation),
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

/** The OpenAPI 3.1 document of these operations. */
export function openApiDocument(about: About, operations: readonly Operation[]): OpenApiDocument {
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
    components: {
      headers,
      responses: sharedResponses(operations),
      parameters: {
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
  return createDocument(plan, { override: correctSchema });
}

/**
 * Two corrections of zod's output. It leaves out the default of a transformed argument. It writes "any other field" as an
 * empty schema, which some generators do not understand.
 */
const correctSchema: ZodOpenApiOverride = ({ jsonSchema, zodSchema, io }) => {
  const { def } = zodSchema._zod;
  if (io === "input" && def.type === "default") jsonSchema.default ??= def.defaultValue;
  const { additionalProperties } = jsonSchema;
  if (typeof additionalProperties === "object" && Object.keys(additionalProperties).length === 0) {
    jsonSchema.additionalProperties = true;
  }
};
