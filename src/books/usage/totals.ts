import { and, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, fields, type RowOf, type ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { filterCovers } from "../amounts/match.ts";
import { accountQuery } from "../ledger/account.ts";
import type { TotalsOutput } from "./responses.ts";
import type { TotalsInput } from "./schemas.ts";

/** The upper and the lower bits are summed separately, so that both sums are exact as doubles. As the SQL below has them. */
const LOW_BITS = 26n;

/** The sums of one event: `countHigh`, `countLow` and so on. */
function sumFields() {
  const sums = UNITS.flatMap((unit) => {
    const steps = usageEvents[`${unit}Steps`];
    const high = sql<number | null>`sum(${steps} >> 26)`;
    const low = sql<number | null>`sum(${steps} & 67108863)`;
    return [[`${unit}High`, high] as const, [`${unit}Low`, low] as const];
  });
  // Its keys are made of those of its type.
  return computed(Object.fromEntries(sums) as Record<`${Unit}${"High" | "Low"}`, SQL<number | null>>);
}

/** More different events than anybody counts by. They are the rows that the Worker holds at once. */
const EVENTS_MAX = 10_000;

/** If an event occurred at `from` or later, its `occurred_by_ms` is at `from` or later too. So one index range is read. */
const selectSums = accountQuery((value: ValueOf<{ from: number; to: number; event: string | null }>, account) => {
  const { accountId, occurredByMs, occurredAtMs, event } = usageEvents;
  return drizzle
    .select({ ...fields(usageEvents, "event"), ...sumFields() })
    .from(usageEvents)
    .where(
      and(
        eq(accountId, account),
        gte(occurredByMs, value("from")),
        gte(occurredAtMs, value("from")),
        lt(occurredAtMs, value("to")),
        or(sql`${value("event")} IS NULL`, eq(event, value("event"))),
      ),
    )
    .groupBy(event)
    .orderBy(event)
    .limit(EVENTS_MAX + 1);
});

/**
 * The quantities that the user used, by event and unit, of events that occurred in [from, to) (U10). They are exact for any
 * size. These are not debits. Throws `invalid_request` for more than 10,000 different events.
 */
export async function usageTotals(ctx: TenantCtx, input: TotalsInput): Promise<TotalsOutput> {
  const { userId, event, from, to } = input;
  const found = await all(
    ctx.db,
    selectSums(
      ctx,
      { userId },
      {
        from: from ?? Number.MIN_SAFE_INTEGER,
        to: to ?? Number.MAX_SAFE_INTEGER,
        event: event === undefined || event.includes("*") ? null : event,
      },
    ),
  );
  if (found.length > EVENTS_MAX) {
    throw invalid(
      "event",
      `must be a name, or the time shorter: the user has more than ${EVENTS_MAX} different events in it`,
    );
  }
  return {
    totals: found
      .filter((row) => event === undefined || filterCovers(event, row.event))
      .flatMap((row) => UNITS.map((unit) => ({ event: row.event, unit, steps: stepsOf(row, unit) })))
      .filter(({ steps }) => steps > 0n)
      .map(({ event: name, unit, steps }) => ({ event: name, unit, amount: amountOfSteps(unit, steps) })),
  };
}

type Sums = RowOf<ReturnType<typeof sumFields>>;

function stepsOf(row: Sums, unit: Unit): bigint {
  return (BigInt(row[`${unit}High`] ?? 0) << LOW_BITS) + BigInt(row[`${unit}Low`] ?? 0);
}
