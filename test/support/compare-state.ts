import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Pair } from "./history.ts";
import { fromMinor, type Unit } from "./model-amounts.ts";

/** Calls `toEqual` only if there is a difference, because `toEqual` takes most of the time of a long history. */
function expectSame(actual: unknown, expected: unknown, where: string): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) expect(actual, where).toEqual(expected);
}

type Row = Readonly<Record<string, string | number | null>>;

/** Compares every balance, and every ledger row since the last comparison. The rows of one request may be in any order. */
export async function compareState(pair: Pair, where: string): Promise<void> {
  const { model, compared, environmentId } = pair;
  const since = JSON.stringify([...compared.seqs]);
  const accounts = "SELECT id FROM accounts WHERE environment_id = ?1";
  const [balances, ledger] = await env.DB.batch<Row>([
    env.DB.prepare(
      `SELECT id, unit, remaining_minor AS minor, revoked_at_ms IS NOT NULL AS revoked, ledger.minor AS sum
       FROM credit_balances AS b LEFT JOIN (
         SELECT account_id, grant_seq, sum(delta_minor) AS minor FROM credit_ledger WHERE account_id IN (${accounts})
         GROUP BY account_id, grant_seq
       ) AS ledger USING (account_id, grant_seq)
       WHERE account_id IN (${accounts}) ORDER BY id`,
    ).bind(environmentId),
    env.DB.prepare(
      `SELECT a.user_id AS userId, b.id AS balanceId, pack_id AS packId, unit, delta_minor AS delta, reason, cause,
         u.event_id AS eventId, coalesce(r.id, u.reservation_id) AS reservationId, note, l.occurred_at_ms AS occurredAt, l.seq
       FROM json_each(?2) AS since
       CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = since.value ->> 0
       CROSS JOIN credit_ledger AS l ON l.account_id = a.id AND l.seq > since.value ->> 1
       CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
       LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
       LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number ORDER BY l.seq`,
    ).bind(environmentId, since),
  ]);
  const inUnits = (row: Row, minor: string): number => fromMinor(row.unit as Unit, BigInt(row[minor] ?? 0));
  const storedBalances = (balances?.results ?? []).map((row) => {
    if (row.sum !== row.minor) throw new Error(`${row.id} is not the sum of its ledger ${where}`);
    return [row.id, inUnits(row, "minor"), row.revoked === 1];
  });
  const modelBalances = model.balances.map((b) => [b.id, fromMinor(b.unit, b.remaining), b.revoked] as const);
  expectSame(
    storedBalances,
    modelBalances.toSorted(([a], [b]) => (a < b ? -1 : 1)),
    `balances ${where}`,
  );

  const storedRows = (ledger?.results ?? []).map(({ seq, ...row }) => {
    compared.seqs.set(String(row.userId), Number(seq));
    const occurredAt = new Date(Number(row.occurredAt)).toISOString();
    return JSON.stringify({ ...row, delta: inUnits(row, "delta"), occurredAt });
  });
  const modelRows = model.ledger.slice(compared.rows).map((row) => JSON.stringify(row));
  expectSame(storedRows.toSorted(), modelRows.toSorted(), `ledger rows ${where}`);
  compared.rows = model.ledger.length;
}
