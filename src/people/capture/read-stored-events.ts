import { sql } from "drizzle-orm";
import { fields, query, read, type ValueOf } from "../../db/query.ts";
import { analyticsEvents } from "../../db/schema.ts";
import { batch, type Statement, type StatementRow } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { needsStoredPeople } from "../claims.ts";
import type { IdUse } from "../limits/count.ts";
import { eventKey } from "../plan-people.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../read-people.ts";
import type { CaptureBudget } from "./capture-budget.ts";
import type { CapturedEvent } from "./event.ts";

type StoredEventsKey = { environmentId: number; events: string; isVerified: number };

/** Of the events [distinct id, UUID], those that are stored, or that a verified event outranks (P4). */
const selectStored = query((value: ValueOf<StoredEventsKey>) => {
  const { environmentId, distinctId, uuid, isVerified } = analyticsEvents;
  return read(
    fields(analyticsEvents, "uuid", "distinctId"),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("events")}) AS i CROSS JOIN ${analyticsEvents}
      WHERE ${environmentId} = ${value("environmentId")} AND ${distinctId} = i.value ->> 0 AND ${uuid} = i.value ->> 1
        AND ${isVerified} >= ${value("isVerified")}`,
  );
});

type StoredEventRow = StatementRow<typeof selectStored>;

/**
 * Reads, in one batch, which events are already stored and the data for the plan. Returns the first events, for which the
 * data is complete.
 */
export async function readStoredEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  budget: CaptureBudget,
  useReads: readonly Statement<IdUse>[],
) {
  const environmentId = ctx.environment.id;
  const isVerified = Number(ctx.caller.kind === "secret");
  const keys = jsonChunks(events.map(({ distinctId, uuid }) => [distinctId, uuid]));
  const reads: Statement<StoredEventRow | PeopleRow | IdUse>[] = keys.map((chunk) =>
    selectStored({ environmentId, events: chunk, isVerified }),
  );
  const results = await batch(ctx.db, [...reads, ...peopleReads(ctx, events), ...useReads]);
  const storedKeys = new Set<string>();
  const rows: PeopleRow[] = [];
  const uses: IdUse[] = [];
  for (const row of results.flat()) {
    if ("uuid" in row) storedKeys.add(eventKey(row));
    else if ("limits" in row) uses.push(row);
    else rows.push(row);
  }
  const stored = storedPeople(rows);
  budget.read(stored.properties);
  const end = events.findIndex((event) => needsStoredPeople(event) && stored.unread.has(event.distinctId));
  const firstEvents = end === -1 ? events : events.slice(0, end);
  const newEvents = firstEvents.filter((event) => !storedKeys.has(eventKey(event)));
  return { firstEvents, newEvents, stored, uses };
}
