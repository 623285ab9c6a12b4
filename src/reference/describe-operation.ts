import * as z from "zod";
import type { Access } from "../api/access.ts";
import { BodyByType, Unread } from "../api/body-by-type.ts";
import type { Operation } from "../api/operation.ts";
import { assert, type ErrorCode } from "../errors.ts";
import { codesInOrder } from "./response-components.ts";

export const unwrapped = (schema: z.ZodObject | z.ZodLazy<z.ZodObject>): z.ZodObject =>
  schema instanceof z.ZodLazy ? schema.unwrap() : schema;

/** A body of one media type, with its schema and an example. */
export interface Content {
  /** `application/json` unless given. */
  readonly type?: string;
  readonly schema: z.ZodType;
  readonly example: unknown;
}

type RequestBody = Content & { readonly alternatives: Readonly<Record<string, Content>> };

function describeBody({ body }: Operation, example: ReturnType<Operation["example"]>): RequestBody | undefined {
  assert((body === undefined) === (example.body === undefined), "an operation with a body has an example of it");
  if (body === undefined) return undefined;
  if (body instanceof Unread) return { schema: body.schema(), example: example.body, alternatives: {} };
  if (!(body instanceof BodyByType)) return { schema: body, example: example.body, alternatives: {} };
  const [usual, ...others] = Object.entries(body.schemas());
  assert(usual !== undefined, "a body has a media type");
  const alternatives = others.map(([type, schema]) => [type, { schema, example: example.bodies?.[type] }] as const);
  return { schema: usual[1], example: example.body, alternatives: Object.fromEntries(alternatives) };
}

/** The parameters that a handler reads itself are documented by an object, too. */
const describePart = (part: Operation["params"]): z.ZodObject | undefined =>
  part === undefined ? undefined : unwrapped(part instanceof Unread ? (part.schema() as z.ZodObject) : part);

/** Builds the schemas and examples of an operation, for the reference. */
function describe(declared: Operation) {
  const { access, outputType, replayable, warns, headers, alternatives } = declared;
  const example = declared.example();
  // A query may have an unknown parameter that looks like a known one (W16).
  const readsQuery = declared.query !== undefined && !(declared.query instanceof Unread);
  return {
    ...declared,
    access: access.kind,
    requirement: access.requirement,
    publishableGets: access.publishableGets,
    params: describePart(declared.params),
    query: describePart(declared.query),
    body: describeBody(declared, example),
    errors: declared.errors ?? [],
    success: {
      description: declared.returns,
      schema: declared.output(),
      example: example.output,
      ...{ replayable, warns: readsQuery || warns, headers, alternatives },
      ...(outputType === undefined ? {} : { type: outputType }),
    },
  };
}

/** An operation as the reference shows it, with its schemas. */
export type DescribedOperation = ReturnType<typeof describe>;

/** Returns an operation, and the same operation at its other paths, for the reference. */
export function describedAtEachPath(declared: Operation): readonly DescribedOperation[] {
  const described = describe(declared);
  const others = (declared.aliases ?? []).map((path) => ({
    ...described,
    id: `${described.id}${path.replace(/\W+(\w)/g, (_match, letter: string) => letter.toUpperCase())}`,
    path,
    summary: `${described.summary} (\`${path}\`)`,
    description: `The same as \`${described.path}\`, for older clients.`,
  }));
  return [described, ...others];
}

/** Returns every error code of the operation, in the order of the catalogue. */
export function errorCodes(operation: DescribedOperation): ErrorCode[] {
  const codes = new Set<ErrorCode>([...operation.errors, "internal_error", "temporarily_unavailable"]);
  // PostHog's clients drop their events on a 429, so routes that store those events answer 503 (L2).
  const isCapture = operation.writesForId === "silent" && ["client", "key-inside"].includes(operation.access);
  if (!isCapture) codes.add("rate_limited");
  // In a web page, every key except a publishable one is `forbidden` (W11).
  if (operation.access !== "open") codes.add("invalid_key").add("forbidden");
  if (operation.access === "secret") codes.add(wrongKindOf(operation));
  if (operation.access === "end-user") codes.add("invalid_user_token").add("secrets_unavailable");
  if (operation.access === "admin") codes.add("not_found");
  if (takesAuditEntry(operation)) codes.add("changed_meanwhile");
  if (operation.writesForId !== undefined) codes.add("erasure_unavailable");
  if (operation.writesForId === "rejected") codes.add("person_erased");
  // A request with a key may also send a bookmark, which may be malformed. A POST without fields also checks its body.
  const hasBody = operation.body !== undefined || operation.method === "post";
  if (hasBody || operation.query !== undefined || isKeyed(operation)) codes.add("invalid_request");
  if (hasBody) codes.add("payload_too_large");
  return codesInOrder(codes);
}

/** Returns whether the operation changes something only if an audit entry is still the application's latest. */
export const takesAuditEntry = ({ access, method }: DescribedOperation): boolean =>
  access === "admin" && method !== "get";

/**
 * Returns the error code for a publishable key where a secret key is required, and for a relay key on a route that rejects it
 * (W13).
 */
export const wrongKindOf = ({ publishableGets, method, access }: DescribedOperation): ErrorCode =>
  publishableGets ?? (method === "get" && access === "secret" ? "requires_secret_key" : "forbidden");

/** Returns whether the operation takes a key in the `Authorization` header, and so a bookmark. */
export const isKeyed = ({ access }: DescribedOperation): boolean =>
  ["secret", "end-user", "publishable"].includes(access);

/** Returns the security schemes of an operation; one of them suffices. */
export const describeSecurity = (operation: DescribedOperation): Record<string, string[]>[] =>
  operation.access === "admin" && operation.requirement !== null
    ? [...SECURITY.admin, { administrationKey: [] }]
    : SECURITY[operation.access];

const SECURITY: Readonly<Record<Access<unknown>["kind"], Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  publishable: [{ secretKey: [] }, { publishableKey: [] }],
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
