import { type SQL, sql } from "drizzle-orm";
import { presenter, type WireField, wire } from "../../db/presenter.ts";
import { fields, type RowOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import { presentQuantities } from "../amounts/amount.ts";
import { amountJson } from "../amounts/amount-sql.ts";

const { plain, time } = wire(usageEvents);

/** The columns of a usage event's name, model and quantities. */
export const describedFields = () =>
  fields(usageEvents, "eventId", "event", "model", "countSteps", "tokensSteps", "secondsSteps", "centsSteps");
type Described = RowOf<ReturnType<typeof describedFields>>;

type QuantityColumns = Pick<Described, "countSteps" | "tokensSteps" | "secondsSteps" | "centsSteps">;

/** The event's quantities. One that is 0 is left out, but for `count`. */
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

/** What an event was, in lists, in the dashboard and in exports. */
export const describedEvent = { event: plain("event"), model: plain("model"), quantities: quantitiesField };
export const usageTimes = { occurredAt: time("occurredAtMs"), receivedAt: time("receivedAtMs") };

/** An event's name, model and quantities. */
export const describe = presenter(describedEvent);
export type EventDescription = ReturnType<typeof describe>;
/** When an event occurred and when it arrived. */
export const presentUsageTimes = presenter(usageTimes);
