/** The catalogue of errors: the only place where a code meets its HTTP status. Codes are a closed list. */
export const errorStatus = {
  invalid_request: 400,
  invalid_quantity: 400,
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
  method_not_allowed: 405,
  idempotency_conflict: 409,
  reservation_closed: 409,
  pack_name_taken: 409,
  changed_meanwhile: 409,
  payload_too_large: 413,
  rate_limited: 429,
  test_quota_exceeded: 429,
  internal_error: 500,
  export_unavailable: 503,
  temporarily_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/** What each code tells a caller: for the reference, not for answers, whose messages say what was wrong this time. */
export const errorMeaning: Readonly<Record<ErrorCode, string>> = {
  invalid_request: "An argument is missing, malformed or unknown; `param` names it.",
  invalid_quantity: "The quantity is missing, not positive, or more than its unit can hold or tell apart.",
  invalid_key: "The key is missing, malformed, unknown or revoked.",
  invalid_user_token: "The end-user's token is missing, or does not verify.",
  invalid_or_expired_token: "The download token is past its time, or was altered.",
  insufficient_credits: "The user's balances do not cover the usage; `details.uncovered` says by how much.",
  forbidden: "The key may not do this, or asks about somebody other than the requesting end-user.",
  requires_secret_key: "A publishable key was used where only a secret one may go.",
  not_found: "There is nothing by this path or id.",
  credit_pack_not_found: "There is no such pack, or it is archived.",
  credit_balance_not_found: "There is no such balance.",
  reservation_not_found: "There is no such reservation.",
  method_not_allowed: "The path does not answer this method; `Allow` lists those that it does.",
  idempotency_conflict: "The same id was used before with another body.",
  reservation_closed: "The reservation was settled already, another way.",
  pack_name_taken: "Another pack of the application that is not archived has this name.",
  changed_meanwhile: "It was changed since the caller read it; `details` says how it stands.",
  payload_too_large: "The body is larger than 1 MiB.",
  rate_limited: "Too many requests; wait for `Retry-After` seconds.",
  test_quota_exceeded: "The application holds as many test-mode balances as it may.",
  internal_error: "A fault of the service; `requestId` finds it in the log.",
  export_unavailable:
    "Exports are not set up on this deployment, or more is held than one download can carry (`details.reason`: `too_large`).",
  temporarily_unavailable: "The service is busy; nothing is half done. Try again after `Retry-After` seconds.",
};

/** Why a 503: told in the log, to whoever runs Purser. */
export type Fault =
  | "contention"
  | "database_overloaded"
  | "database_unreachable"
  | "export_too_large"
  | "key_server_unreachable"
  | "not_set_up";

export interface ErrorOptions {
  /** The argument at fault, as the caller wrote it. */
  readonly param?: string;
  /** Machine-readable particulars for the caller. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Headers that belong to the refusal, such as `Allow` or `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of a 503, for the log alone. */
  readonly fault?: Fault;
  /** For the log alone; never sent. Must hold no personal data. */
  readonly cause?: unknown;
}

/** "must be positive" of `quantity` reads "quantity must be positive."; a message that is a sentence stays as it is. */
function sentence(message: string, param: string | undefined): string {
  return param !== undefined && /^[a-z]/.test(message) ? `${param} ${message}.` : message;
}

/**
 * A refusal that a caller may see. `message` is the caller's word, a sentence or what is said of `param`: it must hold
 * no personal data, no key and no token. The private cause goes into `cause`.
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

/** The wire form of a refusal, but for the request's id. */
export function presentRefusal(error: PurserError) {
  return {
    code: error.code,
    message: error.message,
    ...(error.param === undefined ? {} : { param: error.param }),
    ...(error.details === undefined ? {} : { details: error.details }),
  };
}

/** The refusal within an error: Drizzle wraps what a single statement throws. Null when there is none. */
export function refusalIn(error: unknown): PurserError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof PurserError) return cause;
  }
  return null;
}

/** `invalid_request` (400) that names the argument at fault. */
export function invalid(param: string, message: string): PurserError {
  return new PurserError("invalid_request", message, { param });
}

/** `invalid_request` (400) for a cursor that is altered, or of another list. */
export function invalidCursor(): PurserError {
  return invalid("cursor", "is not a cursor that this list gave out");
}

/** `temporarily_unavailable` (503): nothing happened, or what happened lands once; the caller may try again. */
export function temporarilyUnavailable(message: string, cause?: unknown, fault: Fault = "contention"): PurserError {
  return new PurserError("temporarily_unavailable", message, { headers: { "Retry-After": "1" }, fault, cause });
}
