import { eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { amountOfSteps, UNITS, type Unit } from "../../books/amounts/amount.ts";
import { asInteger, computed, drizzle, fields, query, read, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, reservations } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";

/** The most users that a page adds up. The cron adds up larger environments hourly. */
const USERS_MAX = 300;
const OUTSTANDING_BALANCES_MAX = 600;
const HOLDS_MAX = 100;
/** The factor that splits a sum into two parts, because SQLite's integers hold only a thousand of the largest amounts. */
const STEPS_APART = 1_000_000;

type Environment = { environmentId: number };
const user = alias(accounts, "user");

const ofUsers = (value: ValueOf<Environment>) =>
  drizzle
    .select(fields(accounts, "id"))
    .from(accounts)
    .where(eq(accounts.environmentId, value("environmentId")))
    .limit(USERS_MAX + 1);

const countUsers = query((value: ValueOf<Environment>) =>
  read(
    computed({ all: sql<number>`count(*)`, users: sql<number | null>`sum(${accounts.isErased} = 0)` }),
    (list) => sql`SELECT ${list} FROM (
      SELECT * FROM ${accounts} WHERE ${accounts.environmentId} = ${value("environmentId")} LIMIT ${USERS_MAX + 1}
    ) AS ${accounts}`,
  ),
);

const selectBalances = query((value: ValueOf<Environment & { nowMs: number }>) => {
  const steps = creditBalances.remainingSteps;
  // D1 binds numbers as REAL, for which a division has no remainder.
  const apart = asInteger(sql`${STEPS_APART}`);
  const { accountId, unit, expiresAtMs, hasRemaining } = creditBalances;
  return read(
    computed({
      unit: sql<Unit>`${unit}`,
      balances: sql<number>`count(*)`,
      whole: sql<number>`sum(${steps} / ${apart})`,
      rest: sql<number>`sum(${steps} % ${apart})`,
    }),
    (list) => sql`SELECT ${list} FROM (
      SELECT ${creditBalances}.* FROM ${ofUsers(value)} AS ${user} CROSS JOIN ${creditBalances}
      INDEXED BY credit_balances_remaining ON ${accountId} = ${user.id} AND ${hasRemaining} = 1
      AND ${expiresAtMs} > ${value("nowMs")} LIMIT ${OUTSTANDING_BALANCES_MAX + 1}
    ) AS ${creditBalances} GROUP BY ${unit}`,
  );
});

const selectHolds = query((value: ValueOf<Environment>) => {
  const { accountId, state, legs } = reservations;
  return read(
    fields(reservations, "legs"),
    (list) => sql`SELECT ${list} FROM ${ofUsers(value)} AS ${user} CROSS JOIN ${reservations}
      INDEXED BY reservations_open ON ${accountId} = ${user.id} AND ${state} = 'open'
      WHERE ${legs} <> '[]' LIMIT ${HOLDS_MAX + 1}`,
  );
});

interface Leg {
  readonly unit: Unit;
  readonly amountSteps: number;
}

/**
 * Returns the credits that users can spend now, the amounts that open reservations hold, and the number of users, computed at
 * once. Null if there are more users, balances or holds than a page may read; the hourly figures cover those.
 */
export async function readOutstanding(ctx: TenantCtx) {
  const environmentId = ctx.environment.id;
  const [[counted], balances, holds] = await batch(ctx.db, [
    countUsers({ environmentId }),
    selectBalances({ environmentId, nowMs: ctx.now() }),
    selectHolds({ environmentId }),
  ]);
  const users = counted?.users ?? 0;
  const balanceCount = balances.reduce((sum, row) => sum + row.balances, 0);
  if ((counted?.all ?? 0) > USERS_MAX || balanceCount > OUTSTANDING_BALANCES_MAX || holds.length > HOLDS_MAX)
    return null;
  // Purser wrote this JSON.
  const legs = holds.flatMap((row) => JSON.parse(row.legs) as readonly Leg[]);
  const amounts = UNITS.flatMap((unit) => {
    const row = balances.find((each) => each.unit === unit);
    const spendable = row === undefined ? 0n : BigInt(row.whole) * BigInt(STEPS_APART) + BigInt(row.rest);
    const held = legs.reduce((sum, leg) => (leg.unit === unit ? sum + BigInt(leg.amountSteps) : sum), 0n);
    if (spendable + held === 0n) return [];
    return [{ unit, amount: amountOfSteps(unit, spendable + held), held: amountOfSteps(unit, held) }];
  });
  return { users, amounts };
}
