import { type BalanceRow, balanceColumns, presentBalance } from "../books/ledger/balance.ts";
import type { Steps } from "../db/schema.ts";
import { all, fragment, type Statement, select, statement } from "../db/sql.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { balanceShare } from "./budget.ts";
import { accountSql, ownersOfSpans } from "./lists.ts";
import { type Bound, isStillThere, type Reading, type StillThere, stillThere } from "./reading.ts";

/** A balance now, and its state at the snapshot if it changed after that. */
export interface BalancePageRow extends BalanceRow {
  /** The distinct id that the balance belongs to. */
  readonly ownerId: string;
  /** JSON [remaining steps, whether it was revoked]. Null when it did not change. */
  readonly stateAtSnapshot: string | null;
}

const PAGE_BALANCES = 500;
const columns = select(balanceColumns, "b");

/** The first balances of the requested id, which comes first. */
export function firstBalances(key: PersonKey): Statement<BalancePageRow> {
  return statement<PersonKey, BalancePageRow>`
    SELECT ${columns}, owner.distinct_id AS ownerId, NULL AS stateAtSnapshot
    FROM (SELECT id AS environment_id, :distinctId AS distinct_id FROM environments WHERE app_id = :appId AND mode = :mode)
      AS owner CROSS JOIN credit_balances AS b
    WHERE b.account_id = ${accountSql("owner.environment_id")}
    LIMIT ${`${PAGE_BALANCES}`}`(key);
}

/**
 * SQL: a balance's state when its user's ledger had reached the span's bound, found back along its own entries. All other
 * columns never change.
 */
const bound = "(owner.value ->> 1)";
const stateAtSnapshotSql = fragment`iif(b.last_seq <= ${bound}, NULL, (
  WITH RECURSIVE back (seq, previous_seq, after_steps, is_revoked) AS (
    SELECT seq, previous_seq, balance_after_steps, is_revoked
    FROM credit_ledger WHERE account_id = b.account_id AND seq = b.last_seq
    UNION ALL
    SELECT l.seq, l.previous_seq, l.balance_after_steps, l.is_revoked
    FROM back CROSS JOIN credit_ledger AS l
    WHERE l.account_id = b.account_id AND l.seq = back.previous_seq
      AND back.seq > ${bound}
  )
  SELECT json_array(after_steps, is_revoked) FROM back WHERE seq <= ${bound}))`;

/** Balances that were issued before the snapshot, from a position in the first id's balances on. */
const balancesOfSpans = statement<StillThere & { spans: string; count: number }, BalancePageRow>`
  SELECT ${columns}, owner.distinct_id AS ownerId, ${stateAtSnapshotSql} AS stateAtSnapshot
  FROM ${ownersOfSpans} CROSS JOIN credit_balances AS b
  WHERE b.account_id = ${accountSql(":environmentId")} AND b.grant_seq > owner.value ->> 2
    AND b.grant_seq <= owner.value ->> 1 AND ${isStillThere}
  LIMIT CAST(:count AS INTEGER)`;

/** A page after the grant `afterSeq` of the first id. `bounds` are few enough for one value. */
function readPage(reading: Reading, bounds: readonly Bound[], afterSeq: number, count: number) {
  const spans = bounds.map(({ id, last }, index) => [id, last, index === 0 ? afterSeq : 0]);
  const values = { ...stillThere(reading), spans: JSON.stringify(spans), count };
  return all(reading.db, balancesOfSpans(values));
}

function asOfSnapshot(row: BalancePageRow): BalanceRow {
  if (row.stateAtSnapshot === null) return row;
  // The statement above wrote this JSON.
  const [remainingSteps, isRevoked] = JSON.parse(row.stateAtSnapshot) as [Steps, 0 | 1];
  return { ...row, remainingSteps, revokedAtMs: isRevoked === 1 ? row.revokedAtMs : null };
}

function present(row: BalancePageRow, atMs: number): string {
  const { source, externalRef, notes } = row;
  return JSON.stringify({ ...presentBalance(asOfSnapshot(row), atMs), source, externalRef, notes });
}

/**
 * Balances as JSON without brackets, in pieces of a page. `bounds` are those of the ledger, because every balance has an entry
 * there. The first balances, of the requested id, were read with the snapshot.
 */
export async function* balancePieces(
  reading: Reading,
  bounds: Iterable<Bound>,
  first: readonly BalancePageRow[],
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  // The budget counts a balance like several rows of a list.
  const count = Math.max(PAGE_BALANCES, Math.ceil(reading.pageRowsMin / balanceShare));
  const rest = bounds[Symbol.iterator]();
  let pageMax = PAGE_BALANCES;
  let page = first;
  let wanted = first.length === 0 ? [] : nextBounds(rest, 1);
  for (;;) {
    if (page.length > 0) yield utf8(page.map((row) => present(row, exportedAtMs)).join(","));
    const last = page.length === pageMax ? page.at(-1) : undefined;
    wanted = last === undefined ? [] : wanted.slice(wanted.findIndex(({ id }) => id === last.ownerId));
    // Each id has a balance, so a page cannot reach more ids than this. Their names take at most half of D1's 2 MB for a value.
    wanted.push(...nextBounds(rest, PAGE_BALANCES - wanted.length));
    if (wanted.length === 0) return;
    pageMax = count;
    page = await readPage(reading, wanted, last?.grantSeq ?? 0, count);
  }
}

function nextBounds(rest: Iterator<Bound>, count: number): Bound[] {
  const bounds: Bound[] = [];
  while (bounds.length < count) {
    const { value, done } = rest.next();
    if (done === true) break;
    bounds.push(value);
  }
  return bounds;
}

/** Whether `first` has all balances of its ids. */
export function hasAllBalances(first: readonly BalancePageRow[]): boolean {
  return first.length < PAGE_BALANCES;
}
