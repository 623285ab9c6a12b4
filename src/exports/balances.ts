import { and, type SQL, sql } from "drizzle-orm";
import { BALANCE_FIELDS, type BalanceRow, presentBalance } from "../books/ledger/balance.ts";
import { back, isLastOf, walkBack } from "../books/ledger/walk-back.ts";
import { asInteger, computed, fields, query, type RowOf, read, type ValueOf } from "../db/query.ts";
import { creditBalances, creditLedger, type Minor } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { isOfAccount, owner, ownersOfSpans, requestedOwner } from "./lists.ts";
import {
  type Bound,
  isUnchangedPerson,
  type Reading,
  type RequestedId,
  ROWS_OF_BALANCE,
  requestedIdOf,
} from "./span-cursor.ts";

const PAGE_BALANCES = 500;

/** The remaining minor units of a balance at the snapshot, and whether it was revoked. */
type BalanceState = readonly [remainingMinor: Minor, isRevoked: 0 | 1];
// `stateAtSnapshot` wrote this JSON.
const readState = (json: string): BalanceState | null => JSON.parse(json) as BalanceState;

/** A balance's current row, its owner's id, and its state at the snapshot if it has changed since. */
const pageFields = (state: SQL) => ({
  ...fields(creditBalances, ...BALANCE_FIELDS),
  ...fields(owner, { ownerId: "distinctId" }),
  ...computed({ stateAtSnapshot: state.mapWith(readState) }),
});
export type BalancePageRow = RowOf<ReturnType<typeof pageFields>>;

const isOwned = isOfAccount(creditBalances);

/** The first balances of the requested id, which are the first balances of the document. */
export const firstBalances = query((value: ValueOf<PersonKey>) =>
  read(
    pageFields(sql`NULL`),
    (list) => sql`
      SELECT ${list} FROM ${requestedOwner(value)} CROSS JOIN ${creditBalances}
      WHERE ${isOwned(owner.environmentId)} LIMIT ${PAGE_BALANCES}`,
  ),
);

/**
 * SQL: a balance's state when its user's ledger ended at the bound of the span. It is found by following the balance's entries
 * backwards. The other columns never change.
 */
function stateAtSnapshot(): SQL {
  const bound = sql`owner.span ->> 1`;
  const walk = walkBack({
    columns: ["balanceAfterMinor", "isRevoked"],
    start: sql`${creditLedger} WHERE ${isLastOf(creditBalances)}`,
    continues: sql`${back.seq} > ${bound}`,
  });
  return sql`iif(${creditBalances.lastSeq} <= ${bound}, NULL, (
    WITH RECURSIVE ${walk}
    SELECT json_array(${back.balanceAfterMinor}, ${back.isRevoked}) FROM ${back} WHERE ${back.seq} <= ${bound}))`;
}

/** Balances that were issued before the snapshot, starting at a position in the first id's balances. */
const balancesOfSpans = query((value: ValueOf<RequestedId & { spans: string; count: number }>) => {
  const { grantSeq } = creditBalances;
  const isInSpan = sql`${grantSeq} > owner.span ->> 2 AND ${grantSeq} <= owner.span ->> 1`;
  return read(
    pageFields(stateAtSnapshot()),
    (list) => sql`
      SELECT ${list} FROM ${ownersOfSpans(value)} CROSS JOIN ${creditBalances}
      WHERE ${and(isOwned(value("environmentId")), isInSpan, isUnchangedPerson(value))} LIMIT ${asInteger(value("count"))}`,
  );
});

/** Reads a page after the grant `afterSeq` of the first id. `bounds` must be few enough for one value. */
function readBalancesPage(reading: Reading, bounds: readonly Bound[], afterSeq: number, count: number) {
  const spans = bounds.map(({ id, last }, index) => [id, last, index === 0 ? afterSeq : 0]);
  const values = { ...requestedIdOf(reading), spans: JSON.stringify(spans), count };
  return all(reading.db, balancesOfSpans(values));
}

function asOfSnapshot(row: BalancePageRow): BalanceRow {
  if (row.stateAtSnapshot === null) return row;
  const [remainingMinor, isRevoked] = row.stateAtSnapshot;
  return { ...row, remainingMinor, revokedAtMs: isRevoked === 1 ? row.revokedAtMs : null };
}

function presentExportedBalance(row: BalancePageRow, atMs: number): string {
  const { source, externalRef, notes } = row;
  return JSON.stringify({ ...presentBalance(asOfSnapshot(row), atMs), source, externalRef, notes });
}

/**
 * Returns balances as JSON without brackets, a page at a time. `bounds` are those of the ledger, because every balance has an entry
 * there. `first` are the balances of the requested id that were read with the snapshot.
 */
export async function* balancePieces(
  reading: Reading,
  bounds: Iterable<Bound>,
  first: readonly BalancePageRow[],
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  // The budget counts a balance as several rows of a list.
  const count = Math.max(PAGE_BALANCES, Math.ceil(reading.pageRowsMin / ROWS_OF_BALANCE));
  const remainingBounds = bounds[Symbol.iterator]();
  let pageMax = PAGE_BALANCES;
  let page = first;
  let pageBounds = first.length === 0 ? [] : nextBounds(remainingBounds, 1);
  for (;;) {
    if (page.length > 0) yield utf8(page.map((row) => presentExportedBalance(row, exportedAtMs)).join(","));
    const last = page.length === pageMax ? page.at(-1) : undefined;
    pageBounds = last === undefined ? [] : pageBounds.slice(pageBounds.findIndex(({ id }) => id === last.ownerId));
    // Each id has a balance, so a page cannot contain more ids than balances. The ids take at most half of D1's 2 MB for a value.
    pageBounds.push(...nextBounds(remainingBounds, PAGE_BALANCES - pageBounds.length));
    if (pageBounds.length === 0) return;
    pageMax = count;
    page = await readBalancesPage(reading, pageBounds, last?.grantSeq ?? 0, count);
  }
}

function nextBounds(remainingBounds: Iterator<Bound>, count: number): Bound[] {
  const bounds: Bound[] = [];
  while (bounds.length < count) {
    const { value, done } = remainingBounds.next();
    if (done === true) break;
    bounds.push(value);
  }
  return bounds;
}

/** Returns whether `first` has all balances of the requested id. */
export function hasAllBalances(first: readonly BalancePageRow[]): boolean {
  return first.length < PAGE_BALANCES;
}
