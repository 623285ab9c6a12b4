import { amountOfSteps, UNITS, type Unit } from "../../books/amounts/amount.ts";
import { batch, fragment, statement } from "../../db/sql.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { ACTIVE_DAYS, STEPS_APART } from "./walk-business.ts";

/** An application may have any number of packs. */
const ROWS_MAX = 2_000;

interface FigureRow {
  readonly kind: "outstanding" | "expired" | "users" | "active";
  readonly label: string;
  readonly unit: string;
  readonly whole: number;
  readonly rest: number;
}

const lastWalk = fragment`
  SELECT began_at_ms FROM business_walks WHERE finished_at_ms IS NOT NULL ORDER BY began_at_ms DESC LIMIT 1`;
const selectTimes = statement<Record<never, never>, { beganAtMs: number; finishedAtMs: number }>`
  SELECT began_at_ms AS beganAtMs, finished_at_ms AS finishedAtMs FROM business_walks
  WHERE finished_at_ms IS NOT NULL ORDER BY began_at_ms DESC LIMIT 1`;
const selectFigures = statement<{ environmentId: number }, FigureRow>`
  SELECT kind, label, unit, whole, rest FROM business_figures
  WHERE environment_id = :environmentId AND began_at_ms = (${lastWalk}) LIMIT ${`${ROWS_MAX}`}`;

const stepsOf = ({ whole, rest }: FigureRow): bigint => BigInt(whole) * BigInt(STEPS_APART) + BigInt(rest);

/** Sums of rows by unit, in the order of units. */
function byUnit(rows: readonly FigureRow[]): readonly { readonly unit: Unit; readonly amount: number }[] {
  return UNITS.flatMap((unit) => {
    const own = rows.filter((row) => row.unit === unit);
    if (own.length === 0) return [];
    return [
      {
        unit,
        amount: amountOfSteps(
          unit,
          own.reduce((sum, row) => sum + stepsOf(row), 0n),
        ),
      },
    ];
  });
}

/**
 * What the last finished walk of the cron found of an environment. Null before the first. Each user is as it was when the walk
 * came by, between `beganAt` and `finishedAt`.
 */
export async function readBusiness(ctx: TenantCtx) {
  const [[times], rows] = await batch(ctx.db, [selectTimes({}), selectFigures({ environmentId: ctx.environment.id })]);
  if (times === undefined) return null;
  const of = (kind: FigureRow["kind"]) => rows.filter((row) => row.kind === kind);
  const outstanding = of("outstanding");
  const packIds = [...new Set(outstanding.map(({ label }) => label))];
  const countOf = (kind: "users" | "active", label: string) => of(kind).find((row) => row.label === label)?.whole ?? 0;
  return {
    beganAt: iso(times.beganAtMs),
    finishedAt: iso(times.finishedAtMs),
    isPartial: rows.length >= ROWS_MAX,
    outstanding: byUnit(outstanding),
    byPack: packIds.map((packId) => ({ packId, amounts: byUnit(outstanding.filter((row) => row.label === packId)) })),
    users: countOf("users", ""),
    active: ACTIVE_DAYS.map((days) => ({ days, users: countOf("active", `${days}`) })),
    /** What remained of the balances that expired on a day. */
    expired: (firstMs: number, count: number) =>
      UNITS.flatMap((unit) => {
        const own = of("expired").filter((row) => row.unit === unit);
        const days = Array.from({ length: count }, (_, index) => {
          const day = Math.floor(firstMs / DAY_MS) + index;
          const row = own.find(({ label }) => label === `${day}`);
          return {
            date: iso(day * DAY_MS).slice(0, 10),
            value: row === undefined ? 0 : amountOfSteps(unit, stepsOf(row)),
          };
        });
        return days.some(({ value }) => value > 0) ? [{ unit, days }] : [];
      }),
  };
}
export type Business = NonNullable<Awaited<ReturnType<typeof readBusiness>>>;
