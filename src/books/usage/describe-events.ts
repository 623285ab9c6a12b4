import { and, eq, type SQL, sql } from "drizzle-orm";
import { presenter, type WireField, wire } from "../../db/presenter.ts";
import { drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountJson, presentQuantities } from "../amounts/amount.ts";
import { type Debit, readDebits } from "../ledger/debits.ts";
import { debitsField } from "../ledger/stored-legs.ts";

export type AmountOfBalance = Omit<Debit, "remaining">;

const { plain, time } = wire(usageEvents);

/** The columns of a usage event's name, model and quantities. */
export const describedFields = () =>
  fields(usageEvents, "eventId", "event", "model", "countSteps", "tokensSteps", "secondsSteps", "centsSteps");
type DescribedRow = RowOf<ReturnType<typeof describedFields>>;

type QuantityColumns = Pick<DescribedRow, "countSteps" | "tokensSteps" | "secondsSteps" | "centsSteps">;

/** The event's quantities. A quantity of 0 is left out, except `count`. */
const quantitiesField: WireField<QuantityColumns, ReturnType<typeof presentQuantities>> = {
  of: ({ countSteps, tokensSteps, secondsSteps, centsSteps }) => {
    const steps = { count: countSteps, tokens: tokensSteps, seconds: secondsSteps, cents: centsSteps };
    return presentQuantities(
      Object.fromEntries(Object.entries(steps).filter(([unit, value]) => unit === "count" || (value ?? 0) > 0)),
    );
  },
  json: quantitiesJson,
};

function quantitiesJson(): SQL {
  const others = [
    ["tokens", usageEvents.tokensSteps],
    ["seconds", usageEvents.secondsSteps],
    ["cents", usageEvents.centsSteps],
  ] as const;
  const parts = others.map(
    ([unit, steps]) => sql`iif(${steps} > 0, ${`,"${unit}":`} || ${amountJson(steps, unit)}, '')`,
  );
  return sql`'{"count":' || ${amountJson(usageEvents.countSteps, "count")} || ${sql.join(parts, sql` || `)} || '}'`;
}

/** The fields of an event in lists, in the dashboard and in exports. */
export const describedEvent = { event: plain("event"), model: plain("model"), quantities: quantitiesField };
export const usageTimes = { occurredAt: time("occurredAtMs"), receivedAt: time("receivedAtMs") };

/** An event's name, model and quantities. */
export const presentDescription = presenter(describedEvent);
export type EventDescription = ReturnType<typeof presentDescription>;
/** When an event occurred and when it arrived. */
export const presentUsageTimes = presenter(usageTimes);

const selectDescribedEvent = query((value: ValueOf<{ environmentId: number; eventId: string }>) =>
  drizzle
    .select({
      ...describedFields(),
      ...fields(usageEvents, "occurredAtMs", "receivedAtMs", "reservationId", "uncovered"),
      ...debitsField(),
      ...fields(accounts, "userId"),
    })
    .from(usageEvents)
    .innerJoin(accounts, eq(accounts.id, usageEvents.accountId))
    .where(and(eq(usageEvents.environmentId, value("environmentId")), eq(usageEvents.eventId, value("eventId")))),
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

/** Returns a usage event with its user's id, without its properties, for the dashboard. Throws `not_found`. */
export async function readUsageEvent(ctx: TenantCtx, eventId: string) {
  const [row] = await all(ctx.db, selectDescribedEvent({ environmentId: ctx.environment.id, eventId }));
  if (row === undefined)
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  const { userId, reservationId, debits, uncovered } = row;
  return {
    eventId,
    userId,
    reservationId,
    ...presentDescription(row),
    ...presentUsageTimes(row),
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
