import { fragment, statement } from "../db/sql.ts";
import { openIds, type Page, rowsSql } from "./ids-of-page.ts";

const lastSeq = (table: string, order: string): string =>
  fragment`coalesce((SELECT seq FROM ${table} WHERE account_id = i.account_id ORDER BY ${order} LIMIT 1), 0)`;
const lastLedger = lastSeq("credit_ledger", "seq DESC");
const lastUsage = lastSeq("usage_events", "occurred_by_ms DESC, seq DESC");

/** Takes so many rows of the accounts at hand into the page, of one account after another. */
const take = (name: string, last: string) => statement<Page>`
  UPDATE erasure_ids SET ${name}_to = p.up_to FROM (
    SELECT account_id, ${name}_from + max(0, min(todo, ${rowsSql} - before)) AS up_to FROM (
      SELECT *, sum(todo) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) - todo AS before
      FROM (SELECT i.*, ${last} - i.${name}_from AS todo FROM ${openIds} AS i)
    )
  ) AS p WHERE erasure_ids.account_id = p.account_id`;

/** The time that leads the primary key of usage events never falls as seq grows. */
const takeUsageTimes = statement<Page>`
  UPDATE erasure_ids SET usage_to_ms = (
    SELECT u.occurred_by_ms FROM usage_events AS u
    WHERE u.account_id = erasure_ids.account_id
      AND (u.occurred_by_ms, u.seq) > (erasure_ids.usage_from_ms, erasure_ids.usage_from) AND u.seq = erasure_ids.usage_to
    LIMIT 1
  ) WHERE usage_to > usage_from AND account_id IN (SELECT account_id FROM ${openIds})`;

const byLedgerSeq = (table: string): string => fragment`${openIds} AS i CROSS JOIN ${table} AS r
  ON r.account_id = i.account_id AND r.seq > i.ledger_from AND r.seq <= i.ledger_to`;
/** SQL: the ledger entries `r` of the page. */
export const ledgerPage = byLedgerSeq("credit_ledger");
const usagePage = fragment`${openIds} AS i CROSS JOIN usage_events AS r
  ON r.account_id = i.account_id AND (r.occurred_by_ms, r.seq) > (i.usage_from_ms, i.usage_from)
    AND (r.occurred_by_ms, r.seq) <= (i.usage_to_ms, i.usage_to)`;
const reservationPage = fragment`(
    SELECT r.* FROM ${openIds} AS i CROSS JOIN reservations AS r INDEXED BY reservations_settled
      ON r.account_id = i.account_id AND r.state <> 'open' AND r.request_hash <> ''
    LIMIT ${rowsSql}
  ) AS r`;

/** A table of the books: its key, its rows `r` in the page, what is emptied in them, and which columns hold an id. */
type Book = readonly [table: string, key: string, page: string, emptied: string, ids: readonly string[]];

const ofEvent = ["event_id", "reservation_id"];
const usageKey = "account_id, occurred_by_ms, seq";
const ledger: Book = ["credit_ledger", "account_id, seq", ledgerPage, "note = NULL", ofEvent];
const adjustments: Book = [
  "credit_adjustments",
  "environment_id, id",
  byLedgerSeq("credit_adjustments"),
  "request_hash = ''",
  ["id"],
];
const usage: Book = [
  "usage_events",
  usageKey,
  usagePage,
  "request_hash = '', properties = NULL, large_properties_bytes = NULL",
  ofEvent,
];
const reservations: Book = [
  "reservations",
  "environment_id, id",
  reservationPage,
  "request_hash = ''",
  ["id", "settled_event_id"],
];

/** SQL: from the pair of an account's name. */
export const namesOf = (account: string, kind: string, name: string): string =>
  fragment`FROM erasure_names WHERE account_id = ${account} AND kind = '${kind}' AND old_name = ${name}`;

/** SQL: gives a column its new name, if it has one. */
export const newName = (table: string, column: string, kind: string): string =>
  fragment`${column} = (SELECT new_name ${namesOf(`${table}.account_id`, kind, `${table}.${column}`)})`;

/** Gives each id in a page a random one. An id that is another's too, as that of a charge (U15), keeps being it. */
const nameIds = ([, , page, , columns]: Book) => statement<Page>`
  INSERT INTO erasure_names (account_id, kind, old_name, new_name)
  SELECT account_id, 'id', name, iif(name GLOB 'res_*', 'res_', '') || lower(hex(randomblob(16))) FROM (
    SELECT DISTINCT r.account_id, n.value AS name
    FROM ${page} CROSS JOIN json_each(json_array(${columns.map((column) => `r.${column}`).join()})) AS n
    WHERE n.value IS NOT NULL
  ) AS n WHERE NOT EXISTS (SELECT 1 ${namesOf("n.account_id", "id", "n.name")})`;

const eraseBook = ([table, key, page, emptied, columns]: Book, when = "1") => statement<Page>`
  UPDATE ${table} SET ${[emptied, ...columns.map((column) => newName(table, column, "id"))].join()}
  WHERE (${key}) IN (SELECT r.${key.replaceAll(", ", ", r.")} FROM ${page} WHERE ${when})`;

const eraseNotes = statement<Page>`
  UPDATE credit_balances SET notes = NULL WHERE notes IS NOT NULL AND (account_id, grant_seq) IN (
    SELECT r.account_id, r.seq FROM ${ledgerPage} WHERE r.reason = 'grant'
  )`;
// After their events were changed, which say no more that they have them.
const deleteLargeProperties = statement<Page>`
  DELETE FROM large_properties WHERE (${usageKey}) IN (
    SELECT r.account_id, r.occurred_by_ms, r.seq FROM ${usagePage}
  )`;

/** The statements that take names and texts out of the books, in their order. */
export const booksOfPage = [
  take("ledger", lastLedger),
  take("usage", lastUsage),
  takeUsageTimes,
  ...[ledger, adjustments, usage, reservations].map(nameIds),
  eraseNotes,
  eraseBook(ledger, "r.note IS NOT NULL OR r.event_id IS NOT NULL OR r.reservation_id IS NOT NULL"),
  eraseBook(adjustments),
  eraseBook(usage),
  deleteLargeProperties,
  eraseBook(reservations),
];

/** What was taken is done. It follows when nothing else needs the page of the ledger. */
export const closePage = statement<Page>`
  UPDATE erasure_ids SET ledger_from = ledger_to, usage_from = usage_to, usage_from_ms = usage_to_ms
  WHERE account_id IN (SELECT account_id FROM ${openIds})`;

/** SQL: whether the reference of a balance `r` is one that a caller gave. Payments keep theirs. */
export const isGiven = fragment`r.external_ref NOT GLOB 'stripe:*' AND NOT EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = r.account_id AND kind = 'reference' AND new_name = r.external_ref
  )`;

const has = (table: string, condition: string): string =>
  fragment`EXISTS (SELECT 1 FROM ${table} AS r WHERE r.account_id = i.account_id AND ${condition})`;

/** SQL: whether the books of an account `i` still have something that names somebody. */
export const isInBooks = `(${[
  `i.ledger_from < ${lastLedger}`,
  `i.usage_from < ${lastUsage}`,
  has("reservations", "r.state = 'open'"),
  has("reservations", "r.state <> 'open' AND r.request_hash <> ''"),
  has("credit_balances", "r.revoked_at_ms IS NULL"),
  has("credit_refunds", "r.request_hash <> ''"),
  has("credit_balances", isGiven),
].join(" OR ")})`;
