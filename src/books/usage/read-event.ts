import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { Debit } from "../ledger/responses.ts";
import { describe, describedFields, type EventDescription, presentUsageTimes } from "./event-fields.ts";

const selectOne = query((value: ValueOf<{ environmentId: number; eventId: string }>) =>
  drizzle
    .select({
      ...describedFields(),
      ...fields(usageEvents, "occurredAtMs", "receivedAtMs", "reservationId", "debits", "uncovered"),
      ...fields(accounts, "userId"),
    })
    .from(usageEvents)
    .innerJoin(accounts, eq(accounts.id, usageEvents.accountId))
    .where(and(eq(usageEvents.environmentId, value("environmentId")), eq(usageEvents.eventId, value("eventId")))),
);
const selectSome = query((value: ValueOf<{ environmentId: number; eventIds: string }>) =>
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

/** A usage event with its user's id and without its properties, for the dashboard. Throws `not_found`. */
export async function readUsageEvent(ctx: TenantCtx, eventId: string) {
  const [row] = await all(ctx.db, selectOne({ environmentId: ctx.environment.id, eventId }));
  if (row === undefined)
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  const { userId, reservationId, debits, uncovered } = row;
  return {
    eventId,
    userId,
    reservationId,
    ...describe(row),
    ...presentUsageTimes(row),
    // JSON in the form of the response.
    debits: JSON.parse(debits) as readonly Debit[],
    uncovered: uncovered === null ? null : (JSON.parse(uncovered) as EventDescription["quantities"]),
  };
}

/** Descriptions of some usage events, by id. */
export async function describeEvents(
  ctx: TenantCtx,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, EventDescription>> {
  if (eventIds.length === 0) return new Map();
  const rows = await all(ctx.db, selectSome({ environmentId: ctx.environment.id, eventIds: JSON.stringify(eventIds) }));
  return new Map(rows.map((row) => [row.eventId, describe(row)]));
}
