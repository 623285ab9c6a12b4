import { type SQL, sql } from "drizzle-orm";
import { creditBalances } from "../db/schema.ts";
import { rows } from "../db/statement.ts";
import { type BalanceRow, presentBalance } from "../ledger/balance.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import { type Bound, columnsOf, type Reading } from "./reading.ts";

/** A balance as it stands, and how it stood at the snapshot if it moved since. */
export interface BalancePageRow extends BalanceRow {
  /** JSON [remaining steps, whether it was revoked since]; null when it did not move. */
  readonly earlier: string | null;
}

const PAGE_BALANCES_MAX = 500;
const firstBalancesMax = PAGE_BALANCES_MAX;

/** The first balances of the ids that `ids` (environment_id, distinct_id) yields, in its order. */
export function firstBalances(db: Reading["db"], ids: SQL) {
  return rows<BalancePageRow>(
    db,
    sql`SELECT ${columnsOf(creditBalances, "b")}, NULL AS earlier
    FROM (${ids}) AS i CROSS JOIN credit_balances AS b
    WHERE b.environment_id = i.environment_id AND b.user_id = i.distinct_id
    LIMIT ${sql.raw(`${firstBalancesMax}`)}`,
  );
}

/**
 * How a balance stood when its user's ledger reached `bound`: back along its own motions. A revoke is known by the motion
 * that it wrote at its own moment. All else of a balance is frozen.
 */
const earlier = (bound: string): string => `iif(b.last_seq <= ${bound}, NULL, (
  WITH RECURSIVE back (seq, previous_seq, after_steps, is_revoke) AS (
    SELECT seq, previous_seq, balance_after_steps,
      reason = 'admin_adjust' AND balance_after_steps = 0 AND occurred_at_ms = b.revoked_at_ms
    FROM credit_ledger WHERE environment_id = b.environment_id AND user_id = b.user_id AND seq = b.last_seq
    UNION ALL
    SELECT l.seq, l.previous_seq, l.balance_after_steps,
      l.reason = 'admin_adjust' AND l.balance_after_steps = 0 AND l.occurred_at_ms = b.revoked_at_ms
    FROM back CROSS JOIN credit_ledger AS l
    WHERE l.environment_id = b.environment_id AND l.user_id = b.user_id AND l.seq = back.previous_seq
      AND back.seq > ${bound}
  )
  SELECT json_array(sum(iif(seq <= ${bound}, after_steps, 0)), max(iif(seq > ${bound}, coalesce(is_revoke, 0), 0)))
  FROM back))`;

/**
 * A page of balances that were issued by the time of the snapshot, after `afterId` of the first id. `bounds` are few
 * enough for one value.
 */
async function readPage(reading: Reading, bounds: readonly Bound[], afterId: string) {
  const spans = bounds.map(({ id, last }, index) => [id, last, index === 0 ? afterId : ""]);
  return rows<BalancePageRow>(
    reading.db,
    sql`SELECT ${columnsOf(creditBalances, "b")}, ${sql.raw(earlier("(span.value ->> 1)"))} AS earlier
    FROM json_each(${JSON.stringify(spans)}) AS span CROSS JOIN credit_balances AS b
    WHERE b.environment_id = ${reading.environmentId} AND b.user_id = span.value ->> 0 AND b.id > span.value ->> 2
      AND b.grant_seq <= span.value ->> 1 AND ${reading.isStillThere}
    LIMIT ${sql.raw(`${PAGE_BALANCES_MAX}`)}`,
  );
}

function asOfSnapshot(row: BalancePageRow): BalanceRow {
  if (row.earlier === null) return row;
  // The statement above wrote it.
  const [remainingSteps, isRevokedSince] = JSON.parse(row.earlier) as [number, 0 | 1];
  return { ...row, remainingSteps, revokedAtMs: isRevokedSince === 1 ? null : row.revokedAtMs };
}

function present(row: BalancePageRow, atMs: number): string {
  const { source, externalRef, notes } = row;
  return JSON.stringify({ ...presentBalance(asOfSnapshot(row), atMs), source, externalRef, notes });
}

/**
 * Balances as JSON without its brackets, in pieces of a page. `bounds` are those of the ledger: whoever has a balance
 * has its grant there. `idsRead` ids had their first balances read with the snapshot.
 */
export async function* balancePieces(
  reading: Reading,
  bounds: readonly Bound[],
  first: readonly BalancePageRow[],
  idsRead: ReadonlySet<string>,
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  let page = first;
  let rest = areAll(first) ? bounds.filter(({ id }) => !idsRead.has(id)) : bounds;
  let asked: readonly Bound[] = [];
  for (;;) {
    if (page.length > 0) yield utf8(page.map((row) => present(row, exportedAtMs)).join(","));
    const last = page.length === PAGE_BALANCES_MAX ? page.at(-1) : undefined;
    rest = rest.slice(last === undefined ? asked.length : rest.findIndex(({ id }) => id === last.userId));
    if (rest.length === 0) return;
    // Each id has a balance, so that more ids would not be come to. D1 takes 2 MB of one value: these are half of one.
    asked = rest.slice(0, PAGE_BALANCES_MAX);
    page = await readPage(reading, asked, last?.id ?? "");
  }
}

/** Whether there are no more balances of the ids whose first ones these are. */
export function areAll(first: readonly BalancePageRow[]): boolean {
  return first.length < firstBalancesMax;
}
