import type { ZodOpenApiResponseObject } from "zod-openapi";
import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { errorBody } from "../http/responses.ts";
import { type HeaderName, headerRefs, headers } from "./headers.ts";

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
  },
  idempotency_conflict: { differs: ["quantities"] },
  invalid_user_token: { reason: "expired" },
  changed_meanwhile: { version: 3 },
  test_quota_exceeded: { quota: 1_000 },
  usage_limit_reached: {
    ...{ limitId: "lim_5qWc1nY8aJ3vRb7kTxE2Mz", name: "Free messages", unit: "count", amount: 50, used: 50, asked: 1 },
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
