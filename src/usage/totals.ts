import { type SQL, sql } from "drizzle-orm";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { filterCovers } from "../amounts/match.ts";
import { rows } from "../db/statement.ts";
import type { Ctx } from "../runtime.ts";
import type { TotalsOutput } from "./answers.ts";
import type { TotalsInput } from "./schemas.ts";

/** Sums are taken of the upper and the lower bits apart: neither leaves what a double tells apart. */
const LOW_BITS = 26n;
const LOW_MASK = (1n << LOW_BITS) - 1n;

type Row = { readonly event: string } & { readonly [Sum in `${Unit}${"High" | "Low"}`]: number | null };

/**
 * What the user used, by event and unit: quantities, not debits, of events that occurred in [from, to) (U10). Exact,
 * however large. Reads the index from the first event by which `from` was reached.
 */
export async function totals(ctx: Ctx, input: TotalsInput): Promise<TotalsOutput> {
  const { event, from, to } = input;
  const bounds: SQL[] = [];
  // An event that occurred at `from` or later stands where the latest so far is at `from` or later.
  if (from !== undefined) bounds.push(sql` AND occurred_by_ms >= ${from} AND occurred_at_ms >= ${from}`);
  if (to !== undefined) bounds.push(sql` AND occurred_at_ms < ${to}`);
  if (event !== undefined && !event.includes("*")) bounds.push(sql` AND event = ${event}`);
  const sums = UNITS.flatMap((unit) => [sumOf(unit, "High"), sumOf(unit, "Low")]);
  const found = await rows<Row>(
    ctx.db,
    sql`
    SELECT event, ${sql.join(sums, sql`, `)} FROM usage_events
    WHERE environment_id = ${ctx.environment.id} AND user_id = ${input.userId}${sql.join(bounds)}
    GROUP BY event ORDER BY event`,
  );
  return {
    totals: found
      .filter((row) => event === undefined || filterCovers(event, row.event))
      .flatMap((row) => UNITS.map((unit) => ({ event: row.event, unit, steps: stepsOf(row, unit) })))
      .filter(({ steps }) => steps > 0n)
      .map(({ event: name, unit, steps }) => ({ event: name, unit, amount: amountOfSteps(unit, steps) })),
  };
}

function sumOf(unit: Unit, part: "High" | "Low"): SQL {
  const column = sql.identifier(`${unit}_steps`);
  const bits =
    part === "High" ? sql`${column} >> ${sql.raw(`${LOW_BITS}`)}` : sql`${column} & ${sql.raw(`${LOW_MASK}`)}`;
  return sql`sum(${bits}) AS ${sql.identifier(`${unit}${part}`)}`;
}

function stepsOf(row: Row, unit: Unit): bigint {
  return (BigInt(row[`${unit}High`] ?? 0) << LOW_BITS) + BigInt(row[`${unit}Low`] ?? 0);
}
