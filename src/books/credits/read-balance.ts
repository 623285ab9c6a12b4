import { and, between, eq, ne, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, reservations, type Steps } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { BALANCE_FIELDS, type BalanceRow, presentBalance } from "../ledger/balance.ts";
import { balanceNotFound } from "./revoke.ts";

/** The fields that the dashboard shows of a balance. */
export const shownBalanceFields = () => fields(creditBalances, ...BALANCE_FIELDS);

/** A balance as the dashboard shows it: as the API returns it, with where it came from. */
export function showBalance(row: BalanceRow, nowMs: number) {
  const { source, externalRef, notes } = row;
  return { ...presentBalance(row, nowMs), source, externalRef, notes };
}
export type ShownBalance = ReturnType<typeof showBalance>;

/** The steps that open reservations hold of the balance of a row. */
export const heldSteps = () => sql<Steps>`coalesce((
  SELECT sum(leg.value ->> 'amountSteps') FROM ${reservations}, json_each(${reservations.legs}) AS leg
  WHERE ${reservations.accountId} = ${creditBalances.accountId} AND ${reservations.state} = 'open'
    AND leg.value ->> 'balanceId' = ${creditBalances.id}
), 0)`;

const selectBalance = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select({ ...shownBalanceFields(), ...fields(accounts, "userId"), ...computed({ heldSteps: heldSteps() }) })
    .from(creditBalances)
    .innerJoin(accounts, eq(accounts.id, creditBalances.accountId))
    .where(and(eq(creditBalances.id, value("balanceId")), eq(accounts.environmentId, value("environmentId")))),
);

/** A balance with its owner, and what open reservations hold of it. Throws `credit_balance_not_found`. */
export async function readBalance(ctx: TenantCtx, balanceId: string) {
  const environmentId = ctx.environment.id;
  const [row] = await all(ctx.db, selectBalance({ environmentId, balanceId }));
  if (row === undefined) throw balanceNotFound();
  const { userId, heldSteps, remainingSteps } = row;
  return { userId, heldSteps, remainingSteps, ...showBalance(row, ctx.now()) };
}

/** How many balances of one grant are shown. */
const SIBLINGS_MAX = 100;

const own = alias(creditBalances, "own");
const selectSiblings = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select(shownBalanceFields())
    .from(own)
    .crossJoin(accounts)
    .crossJoin(creditBalances)
    .where(
      and(
        eq(own.id, value("balanceId")),
        eq(accounts.id, own.accountId),
        eq(accounts.environmentId, value("environmentId")),
        eq(creditBalances.accountId, own.accountId),
        between(
          creditBalances.grantSeq,
          sql`${own.grantSeq} - ${SIBLINGS_MAX}`,
          sql`${own.grantSeq} + ${SIBLINGS_MAX}`,
        ),
        eq(creditBalances.packId, own.packId),
        eq(creditBalances.grantedAtMs, own.grantedAtMs),
        sql`${creditBalances.externalRef} IS ${own.externalRef}`,
        ne(creditBalances.id, own.id),
      ),
    )
    .orderBy(creditBalances.grantSeq)
    .limit(SIBLINGS_MAX),
);

/** The other balances of the same grant: what its pack's other items issued. */
export async function readSiblings(ctx: TenantCtx, balanceId: string): Promise<readonly ShownBalance[]> {
  const rows = await all(ctx.db, selectSiblings({ environmentId: ctx.environment.id, balanceId }));
  return rows.map((row) => showBalance(row, ctx.now()));
}
