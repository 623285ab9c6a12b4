import { fragment, type Statement, statement } from "../db/sql.ts";
import type { ErasureKey } from "./ids.ts";

/**
 * One page of an erasure: statements that each do a part of what is left, about the last `IDS_OF_PAGE` ids, and at most `rows`
 * rows each. What is done is recognised by its rows, and by the seqs in `erasure_ids`. So a page may be sent again, and two may be
 * under way at once.
 */
type Page = ErasureKey & { rows: number };

const IDS_OF_PAGE = 200;
const rowsSql = "CAST(:rows AS INTEGER)";

/** The ids at hand: those that were found last, so that an id leaves after all that it claims. */
const ids = fragment`(
  SELECT * FROM erasure_ids WHERE environment_id = :environmentId AND erasure_id = :erasureId
  ORDER BY position DESC LIMIT ${`${IDS_OF_PAGE}`}
)`;
export const openIds = fragment`(SELECT * FROM ${ids} WHERE account_id IS NOT NULL AND is_done = 0)`;

const lastSeq = (table: string, order: string): string =>
  fragment`coalesce((SELECT seq FROM ${table} WHERE account_id = i.account_id ORDER BY ${order} LIMIT 1), 0)`;
const lastLedger = lastSeq("credit_ledger", "seq DESC");
const lastUsage = lastSeq("usage_events", "occurred_by_ms DESC, seq DESC");

/** Takes so many rows of the accounts at hand into the page, of one account after another. */
const take = (name: string, last: string): string => fragment`
  UPDATE erasure_ids SET ${name}_to = p.up_to FROM (
    SELECT account_id, ${name}_from + max(0, min(todo, ${rowsSql} - before)) AS up_to FROM (
      SELECT *, sum(todo) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) - todo AS before
      FROM (SELECT i.*, ${last} - i.${name}_from AS todo FROM ${openIds} AS i)
    )
  ) AS p WHERE erasure_ids.account_id = p.account_id`;

const takeLedger = statement<Page>`${take("ledger", lastLedger)}`;
const takeUsage = statement<Page>`${take("usage", lastUsage)}`;
/** The time that leads the primary key of usage events never falls as seq grows. */
const takeUsageTimes = statement<Page>`
  UPDATE erasure_ids SET usage_to_ms = (
    SELECT u.occurred_by_ms FROM usage_events AS u
    WHERE u.account_id = erasure_ids.account_id
      AND (u.occurred_by_ms, u.seq) > (erasure_ids.usage_from_ms, erasure_ids.usage_from) AND u.seq = erasure_ids.usage_to
    LIMIT 1
  ) WHERE usage_to > usage_from AND account_id IN (SELECT account_id FROM ${openIds})`;

const ledgerPage = fragment`${openIds} AS i CROSS JOIN credit_ledger AS r
  ON r.account_id = i.account_id AND r.seq > i.ledger_from AND r.seq <= i.ledger_to`;
const usagePage = fragment`${openIds} AS i CROSS JOIN usage_events AS r
  ON r.account_id = i.account_id AND (r.occurred_by_ms, r.seq) > (i.usage_from_ms, i.usage_from)
    AND (r.occurred_by_ms, r.seq) <= (i.usage_to_ms, i.usage_to)`;
const adjustmentPage = fragment`${openIds} AS i CROSS JOIN credit_adjustments AS r
  ON r.account_id = i.account_id AND r.seq > i.ledger_from AND r.seq <= i.ledger_to`;
const reservationPage = fragment`(
    SELECT r.* FROM ${openIds} AS i CROSS JOIN reservations AS r INDEXED BY reservations_settled
      ON r.account_id = i.account_id AND r.state <> 'open' AND r.request_hash <> ''
    LIMIT ${rowsSql}
  ) AS r`;

/** Gives each id in a page a random one. An id that is another's too, as that of a charge (U15), keeps being it. */
const nameIds = (...names: readonly (readonly [column: string, page: string])[]) => statement<Page>`
  INSERT INTO erasure_names (account_id, kind, old_name, new_name)
  SELECT account_id, 'id', name, iif(name GLOB 'res_*', 'res_', '') || lower(hex(randomblob(16))) FROM (
    ${names.map(([column, page]) => `SELECT r.account_id AS account_id, r.${column} AS name FROM ${page}`).join(" UNION ")}
  ) AS n
  WHERE name IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = n.account_id AND kind = 'id' AND old_name = n.name
  )`;

const nameLedgerIds = nameIds(["event_id", ledgerPage], ["reservation_id", ledgerPage], ["id", adjustmentPage]);
const nameUsageIds = nameIds(["event_id", usagePage], ["reservation_id", usagePage]);
const nameReservations = nameIds(["id", reservationPage], ["settled_event_id", reservationPage]);

const newName = (table: string, column: string, kind = "id"): string => fragment`${column} = (
    SELECT new_name FROM erasure_names
    WHERE account_id = ${table}.account_id AND kind = '${kind}' AND old_name = ${table}.${column}
  )`;

const eraseLedger = statement<Page>`
  UPDATE credit_ledger SET note = NULL, ${newName("credit_ledger", "event_id")}, ${newName("credit_ledger", "reservation_id")}
  WHERE (account_id, seq) IN (
    SELECT r.account_id, r.seq FROM ${ledgerPage}
    WHERE r.note IS NOT NULL OR r.event_id IS NOT NULL OR r.reservation_id IS NOT NULL
  )`;
const eraseNotes = statement<Page>`
  UPDATE credit_balances SET notes = NULL WHERE notes IS NOT NULL AND (account_id, grant_seq) IN (
    SELECT r.account_id, r.seq FROM ${ledgerPage} WHERE r.reason = 'grant'
  )`;
const eraseAdjustments = statement<Page>`
  UPDATE credit_adjustments SET request_hash = '', ${newName("credit_adjustments", "id")}
  WHERE (environment_id, id) IN (SELECT r.environment_id, r.id FROM ${adjustmentPage})`;
const eraseUsage = statement<Page>`
  UPDATE usage_events SET properties = NULL, large_properties_bytes = NULL, request_hash = '', ${newName("usage_events", "event_id")},
    ${newName("usage_events", "reservation_id")}
  WHERE (account_id, occurred_by_ms, seq) IN (SELECT r.account_id, r.occurred_by_ms, r.seq FROM ${usagePage})`;
// After their events were changed, which say no more that they have them.
const deleteLargeProperties = statement<Page>`
  DELETE FROM large_properties WHERE (account_id, occurred_by_ms, seq) IN (
    SELECT r.account_id, r.occurred_by_ms, r.seq FROM ${usagePage}
  )`;
const eraseReservations = statement<Page>`
  UPDATE reservations SET request_hash = '', ${newName("reservations", "id")}, ${newName("reservations", "settled_event_id")}
  WHERE (environment_id, id) IN (SELECT r.environment_id, r.id FROM ${reservationPage})`;

const closePage = statement<Page>`
  UPDATE erasure_ids SET ledger_from = ledger_to, usage_from = usage_to, usage_from_ms = usage_to_ms
  WHERE account_id IN (SELECT account_id FROM ${openIds})`;

const ofId = (table: string) => fragment`${table} AS r
  ON r.environment_id = i.environment_id AND r.distinct_id = i.distinct_id`;

const deleteEvents = statement<Page>`
  DELETE FROM analytics_events WHERE rowid IN (
    SELECT r.rowid FROM ${ids} AS i CROSS JOIN ${ofId("analytics_events")} LIMIT ${rowsSql}
  )`;
const deleteOfIds = (table: string, column = "distinct_id") => statement<Page>`
  DELETE FROM ${table} WHERE environment_id = :environmentId AND ${column} IN (SELECT distinct_id FROM ${ids})`;
const keepsConsent = fragment`(
  SELECT keep_consent FROM erasures WHERE environment_id = :environmentId AND id = :erasureId
)`;
/** A message that names the person goes, also where it was not delivered yet. */
const messagePage = fragment`${ids} AS i CROSS JOIN webhook_messages AS r INDEXED BY webhook_messages_subject
  ON r.environment_id = i.environment_id AND r.subject = i.distinct_id AND r.subject IS NOT NULL`;
const deleteDeliveries = statement<Page>`
  DELETE FROM webhook_deliveries WHERE (endpoint_id, message_id) IN (
    SELECT e.id, r.id FROM (SELECT r.id FROM ${messagePage} LIMIT ${rowsSql}) AS r
    CROSS JOIN webhook_endpoints AS e WHERE e.environment_id = :environmentId
  )`;
const deleteMessages = statement<Page>`
  DELETE FROM webhook_messages WHERE id IN (SELECT r.id FROM ${messagePage} LIMIT ${rowsSql})`;
/** Payments that name the person: those of its balances, and those that granted nothing yet. */
const paymentPage = fragment`(
    SELECT r.environment_id, r.payment_id FROM ${ids} AS i CROSS JOIN payment_facts AS r INDEXED BY payment_facts_user
    WHERE r.environment_id = i.environment_id AND r.user_id = i.distinct_id AND r.user_id IS NOT NULL LIMIT ${rowsSql}
  )`;
// The reason stays: the same event sent again does not bring the customer back.
const asErased = fragment`customer = NULL, settled_by = NULL, reason = iif(status = 'unmatched', 'person_erased', NULL)`;
const erasePayments = statement<Page>`
  UPDATE payments SET ${asErased} WHERE (environment_id, id) IN (
    SELECT * FROM ${paymentPage} UNION
    SELECT g.environment_id, g.payment_id FROM ${ledgerPage} CROSS JOIN payment_grants AS g
    WHERE r.reason = 'grant' AND g.balance_id = r.balance_id
  )`;
/** Those that wait for somebody to say whose their customer is. */
const erasePaymentCustomers = statement<Page>`
  UPDATE payments SET ${asErased}
  WHERE environment_id = :environmentId AND status = 'unmatched' AND customer IN (
    SELECT c.customer FROM ${ids} AS i CROSS JOIN stripe_customers AS c
    ON c.environment_id = i.environment_id AND c.user_id = i.distinct_id
  )`;
/** A payment restores nothing of what an erasure closes (S4). */
const eraseGrants = statement<Page>`
  UPDATE payment_grants SET is_revoked = 0 WHERE is_revoked = 1 AND balance_id IN (
    SELECT r.balance_id FROM ${ledgerPage} WHERE r.reason = 'grant'
  )`;
const eraseFacts = statement<Page>`
  UPDATE payment_facts SET user_id = NULL WHERE user_id IS NOT NULL AND (environment_id, payment_id) IN (SELECT * FROM ${paymentPage})`;
const deleteConsent = statement<Page>`
  DELETE FROM consent_log WHERE NOT ${keepsConsent} AND (environment_id, distinct_id, seq) IN (
    SELECT r.environment_id, r.distinct_id, r.seq FROM ${ids} AS i CROSS JOIN ${ofId("consent_log")} LIMIT ${rowsSql}
  )`;

/** Moves an id's rows under its hash, after what is there already, from an erasure that was lifted. */
const moveRows = (table: string, when: string) => statement<Page>`
  UPDATE ${table} SET distinct_id = p.hash, seq = p.base + seq FROM (
    SELECT i.distinct_id AS own, i.hash, r.seq AS old_seq, coalesce((
      SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.hash ORDER BY seq DESC LIMIT 1
    ), 0) + 1 - (
      SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id ORDER BY seq LIMIT 1
    ) AS base
    FROM ${ids} AS i CROSS JOIN ${ofId(table)} WHERE ${when} ORDER BY i.position, r.seq LIMIT ${rowsSql}
  ) AS p WHERE environment_id = :environmentId AND distinct_id = p.own AND seq = p.old_seq`;

const endClaims = statement<Page>`
  UPDATE distinct_ids SET claimed_by = NULL, claimed_via = NULL, claimed_at_ms = NULL, claim_version = claim_version + 1
  WHERE environment_id = :environmentId AND claim_is_verified = 0 AND distinct_id IN (
    SELECT r.distinct_id FROM ${ids} AS i CROSS JOIN distinct_ids AS r INDEXED BY distinct_ids_claimed_by
    WHERE r.environment_id = i.environment_id AND r.claimed_by = i.distinct_id AND r.claimed_by IS NOT NULL LIMIT ${rowsSql}
  )`;

/** SQL: whether the books of an account still have something that names somebody. */
const isInBooks = fragment`(
    i.ledger_from < ${lastLedger} OR i.usage_from < ${lastUsage}
    OR EXISTS (SELECT 1 FROM reservations WHERE account_id = i.account_id AND state = 'open')
    OR EXISTS (SELECT 1 FROM reservations WHERE account_id = i.account_id AND state <> 'open' AND request_hash <> '')
    OR EXISTS (SELECT 1 FROM credit_balances WHERE account_id = i.account_id AND revoked_at_ms IS NULL)
    OR EXISTS (SELECT 1 FROM credit_refunds WHERE account_id = i.account_id AND request_hash <> '')
    OR EXISTS (SELECT 1 FROM credit_balances AS r WHERE r.account_id = i.account_id AND ${`r.external_ref`} IS NOT NULL
      AND ${isPlainSql("r.external_ref")})
  )`;

/** SQL: whether a reference of an account `i` is one that a caller gave. Payments keep theirs. */
export function isPlainSql(reference: string): string {
  return fragment`${reference} NOT GLOB 'stripe:*' AND NOT EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = i.account_id AND kind = 'reference' AND new_name = ${reference}
  )`;
}

const isLeft = ["analytics_events", "consent_log", "export_audit"]
  .map(
    (table) =>
      `EXISTS (SELECT 1 FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id)`,
  )
  .join(" OR ");

const isInMessages = fragment`EXISTS (
    SELECT 1 FROM webhook_messages WHERE environment_id = i.environment_id AND subject = i.distinct_id AND subject IS NOT NULL
  )`;

const isInPayments = fragment`EXISTS (
    SELECT 1 FROM payment_facts WHERE environment_id = i.environment_id AND user_id = i.distinct_id AND user_id IS NOT NULL
  )`;

const finishIds = statement<Page>`
  UPDATE erasure_ids SET is_done = 1 WHERE (environment_id, erasure_id, position) IN (
    SELECT i.environment_id, i.erasure_id, i.position FROM ${ids} AS i
    WHERE i.is_done = 0 AND NOT (${isLeft} OR ${isInMessages} OR ${isInPayments} OR EXISTS (
      SELECT 1 FROM distinct_ids INDEXED BY distinct_ids_claimed_by
      WHERE environment_id = i.environment_id AND claimed_by = i.distinct_id AND claimed_by IS NOT NULL
    ) OR (i.account_id IS NOT NULL AND ${isInBooks}))
  )`;

const deleteNames = statement<Page>`
  DELETE FROM erasure_names WHERE (account_id, kind, old_name) IN (
    SELECT r.account_id, r.kind, r.old_name
    FROM (SELECT account_id FROM ${ids} WHERE is_done = 1) AS i CROSS JOIN erasure_names AS r ON r.account_id = i.account_id
    LIMIT ${rowsSql}
  )`;
const deleteIds = statement<Page>`
  DELETE FROM erasure_ids WHERE (environment_id, erasure_id, position) IN (
    SELECT environment_id, erasure_id, position FROM ${ids} AS i
    WHERE is_done = 1 AND NOT EXISTS (SELECT 1 FROM erasure_names WHERE account_id = i.account_id)
  )`;

/** The statements of a page, in their order. */
const PAGE = [
  takeLedger,
  takeUsage,
  takeUsageTimes,
  nameLedgerIds,
  nameUsageIds,
  nameReservations,
  eraseNotes,
  eraseLedger,
  eraseAdjustments,
  eraseUsage,
  deleteLargeProperties,
  eraseReservations,
  erasePayments,
  eraseGrants,
  eraseFacts,
  closePage,
  deleteEvents,
  deleteOfIds("id_properties"),
  erasePaymentCustomers,
  deleteOfIds("stripe_customers", "user_id"),
  deleteOfIds("refusals", "user_id"),
  deleteDeliveries,
  deleteMessages,
  deleteConsent,
  moveRows("consent_log", keepsConsent),
  moveRows("export_audit", "1"),
  endClaims,
  deleteOfIds("distinct_ids"),
  finishIds,
  deleteNames,
  deleteIds,
];

export function pageStatements(key: ErasureKey, rows: number): Statement[] {
  return PAGE.map((statementOf) => statementOf({ ...key, rows }));
}
