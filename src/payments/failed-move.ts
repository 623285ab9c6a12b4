import { OWED_TOO_MUCH } from "../books/ledger/owed.ts";
import { findConstraint, isConflict } from "../db/attempt.ts";
import { PurserError } from "../errors.ts";
import { findReason, type Reason } from "./reasons.ts";

/** A batch that fails so often although nothing has changed fails forever. */
const SAME_FAILURES_MAX = 2;

/** Held credits owe too many refunds (L6), so that the payment changes only when holds have ended. */
export class MustWait extends PurserError {
  constructor() {
    super("temporarily_unavailable", OWED_TOO_MUCH, { headers: { "Retry-After": "3600" }, fault: "refunds_owed" });
  }
}

/** The same batch failed twice although nothing that it depends on has changed. */
class RepeatedFailure extends Error {}

/** Counts how often a batch failed although its attempts read the same. */
export class SameFailures {
  #read: string | null = null;
  #count = 0;

  forget(): void {
    this.#read = null;
  }

  /** Called before each attempt with what it read. Throws before the third attempt with the same. */
  attempt(read: string): void {
    this.#count = read === this.#read ? this.#count + 1 : 0;
    this.#read = read;
    if (this.#count >= SAME_FAILURES_MAX) throw new RepeatedFailure("A payment's batch failed twice.");
  }
}

/** Returns why a grant failed. Null for errors that the next delivery may not meet. */
export function findRejectionReason(error: unknown): Reason | null {
  if (error instanceof RepeatedFailure) return "fault";
  // A constraint that no other write can have caused fails again at each delivery.
  const isFault = !(error instanceof PurserError) && findConstraint(error) !== null && !isConflict(error);
  return isFault ? "fault" : findReason(error);
}

/** Logs a grant that fails again and again, without the values of its statements. */
export function logFault(type: string, error: unknown): void {
  const constraint = findConstraint(error);
  console.error(JSON.stringify({ level: "error", code: "payment_not_granted", type, constraint }));
}
