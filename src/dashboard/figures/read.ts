import { and, between, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { amountOfMinor, exactAmount, fromMinor, UNITS, type Unit } from "../../books/amounts/amount.ts";
import { minorOfSum, partsOf, sumOfMinor } from "../../books/amounts/amount-sql.ts";
import { isOpen } from "../../books/ledger/hold.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../../books/ledger/stored-legs.ts";
import type { ActivityKind } from "../../db/count-activity.ts";
import { computed, drizzle, fields, query, read, scalar, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, creditPacks, dailyActivity, type Minor, reservations } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";

/** The kinds that are shown by day. */
type DayKind = Exclude<ActivityKind, "granted_of" | "spent_of">;

/** A figure by day, in its unit; plain counts have none. */
export interface Figure {
  readonly kind: DayKind;
  readonly unit: Unit | null;
  readonly days: readonly { readonly date: string; readonly value: number }[];
}

type Days = { environmentId: number; firstDay: number; lastDay: number };

const ofDays = (value: ValueOf<Days>) =>
  and(
    eq(dailyActivity.environmentId, value("environmentId")),
    between(dailyActivity.day, value("firstDay"), value("lastDay")),
  );
const selectDays = query((value: ValueOf<Days & { kind: ActivityKind }>) =>
  drizzle
    .select(fields(dailyActivity, "unit", "day", "amount"))
    .from(dailyActivity)
    .where(and(ofDays(value), eq(dailyActivity.kind, value("kind")))),
);

const isUnit = (text: string): text is Unit => UNITS.some((unit) => unit === text);

/**
 * Returns one kind of figure for `count` days from `firstMs`: one figure for each unit that occurs, or a plain count.
 * db/count-activity.ts writes the counts after responses, so figures are nearly complete and some seconds late.
 */
export async function readActivity(
  ctx: TenantCtx,
  kind: DayKind,
  firstMs: number,
  count: number,
): Promise<readonly Figure[]> {
  const first = Math.floor(firstMs / DAY_MS);
  const environmentId = ctx.environment.id;
  const rows = await all(ctx.db, selectDays({ environmentId, kind, firstDay: first, lastDay: first + count - 1 }));
  const units = [...new Set(rows.map((row) => row.unit))];
  return (units.length === 0 ? [""] : units).map((unit) => {
    const byDay = new Map(rows.filter((row) => row.unit === unit).map((row) => [row.day, row.amount]));
    return {
      kind,
      unit: isUnit(unit) ? unit : null,
      days: Array.from({ length: count }, (_, index) => {
        const minor = byDay.get(first + index) ?? 0;
        const value = isUnit(unit) ? fromMinor(unit, minor as Minor) : minor;
        return { date: iso((first + index) * DAY_MS).slice(0, 10), value };
      }),
    };
  });
}

/** The amounts granted and spent of a pack in some days. */
export interface PackFigure {
  readonly kind: "granted_of" | "spent_of";
  readonly packId: string;
  /** The pack's current name. Null for a deleted pack. */
  readonly packName: string | null;
  readonly unit: Unit;
  readonly amount: number;
}

/** The most rows that are added up: packs times days. */
const PACK_ROWS_MAX = 20_000;

const selectPackFigures = query((value: ValueOf<Days & { appId: string }>) => {
  const { kind, unit, amount } = dailyActivity;
  const parts = partsOf(amount);
  const counted = sql`SELECT * FROM ${dailyActivity} WHERE ${ofDays(value)} AND ${kind} IN ('granted_of', 'spent_of')
    LIMIT ${PACK_ROWS_MAX}`;
  const name = drizzle
    .select(fields(creditPacks, "name"))
    .from(creditPacks)
    .where(and(eq(creditPacks.appId, value("appId")), eq(creditPacks.id, sql`figure.pack`)));
  return read(
    computed({
      kind: sql<PackFigure["kind"]>`figure.sort`,
      packId: sql<string>`figure.pack`,
      unit: sql<string>`figure.measure`,
      whole: sql<number>`figure.wholes`,
      rest: sql<number>`figure.rests`,
      rows: sql<number>`figure.added`,
      packName: scalar(name),
    }),
    (list) => sql`
      SELECT ${list} FROM (
        SELECT ${kind} AS sort, substr(${unit}, instr(${unit}, ' ') + 1) AS pack,
          substr(${unit}, 1, instr(${unit}, ' ') - 1) AS measure,
          sum(${parts.whole}) AS wholes, sum(${parts.rest}) AS rests, count(*) AS added
        FROM (${counted}) AS ${dailyActivity} GROUP BY 1, 2, 3
      ) AS figure ORDER BY "packName"`,
  );
});

/** Returns the amounts granted and spent of each pack, counted as in `readActivity`. `isPartial` if there is more to add up. */
export async function readPackFigures(ctx: TenantCtx, firstMs: number, count: number) {
  const firstDay = Math.floor(firstMs / DAY_MS);
  const { id: environmentId, appId } = ctx.environment;
  const rows = await all(ctx.db, selectPackFigures({ appId, environmentId, firstDay, lastDay: firstDay + count - 1 }));
  const figures = rows.flatMap(({ kind, packId, packName, unit, whole, rest }): PackFigure[] =>
    isUnit(unit) ? [{ kind, packId, packName, unit, amount: exactAmount(unit, minorOfSum({ whole, rest })) }] : [],
  );
  return { figures, isPartial: rows.reduce((sum, row) => sum + row.rows, 0) >= PACK_ROWS_MAX };
}

/** The most users that a page adds up. The cron adds up larger environments hourly. */
const USERS_MAX = 300;
const OUTSTANDING_BALANCES_MAX = 600;
/** Holds of single balances. */
const OUTSTANDING_HOLDS_MAX = 100;

type OutstandingEnvironment = { environmentId: number };
const user = alias(accounts, "user");

const ofUsers = (value: ValueOf<OutstandingEnvironment>) =>
  drizzle
    .select(fields(accounts, "id"))
    .from(accounts)
    .where(eq(accounts.environmentId, value("environmentId")))
    .limit(USERS_MAX + 1);

const countUsers = query((value: ValueOf<OutstandingEnvironment>) =>
  read(
    computed({ all: sql<number>`count(*)`, users: sql<number | null>`sum(${accounts.isErased} = 0)` }),
    (list) => sql`SELECT ${list} FROM (
      SELECT * FROM ${accounts} WHERE ${accounts.environmentId} = ${value("environmentId")} LIMIT ${USERS_MAX + 1}
    ) AS ${accounts}`,
  ),
);

type OutstandingSpan = OutstandingEnvironment & { firstMs: number; nowMs: number };

/** Selects the sums of an amount of some balances by unit: of those that can be spent, and of those that have expired. */
const selectOutstandingSums = (minor: SQL | SQLiteColumn, from: (value: ValueOf<OutstandingSpan>) => SQL) =>
  query((value: ValueOf<OutstandingSpan>) => {
    const { unit, expiresAtMs } = creditBalances;
    const isExpired = sql<number>`${expiresAtMs} <= ${value("nowMs")}`;
    return read(
      {
        ...computed({ unit: sql<Unit>`${unit}`, isExpired, rows: sql<number>`count(*)` }),
        ...sumOfMinor(minor),
      },
      (list) => sql`SELECT ${list} FROM (${from(value)}) AS ${creditBalances} GROUP BY ${unit}, ${isExpired}`,
    );
  });

/** Of balances that expire from `firstMs` on. */
const selectOutstandingRemaining = selectOutstandingSums(creditBalances.remainingMinor, (value) => {
  const { accountId, expiresAtMs, hasRemaining } = creditBalances;
  return sql`SELECT ${creditBalances}.* FROM ${ofUsers(value)} AS ${user} CROSS JOIN ${creditBalances}
    INDEXED BY credit_balances_remaining ON ${accountId} = ${user.id} AND ${hasRemaining} = 1
    AND ${expiresAtMs} >= ${value("firstMs")} LIMIT ${OUTSTANDING_BALANCES_MAX + 1}`;
});

/** The same of what open reservations hold. */
const selectOutstandingHeld = selectOutstandingSums(sql`held`, (value) => {
  const { accountId, legs } = reservations;
  return sql`SELECT ${creditBalances}.*, ${storedLeg.minor} AS held FROM ${ofUsers(value)} AS ${user} CROSS JOIN ${reservations}
    INDEXED BY reservations_open ON ${accountId} = ${user.id} AND ${isOpen()} CROSS JOIN ${eachLeg(legs)}
    CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(accountId)} AND ${creditBalances.expiresAtMs} >= ${value("firstMs")}
    LIMIT ${OUTSTANDING_HOLDS_MAX + 1}`;
});

/**
 * Returns the outstanding credits and the part that open reservations hold, the amounts that expired since the start of the day of
 * `sinceMs`, and the number of users, computed at once. Null if there are more users, balances or holds than a page may read; the
 * hourly figures cover those.
 */
export async function readOutstanding(ctx: TenantCtx, sinceMs: number) {
  const environmentId = ctx.environment.id;
  const span = { environmentId, firstMs: sinceMs - (sinceMs % DAY_MS), nowMs: ctx.now() };
  const [[counted], remaining, held] = await batch(ctx.db, [
    countUsers({ environmentId }),
    selectOutstandingRemaining(span),
    selectOutstandingHeld(span),
  ]);
  const users = counted?.users ?? 0;
  const rowsOf = (rows: typeof held) => rows.reduce((sum, row) => sum + row.rows, 0);
  if (
    (counted?.all ?? 0) > USERS_MAX ||
    rowsOf(remaining) > OUTSTANDING_BALANCES_MAX ||
    rowsOf(held) > OUTSTANDING_HOLDS_MAX
  )
    return null;
  const sumIn = (rows: typeof held, unit: Unit, isExpired: 0 | 1): bigint => {
    const row = rows.find((each) => each.unit === unit && each.isExpired === isExpired);
    return row === undefined ? 0n : minorOfSum(row);
  };
  const amounts = UNITS.flatMap((unit) => {
    const heldMinor = sumIn(held, unit, 0);
    const minor = sumIn(remaining, unit, 0) + heldMinor;
    if (minor === 0n) return [];
    return [{ unit, amount: exactAmount(unit, minor), held: amountOfMinor(unit, heldMinor) }];
  });
  const expiredIn = (unit: Unit) => sumIn(remaining, unit, 1) + sumIn(held, unit, 1);
  return { users, amounts, expiredIn };
}
