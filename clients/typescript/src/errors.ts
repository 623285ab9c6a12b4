import type { Schemas } from "./operation.ts";

type ErrorDetail = Schemas["ErrorDetail"];
type ShortDetails = Extract<ErrorDetail, { code: "insufficient_credits" }>["details"];

/**
 * The error codes of Purser, and two of the client: `no_answer` when no response came, and `unknown_answer` when the response is
 * not Purser's.
 */
export type ErrorCode = ErrorDetail["code"] | "no_answer" | "unknown_answer";

/** The type of `details` for an error code. */
export type DetailsOf<Code extends ErrorCode> =
  Extract<ErrorDetail, { code: Code }> extends { details?: infer Details } ? Details : unknown;

/** The error that a call throws. Rely on `code`. */
export class PurserError extends Error {
  override readonly name: string = "PurserError";
  readonly code: ErrorCode;
  /** The status of the response; 0 when none came. */
  readonly status: number;
  /** The argument that Purser rejected. */
  readonly param: string | null;
  /** Further facts about the code, such as `uncovered`. */
  readonly details: unknown;
  /** Quote the id when you report a problem. */
  readonly requestId: string | null;

  constructor(
    status: number,
    { code, message, param, details, requestId }: { code: ErrorCode; message: string } & Partial<PurserError>,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.status = status;
    this.param = param ?? null;
    this.details = details ?? null;
    this.requestId = requestId ?? null;
  }

  /** Returns whether the error has this code. TypeScript then knows the type of `details`. */
  is<Code extends ErrorCode>(code: Code): this is { readonly code: Code; readonly details: DetailsOf<Code> } {
    return this.code === code;
  }
}

/** The error for usage that the user's balances do not cover. Nothing was debited. */
export class InsufficientCredits extends PurserError {
  override readonly name = "InsufficientCredits";
  /** The quantities that no balance covers. */
  readonly uncovered: ShortDetails["uncovered"];
  /** Why each balance that can pay now does not cover them. */
  readonly skipped: ShortDetails["skipped"];

  constructor(status: number, detail: Extract<ErrorDetail, { code: "insufficient_credits" }>) {
    super(status, detail);
    this.uncovered = detail.details.uncovered;
    this.skipped = detail.details.skipped;
  }
}

/** Returns the error for a response whose status is not from 200 to 299. */
export function errorOf(status: number, body: unknown): PurserError {
  // Purser's errors have this form (W4). A proxy may respond in another form.
  const detail = (body as { error?: ErrorDetail } | null)?.error;
  if (typeof detail?.code !== "string") {
    return new PurserError(status, {
      code: "unknown_answer",
      message: `The response with status ${status} is not from Purser. Check \`url\`, and any proxy in front of Purser.`,
    });
  }
  return detail.code === "insufficient_credits"
    ? new InsufficientCredits(status, detail)
    : new PurserError(status, detail);
}
