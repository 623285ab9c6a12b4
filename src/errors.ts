/** The catalogue of errors: the only place where a code has its HTTP status. The list of codes is closed. */
export const errorStatus = {
  invalid_request: 400,
  invalid_quantity: 400,
  invalid_signature: 400,
  invalid_key: 401,
  invalid_user_token: 401,
  invalid_or_expired_token: 401,
  insufficient_credits: 402,
  forbidden: 403,
  requires_secret_key: 403,
  not_found: 404,
  credit_pack_not_found: 404,
  credit_balance_not_found: 404,
  reservation_not_found: 404,
  price_not_found: 404,
  method_not_allowed: 405,
  idempotency_conflict: 409,
  reservation_closed: 409,
  pack_name_taken: 409,
  changed_meanwhile: 409,
  person_erased: 409,
  payload_too_large: 413,
  rate_limited: 429,
  test_quota_exceeded: 429,
  usage_limit_reached: 429,
  internal_error: 500,
  export_unavailable: 503,
  erasure_unavailable: 503,
  secrets_unavailable: 503,
  temporarily_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/** The meaning of each code, for the reference. The message of a response says what was wrong in that request. */
export const errorMeaning: Readonly<Record<ErrorCode, string>> = {
  invalid_request: "An argument is missing, malformed or unknown. `param` names it.",
  invalid_quantity: "The quantity is missing, not positive, or too large or has too many decimals for its unit.",
  invalid_signature: "The event's signature is missing, does not verify, or is too old.",
  invalid_key: "The key is missing, malformed, unknown or revoked.",
  invalid_user_token: "The end-user's token is missing or not valid.",
  invalid_or_expired_token: "The download token has expired or is not valid.",
  insufficient_credits:
    "The user's balances do not cover the usage. `details.uncovered` has the quantities that are not covered, `details.skipped` " +
    "why each balance that can pay now does not cover them.",
  forbidden:
    "The key is not allowed to do this, the request is about another user than the one signed in, or a page sent a key that belongs on a server.",
  requires_secret_key: "This operation requires a secret key, and another kind of key was sent.",
  not_found: "There is nothing at this path or under this id.",
  credit_pack_not_found: "There is no such pack, or it is archived.",
  credit_balance_not_found: "There is no such balance.",
  reservation_not_found: "There is no such reservation.",
  price_not_found:
    "The price list has no price for this event, its model or its meters. `details.meters` names those without a price.",
  method_not_allowed: "The path does not support this method. `Allow` lists the methods that it supports.",
  idempotency_conflict:
    "The same id was used before with a different body. `details.differs` has the fields that differ.",
  reservation_closed: "The reservation is already committed or released, or has expired.",
  pack_name_taken: "Another pack of the application that is not archived has this name.",
  changed_meanwhile: "It was changed after you read it. `details` has what it is now.",
  person_erased: "The person of this id was erased (`POST /api/v1/erase-person`), and nothing is written for them.",
  payload_too_large: "The request exceeds a size limit, such as 1 MiB for a body. The message names the limit.",
  rate_limited: "Too many requests. Try again after `Retry-After` seconds.",
  test_quota_exceeded:
    "The application has reached its limit of test-mode balances. Raise `TEST_BALANCE_QUOTA`, or use another application.",
  usage_limit_reached:
    "The usage would exceed a usage limit of the current window. `details` has the limit and the used amount; " +
    "`Retry-After` says when the window ends.",
  internal_error: "An internal error. Quote `requestId` when you report it.",
  export_unavailable:
    "Exports are not configured on this deployment, or the data is too large for one download (`details.reason`: `too_large`).",
  erasure_unavailable:
    "`ERASURE_SECRET` is not set, or is not the secret with which erased ids were hashed. If there are erased ids, " +
    "nothing is written for any id without it.",
  secrets_unavailable: "`SETTINGS_SECRET` is not set, or is not the secret with which a stored secret was encrypted.",
  temporarily_unavailable: "The service is busy; no partial change was made. Try again after `Retry-After` seconds.",
};

/** The cause of a 503, written to the log for the administrator. */
export type Fault =
  | "clock_moved"
  | "contention"
  | "database_full"
  | "database_overloaded"
  | "database_unreachable"
  | "export_too_large"
  | "key_server_unreachable"
  | "not_set_up"
  | "queries_exhausted"
  | "refunds_owed"
  | "secret_unreadable";

export interface ErrorOptions {
  /** The argument at fault, as the caller wrote it. */
  readonly param?: string;
  /** Machine-readable details for the caller. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Headers of the response, such as `Allow` or `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The cause of a 503, for the log only. */
  readonly fault?: Fault;
  /** For the log only; never sent. Must contain no personal data. */
  readonly cause?: unknown;
}

/** Turns "must be positive" for `quantity` into "quantity must be positive." Leaves a message that is a sentence unchanged. */
function sentence(message: string, param: string | undefined): string {
  return param !== undefined && /^[a-z]/.test(message) ? `${param} ${message}.` : message;
}

/**
 * A rejection that a caller may see. `message` is a sentence, or a predicate of `param`. It must contain no personal data, no key
 * and no token. The private cause goes into `cause`.
 */
export class PurserError extends Error {
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly fault: Fault | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(sentence(message, options.param), { cause: options.cause });
    this.name = "PurserError";
    this.code = code;
    this.param = options.param;
    this.details = options.details;
    this.headers = options.headers ?? {};
    this.fault = options.fault;
  }
}

/** Returns a rejection in the form of the API, without the request's id. */
export function presentRejection(error: PurserError) {
  return {
    code: error.code,
    message: error.message,
    ...(error.param === undefined ? {} : { param: error.param }),
    ...(error.details === undefined ? {} : { details: error.details }),
  };
}

/** Returns the rejection within an error, which Drizzle wraps when a single statement throws. Null when there is none. */
export function rejectionIn(error: unknown): PurserError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof PurserError) return cause;
  }
  return null;
}

/** Returns whether an error rejects the request, rather than reports a fault of Purser or of the database. */
export function isRejection(error: unknown): error is PurserError {
  return error instanceof PurserError && error.fault === undefined;
}

/** Returns `invalid_request` (400) that names the argument at fault. */
export function invalid(param: string, message: string): PurserError {
  return new PurserError("invalid_request", message, { param });
}

/** Returns `invalid_request` (400) for a cursor that was altered or belongs to another list. */
export function invalidCursor(): PurserError {
  return invalid(
    "cursor",
    "is not a cursor of this list. Send the `nextCursor` of the previous page, with all other arguments unchanged",
  );
}

/** Returns `temporarily_unavailable` (503). A repeat takes effect at most once, so the caller may try again. */
export function temporarilyUnavailable(message: string, cause?: unknown, fault: Fault = "contention"): PurserError {
  return new PurserError("temporarily_unavailable", message, { headers: { "Retry-After": "1" }, fault, cause });
}

/**
 * Returns a 503 for an environment whose test clock (D3) differs from the one the verb was called with. `callVerb`
 * (http/factory.ts) then calls the verb again, so a caller sees this error only if the clock moves repeatedly.
 */
export function clockMoved(): PurserError {
  return temporarilyUnavailable(
    "The environment's test clock was moved meanwhile. Try again.",
    undefined,
    "clock_moved",
  );
}

/** Throws if `condition` is false: a bug in Purser. Throw a PurserError instead for a mistake that a caller can make. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}
