import { fromSteps, UNITS, type Unit } from "../amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { all, type RowOf, select, statement } from "../db/sql.ts";
import { dailyActivity } from "../db/tables.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ActivityKind } from "./count.ts";

/** A figure day by day, in its unit; plain counts have none. */
export interface Figure {
  readonly kind: ActivityKind;
  readonly unit: Unit | null;
  readonly days: readonly { readonly date: string; readonly value: number }[];
}

const columns = { unit: dailyActivity.unit, day: dailyActivity.day, amount: dailyActivity.amount };
const selectDays = statement<
  { environmentId: number; kind: ActivityKind; firstDay: number; lastDay: number },
  RowOf<typeof columns>
>`
  SELECT ${select(columns)} FROM daily_activity
  WHERE environment_id = :environmentId AND kind = :kind AND day BETWEEN :firstDay AND :lastDay`;

const isUnit = (text: string): text is Unit => UNITS.some((unit) => unit === text);

/**
 * One kind of figure for `count` days from `firstMs` on, one for each unit that occurs, or a plain count. As counted
 * behind the answers (count.ts): nearly complete, and seconds late.
 */
export async function readActivity(
  ctx: TenantCtx,
  kind: ActivityKind,
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
        const steps = byDay.get(first + index) ?? 0;
        const value = isUnit(unit) ? fromSteps(unit, steps as Steps) : steps;
        return { date: iso((first + index) * DAY_MS).slice(0, 10), value };
      }),
    };
  });
}
