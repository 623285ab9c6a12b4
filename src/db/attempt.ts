import { PurserError, temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { type Constraint, constraintOf } from "./constraint.ts";

/** The constraints that fail when another write came first: after this one's read, or with the same id. */
const CONFLICTS: ReadonlySet<Constraint | null> = new Set<Constraint | null>([
  "guard_account",
  "guard_balance",
  "guard_environment",
  "guard_payment",
  "guard_people",
  "guard_person",
  "guard_recurring",
  "guard_statement",
  "credit_adjustments_primary_key",
  "credit_balances_external_ref",
  "credit_balances_id",
  "credit_balances_remaining_not_negative",
  "credit_balances_revoked",
  "credit_balances_revoked_once",
  "credit_ledger_seq_gapless",
  "credit_packs_version",
  "credit_refunds_gapless",
  "distinct_ids_claim_version",
  "distinct_ids_claims_made",
  "distinct_ids_no_circle",
  "erasure_ids_kept",
  "erasures_kept",
  "id_properties_version",
  "payment_debts_of",
  "payment_names_taken",
  "recurring_grants_id",
  "recurring_grants_in_order",
  "reservations_end_not_earlier",
  "reservations_primary_key",
  "reservations_settled_once",
  "reservations_state",
  "tombstones_being_erased",
  "tombstones_stand",
  "usage_events_event_id",
  "usage_limit_reached",
  "usage_summed_once",
]);

const ATTEMPTS_MAX = 64;
/** The first repeats do not wait, because the other write is usually done. */
const ATTEMPTS_WITHOUT_PAUSE = 2;
const PAUSE_MS_MAX = 1_000;

/** What an attempt throws to be made again, where no constraint says so. */
export class MakeAgain extends Error {}

/** Whether a write failed because another one came first. A refusal is final, whatever caused it. */
export function isConflict(error: unknown): boolean {
  return error instanceof MakeAgain || (!(error instanceof PurserError) && CONFLICTS.has(constraintOf(error)));
}

/**
 * Makes an attempt at a write: `once` reads, decides and sends one batch. While the batch fails because another write came first,
 * the attempt is made again; later ones wait longer, each call differently. Other errors are thrown, and `temporarily_unavailable`
 * after 64 attempts.
 */
export async function attempt<Answer>({ newId }: Pick<Runtime, "newId">, once: () => Promise<Answer>): Promise<Answer> {
  let nonce = "";
  for (let count = 1; ; count++) {
    try {
      return await once();
    } catch (error) {
      if (!isConflict(error)) throw error;
      if (count === ATTEMPTS_MAX)
        throw temporarilyUnavailable("Too many writes at the same time. Try again shortly.", error);
    }
    if (count < ATTEMPTS_WITHOUT_PAUSE) continue;
    if (nonce === "") nonce = newId("");
    await scheduler.wait(pauseMs(nonce, count));
  }
}

/** How long to wait. `nonce`, random characters, spreads the attempts of calls that met. */
function pauseMs(nonce: string, count: number): number {
  const first = nonce.charCodeAt(count % nonce.length);
  const second = nonce.charCodeAt((count * 7 + 3) % nonce.length);
  const spread = ((first * 131 + second * 17) % 997) / 997;
  return Math.ceil(spread * Math.min(PAUSE_MS_MAX, 4 * 2 ** count));
}
