import { and, eq, sql } from "drizzle-orm";
import { asInteger, boundLimit, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { usageDays, usageEvents } from "../../db/schema.ts";
import { all, type StatementRow } from "../../db/sql.ts";
import { byCodePoints } from "../../lib/code-points.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { exactAmount, UNITS, type Unit } from "../amounts/amount.ts";
import { meterThousandths, readSentMeters } from "../amounts/meters.ts";
import { type PriceRule, preparePrices, priceUsage } from "../prices/price.ts";

/** This file prices the latest real events by another list, for who is about to change prices. It changes nothing. */

/** The days that are looked at, today included. */
export const PREVIEW_DAYS = 7;
/** The most events, and the most day sums by which they are found. */
export const PREVIEW_EVENTS_MAX = 5_000;
const PREVIEW_SUMS_MAX = 10_000;

/** The amounts that events were charged in a unit, and that a list would charge them. */
export interface ChargedBefore {
  readonly unit: Unit;
  readonly before: number;
  readonly after: number;
  /** The change in tenths of a percent, rounded; null where nothing was charged before. */
  readonly permille: number | null;
}

export interface ListPreview {
  /** The events with meters that both lists price. */
  readonly events: number;
  /** Whether there are more events than are looked at. */
  readonly isTruncated: boolean;
  readonly units: readonly ChargedBefore[];
  readonly models: readonly (ChargedBefore & { readonly model: string | null; readonly events: number })[];
  /** Events that the list has no price for. `units` leaves them out. */
  readonly unpriced: readonly {
    readonly event: string;
    readonly model: string | null;
    readonly meters: readonly string[];
    readonly events: number;
  }[];
}

type PreviewSpan = { environmentId: number; from: number; to: number; limit: number };

/**
 * Events of the newest days first, then by account and time. The day sums find them, because no index has the events of all users by
 * time. An order of the whole would read all events: SQLite reads the pairs of day and account one by one, in their order.
 */
const selectLatestEvents = query((value: ValueOf<PreviewSpan>) => {
  const used = sql`(SELECT DISTINCT sums.used_on, sums.account FROM (
    SELECT ${usageDays.day} AS used_on, ${usageDays.accountId} AS account FROM ${usageDays}
    WHERE ${usageDays.environmentId} = ${value("environmentId")} AND ${usageDays.day} BETWEEN ${value("from")} AND ${value("to")}
    ORDER BY ${usageDays.day} DESC, ${usageDays.accountId} DESC LIMIT ${PREVIEW_SUMS_MAX}
  ) AS sums ORDER BY sums.used_on DESC, sums.account DESC LIMIT ${PREVIEW_SUMS_MAX}) AS used`;
  return drizzle
    .select(
      fields(
        usageEvents,
        ...(["event", "model", "meters", "countMinor", "tokensMinor", "secondsMinor", "centsMinor"] as const),
      ),
    )
    .from(used)
    .crossJoin(sql`${usageEvents} INDEXED BY usage_events_occurred`)
    .where(
      and(
        eq(usageEvents.accountId, sql`used.account`),
        sql`${usageEvents.occurredAtMs} >= used.used_on * ${asInteger(sql`${DAY_MS}`)}`,
        sql`${usageEvents.occurredAtMs} < (used.used_on + 1) * ${asInteger(sql`${DAY_MS}`)}`,
      ),
    )
    .limit(boundLimit(value("limit")));
});
type LatestEvent = StatementRow<typeof selectLatestEvents>;

/** Sums of minor units before and after, by a key. */
class ChangeSums {
  readonly of = new Map<string, { events: number; before: bigint; after: bigint }>();

  add(key: string, before: number, after: number): void {
    const sum = this.of.get(key) ?? { events: 0, before: 0n, after: 0n };
    this.of.set(key, { events: sum.events + 1, before: sum.before + BigInt(before), after: sum.after + BigInt(after) });
  }
}

function presentChange(
  unit: Unit,
  { before, after }: { readonly before: bigint; readonly after: bigint },
): ChargedBefore {
  // Rounds half away from zero.
  const half = after < before ? -before : before;
  const permille = before === 0n ? null : Number(((after - before) * 2_000n + half) / (2n * before));
  return { unit, before: exactAmount(unit, before), after: exactAmount(unit, after), permille };
}

const minorOf = (event: LatestEvent, unit: Unit): number => event[`${unit}Minor`] ?? 0;

/** Returns what a list would have charged the events with meters of the last days, beside what they were charged. */
export async function previewList(ctx: TenantCtx, rules: readonly PriceRule[]): Promise<ListPreview> {
  const today = Math.floor(ctx.now() / DAY_MS);
  const span = { environmentId: ctx.environment.id, from: today - PREVIEW_DAYS + 1, to: today };
  const rows = await all(ctx.db, selectLatestEvents({ ...span, limit: PREVIEW_EVENTS_MAX + 1 }));
  const prices = preparePrices(rules);
  const [units, models] = [new ChangeSums(), new ChangeSums()];
  const unpriced = new Map<string, ListPreview["unpriced"][number]>();
  let events = 0;
  for (const row of rows.slice(0, PREVIEW_EVENTS_MAX)) {
    if (row.meters === null) continue;
    const { event, model } = row;
    const meters = meterThousandths(readSentMeters(row.meters));
    const price = priceUsage(prices, { event, model: model ?? undefined, meters });
    if (price.kind !== "priced") {
      const missing = price.kind === "missing" ? price.meters : [];
      const key = JSON.stringify([event, model, missing]);
      const before = unpriced.get(key)?.events ?? 0;
      unpriced.set(key, { event, model, meters: missing, events: before + 1 });
      continue;
    }
    events++;
    for (const unit of UNITS) {
      const [before, after] = [minorOf(row, unit), price.quantities[unit] ?? 0];
      if (before === 0 && after === 0) continue;
      units.add(unit, before, after);
      models.add(JSON.stringify([model, unit]), before, after);
    }
  }
  return {
    events,
    isTruncated: rows.length > PREVIEW_EVENTS_MAX,
    units: UNITS.flatMap((unit) => {
      const sum = units.of.get(unit);
      return sum === undefined ? [] : [presentChange(unit, sum)];
    }),
    models: [...models.of]
      .map(([key, sum]) => {
        // `add` made the key.
        const [model, unit] = JSON.parse(key) as [string | null, Unit];
        return { model, events: sum.events, ...presentChange(unit, sum) };
      })
      .toSorted((a, b) => b.events - a.events || byCodePoints(a.model ?? "", b.model ?? "")),
    unpriced: [...unpriced.values()].toSorted((a, b) => b.events - a.events),
  };
}
