import { and, between, eq, gte, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, scalar, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, creditLedger, ENTRY_KINDS } from "../../db/schema.ts";
import { batch, type StatementRow } from "../../db/sql.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfMinor, UNITS, type Unit } from "../amounts/amount.ts";
import { minorOfSum, sumOfMinor } from "../amounts/amount-sql.ts";
import { inSpendingOrder, NEVER_MS, PAYING_FIELDS, type PayingRow } from "../ledger/balance.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import { isSpendable } from "../ledger/spendable-balances.ts";
import { halve } from "./first-seq.ts";

/** A forecast goes by the debits of the last 30 days, among a user's newest entries: so many for all users together. */
export const FORECAST_DAYS = 30;
const FORECAST_ENTRIES_MAX = 2_000;
const USER_ENTRIES_MIN = 20;
/** The most spendable balances of a user that a forecast goes through. */
const FORECAST_BALANCES_MAX = 100;

/** When a user's credits of a unit end, if debits go on as in the last days. */
export interface Forecast {
  readonly unit: Unit;
  /** The amount that is debited in a day. */
  readonly aDay: number;
  /** The number of days that the rate was taken from. */
  readonly days: number;
  /** After how many days nothing is left, by debits or expiry. 0 if nothing is left now. */
  readonly daysLeft: number;
  /** The amount that expires before it would be debited. */
  readonly expiring: number;
}

type ForecastUsers = {
  environmentId: number;
  userIds: string;
  nowMs: number;
  fromMs: number;
  dayAgoMs: number;
  entriesMax: number;
};

const isOfUsers = (value: ValueOf<ForecastUsers>) =>
  and(
    eq(accounts.environmentId, value("environmentId")),
    eq(accounts.isErased, 0),
    sql`${accounts.userId} IN (SELECT value FROM json_each(${value("userIds")}))`,
  );

const firstExamined = alias(creditLedger, "examined");

/**
 * Counts a user's entries of the last day, if the examined ones do not reach that far back; otherwise null. It reads at most 50 rows.
 */
const entriesOfDay = (value: ValueOf<ForecastUsers>, examinedFrom: SQL) => {
  const atMs = sql`${value("dayAgoMs")}`;
  const account = sql`SELECT ${accounts.id} AS account WHERE ${examinedFrom} > ${atMs}`;
  return sql<number | null>`(
    ${halve(account, atMs)} SELECT 1 + ${lastSeqOf(sql`account`)} - low FROM half WHERE low >= high
  )`;
};

/** Selects the debits of each unit and rules: usage and holds, less the amounts that holds returned. */
const selectForecastDebits = query((value: ValueOf<ForecastUsers>) => {
  const { seq, kind, occurredAtMs, deltaMinor } = creditLedger;
  const { unit, matches, accountId, grantSeq } = creditBalances;
  const firstSeq = sql`${lastSeqOf(sql`${accounts.id}`)} + 1 - ${value("entriesMax")}`;
  const examinedFrom = drizzle
    .select(fields(firstExamined, "occurredAtMs"))
    .from(firstExamined)
    .where(and(eq(firstExamined.accountId, accounts.id), sql`${firstExamined.seq} = ${firstSeq}`));
  return drizzle
    .select({
      ...fields(accounts, "userId"),
      ...fields(creditBalances, "unit", "matches"),
      ...computed({
        firstAtMs: sql<number>`min(${occurredAtMs})`,
        examinedFromMs: scalar(examinedFrom),
        entriesOfDay: entriesOfDay(value, scalar(examinedFrom)),
        entriesExamined: sql<number>`${value("entriesMax")}`,
      }),
      ...sumOfMinor(sql`-${deltaMinor}`),
    })
    .from(accounts)
    .crossJoin(creditLedger)
    .crossJoin(creditBalances)
    .where(
      and(
        isOfUsers(value),
        eq(creditLedger.accountId, accounts.id),
        sql`${seq} >= ${firstSeq}`,
        gte(occurredAtMs, value("fromMs")),
        between(kind, ENTRY_KINDS.usage, ENTRY_KINDS.expired),
        eq(accountId, accounts.id),
        eq(grantSeq, creditLedger.grantSeq),
      ),
    )
    .groupBy(accounts.userId, unit, matches);
});
export type DebitsRow = Omit<StatementRow<typeof selectForecastDebits>, "userId">;

const live = alias(creditBalances, "live");

const selectForecastBalances = query((value: ValueOf<ForecastUsers>) => {
  const { accountId, grantSeq } = creditBalances;
  const spendable = sql`SELECT ${live.grantSeq} FROM ${creditBalances} AS ${live} INDEXED BY credit_balances_remaining
    WHERE ${isSpendable(value, sql`${accounts.id}`, live)} LIMIT ${FORECAST_BALANCES_MAX + 1}`;
  return drizzle
    .select({
      ...fields(accounts, { userId: "userId", recurringDueAtMs: "recurringDueAtMs" }),
      ...fields(creditBalances, ...PAYING_FIELDS),
    })
    .from(accounts)
    .crossJoin(creditBalances)
    .where(and(isOfUsers(value), eq(accountId, accounts.id), sql`${grantSeq} IN (${spendable})`));
});

/**
 * Returns, for each user that has debits in the last 30 days, when the credits of each unit end. Leaves out a unit that it cannot
 * tell: several kinds of balances that pay for different events, more balances than it reads, or a recurring grant that comes first.
 */
export async function readForecasts(
  ctx: TenantCtx,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Forecast[]>> {
  const nowMs = ctx.now();
  const values = {
    ...{ environmentId: ctx.environment.id, userIds: JSON.stringify(userIds), nowMs },
    fromMs: nowMs - FORECAST_DAYS * DAY_MS,
    dayAgoMs: nowMs - DAY_MS,
    entriesMax: Math.max(USER_ENTRIES_MIN, Math.floor(FORECAST_ENTRIES_MAX / Math.max(1, userIds.length))),
  };
  const [debits, balances] = await batch(ctx.db, [selectForecastDebits(values), selectForecastBalances(values)]);
  const balancesOf = Map.groupBy(balances, ({ userId }) => userId);
  const debitsOf = Map.groupBy(debits, ({ userId }) => userId);
  return new Map(
    [...debitsOf].map(([userId, rows]) => {
      const held = balancesOf.get(userId) ?? [];
      return [userId, forecastUnits(rows, held, held[0]?.recurringDueAtMs ?? null, nowMs)];
    }),
  );
}

/** Returns the forecast of each unit that can be told. `nextGrantAtMs` is when a recurring grant brings more. */
export function forecastUnits(
  debits: readonly DebitsRow[],
  balances: readonly PayingRow[],
  nextGrantAtMs: number | null,
  nowMs: number,
): Forecast[] {
  // Those that were not read may be of any unit.
  if (balances.length > FORECAST_BALANCES_MAX) return [];
  return UNITS.flatMap((unit) => {
    const debited = debits.filter((row) => row.unit === unit);
    const held = balances.filter((row) => row.unit === unit);
    const rules = new Set([...debited, ...held].map(({ matches }) => matches));
    const [row] = debited;
    if (row === undefined || rules.size !== 1) return [];
    const debitedMinor = Number(minorOfSum(row));
    if (debitedMinor <= 0) return [];
    const days = daysOfRate(row, nowMs);
    const rate = debitedMinor / days;
    const { daysLeft, expiringMinor } = spendInOrder(held, rate, nowMs);
    const isRefilled = nextGrantAtMs !== null && daysLeft > 0 && nowMs + daysLeft * DAY_MS >= nextGrantAtMs;
    if (isRefilled || daysLeft === Number.POSITIVE_INFINITY) return [];
    const amount = (minor: number) => amountOfMinor(unit, BigInt(Math.round(minor)));
    return [{ unit, aDay: amount(rate), days, daysLeft, expiring: amount(expiringMinor) }];
  });
}

/**
 * Returns the days that the debits were made in: UTC days, or the time since the first examined entry. If that is less than a day,
 * the entries of the last day tell what part of a day's debits was examined: a burst of entries is no rate.
 */
function daysOfRate({ firstAtMs, examinedFromMs, entriesExamined, entriesOfDay }: DebitsRow, nowMs: number): number {
  if (entriesOfDay !== null) return entriesExamined / entriesOfDay;
  const isCut = examinedFromMs !== null && examinedFromMs > nowMs - FORECAST_DAYS * DAY_MS;
  if (isCut) return (nowMs - examinedFromMs) / DAY_MS;
  return Math.floor(nowMs / DAY_MS) - Math.floor(firstAtMs / DAY_MS) + 1;
}

/** Debits balances in spending order at a rate a day, until each is empty or expires. */
function spendInOrder(balances: readonly PayingRow[], rate: number, nowMs: number) {
  let rest = inSpendingOrder(balances).map(({ remainingMinor, expiresAtMs }) => ({
    left: Number(remainingMinor),
    until: expiresAtMs === NEVER_MS ? Number.POSITIVE_INFINITY : (expiresAtMs - nowMs) / DAY_MS,
  }));
  let [day, expiringMinor] = [0, 0];
  while (rest[0] !== undefined) {
    const [paying] = rest;
    const nextExpiry = Math.min(...rest.map(({ until }) => until));
    const emptyAt = day + paying.left / rate;
    if (emptyAt <= nextExpiry) {
      day = emptyAt;
      rest = rest.slice(1);
      continue;
    }
    paying.left -= (nextExpiry - day) * rate;
    day = nextExpiry;
    expiringMinor += rest.filter(({ until }) => until <= day).reduce((sum, { left }) => sum + left, 0);
    rest = rest.filter(({ until }) => until > day);
  }
  return { daysLeft: day, expiringMinor };
}
