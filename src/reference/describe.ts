import * as z from "zod";
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

/** Who may call an operation. `end-user`: a secret key, or a publishable one beside the end-user's token. */
type Access = "open" | "secret" | "end-user" | "admin";

/** One operation as its feature describes it, from the very schemas that its route validates with. */
export interface Operation {
  /** Unique; what generated clients call the method: `grantCredits`. */
  readonly id: string;
  readonly method: "get" | "post" | "put" | "patch" | "delete";
  /** With parameters in braces: `/api/v1/admin/apps/{appId}/keys`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** CommonMark. */
  readonly description: string;
  readonly access: Access;
  /** What a publishable key gets where only a secret one may go (W13), if not the ordinary code of the method. */
  readonly publishableGets?: "forbidden" | "requires_secret_key";
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: Content & { readonly alternatives?: Readonly<Record<string, Content>> };
  readonly success: Content & {
    readonly description: string;
    /** Whether the answer says so when it repeats an earlier one. */
    readonly replayable?: boolean;
    readonly headers?: Readonly<Record<string, string>>;
  };
  /** The operation's own refusals; those that its key, its body and its arguments bring are added. */
  readonly errors: readonly ErrorCode[];
}

interface Content {
  readonly schema: z.ZodType;
  readonly example: unknown;
}

export type OpenApiDocument = ReturnType<typeof createDocument>;

const SECURITY: Readonly<Record<Access, Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  "end-user": [{ secretKey: [] }, { publishableKey: [], endUserToken: [] }],
  admin: [{ adminToken: [] }],
};

const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });

const securitySchemes = {
  secretKey: bearer("A secret key, `sk_live_…` or `sk_test_…`. For your backend alone."),
  publishableKey: bearer("A publishable key, `pk_live_…` or `pk_test_…`. May be shown in a browser; proves no user."),
  adminToken: bearer("The administrator's token, as the deployment sets it in `ADMIN_TOKEN`."),
  endUserToken: {
    type: "apiKey" as const,
    in: "header" as const,
    name: "X-User-Token",
    description: "The end-user's JWT from your own sign-in, verified by the application's end-user token setting.",
  },
};

const text = (description: string, example: string) => ({ description, schema: { type: "string" as const }, example });

const headers = {
  "x-request-id": text("Names this request; also `error.requestId`.", "req_4ZkX0uTn2mWq8hYc1LfRsa"),
  "x-d1-bookmark": text(
    "The state of the database that this answer saw. A read that sends it back sees at least that state.",
    "00000085-00000002-00004f5c-4c2bb2e0d0a7f5f2d9f3b0e6b1a2c3d4",
  ),
  "idempotent-replayed": text("`true` when this answer repeats an earlier one and nothing was done.", "true"),
  "retry-after": text("Seconds to wait before another try.", "1"),
  "www-authenticate": text("How to present a key.", "Bearer"),
};

type HeaderName = keyof typeof headers;

const headerRefs = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]));

/** Every code that the operation may answer, in the catalogue's order. */
export function errorCodes(operation: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...operation.errors, "internal_error", "temporarily_unavailable"]);
  const wrongKind = operation.publishableGets ?? (operation.method === "get" ? "requires_secret_key" : "forbidden");
  if (operation.access !== "open") codes.add("invalid_key");
  if (operation.access === "secret") codes.add(wrongKind);
  if (operation.access === "end-user") codes.add("forbidden").add("invalid_user_token");
  if (operation.access === "admin") codes.add("not_found");
  // A key's caller may also send a bookmark, and that may be malformed. Without a key, what a link carries is a token,
  // and refused as one; an id in a path that names nothing is not found.
  // A POST that takes no fields still weighs what is sent with it, and refuses a field.
  const hasBody = operation.body !== undefined || operation.method === "post";
  if (hasBody || operation.query !== undefined || isKeyed(operation)) codes.add("invalid_request");
  if (hasBody) codes.add("payload_too_large");
  return (Object.keys(errorStatus) as ErrorCode[]).filter((code) => codes.has(code));
}

const isKeyed = (operation: Operation): boolean => operation.access === "secret" || operation.access === "end-user";

const pascal = (code: string): string =>
  code.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase());

/** The refusals of all operations: one response for each status, equal ones shared as a component. */
function errorResponder() {
  const made = new Map<string, ZodOpenApiResponseObject>();
  return (operation: Operation) => {
    const byStatus = Map.groupBy(errorCodes(operation), (code) => errorStatus[code]);
    return Object.fromEntries(
      [...byStatus].map(([status, codes]) => {
        const id = codes.map(pascal).join("Or") + (isKeyed(operation) ? "" : "WithoutBookmark");
        const response = made.get(id) ?? errorResponse(id, codes, isKeyed(operation));
        made.set(id, response);
        return [`${status}`, response];
      }),
    );
  };
}

function errorResponse(id: string, codes: readonly ErrorCode[], isOfKey: boolean): ZodOpenApiResponseObject {
  const names: HeaderName[] = ["x-request-id"];
  if (isOfKey) names.push("x-d1-bookmark");
  if (codes.includes("invalid_key")) names.push("www-authenticate");
  if (codes.some((code) => code === "rate_limited" || errorStatus[code] === 503)) names.push("retry-after");
  const schema = z.strictObject({ error: errorBody.shape.error.extend({ code: z.enum(codes) }) });
  const example = (code: ErrorCode) => ({
    summary: code,
    value: { error: { code, message: errorMeaning[code], requestId: headers["x-request-id"].example } },
  });
  return {
    id,
    description: codes.map((code) => `\`${code}\`: ${errorMeaning[code]}`).join("\n\n"),
    headers: headerRefs(names),
    content: {
      "application/json": { schema, examples: Object.fromEntries(codes.map((code) => [code, example(code)])) },
    },
  };
}

type ErrorResponder = ReturnType<typeof errorResponder>;

function describeOperation(operation: Operation, errorResponses: ErrorResponder): ZodOpenApiOperationObject {
  const { id, tag, summary, description, access, params, query, body, success } = operation;
  const names: HeaderName[] = ["x-request-id"];
  if (isKeyed(operation)) names.push("x-d1-bookmark");
  if (success.replayable === true) names.push("idempotent-replayed");
  const own = Object.entries(success.headers ?? {}).map(([name, word]) => [
    name,
    { description: word, schema: { type: "string" as const } },
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
  const all = Object.entries({ "application/json": main, ...alternatives });
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
  const errorResponses = errorResponder();
  for (const operation of operations) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method]: describeOperation(operation, errorResponses),
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
      parameters: {
        bookmark: {
          name: "x-d1-bookmark",
          in: "header",
          required: false,
          description: "The bookmark of an earlier answer: this read then sees at least the state that one saw.",
          schema: { type: "string" },
        },
      },
      securitySchemes,
    },
  };
  return createDocument(plan, { override: keepDefaults });
}

/** zod leaves the default of a transformed argument out, for it is of the other side's type; on the wire they agree. */
const keepDefaults: ZodOpenApiOverride = ({ jsonSchema, zodSchema, io }) => {
  const { def } = zodSchema._zod;
  if (io === "input" && def.type === "default") jsonSchema.default ??= def.defaultValue;
};
