import { PurserError, temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";

/**
 * The constraints that the code handles, and the text of their errors. CHECKs and triggers report their name, a UNIQUE index
 * reports its columns.
 */
const CONSTRAINT_ERRORS = {
  admin_audit_seq_gapless: "admin_audit_seq_gapless",
  credit_balances_remaining_not_negative: "credit_balances_remaining_not_negative",
  credit_balances_remaining_within_bounds: "credit_balances_remaining_within_bounds",
  credit_balances_external_ref: "credit_balances_external_ref",
  credit_balances_id: "credit_balances_id",
  credit_balances_revoked_once: "credit_balances_revoked_once",
  credit_balances_revoked: "credit_balances_revoked",
  credit_balances_bounded: "credit_balances_bounded",
  credit_balances_of_reference_bounded: "credit_balances_of_reference_bounded",
  clock_kept: "clock_kept",
  guard_account: "guard_account",
  guard_balance: "guard_balance",
  guard_environment: "guard_environment",
  guard_key: "guard_key",
  guard_link: "guard_link",
  guard_origin: "guard_origin",
  guard_owed: "guard_owed",
  guard_payment: "guard_payment",
  guard_people: "guard_people",
  guard_person: "guard_person",
  guard_statement: "guard_statement",
  guard_tombstones: "guard_tombstones",
  erasures_kept: "erasures_kept",
  erasure_ids_kept: "erasure_ids_kept",
  tombstones_stand: "tombstones_stand",
  tombstones_being_erased: "tombstones_being_erased",
  credit_adjustments_primary_key: "credit_adjustments_primary_key",
  payment_names_taken: "payment_names_taken",
  stripe_payers_key: "stripe_payers_key",
  limit_events: "limit_events",
  limit_bytes: "limit_bytes",
  limit_consents: "limit_consents",
  limit_space: "limit_space",
  limit_share: "limit_share",
  limit_unmarked_events: "limit_unmarked_events",
  limit_unmarked_bytes: "limit_unmarked_bytes",
  limit_id_events: "limit_id_events",
  limit_id_bytes: "limit_id_bytes",
  credit_refunds_gapless: "credit_refunds_gapless",
  credit_ledger_seq_gapless: "credit_ledger_seq_gapless",
  credit_ledger_follows_balance: "credit_ledger_follows_balance",
  environments_test_quota: "environments_test_quota",
  credit_packs_version: "credit_packs_version",
  credit_packs_name_key: "credit_packs.app_id, credit_packs.name_key",
  usage_events_event_id: "usage_events_event_id",
  // A write sets this column to null when an event has a hash of the id (ME6).
  usage_events_hashed_id: "usage_events.event_id",
  usage_events_seq_gapless: "usage_events_seq_gapless",
  usage_events_member_known: "usage_events_member_known",
  reservations_member_known: "reservations_member_known",
  recurring_grants_id: "recurring_grants_id",
  recurring_grants_bounded: "recurring_grants_bounded",
  recurring_grants_in_order: "recurring_grants_in_order",
  // A write sets this column to an invalid number when the recurring grant has changed since it was read.
  guard_recurring: "recurring_grants.last_n",
  reservations_id: "reservations_id",
  // Likewise.
  reservations_hashed_id: "reservations.id",
  reservations_settled_once: "reservations_settled_once",
  reservations_state: "reservations_state",
  reservations_end_not_earlier: "reservations_end_not_earlier",
  distinct_ids_claim_version: "distinct_ids_claim_version",
  distinct_ids_claims_made: "distinct_ids_claims_made",
  distinct_ids_no_circle: "distinct_ids_no_circle",
  id_properties_version: "id_properties_version",
  consent_log_seq_gapless: "consent_log_seq_gapless",
  export_audit_seq_gapless: "export_audit_seq_gapless",
  usage_summed_once: "usage_summed_once",
  usage_counters_window: "usage_counters_window",
  usage_limit_reached: "usage_limit_reached",
  usage_limits_name_key: "usage_limits.environment_id, usage_limits.name_key",
  webhook_endpoints_limit: "webhook_endpoints_limit",
} as const;

export type Constraint = keyof typeof CONSTRAINT_ERRORS;

/** Returns the constraint that an error of D1 reports. Null for any other error. */
export function findConstraint(error: unknown): Constraint | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (!cause.message.includes("SQLITE_CONSTRAINT")) continue;
    // `createAccount` rejects by inserting an account without an environment.
    if (cause.message.includes("accounts.environment_id")) return "guard_environment";
    for (const [name, words] of Object.entries(CONSTRAINT_ERRORS)) {
      if (cause.message.includes(words)) return name as Constraint;
    }
  }
  return null;
}

/** The constraints that fail when another write came first: a write after this one's read, or a write with the same id. */
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
  "usage_events_member_known",
  "reservations_member_known",
  "distinct_ids_no_circle",
  "erasure_ids_kept",
  "erasures_kept",
  "id_properties_version",
  "payment_names_taken",
  "recurring_grants_id",
  "recurring_grants_in_order",
  "reservations_end_not_earlier",
  "reservations_hashed_id",
  "reservations_id",
  "reservations_settled_once",
  "reservations_state",
  "stripe_payers_key",
  "tombstones_being_erased",
  "tombstones_stand",
  "usage_counters_window",
  "usage_events_event_id",
  "usage_events_hashed_id",
  "usage_limit_reached",
  "usage_summed_once",
]);

const ATTEMPTS_MAX = 64;
/** The first repeats do not wait, because the other write is usually done. */
const ATTEMPTS_WITHOUT_PAUSE = 2;
const PAUSE_MS_MAX = 1_000;

/** The error to throw to repeat an attempt that no constraint rejected. */
export class RetryAttempt extends Error {}

/** Returns whether a write failed because another write came first. A rejection is never a conflict, whatever its cause. */
export function isConflict(error: unknown): boolean {
  return error instanceof RetryAttempt || (!(error instanceof PurserError) && CONFLICTS.has(findConstraint(error)));
}

/**
 * Makes an attempt at a write: `once` reads, decides and sends one batch. If the batch fails because another write came first,
 * calls `once` again; later repeats wait a random time that grows. Throws other errors, and `temporarily_unavailable` after
 * `attemptsMax` attempts.
 */
export async function attempt<Answer>(
  { newId }: Pick<Runtime, "newId">,
  once: () => Promise<Answer>,
  attemptsMax = ATTEMPTS_MAX,
): Promise<Answer> {
  let nonce = "";
  for (let count = 1; ; count++) {
    try {
      return await once();
    } catch (error) {
      if (!isConflict(error)) throw error;
      if (count === attemptsMax)
        throw temporarilyUnavailable("Too many writes at the same time. Try again shortly.", error);
    }
    if (count < ATTEMPTS_WITHOUT_PAUSE) continue;
    if (nonce === "") nonce = newId("");
    await scheduler.wait(pauseMs(nonce, count));
  }
}

/** Returns how long to wait. The random characters of `nonce` let conflicting calls wait different times. */
function pauseMs(nonce: string, count: number): number {
  const first = nonce.charCodeAt(count % nonce.length);
  const second = nonce.charCodeAt((count * 7 + 3) % nonce.length);
  const spread = ((first * 131 + second * 17) % 997) / 997;
  return Math.ceil(spread * Math.min(PAUSE_MS_MAX, 4 * 2 ** count));
}
