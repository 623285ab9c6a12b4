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
  payload_too_large: 413,
  rate_limited: 429,
  test_quota_exceeded: 429,
  internal_error: 500,
  export_unavailable: 503,
  temporarily_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof errorStatus;

export interface ErrorOptions {
  /** The argument at fault, as the caller wrote it. */
  readonly param?: string;
  /** Machine-readable particulars for the caller. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Headers that belong to the refusal, such as `Allow` or `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log alone; never sent. Must hold no personal data. */
  readonly cause?: unknown;
}

/**
 * A refusal that a caller may see. `message` is the caller's word: it must hold no personal data, no key and no token.
 * The private cause goes into `cause`.
 */
export class PurserError extends Error {
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.name = "PurserError";
    this.code = code;
    this.param = options.param;
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
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

/** `temporarily_unavailable` (503): nothing happened, or what happened lands once; the caller may try again. */
export function temporarilyUnavailable(message: string, cause?: unknown): PurserError {
  return new PurserError("temporarily_unavailable", message, { headers: { "Retry-After": "1" }, cause });
}
