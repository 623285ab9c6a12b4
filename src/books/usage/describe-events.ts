import { and, eq, type SQL, sql } from "drizzle-orm";
import { presenter, type WireField, wire } from "../../db/presenter.ts";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, type Minor, usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { formsOfId, hasEventId } from "../../db/usage-ids.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, presentQuantities } from "../amounts/amount.ts";
import { amountJson } from "../amounts/amount-sql.ts";
import { type MeterAmounts, presentMeters } from "../amounts/meters.ts";
import { type Debit, readDebits } from "../ledger/debits.ts";
import { memberIdOf } from "../ledger/payer-members.ts";
import { debitsField } from "../ledger/stored-legs.ts";

export type AmountOfBalance = Omit<Debit, "remaining">;

const { plain, time } = wire(usageEvents);

/** The columns of a usage event's name, model and quantities. */
export const describedFields = () =>
  fields(
    usageEvents,
    ...(["eventId", "event", "model", "countMinor", "tokensMinor", "secondsMinor", "centsMinor"] as const),
    ...(["meters", "priceVersion"] as const),
  );
type DescribedRow = RowOf<ReturnType<typeof describedFields>>;

export type QuantityColumns = Pick<
  DescribedRow,
  "countMinor" | "tokensMinor" | "secondsMinor" | "centsMinor" | "meters"
>;

/** The event's quantities. A quantity of 0 is left out, except `count`. Quantities that meters gave are stored as they are shown. */
export const quantitiesField: WireField<QuantityColumns, ReturnType<typeof presentQuantities>> = {
  of: ({ countMinor, tokensMinor, secondsMinor, centsMinor, meters }) => {
    const minor = { count: countMinor, tokens: tokensMinor, seconds: secondsMinor, cents: centsMinor };
    const isShown = ([unit, value]: readonly [string, number | null]) =>
      value !== null && (meters !== null || unit === "count" || value > 0);
    return presentQuantities(Object.fromEntries(Object.entries(minor).filter(isShown)));
  },
  json: quantitiesJson,
};

function quantitiesJson(): SQL {
  const all = [
    ["count", usageEvents.countMinor],
    ["tokens", usageEvents.tokensMinor],
    ["seconds", usageEvents.secondsMinor],
    ["cents", usageEvents.centsMinor],
  ] as const;
  const parts = all.map(([unit, minor]) => {
    const isShown =
      unit === "count"
        ? sql`${minor} IS NOT NULL`
        : sql`${minor} > 0 OR ${usageEvents.meters} IS NOT NULL AND ${minor} IS NOT NULL`;
    return sql`iif(${isShown}, ${`,"${unit}":`} || ${amountJson(minor, unit)}, '')`;
  });
  return sql`'{' || substr(${sql.join(parts, sql` || `)}, 2) || '}'`;
}

const metersField: WireField<Pick<DescribedRow, "meters">, MeterAmounts | null> = {
  of: ({ meters }) => presentMeters(meters),
  json: () => sql`coalesce(${usageEvents.meters}, 'null')`,
};

/** The fields of an event in lists, in the dashboard and in exports. */
export const describedEvent = {
  event: plain("event"),
  model: plain("model"),
  quantities: quantitiesField,
  meters: metersField,
  priceVersion: plain("priceVersion"),
};
export const usageTimes = { occurredAt: time("occurredAtMs"), receivedAt: time("receivedAtMs") };

/** An event's name, model and quantities. */
export const presentDescription = presenter(describedEvent);
export type EventDescription = ReturnType<typeof presentDescription>;
/** When an event occurred and when it arrived. */
export const presentUsageTimes = presenter(usageTimes);

const selectDescribedEvent = query((value: ValueOf<{ environmentId: number; forms: string }>) =>
  drizzle
    .select({
      ...describedFields(),
      ...fields(usageEvents, "occurredAtMs", "receivedAtMs", "reservationId", "uncovered", "costMinor"),
      ...debitsField(),
      ...fields(accounts, "userId"),
      ...computed({ memberId: memberIdOf(usageEvents) }),
    })
    .from(usageEvents)
    .innerJoin(accounts, eq(accounts.id, usageEvents.accountId))
    .where(hasEventId(value, value("forms"))),
);
const selectDescribedEvents = query((value: ValueOf<{ environmentId: number; eventIds: string }>) =>
  drizzle
    .select(describedFields())
    .from(usageEvents)
    .where(
      and(
        eq(usageEvents.environmentId, value("environmentId")),
        sql`${usageEvents.eventId} IN (SELECT value FROM json_each(${value("eventIds")}))`,
      ),
    ),
);

/** Returns a cost in cents (PR8). Null for none. */
export const presentCost = (costMinor: Minor | null): number | null =>
  costMinor === null ? null : fromMinor("cents", costMinor);

/** Returns a usage event with its user's id, without its properties, for the dashboard. Throws `not_found`. */
export async function readUsageEvent(ctx: TenantCtx, eventId: string) {
  const forms = JSON.stringify(await formsOfId(ctx, eventId));
  const [row] = await all(ctx.db, selectDescribedEvent({ environmentId: ctx.environment.id, forms }));
  if (row === undefined)
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  const { userId, memberId, reservationId, debits, uncovered, costMinor } = row;
  return {
    eventId,
    userId,
    memberId,
    reservationId,
    ...presentDescription(row),
    ...presentUsageTimes(row),
    cost: presentCost(costMinor),
    debits: readDebits(debits),
    uncovered: uncovered === null ? null : (JSON.parse(uncovered) as EventDescription["quantities"]),
  };
}

/** Descriptions of some usage events, by id. */
export async function describeEvents(
  ctx: TenantCtx,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, EventDescription>> {
  if (eventIds.length === 0) return new Map();
  const rows = await all(
    ctx.db,
    selectDescribedEvents({ environmentId: ctx.environment.id, eventIds: JSON.stringify(eventIds) }),
  );
  return new Map(rows.map((row) => [row.eventId, presentDescription(row)]));
}
