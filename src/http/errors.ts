import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { constraintOf } from "../db/constraint.ts";
import { errorStatus, PurserError, presentRefusal, refusalIn } from "../errors.ts";
import type { AppEnv } from "./factory.ts";
import type { ErrorBody } from "./responses.ts";

/** Logs a bug by kind and place. Does not log its message, which can contain a caller's data. */
export function logBug(error: unknown, requestId: string): void {
  const chain: { name: string; constraint: string | null; frames: string[] }[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // A message may have lines that look like stack frames.
    const stack = (cause.stack ?? "").replace(cause.message, "");
    const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
    chain.push({ name: cause.name, constraint: constraintOf(cause), frames: frames.slice(0, 8) });
  }
  console.error(JSON.stringify({ level: "error", code: "internal_error", requestId, chain }));
}

/** Logs the fault of a 503. Other refusals are not logged. */
export function logUnavailable({ code, fault }: PurserError, requestId: string): void {
  if (errorStatus[code] === 503) console.warn(JSON.stringify({ level: "warn", code, fault, requestId }));
}

function asPurserError(error: unknown, requestId: string): PurserError {
  const refusal = refusalIn(error);
  if (refusal !== null) return refusal;
  logBug(error, requestId);
  return new PurserError("internal_error", "An internal error occurred.", { cause: error });
}

/** Turns an error into a response: `{ error: { code, message, param?, details?, requestId } }` (W4). No other code does this. */
export function answerError(thrown: unknown, c: Context<AppEnv>): Response {
  const requestId = c.get("requestId");
  const error = asPurserError(thrown, requestId);
  logUnavailable(error, requestId);
  for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
  const body: ErrorBody = { error: { ...presentRefusal(error), requestId } };
  return c.json(body, errorStatus[error.code] satisfies ContentfulStatusCode);
}
