import type { Steps } from "../../db/schema.ts";
import { all, fragment, type RowOf, select, statement } from "../../db/sql.ts";
import { creditBalances } from "../../db/tables.ts";
import type { TenantCtx } from "../../runtime.ts";
import { presentBalance, presentedColumns } from "../ledger/balance.ts";
import { balanceNotFound } from "./revoke.ts";

/** The columns that the dashboard shows of a balance. */
export const shownColumns = {
  ...presentedColumns,
  source: creditBalances.source,
  externalRef: creditBalances.externalRef,
  notes: creditBalances.notes,
  grantSeq: creditBalances.grantSeq,
};
export type ShownRow = RowOf<typeof shownColumns>;

/** A balance as the dashboard shows it: as the API returns it, with where it came from. */
export function showBalance(row: ShownRow, nowMs: number) {
  const { source, externalRef, notes } = row;
  return { ...presentBalance(row, nowMs), source, externalRef, notes };
}
export type ShownBalance = ReturnType<typeof showBalance>;

const selectBalance = statement<
  { environmentId: number; balanceId: string },
  ShownRow & { userId: string; heldSteps: Steps }
>`
  SELECT ${select(shownColumns, "b")}, a.user_id AS userId, coalesce((
      SELECT sum(leg.value ->> 'amountSteps') FROM reservations AS r, json_each(r.legs) AS leg
      WHERE r.account_id = b.account_id AND r.state = 'open' AND leg.value ->> 'balanceId' = :balanceId
    ), 0) AS heldSteps
  FROM credit_balances AS b CROSS JOIN accounts AS a ON a.id = b.account_id
  WHERE b.id = :balanceId AND a.environment_id = :environmentId`;

/** A balance with its owner, and what open reservations hold of it. Throws `credit_balance_not_found`. */
export async function readBalance(ctx: TenantCtx, balanceId: string) {
  const environmentId = ctx.environment.id;
  const [row] = await all(ctx.db, selectBalance({ environmentId, balanceId }));
  if (row === undefined) throw balanceNotFound();
  const { userId, heldSteps } = row;
  return { userId, heldSteps, remainingSteps: row.remainingSteps, ...showBalance(row, ctx.now()) };
}

/** How many balances of one grant are shown. */
const SIBLINGS_MAX = 100;

const selectSiblings = statement<{ environmentId: number; balanceId: string }, ShownRow>`
  SELECT ${select(shownColumns, "s")}
  FROM credit_balances AS b
  CROSS JOIN accounts AS a ON a.id = b.account_id AND a.environment_id = :environmentId
  CROSS JOIN credit_balances AS s ON s.account_id = b.account_id
    AND s.grant_seq BETWEEN b.grant_seq - ${`${SIBLINGS_MAX}`} AND b.grant_seq + ${`${SIBLINGS_MAX}`}
  WHERE b.id = :balanceId AND s.pack_id = b.pack_id AND s.granted_at_ms = b.granted_at_ms
    AND s.external_ref IS b.external_ref AND s.id <> b.id
  ORDER BY s.grant_seq ${fragment`LIMIT ${`${SIBLINGS_MAX}`}`}`;

/** The other balances of the same grant: what its pack's other items issued. */
export async function readSiblings(ctx: TenantCtx, balanceId: string): Promise<readonly ShownBalance[]> {
  const rows = await all(ctx.db, selectSiblings({ environmentId: ctx.environment.id, balanceId }));
  return rows.map((row) => showBalance(row, ctx.now()));
}
