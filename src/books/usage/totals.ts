import { all, statement } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { filterCovers } from "../amounts/match.ts";
import { aboutAccount } from "../ledger/account.ts";
import type { TotalsOutput } from "./responses.ts";
import type { TotalsInput } from "./schemas.ts";

/** The upper and the lower bits are summed separately, so that both sums are exact as doubles. */
const LOW_BITS = 26n;
const LOW_MASK = (1n << LOW_BITS) - 1n;

type Row = { readonly event: string } & { readonly [Sum in `${Unit}${"High" | "Low"}`]: number | null };

const sums = UNITS.map(
  (unit) => `sum(${unit}_steps >> ${LOW_BITS}) AS ${unit}High, sum(${unit}_steps & ${LOW_MASK}) AS ${unit}Low`,
).join(", ");

/** More different events than anybody counts by. They are the rows that the Worker holds at once. */
const EVENTS_MAX = 10_000;

/** If an event occurred at `from` or later, its `occurred_by_ms` is at `from` or later too. So one index range is read. */
const selectSums = aboutAccount<{ from: number; to: number; event: string | null }, Row>(
  (account) => statement`
    SELECT event, ${sums} FROM usage_events
    WHERE account_id = ${account} AND occurred_by_ms >= :from AND occurred_at_ms >= :from AND occurred_at_ms < :to
      AND (:event IS NULL OR event = :event)
    GROUP BY event ORDER BY event LIMIT ${`${EVENTS_MAX + 1}`}`,
);

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

function stepsOf(row: Row, unit: Unit): bigint {
  return (BigInt(row[`${unit}High`] ?? 0) << LOW_BITS) + BigInt(row[`${unit}Low`] ?? 0);
}
