import type { Schemas } from "./operation.ts";

type Refusal = Schemas["ErrorDetail"];
type ShortDetails = Extract<Refusal, { code: "insufficient_credits" }>["details"];

/** Every code of Purser's; `no_answer` when none came, and `unknown_answer` when something else answered. */
export type ErrorCode = Refusal["code"] | "no_answer" | "unknown_answer";

/** What the errors of a code say more. */
export type DetailsOf<Code extends ErrorCode> =
  Extract<Refusal, { code: Code }> extends { details?: infer Details } ? Details : unknown;

/** What a call throws. Rely on `code`. */
export class PurserError extends Error {
  override readonly name: string = "PurserError";
  readonly code: ErrorCode;
  /** The status of the answer; 0 when none came. */
  readonly status: number;
  /** The argument that was refused. */
  readonly param: string | null;
  /** What the code says more, such as `uncovered`. */
  readonly details: unknown;
  /** Tell it when you ask about a call. */
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

  /** Whether it is of this code; then the type of `details` is known. */
  is<Code extends ErrorCode>(code: Code): this is { readonly code: Code; readonly details: DetailsOf<Code> } {
    return this.code === code;
  }
}

/** The user's balances do not cover the usage. Nothing was debited. */
export class InsufficientCredits extends PurserError {
  override readonly name = "InsufficientCredits";
  /** The quantities that no balance covers. */
  readonly uncovered: ShortDetails["uncovered"];
  /** Why each balance that can pay now does not cover them. */
  readonly skipped: ShortDetails["skipped"];

  constructor(status: number, refusal: Extract<Refusal, { code: "insufficient_credits" }>) {
    super(status, refusal);
    this.uncovered = refusal.details.uncovered;
    this.skipped = refusal.details.skipped;
  }
}

/** The error of an answer that is none of 200 to 299. */
export function errorOf(status: number, body: unknown): PurserError {
  // Purser's own refusals have this form (W4); anything between may answer something else.
  const refusal = (body as { error?: Refusal } | null)?.error;
  if (typeof refusal?.code !== "string") {
    return new PurserError(status, {
      code: "unknown_answer",
      message: `Something that is not Purser answered ${status}. Check \`url\`, and what stands before Purser.`,
    });
  }
  return refusal.code === "insufficient_credits"
    ? new InsufficientCredits(status, refusal)
    : new PurserError(status, refusal);
}
