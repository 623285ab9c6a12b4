import { all, fragment, query, type RowOf, select, statement } from "../../db/sql.ts";
import { usageEvents } from "../../db/tables.ts";
import { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { presentQuantities } from "../amounts/amount.ts";
import type { Debit } from "../ledger/responses.ts";

const columns = {
  eventId: usageEvents.eventId,
  event: usageEvents.event,
  model: usageEvents.model,
  countSteps: usageEvents.countSteps,
  tokensSteps: usageEvents.tokensSteps,
  secondsSteps: usageEvents.secondsSteps,
  centsSteps: usageEvents.centsSteps,
};
const ownColumns = {
  ...columns,
  occurredAtMs: usageEvents.occurredAtMs,
  receivedAtMs: usageEvents.receivedAtMs,
  reservationId: usageEvents.reservationId,
  debits: usageEvents.debits,
  uncovered: usageEvents.uncovered,
};

/** An event's name, model and quantities. */
function describe({ event, model, countSteps, tokensSteps, secondsSteps, centsSteps }: RowOf<typeof columns>) {
  const steps = { count: countSteps, tokens: tokensSteps, seconds: secondsSteps, cents: centsSteps };
  const given = Object.fromEntries(Object.entries(steps).filter(([, value]) => value !== null));
  return { event, model, quantities: presentQuantities(given) };
}
export type EventDescription = ReturnType<typeof describe>;

const byId = fragment`environment_id = :environmentId AND event_id`;
const selectOne = statement<{ environmentId: number; eventId: string }, RowOf<typeof ownColumns> & { userId: string }>`
  SELECT ${select(ownColumns)}, (SELECT user_id FROM accounts WHERE id = account_id) AS userId
  FROM usage_events WHERE ${byId} = :eventId`;
const selectSome = query<RowOf<typeof columns>>(columns)`
  FROM usage_events WHERE ${byId} IN (SELECT value FROM json_each(:eventIds))`;

/** A usage event with whose it is, for the dashboard; but for its properties. Throws `not_found`. */
export async function readUsageEvent(ctx: TenantCtx, eventId: string) {
  const [row] = await all(ctx.db, selectOne({ environmentId: ctx.environment.id, eventId }));
  if (row === undefined)
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  const { userId, reservationId, debits, uncovered, occurredAtMs, receivedAtMs } = row;
  return {
    eventId,
    userId,
    reservationId,
    ...describe(row),
    occurredAt: iso(occurredAtMs),
    receivedAt: iso(receivedAtMs),
    // JSON in the form of the response.
    debits: JSON.parse(debits) as readonly Debit[],
    uncovered: uncovered === null ? null : (JSON.parse(uncovered) as EventDescription["quantities"]),
  };
}

/** What some usage events were, by their ids. */
export async function describeEvents(
  ctx: TenantCtx,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, EventDescription>> {
  if (eventIds.length === 0) return new Map();
  const rows = await all(ctx.db, selectSome({ environmentId: ctx.environment.id, eventIds: JSON.stringify(eventIds) }));
  return new Map(rows.map((row) => [row.eventId, describe(row)]));
}
