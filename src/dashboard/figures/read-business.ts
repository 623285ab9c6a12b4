import { and, desc, eq, isNotNull, ne, type SQL, sql } from "drizzle-orm";
import { amountOfMinor, exactAmount, UNITS, type Unit } from "../../books/amounts/amount.ts";
import { minorOfSum } from "../../books/amounts/amount-sql.ts";
import { computed, drizzle, fields, query, scalar, type ValueOf } from "../../db/query.ts";
import { businessFigures, businessWalks, creditPacks } from "../../db/schema.ts";
import { batch, type StatementRow } from "../../db/sql.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { ACTIVE_DAYS } from "./business.ts";

/** The most rows of packs that are read. An application may have any number of packs. */
const BUSINESS_PACKS_MAX = 2_000;

const { beganAtMs, finishedAtMs } = businessWalks;
const selectTimes = query(() =>
  drizzle
    .select({ ...fields(businessWalks, "beganAtMs"), ...computed({ finishedAtMs: sql<number>`${finishedAtMs}` }) })
    .from(businessWalks)
    .where(isNotNull(finishedAtMs))
    .orderBy(desc(beganAtMs))
    .limit(1),
);
const lastBegan = () =>
  scalar(
    drizzle
      .select(fields(businessWalks, "beganAtMs"))
      .from(businessWalks)
      .where(isNotNull(finishedAtMs))
      .orderBy(desc(beganAtMs))
      .limit(1),
  );
/** The current name of the pack whose id is the label. */
const nameOfLabel = (value: ValueOf<{ appId: string }>) =>
  drizzle
    .select(fields(creditPacks, "name"))
    .from(creditPacks)
    .where(and(eq(creditPacks.appId, value("appId")), eq(creditPacks.id, businessFigures.label)));
type OfBusinessEnvironment = { environmentId: number };
const { kind, unit, whole, rest } = businessFigures;
const isOfLastWalk = (value: ValueOf<OfBusinessEnvironment>, isOfKind: SQL) =>
  and(eq(businessFigures.environmentId, value("environmentId")), eq(businessFigures.beganAtMs, lastBegan()), isOfKind);
/** The figures by day and those without a label, which are few. */
const selectFigures = query((value: ValueOf<OfBusinessEnvironment>) =>
  drizzle
    .select(fields(businessFigures, "kind", "label", "unit", "whole", "rest"))
    .from(businessFigures)
    .where(isOfLastWalk(value, ne(kind, "outstanding"))),
);
const selectOutstandingByPack = query((value: ValueOf<OfBusinessEnvironment & { appId: string }>) =>
  drizzle
    .select({
      ...fields(businessFigures, "label", "unit", "whole", "rest"),
      ...computed({ packName: scalar(nameOfLabel(value)) }),
    })
    .from(businessFigures)
    .where(isOfLastWalk(value, eq(kind, "outstanding")))
    .limit(BUSINESS_PACKS_MAX),
);
const selectOutstandingOfAll = query((value: ValueOf<OfBusinessEnvironment>) =>
  drizzle
    .select({
      ...fields(businessFigures, "unit"),
      ...computed({ whole: sql<number>`sum(${whole})`, rest: sql<number>`sum(${rest})` }),
    })
    .from(businessFigures)
    .where(isOfLastWalk(value, eq(kind, "outstanding")))
    .groupBy(unit),
);
type FigureRow = StatementRow<typeof selectFigures>;
type SumRow = StatementRow<typeof selectOutstandingOfAll>;

/** Returns sums of rows by unit, in the order of units. */
function byUnit(rows: readonly SumRow[]): readonly { readonly unit: Unit; readonly amount: number }[] {
  return UNITS.flatMap((unit) => {
    const rowsInUnit = rows.filter((row) => row.unit === unit);
    if (rowsInUnit.length === 0) return [];
    return [
      {
        unit,
        amount: exactAmount(
          unit,
          rowsInUnit.reduce((sum, row) => sum + minorOfSum(row), 0n),
        ),
      },
    ];
  });
}

/**
 * Returns the result of the cron's last finished walk over an environment. Null before the first walk. Each user appears as it
 * was at some moment between `beganAt` and `finishedAt`.
 */
export async function readBusiness(ctx: TenantCtx) {
  const { id: environmentId, appId } = ctx.environment;
  const [[times], rows, packs, outstanding] = await batch(ctx.db, [
    selectTimes({}),
    selectFigures({ environmentId }),
    selectOutstandingByPack({ environmentId, appId }),
    selectOutstandingOfAll({ environmentId }),
  ]);
  if (times === undefined) return null;
  const of = (name: FigureRow["kind"]) => rows.filter((row) => row.kind === name);
  const packIds = [...new Set(packs.map(({ label }) => label))];
  const countOf = (kind: "users" | "active", label: string) => of(kind).find((row) => row.label === label)?.whole ?? 0;
  return {
    beganAt: iso(times.beganAtMs),
    finishedAt: iso(times.finishedAtMs),
    isPartial: packs.length >= BUSINESS_PACKS_MAX,
    outstanding: byUnit(outstanding),
    byPack: packIds.map((packId) => {
      const ofPack = packs.filter((row) => row.label === packId);
      return { packId, packName: ofPack[0]?.packName ?? null, amounts: byUnit(ofPack) };
    }),
    users: countOf("users", ""),
    active: ACTIVE_DAYS.map((days) => ({ days, users: countOf("active", `${days}`) })),
    /** The amounts that were left when balances expired, by day. */
    expired: (firstMs: number, count: number) => byDay(of("expired"), firstMs, count),
    /** The amounts that remain in balances that will expire, by day. */
    expiring: (firstMs: number, count: number) => byDay(of("expiring"), firstMs, count),
  };
}

/** Returns sums of rows by unit and day. Leaves out a unit without any. */
function byDay(rows: readonly FigureRow[], firstMs: number, count: number) {
  return UNITS.flatMap((unit) => {
    const rowsInUnit = rows.filter((row) => row.unit === unit);
    const days = Array.from({ length: count }, (_, index) => {
      const day = Math.floor(firstMs / DAY_MS) + index;
      const row = rowsInUnit.find(({ label }) => label === `${day}`);
      return {
        date: iso(day * DAY_MS).slice(0, 10),
        value: row === undefined ? 0 : amountOfMinor(unit, minorOfSum(row)),
      };
    });
    return days.some(({ value }) => value > 0) ? [{ unit, days }] : [];
  });
}
