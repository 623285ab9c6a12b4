import * as z from "zod";
import type { ZodOpenApiResponseObject } from "zod-openapi";
import { scope } from "../api/keys/key-shapes.ts";
import { rejectingLimitOutput } from "../api/usage-limits/usage-limit-shapes.ts";
import { TOKEN_REJECTIONS } from "../auth/jwt.ts";
import { metersAndVersion, quantitiesOutput, unit } from "../books/amounts/amount-fields.ts";
import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { errorBody, errorDetail } from "../http/error-body.ts";
import { mode } from "../http/fields.ts";
import { words } from "../lib/words.ts";

const textHeader = (description: string, example: string) => ({
  description,
  schema: { type: "string" as const },
  example,
});

/** The headers of responses. */
export const headers = {
  "x-request-id": textHeader("The request's id. Also in `error.requestId`.", "req_4ZkX0uTn2mWq8hYc1LfRsa"),
  "x-d1-bookmark": textHeader(
    "The database state of this response. Send it with a later read to see at least this state.",
    "00000085-00000002-00004f5c-4c2bb2e0d0a7f5f2d9f3b0e6b1a2c3d4",
  ),
  "idempotent-replayed": textHeader(
    "`true` when the request was a repeat: nothing was done, and the first result is returned.",
    "true",
  ),
  "purser-warning": textHeader(
    "Warnings about a request that is accepted but looks like a mistake: at most three sentences, for people. Their wording may change.",
    "The quantity is ignored: the pack has items, and each item is granted with its own amount.",
  ),
  "retry-after": textHeader("Seconds to wait before the next attempt.", "1"),
  "www-authenticate": textHeader("How to send a key.", "Bearer"),
  link: textHeader("A link to this reference, when there is nothing at the path.", '</docs>; rel="help"'),
};

export type HeaderName = keyof typeof headers;

export const headerRefs = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]));

const shortBalance = z
  .strictObject({
    balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
    packName: z.string().meta(words("The pack's name.", "Starter")),
    unit,
    remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
    reason: z
      .enum(["exhausted", "wrong_unit", "no_match"])
      .meta({ id: "ShortageReason" })
      .meta(words("`exhausted`: the balance would have paid its whole amount.", "exhausted")),
  })
  .meta({ id: "ShortBalance" });

/** The `details` of each code that has some. A field is optional if not every rejection with the code has it. */
const detailsByCode = {
  invalid_request: z
    .strictObject({ limit: z.int().meta(words("The maximum number.", 100)) })
    .optional()
    .meta(words("Present if there are already as many objects as allowed, or if a list would have too many.")),
  invalid_user_token: z
    .strictObject({
      reason: z
        .enum(TOKEN_REJECTIONS)
        .meta({ id: "TokenRejection", ...words("Why the token was rejected.", "expired") }),
    })
    .optional()
    .meta(words("The flaw of the token. Absent when no token was sent.")),
  insufficient_credits: z.strictObject({
    uncovered: quantitiesOutput.meta(words("The quantities that no balance covers.")),
    skipped: z.array(shortBalance).meta(words("Why each active balance does not cover them; at most 20.")),
    quantities: quantitiesOutput.meta(words("The quantities of the usage.")),
    ...metersAndVersion(),
  }),
  forbidden: z
    .strictObject({
      scope: scope.optional().meta(words("The scope that the administration key lacks.", "people")),
      appId: z
        .string()
        .nullable()
        .optional()
        .meta(
          words(
            "The application that the administration key is not for. Null: the key must be for all applications.",
            "app_3kDw9pX1sB6vMn0qTzR7Ge",
          ),
        ),
      mode: mode.optional().meta(words("The mode that the administration key is not for.", "live")),
    })
    .optional()
    .meta(words("Present when an administration key may not do this.")),
  price_not_found: z.strictObject({
    event: z.string().meta(words("The event's name.", "chat.completed")),
    model: z.string().nullable().meta(words("The model. Null if the event has none.", "large-3")),
    meters: z.array(z.string()).meta(words("The meters without a price.", ["output"])),
    unit: unit
      .optional()
      .meta(words("The unit whose rule does not name them. Absent if no rule matches the event.", "cents")),
  }),
  idempotency_conflict: z.strictObject({
    differs: z
      .array(z.string())
      .meta(words("The fields that differ from the first request, as far as they are stored.", ["quantities"])),
  }),
  changed_meanwhile: z
    .strictObject({
      version: z.int().optional().meta(words("The current version of a pack or price list.", 3)),
      distinctIds: z
        .array(z.string())
        .optional()
        .meta(words("The current ids of the person.", ["user_42"])),
      distinctIdCount: z.int().optional().meta(words("How many ids the person has now.", 2)),
    })
    .optional(),
  person_erased: z
    .strictObject({
      field: z
        .literal("memberId")
        .meta(words("The argument that names the erased person, if it is not the user.", "memberId")),
    })
    .optional(),
  test_quota_exceeded: z.strictObject({ quota: z.int().meta(words("The limit of test-mode balances.", 1_000)) }),
  usage_limit_reached: rejectingLimitOutput.meta(
    words("The limit that rejects the usage. If several do, the one that resets last."),
  ),
  export_unavailable: z.strictObject({ reason: z.literal("too_large").meta(words("The reason.")) }).optional(),
} satisfies Partial<Record<ErrorCode, z.ZodType>>;

const commonDetails = errorDetail.unwrap().omit({ code: true, details: true }).shape;

/** Returns `InsufficientCreditsError` for `insufficient_credits`. */
const nameOf = (code: string): string =>
  `${code.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase())}Error`;

const codesWithDetails = Object.entries(detailsByCode).map(([code, details]) => ({
  name: nameOf(code),
  codes: [code],
  schema: z.strictObject({
    code: z.literal(code).meta(words("The error code.", code)),
    ...commonDetails,
    details: details.description === undefined ? details.meta(words("Details for programs.")) : details,
  }),
}));

const otherCodes = Object.keys(errorStatus).filter((code) => !(code in detailsByCode));
const withoutDetails = {
  name: "OtherError",
  codes: otherCodes,
  schema: z.strictObject({ code: z.enum(otherCodes).meta(words("The error code.", "not_found")), ...commonDetails }),
};

const errorForms = [...codesWithDetails, withoutDetails];
const reference = (name: string): string => `#/components/schemas/${name}`;

/** The components of the forms of an error, one for each code that has details of its own. */
export const errorComponents: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  errorForms.map(({ name, schema }) => [name, schema]),
);

/** The schema of `ErrorDetail`: one of these forms, told apart by `code`. */
export const errorDetailSchema = {
  oneOf: errorForms.map(({ name }) => ({ $ref: reference(name) })),
  discriminator: {
    propertyName: "code",
    mapping: Object.fromEntries(errorForms.flatMap(({ name, codes }) => codes.map((code) => [code, reference(name)]))),
  },
};

/**
 * The names of the error responses, one for each status. An operation refers to the response, and lists which of its codes it
 * may return.
 */
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

/** An example of the details that a code always has. */
const DETAILS: Partial<Record<ErrorCode, object>> = {
  insufficient_credits: {
    uncovered: { tokens: 120 },
    skipped: [
      {
        balanceId: "crb_2aFw6qH1xR9pLj4sNyT8Kc",
        packName: "Starter",
        unit: "cents",
        remaining: 500,
        reason: "no_match",
      },
    ],
    quantities: { count: 1, tokens: 240 },
    ...{ meters: null, priceVersion: null },
  },
  price_not_found: { event: "chat.completed", model: "large-3", meters: ["output"], unit: "cents" },
  idempotency_conflict: { differs: ["quantities"] },
  invalid_user_token: { reason: "expired" },
  changed_meanwhile: { version: 3 },
  person_erased: { field: "memberId" },
  test_quota_exceeded: { quota: 1_000 },
  usage_limit_reached: {
    ...{
      limitId: "lim_5qWc1nY8aJ3vRb7kTxE2Mz",
      memberId: null,
      name: "Free messages",
      unit: "count",
      amount: 50,
      used: 50,
      asked: 1,
    },
    resetsAt: "2026-01-17T00:00:00.000Z",
  },
};

function responseName(status: number): string {
  const name = RESPONSE_NAMES[status];
  if (name === undefined) throw new Error(`The status ${status} has no response in the reference.`);
  return name;
}

/** Returns the codes of a set, in the order of the catalogue. */
export const codesInOrder = (codes: ReadonlySet<ErrorCode>): ErrorCode[] =>
  // Object.keys loses the type of the codes.
  (Object.keys(errorStatus) as ErrorCode[]).filter((code) => codes.has(code));

const meanings = (codes: readonly ErrorCode[]): string =>
  codes.map((code) => `\`${code}\`: ${errorMeaning[code]}`).join("\n\n");

const byStatus = (codes: readonly ErrorCode[]) => Map.groupBy(codes, (code) => errorStatus[code]);

/** Returns the error responses of one operation. Each refers to the response of its status, with the operation's own codes. */
export function errorResponses(operationCodes: readonly ErrorCode[]) {
  return Object.fromEntries(
    [...byStatus(operationCodes)].map(([status, codes]) => [
      `${status}`,
      { $ref: `#/components/responses/${responseName(status)}` as const, description: meanings(codes) },
    ]),
  );
}

/** Returns the error responses that the operations refer to, by name. */
export function sharedResponses(usedCodes: ReadonlySet<ErrorCode>): Record<string, ZodOpenApiResponseObject> {
  const statuses = [...byStatus(codesInOrder(usedCodes))];
  return Object.fromEntries(statuses.map(([status, codes]) => [responseName(status), errorResponse(codes)]));
}

function errorResponse(codes: readonly ErrorCode[]): ZodOpenApiResponseObject {
  const names: HeaderName[] = ["x-request-id", "x-d1-bookmark"];
  if (codes.includes("invalid_key")) names.push("www-authenticate");
  if (codes.includes("not_found")) names.push("link");
  if (codes.some((code) => code === "rate_limited" || code === "usage_limit_reached" || errorStatus[code] === 503))
    names.push("retry-after");
  const example = (code: ErrorCode) => {
    const details = DETAILS[code];
    const error = { code, message: errorMeaning[code], ...(details === undefined ? {} : { details }) };
    return { summary: code, value: { error: { ...error, requestId: headers["x-request-id"].example } } };
  };
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
