import { fragment, type Statement, statement } from "../db/sql.ts";
import { ids, openIds, type Page, rowsOfIds, rowsSql } from "./ids-of-page.ts";
import { booksOfPage, closePage, isInBooks, ledgerPage } from "./page-of-books.ts";

/** Payments that name the person: those of its balances, and those that granted nothing yet. */
const paymentPage = fragment`(SELECT r.payment_id FROM ${rowsOfIds("payment_facts", "user_id")} LIMIT ${rowsSql})`;
// The reason stays: the same event sent again does not bring the customer back. Nor does one that read the payment before.
const asErased = fragment`customer = NULL, settled_by = NULL, version = version + 1,
  reason = iif(status = 'unmatched', 'person_erased', NULL)`;
const erasePayments = statement<Page>`
  UPDATE payments SET ${asErased} WHERE environment_id = :environmentId AND id IN (
    SELECT * FROM ${paymentPage} UNION
    SELECT g.payment_id FROM ${ledgerPage} CROSS JOIN payment_grants AS g
    WHERE r.reason = 'grant' AND g.balance_id = r.balance_id
  )`;
/** A payment restores nothing of what an erasure closes (S4). */
const eraseGrants = statement<Page>`
  UPDATE payment_grants SET is_revoked = 0 WHERE is_revoked = 1 AND balance_id IN (
    SELECT r.balance_id FROM ${ledgerPage} WHERE r.reason = 'grant'
  )`;
const eraseFacts = statement<Page>`
  UPDATE payment_facts SET user_id = NULL
  WHERE environment_id = :environmentId AND user_id IS NOT NULL AND payment_id IN ${paymentPage}`;
/** A debt ends with its user (S6). */
const endDebts = statement<Page>`
  UPDATE payment_debts INDEXED BY payment_debts_of SET customer = NULL, amount = 0
  WHERE environment_id = :environmentId AND customer IS NOT NULL AND account_id IN (SELECT account_id FROM ${openIds})`;
/** Those that wait for somebody to say whose their customer is. */
const erasePaymentCustomers = statement<Page>`
  UPDATE payments INDEXED BY payments_customer SET ${asErased}
  WHERE environment_id = :environmentId AND status = 'unmatched' AND customer IN (
    SELECT r.customer FROM ${rowsOfIds("stripe_customers", "user_id")}
  )`;

/** `by` names the index where the ids are not the primary key: SQLite would read all rows of the environment. */
const deleteOfIds = (table: string, column = "distinct_id", by = "") => statement<Page>`
  DELETE FROM ${table} ${by} WHERE environment_id = :environmentId AND ${column} IN (SELECT distinct_id FROM ${ids})`;

const deleteEvents = statement<Page>`
  DELETE FROM analytics_events WHERE rowid IN (SELECT r.rowid FROM ${rowsOfIds("analytics_events")} LIMIT ${rowsSql})`;

/** A message that names the person goes, also where it was not delivered yet. */
const messagePage = fragment`(SELECT r.id FROM ${rowsOfIds("webhook_messages", "subject")} LIMIT ${rowsSql})`;
const deleteDeliveries = statement<Page>`
  DELETE FROM webhook_deliveries WHERE (endpoint_id, message_id) IN (
    SELECT e.id, r.id FROM ${messagePage} AS r
    CROSS JOIN webhook_endpoints AS e WHERE e.environment_id = :environmentId
  )`;
const deleteMessages = statement<Page>`DELETE FROM webhook_messages WHERE id IN ${messagePage}`;

const keepsConsent = fragment`(
  SELECT keep_consent FROM erasures WHERE environment_id = :environmentId AND id = :erasureId
)`;
const deleteConsent = statement<Page>`
  DELETE FROM consent_log WHERE NOT ${keepsConsent} AND (environment_id, distinct_id, seq) IN (
    SELECT r.environment_id, r.distinct_id, r.seq FROM ${rowsOfIds("consent_log")} LIMIT ${rowsSql}
  )`;

/** Moves an id's rows under its hash, after what is there already, from an erasure that was lifted. */
const moveRows = (table: string, when: string) => statement<Page>`
  UPDATE ${table} SET distinct_id = p.hash, seq = p.base + seq FROM (
    SELECT i.environment_id AS of, i.distinct_id AS own, i.hash, r.seq AS old_seq, coalesce((
      SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.hash ORDER BY seq DESC LIMIT 1
    ), 0) + 1 - (
      SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id ORDER BY seq LIMIT 1
    ) AS base
    FROM ${rowsOfIds(table)} WHERE ${when} ORDER BY i.position, r.seq LIMIT ${rowsSql}
  ) AS p WHERE environment_id = p.of AND distinct_id = p.own AND seq = p.old_seq`;

const endClaims = statement<Page>`
  UPDATE distinct_ids SET claimed_by = NULL, claimed_via = NULL, claimed_at_ms = NULL, claim_version = claim_version + 1
  WHERE environment_id = :environmentId AND claim_is_verified = 0 AND distinct_id IN (
    SELECT r.distinct_id FROM ${rowsOfIds("distinct_ids", "claimed_by")} LIMIT ${rowsSql}
  )`;

/** What is deleted, moved or emptied row by row, so that a page may leave some of it. */
const LEFT = [
  ["analytics_events", "distinct_id"],
  ["consent_log", "distinct_id"],
  ["export_audit", "distinct_id"],
  ["webhook_messages", "subject"],
  ["payment_facts", "user_id"],
  ["distinct_ids", "claimed_by"],
].map(
  ([table, column]) =>
    `EXISTS (SELECT 1 FROM ${table} WHERE environment_id = i.environment_id AND ${column} = i.distinct_id)`,
);

const finishIds = statement<Page>`
  UPDATE erasure_ids SET is_done = 1 WHERE (environment_id, erasure_id, position) IN (
    SELECT i.environment_id, i.erasure_id, i.position FROM ${ids} AS i
    WHERE i.is_done = 0 AND NOT (${LEFT.join(" OR ")} OR (i.account_id IS NOT NULL AND ${isInBooks}))
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

const PAGE = [
  ...booksOfPage,
  erasePayments,
  eraseGrants,
  eraseFacts,
  endDebts,
  closePage,
  deleteEvents,
  deleteOfIds("id_properties"),
  erasePaymentCustomers,
  deleteOfIds("stripe_customers", "user_id", "INDEXED BY stripe_customers_user"),
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

/**
 * The statements of one page, in their order: each does a part of what is left. What is done is recognised by its rows, and by
 * the seqs in `erasure_ids`. So a page may be sent again, and two may be under way at once.
 */
export function pageStatements(page: Page): Statement[] {
  return PAGE.map((statementOf) => statementOf(page));
}
