import { type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { assignments, drizzle, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import {
  adminAudit,
  creditAdjustments,
  creditBalances,
  creditLedger,
  creditRefunds,
  erasureIds,
  erasureNames,
  largeProperties,
  members,
  recurringGrants,
  reservations,
  usageDays,
  usageEvents,
} from "../db/schema.ts";
import { accountsWithOpenBooks, type ErasurePage, id, idsWithOpenAccounts, ofRow, rowsMax } from "./page-rows.ts";

type OfBooksPage = ValueOf<ErasurePage>;
/** A table of the books. */
type AccountTables = SQLiteTable & { readonly accountId: SQLiteColumn };

const lastSeq = (table: AccountTables & { readonly seq: SQLiteColumn }) => sql`coalesce((
  SELECT ${table.seq} FROM ${table} WHERE ${table.accountId} = ${id.accountId} ORDER BY ${table.seq} DESC LIMIT 1
), 0)`;
const lastLedger = () => lastSeq(creditLedger);
const lastUsage = () => lastSeq(usageEvents);

const pageEnds = alias(erasureIds, "ends");

/** Extends the page by the next rows of the current accounts, one account after another. */
const extendPage = (from: "ledgerFrom" | "usageFrom", to: "ledgerTo" | "usageTo", last: () => SQL) =>
  query(
    (value: OfBooksPage) => sql`
  UPDATE ${erasureIds} SET ${names(erasureIds[to])} = ends.upto FROM (
    SELECT ${id.accountId} AS ${names(id.accountId)}, ${id[from]} + max(0, min(todo, ${rowsMax(value)} - before)) AS upto FROM (
      SELECT *, sum(todo) OVER (ORDER BY ${id.position} ROWS UNBOUNDED PRECEDING) - todo AS before
      FROM (SELECT ${id}.*, ${last()} - ${id[from]} AS todo FROM ${idsWithOpenAccounts(value)}) AS ${id}
    ) AS ${id}
  ) AS ${pageEnds} WHERE ${erasureIds.accountId} = ${pageEnds.accountId}`,
  );

const byLedgerSeq = (table: typeof creditLedger | typeof creditAdjustments) => (value: OfBooksPage) =>
  sql`
  ${idsWithOpenAccounts(value)} CROSS JOIN ${table} AS r ON ${ofRow(table.accountId)} = ${id.accountId}
    AND ${ofRow(table.seq)} > ${id.ledgerFrom} AND ${ofRow(table.seq)} <= ${id.ledgerTo}`;
/** FROM: the ledger entries `r` of the page. */
export const erasedLedgerPage = byLedgerSeq(creditLedger);
const usagePage = (value: OfBooksPage) =>
  sql`${idsWithOpenAccounts(value)} CROSS JOIN ${usageEvents} AS r ON ${ofRow(usageEvents.accountId)} = ${id.accountId}
    AND ${ofRow(usageEvents.seq)} > ${id.usageFrom} AND ${ofRow(usageEvents.seq)} <= ${id.usageTo}`;
/** SQL: whether a reservation `r` has identifying values. An erasure of its member empties the fingerprint, but leaves the member. */
const isHoldNamed = () =>
  sql`(${ofRow(reservations.requestHash)} <> '' OR ${ofRow(reservations.memberNumber)} IS NOT NULL)`;
const erasedReservationPage = (value: OfBooksPage) => sql`(
    SELECT r.* FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${reservations} AS r
      ON ${ofRow(reservations.accountId)} = ${id.accountId} AND ${ofRow(reservations.state)} <> 'open' AND ${isHoldNamed()}
    LIMIT ${rowsMax(value)}
  ) AS r`;

/** A table whose rows an erasure keeps, without the values that identify the person. */
interface AccountTable {
  readonly table: AccountTables;
  readonly key: readonly SQLiteColumn[];
  /** FROM: the table's rows `r` in the page. */
  readonly page: (value: OfBooksPage) => SQL;
  /** SET: the columns to clear. */
  readonly cleared: () => SQL;
  /** The columns with an id of an event, a reservation or an adjustment. */
  readonly ids: readonly SQLiteColumn[];
}

const noHash = () => sql`''`;
const usageKey = [usageEvents.accountId, usageEvents.seq];
const ledger: AccountTable = {
  table: creditLedger,
  key: [creditLedger.accountId, creditLedger.seq],
  page: erasedLedgerPage,
  cleared: () => assignments(creditLedger, { note: sql`NULL` }),
  ids: [],
};
const adjustments: AccountTable = {
  table: creditAdjustments,
  key: [creditAdjustments.environmentId, creditAdjustments.id],
  page: byLedgerSeq(creditAdjustments),
  cleared: () => assignments(creditAdjustments, { requestHash: noHash() }),
  ids: [creditAdjustments.id],
};
const usage: AccountTable = {
  table: usageEvents,
  key: usageKey,
  page: usagePage,
  cleared: () =>
    assignments(usageEvents, {
      ...{ requestHash: noHash(), properties: sql`NULL`, largePropertiesBytes: sql`NULL` },
      memberNumber: sql`NULL`,
    }),
  ids: [usageEvents.eventId, usageEvents.reservationId],
};
const holds: AccountTable = {
  table: reservations,
  key: [reservations.accountId, reservations.reservationNumber],
  page: erasedReservationPage,
  cleared: () => assignments(reservations, { requestHash: noHash(), memberNumber: sql`NULL` }),
  ids: [reservations.id],
};

const recurringTable: AccountTable = {
  table: recurringGrants,
  key: [recurringGrants.accountId, recurringGrants.ordinal],
  page: (value) => sql`(
    SELECT r.* FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${recurringGrants} AS r
      ON ${ofRow(recurringGrants.accountId)} = ${id.accountId} AND ${ofRow(recurringGrants.requestHash)} <> ''
    LIMIT ${rowsMax(value)}
  ) AS r`,
  // Recurring grants end (E2).
  cleared: () =>
    assignments(recurringGrants, {
      requestHash: noHash(),
      state: sql`'ended'`,
      reason: sql`NULL`,
      nextAtMs: sql`NULL`,
      finalN: sql`-1`,
    }),
  ids: [recurringGrants.id],
};

type NameKind = typeof erasureNames.$inferSelect.kind;

/** FROM: an account's name and its replacement. */
export const erasureNamesOf = (account: SQL | SQLiteColumn, kind: NameKind, name: SQL | SQLiteColumn): SQL =>
  sql`FROM ${erasureNames} WHERE ${erasureNames.accountId} = ${account} AND ${erasureNames.kind} = ${kind}
    AND ${erasureNames.oldName} = ${name}`;

/** SQL: the replacement for the name in a column. Null when the column has no name. */
export const newName = (table: AccountTables, column: SQLiteColumn, kind: NameKind): SQL =>
  sql`(SELECT ${erasureNames.newName} ${erasureNamesOf(table.accountId, kind, column)})`;

const foundNames = alias(erasureNames, "found");

/** Gives each id in a page a random replacement. Equal ids, as those of a charge (U15), get the same replacement. */
const insertNewIds = ({ table, page, ids }: AccountTable) =>
  query((value: OfBooksPage) => {
    const namesOfPage = sql`
      SELECT DISTINCT ${ofRow(table.accountId)} AS ${names(foundNames.accountId)}, item.value AS ${names(foundNames.oldName)}
      FROM ${page(value)} CROSS JOIN json_each(json_array(${sql.join(ids.map(ofRow), sql`, `)})) AS item
      WHERE item.value IS NOT NULL`;
    return insertFrom(
      erasureNames,
      {
        accountId: foundNames.accountId,
        kind: sql`'id'`,
        oldName: foundNames.oldName,
        newName: sql`iif(${foundNames.oldName} GLOB 're[sc]_*', substr(${foundNames.oldName}, 1, 4), '') || lower(hex(randomblob(16)))`,
      },
      sql`FROM (${namesOfPage}) AS ${foundNames} WHERE NOT EXISTS (SELECT 1 ${erasureNamesOf(foundNames.accountId, "id", foundNames.oldName)})`,
    );
  });

const eraseTable = ({ table, key, page, cleared, ids }: AccountTable, when = () => sql`1`) =>
  query((value: OfBooksPage) => {
    const renamed = ids.map((column) => sql`${names(column)} = ${newName(table, column, "id")}`);
    return sql`UPDATE ${table} SET ${sql.join([cleared(), ...renamed], sql`, `)}
      WHERE (${names(...key)}) IN (SELECT ${sql.join(key.map(ofRow), sql`, `)} FROM ${page(value)} WHERE ${when()})`;
  });

const eraseNotes = query((value: OfBooksPage) =>
  drizzle
    .update(creditBalances)
    .set({ notes: null })
    .where(
      sql`${creditBalances.notes} IS NOT NULL AND (${creditBalances.accountId}, ${creditBalances.grantSeq}) IN (
      SELECT ${ofRow(creditLedger.accountId)}, ${ofRow(creditLedger.seq)} FROM ${erasedLedgerPage(value)}
      WHERE ${ofRow(creditLedger.reason)} = 'grant'
    )`,
    ),
);
// This runs after the statement that removes the events' references to their large properties.
const deleteLargeProperties = query((value: OfBooksPage) => {
  const { accountId, seq } = largeProperties;
  return drizzle.delete(largeProperties).where(
    sql`(${accountId}, ${seq}) IN (
      SELECT ${sql.join(usageKey.map(ofRow), sql`, `)} FROM ${usagePage(value)}
    )`,
  );
});

/** SQL: whether the target of an entry `r` of the audit of administration is an id that has a replacement. */
const isTargetNamed = () =>
  sql`EXISTS (SELECT 1 ${erasureNamesOf(ofRow(adminAudit.accountId), "id", ofRow(adminAudit.target))})`;
const eraseAuditTargets = query((value: OfBooksPage) => {
  const { accountId, appId, seq, target } = adminAudit;
  return drizzle
    .update(adminAudit)
    .set({ target: sql`(SELECT ${erasureNames.newName} ${erasureNamesOf(accountId, "id", target)})` })
    .where(
      sql`(${names(appId, seq)}) IN (
        SELECT ${ofRow(appId)}, ${ofRow(seq)} FROM ${idsWithOpenAccounts(value)}
        CROSS JOIN ${adminAudit} AS r INDEXED BY admin_audit_account
        ON ${ofRow(accountId)} = ${id.accountId} AND ${isTargetNamed()} LIMIT ${rowsMax(value)}
      )`,
    );
});

const hasNote = () => sql`${ofRow(creditLedger.note)} IS NOT NULL`;

/** The statements that remove names and texts from the books, in order. */
export const booksOfPage = [
  extendPage("ledgerFrom", "ledgerTo", lastLedger),
  extendPage("usageFrom", "usageTo", lastUsage),
  ...[adjustments, usage, holds, recurringTable].map(insertNewIds),
  eraseNotes,
  eraseTable(ledger, hasNote),
  eraseTable(adjustments),
  eraseTable(usage),
  deleteLargeProperties,
  eraseTable(holds),
  eraseTable(recurringTable),
  eraseAuditTargets,
];

/** Marks the page as processed. It runs after the last statement that reads the page of the ledger. */
export const closePage = query((value: OfBooksPage) => {
  const { accountId, ledgerTo, usageTo } = erasureIds;
  return drizzle
    .update(erasureIds)
    .set({ ledgerFrom: sql`${ledgerTo}`, usageFrom: sql`${usageTo}` })
    .where(sql`${accountId} IN ${accountsWithOpenBooks(value)}`);
});

/** SQL: whether a caller sent the reference of a balance `r`, and it is not hashed yet. References of payments are kept. */
export const isSentReference = (): SQL => {
  const [accountId, externalRef] = [ofRow(creditBalances.accountId), ofRow(creditBalances.externalRef)];
  return sql`${externalRef} NOT GLOB 'stripe:*' AND NOT EXISTS (
    SELECT 1 FROM ${erasureNames} WHERE ${erasureNames.accountId} = ${accountId}
      AND ${erasureNames.kind} = 'reference' AND ${erasureNames.newName} = ${externalRef}
  )`;
};

const hasRowOfAccount = (table: AccountTables, condition: SQL | undefined): SQL =>
  sql`EXISTS (SELECT 1 FROM ${table} AS r WHERE ${ofRow(table.accountId)} = ${id.accountId} AND ${condition})`;

/** SQL: whether the books of an account still contain identifying values. */
export const areBooksIdentifying = (): SQL => {
  const state = ofRow(reservations.state);
  return sql`(${sql.join(
    [
      sql`${id.ledgerFrom} < ${lastLedger()}`,
      sql`${id.usageFrom} < ${lastUsage()}`,
      hasRowOfAccount(reservations, sql`${state} = 'open'`),
      hasRowOfAccount(reservations, sql`${state} <> 'open' AND ${isHoldNamed()}`),
      hasRowOfAccount(recurringGrants, sql`${ofRow(recurringGrants.requestHash)} <> ''`),
      hasRowOfAccount(creditBalances, sql`${ofRow(creditBalances.revokedAtMs)} IS NULL`),
      hasRowOfAccount(creditRefunds, sql`${ofRow(creditRefunds.requestHash)} <> ''`),
      hasRowOfAccount(creditBalances, isSentReference()),
      hasRowOfAccount(adminAudit, isTargetNamed()),
      hasRowOfAccount(members, sql`1`),
      hasRowOfAccount(usageDays, sql`${ofRow(usageDays.memberNumber)} > 0`),
    ],
    sql` OR `,
  )})`;
};
