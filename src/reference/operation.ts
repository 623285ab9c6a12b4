import * as z from "zod";
import { ROUTES } from "../auth/scopes.ts";
import type { ErrorCode } from "../errors.ts";
import { codesInOrder } from "./response-components.ts";

/**
 * The credentials that a request must send. `end-user`: a secret key, or a publishable key with the end-user's token. `client`:
 * a key of any kind. `key-inside`: a key in the body or in the path.
 */
export type Access = "open" | "secret" | "end-user" | "admin" | "client" | "key-inside";

/** The schema of a request. Request schemas are lazy, so that the Worker starts without building them. */
type ObjectSchema = z.ZodObject | z.ZodLazy<z.ZodObject>;

export const unwrapped = (schema: ObjectSchema): z.ZodObject =>
  schema instanceof z.ZodLazy ? schema.unwrap() : schema;

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
  /**
   * The error code for a publishable key where a secret key is required (W13). Given if it differs from the method's usual code.
   */
  readonly publishableGets?: "forbidden" | "requires_secret_key";
  readonly params?: ObjectSchema;
  readonly query?: ObjectSchema;
  readonly body?: Content & { readonly alternatives?: Readonly<Record<string, Content>> };
  readonly success: Content & {
    readonly description: string;
    /** Whether `idempotent-replayed` marks a repeat. */
    readonly replayable?: boolean;
    /** Whether the response may have a `purser-warning` (W16). */
    readonly warns?: boolean;
    readonly headers?: Readonly<Record<string, string>>;
    /** By their types. */
    readonly alternatives?: Readonly<Record<string, Content>>;
  };
  /** The operation's own codes. Codes that follow from its key, body and arguments are added. */
  readonly errors: readonly ErrorCode[];
  /**
   * Whether it writes for a user id, which may be erased (E4). The write is then refused with a code, or silently dropped, as
   * analytics are.
   */
  readonly writesForId?: "refused" | "silent";
}

export interface Content {
  /** `application/json` unless given. */
  readonly type?: string;
  readonly schema: z.ZodType;
  readonly example: unknown;
}

/** Returns every error code of the operation, in the order of the catalogue. */
export function errorCodes(operation: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...operation.errors, "internal_error", "temporarily_unavailable"]);
  // PostHog's clients drop their events on a 429, so routes that store those events answer 503 (L2).
  const isCapture = operation.writesForId === "silent" && ["client", "key-inside"].includes(operation.access);
  if (!isCapture) codes.add("rate_limited");
  // In a web page, every key except a publishable one is `forbidden` (W11).
  if (operation.access !== "open") codes.add("invalid_key").add("forbidden");
  if (operation.access === "secret") codes.add(wrongKindOf(operation));
  if (operation.access === "end-user") codes.add("invalid_user_token").add("secrets_unavailable");
  if (operation.access === "admin") codes.add("not_found");
  if (operation.writesForId !== undefined) codes.add("erasure_unavailable");
  if (operation.writesForId === "refused") codes.add("person_erased");
  // A request with a key may also send a bookmark, which may be malformed. A POST without fields also checks its body.
  const hasBody = operation.body !== undefined || operation.method === "post";
  if (hasBody || operation.query !== undefined || isKeyed(operation)) codes.add("invalid_request");
  if (hasBody) codes.add("payload_too_large");
  return codesInOrder(codes);
}

/**
 * Returns the error code for a publishable key where a secret key is required, and for a relay key on a route that refuses it
 * (W13).
 */
export const wrongKindOf = ({ publishableGets, method, access }: Operation): ErrorCode =>
  publishableGets ?? (method === "get" && access === "secret" ? "requires_secret_key" : "forbidden");

/** Returns whether the operation takes a key in the `Authorization` header, and so a bookmark. */
export const isKeyed = ({ access }: Operation): boolean => access === "secret" || access === "end-user";

/** Returns the name of a route of administration in `auth/scopes.ts`: `GET /apps/:appId/keys`. */
export const adminRouteOf = ({ method, path }: Pick<Operation, "method" | "path">): string =>
  `${method.toUpperCase()} ${path.replace("/api/v1/admin", "").replace(/\{(\w+)\}/g, ":$1")}`;

/** Returns the security schemes of an operation; one of them suffices. */
export const securityOf = (operation: Operation): Record<string, string[]>[] =>
  operation.access === "admin" && ROUTES[adminRouteOf(operation)] !== null
    ? [...SECURITY.admin, { administrationKey: [] }]
    : SECURITY[operation.access];

const SECURITY: Readonly<Record<Access, Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  "end-user": [{ secretKey: [] }, { publishableKey: [] }],
  admin: [{ adminToken: [] }],
  client: [{ publishableKey: [] }, { relayKey: [] }, { secretKey: [] }],
  "key-inside": [],
};

const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });

/**
 * The security schemes, all in the `Authorization` header. The end-user's token is a parameter instead: a generated client with
 * one credential would send it by every scheme, and so send a secret key as `X-User-Token`.
 */
export const securitySchemes = {
  secretKey: bearer("A secret key, `sk_live_…` or `sk_test_…`. Only for your backend."),
  publishableKey: bearer(
    "A publishable key, `pk_live_…` or `pk_test_…`. Safe to use in a browser. Does not identify a user.",
  ),
  relayKey: bearer(
    "A relay key, `rk_live_…` or `rk_test_…`. For a service that forwards the analytics of others, such as a proxy.",
  ),
  adminToken: bearer("The admin token, set by the deployment in `ADMIN_TOKEN`."),
  administrationKey: bearer("An administration key, `ak_…`. Each operation names the scope that the key needs."),
};
