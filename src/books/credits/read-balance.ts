import { and, between, count, eq, ne, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, reservations } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { exactAmount, UNITS } from "../amounts/amount.ts";
import { minorOfSum, sumOfMinor } from "../amounts/amount-sql.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { BALANCE_FIELDS, type BalanceRow, presentBalance } from "../ledger/balance.ts";
import { heldMinorOfBalance, isOpen } from "../ledger/hold.ts";
import { isSpendable } from "../ledger/spendable-balances.ts";
import { eachLeg, storedLeg, unitNumber } from "../ledger/stored-legs.ts";

export function balanceNotFound(): PurserError {
  return new PurserError(
    "credit_balance_not_found",
    "The application has no such balance in this mode. Ids are compared exactly, and begin with `crb_`.",
    { param: "balanceId" },
  );
}

/** Returns the fields of a balance that the dashboard shows. */
export const shownBalanceFields = () => fields(creditBalances, ...BALANCE_FIELDS);

/** Returns a balance for the dashboard: in the form of the API, with its source, reference and notes. */
export function showBalance(row: BalanceRow, nowMs: number) {
  const { source, externalRef, notes } = row;
  return { ...presentBalance(row, nowMs), source, externalRef, notes };
}
export type ShownBalance = ReturnType<typeof showBalance>;

/** Selects a balance with its owner. */
export const selectBalance = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select({
      ...shownBalanceFields(),
      ...fields(accounts, "userId"),
      ...computed({ heldMinor: heldMinorOfBalance() }),
    })
    .from(creditBalances)
    .innerJoin(accounts, eq(accounts.id, creditBalances.accountId))
    .where(and(eq(creditBalances.id, value("balanceId")), eq(accounts.environmentId, value("environmentId")))),
);

/** Returns a balance with its owner and the amount that open reservations hold of it. Throws `credit_balance_not_found`. */
export async function readBalance(ctx: TenantCtx, balanceId: string) {
  const environmentId = ctx.environment.id;
  const [row] = await all(ctx.db, selectBalance({ environmentId, balanceId }));
  if (row === undefined) throw balanceNotFound();
  const { userId, heldMinor, remainingMinor } = row;
  return { userId, heldMinor, remainingMinor, ...showBalance(row, ctx.now()) };
}

/** The most balances of one grant that are shown. */
const SIBLINGS_MAX = 100;

const givenBalance = alias(creditBalances, "given");
const selectSiblings = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select(shownBalanceFields())
    .from(givenBalance)
    .crossJoin(accounts)
    .crossJoin(creditBalances)
    .where(
      and(
        eq(givenBalance.id, value("balanceId")),
        eq(accounts.id, givenBalance.accountId),
        eq(accounts.environmentId, value("environmentId")),
        eq(creditBalances.accountId, givenBalance.accountId),
        between(
          creditBalances.grantSeq,
          sql`${givenBalance.grantSeq} - ${SIBLINGS_MAX}`,
          sql`${givenBalance.grantSeq} + ${SIBLINGS_MAX}`,
        ),
        eq(creditBalances.packId, givenBalance.packId),
        eq(creditBalances.grantedAtMs, givenBalance.grantedAtMs),
        sql`${creditBalances.externalRef} IS ${givenBalance.externalRef}`,
        ne(creditBalances.id, givenBalance.id),
      ),
    )
    .orderBy(creditBalances.grantSeq)
    .limit(SIBLINGS_MAX),
);

/** Returns the other balances of the same grant, for the other items of its pack. */
export async function readSiblings(ctx: TenantCtx, balanceId: string): Promise<readonly ShownBalance[]> {
  const rows = await all(ctx.db, selectSiblings({ environmentId: ctx.environment.id, balanceId }));
  return rows.map((row) => showBalance(row, ctx.now()));
}

/** The most balances that are added up. */
const SUMMED_MAX = 10_000;
const selectUserTotals = accountQuery((value: ValueOf<{ nowMs: number }>, account) => {
  const { unit, remainingMinor } = creditBalances;
  const live = sql`SELECT ${unit}, ${remainingMinor} FROM ${creditBalances} INDEXED BY credit_balances_remaining
    WHERE ${isSpendable(value, account)} LIMIT ${SUMMED_MAX}`;
  return drizzle
    .select({
      ...fields(creditBalances, "unit"),
      ...computed({ balances: count() }),
      ...sumOfMinor(remainingMinor),
    })
    .from(sql`(${live}) AS ${creditBalances}`)
    .groupBy(unit);
});

/** Selects the amounts that open reservations hold, by unit. */
const selectUserHeld = accountQuery((_value: ValueOf<OfUser>, account) => {
  const open = sql`SELECT ${reservations.legs} FROM ${reservations} INDEXED BY reservations_open
    WHERE ${reservations.accountId} = ${account} AND ${isOpen()} LIMIT ${SUMMED_MAX}`;
  return drizzle
    .select({
      ...computed({ unit: storedLeg.unit, balances: count() }),
      ...sumOfMinor(storedLeg.minor),
    })
    .from(sql`(${open}) AS ${reservations}`)
    .crossJoin(eachLeg(reservations.legs))
    .groupBy(sql`1`);
});

/** Returns a user's totals by unit. They are exact unless `isPartial`. */
export async function readUserTotals(ctx: TenantCtx, userId: string) {
  const [totals, held] = await batch(ctx.db, [
    selectUserTotals(ctx, { userId }, { nowMs: ctx.now() }),
    selectUserHeld(ctx, { userId }, {}),
  ]);
  const balances = totals.reduce((count, row) => count + row.balances, 0);
  const units = UNITS.flatMap((unit) => {
    const [total, hold] = [totals.find((row) => row.unit === unit), held.find((row) => row.unit === unitNumber(unit))];
    if (total === undefined && hold === undefined) return [];
    const remainingMinor = total === undefined ? 0n : minorOfSum(total);
    const heldMinor = hold === undefined ? 0n : minorOfSum(hold);
    return [
      {
        unit,
        ...{ remainingMinor, heldMinor },
        remaining: exactAmount(unit, remainingMinor),
        held: exactAmount(unit, heldMinor),
      },
    ];
  });
  return { units, balances, isPartial: balances >= SUMMED_MAX };
}
