import { and, desc, eq, gte, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, largeProperties, usageEvents } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalid, invalidCursor, PurserError } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { filterCovers } from "../amounts/match.ts";
import { accountQuery } from "../ledger/account.ts";
import { readDebits } from "../ledger/debits.ts";
import { describedFields, presentDescription, presentUsageTimes } from "./describe-events.ts";
import type { ShownEvent } from "./responses.ts";

export interface EventsOutput {
  readonly events: ShownEvent[];
  readonly nextCursor: string | null;
}

export interface EventsInput {
  readonly userId?: string | undefined;
  readonly eventId?: string | undefined;
  readonly event?: string | undefined;
  readonly model?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** How many events a page with a filter examines. So it reads at most 4,000 rows. */
const EXAMINED_MAX = 1_990;
/** The most bytes of properties on a page, unless a single event has more. */
const PAGE_PROPERTIES_BYTES_MAX = 1_500_000;

const listedEventFields = () => ({
  ...describedFields(),
  ...fields(usageEvents, "occurredByMs", "seq", "occurredAtMs", "receivedAtMs", "reservationId"),
  ...fields(usageEvents, "debits", "uncovered", "properties", "largePropertiesBytes"),
});
type ListedEventRow = RowOf<ReturnType<typeof listedEventFields>>;

/** The position of an event in a list, for the cursor. */
interface EventPosition {
  readonly beforeMs: number;
  readonly beforeSeq: number;
}

type EventSpan = EventPosition & { from: number };

/** The events of a span, the newest by `occurredAt` first. */
const selectEventsPage = accountQuery((value: ValueOf<EventSpan & { limit: number }>, account) => {
  const { accountId, occurredAtMs, seq } = usageEvents;
  return drizzle
    .select(listedEventFields())
    .from(sql`${usageEvents} INDEXED BY usage_events_occurred`)
    .where(
      and(
        eq(accountId, account),
        gte(occurredAtMs, value("from")),
        sql`(${occurredAtMs}, ${seq}) < (${value("beforeMs")}, ${value("beforeSeq")})`,
      ),
    )
    .orderBy(desc(occurredAtMs), desc(seq))
    .limit(boundLimit(value("limit")));
});

/** Whether a text matches a filter: none, a name or a glob. */
const passesEventFilter = (filter: string | undefined, text: string | null): boolean =>
  filter === undefined || (text !== null && filterCovers(filter, text));

/**
 * Returns a page of a user's usage events, newest `occurredAt` first; at equal times, the latest arrival first (U16). A page with a
 * filter examines a bounded number of events, so it may be short, even empty, while `nextCursor` is not null. Large properties take
 * another trip. A publishable key gets no properties.
 */
export async function listEvents(
  ctx: TenantCtx,
  input: EventsInput & { userId: string },
  hasProperties = ctx.caller.kind !== "publishable",
): Promise<EventsOutput> {
  const { userId, event, model, from, to, limit, cursor } = input;
  if (from !== undefined && to !== undefined && to < from) throw invalid("to", "must not be before `from`");
  const scope = ["usage events", ctx.environment.id, userId];
  const first = { beforeMs: to ?? Number.MAX_SAFE_INTEGER, beforeSeq: 0 };
  const span = { ...earlier(first, cursor === undefined ? first : readEventPosition(cursor, scope)), from: from ?? 0 };
  const user = { userId };
  const isFiltered = event !== undefined || model !== undefined;
  const examinedMax = isFiltered ? EXAMINED_MAX : limit + 1;
  const rows = await all(ctx.db, selectEventsPage(ctx, user, { ...span, limit: examinedMax }));
  const passing = rows.filter((row) => passesEventFilter(event, row.event) && passesEventFilter(model, row.model));
  const page = passing.slice(0, limit);
  const shown = hasProperties ? await withProperties(ctx, user, page) : page.map((row) => presentListedEvent(row));
  const hasMore = shown.length < passing.length;
  const last = hasMore ? page[shown.length - 1] : rows.length === examinedMax ? rows.at(-1) : undefined;
  return {
    events: shown,
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.occurredAtMs} ${last.seq}`, scope),
  };
}

/** Returns an event by its id, with its user's id. Throws `not_found`. */
export async function readUsageEventById(ctx: TenantCtx, eventId: string): Promise<ShownEvent & { userId: string }> {
  const [row] = await all(ctx.db, selectEventById({ environmentId: ctx.environment.id, eventId }));
  if (row === undefined) {
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  }
  const { userId, large, ...event } = row;
  return { userId, ...presentListedEvent(event, large ?? event.properties) };
}

const isOfEvent = () =>
  and(
    eq(largeProperties.accountId, usageEvents.accountId),
    eq(largeProperties.occurredByMs, usageEvents.occurredByMs),
    eq(largeProperties.seq, usageEvents.seq),
  );

const selectEventById = query((value: ValueOf<{ environmentId: number; eventId: string }>) =>
  drizzle
    .select({
      ...listedEventFields(),
      ...fields(accounts, "userId"),
      ...computed({
        large: sql<string | null>`(SELECT ${largeProperties.properties} FROM ${largeProperties} WHERE ${isOfEvent()})`,
      }),
    })
    .from(usageEvents)
    .innerJoin(accounts, eq(accounts.id, usageEvents.accountId))
    .where(and(eq(usageEvents.environmentId, value("environmentId")), eq(usageEvents.eventId, value("eventId")))),
);

const earlier = (a: EventPosition, b: EventPosition): EventPosition =>
  a.beforeMs < b.beforeMs || (a.beforeMs === b.beforeMs && a.beforeSeq < b.beforeSeq) ? a : b;

function readEventPosition(cursor: string, scope: readonly (string | number)[]): EventPosition {
  const text = decodeTextCursor(cursor, scope);
  const [, beforeMs, beforeSeq] = /^(\d{1,15}) (\d{1,15})$/.exec(text ?? "") ?? [];
  if (beforeMs === undefined || beforeSeq === undefined) throw invalidCursor();
  return { beforeMs: Number(beforeMs), beforeSeq: Number(beforeSeq) };
}

const selectLarge = accountQuery((value: ValueOf<{ keys: string }>, account) =>
  drizzle
    .select(fields(largeProperties, "seq", "properties"))
    .from(sql`json_each(${value("keys")}) AS event_key`)
    .crossJoin(largeProperties)
    .where(
      and(
        eq(largeProperties.accountId, account),
        sql`${largeProperties.occurredByMs} = event_key.value ->> 0`,
        sql`${largeProperties.seq} = event_key.value ->> 1`,
      ),
    ),
);

/** Returns the first events of a page with their properties: as many as the byte limit allows, but at least one. */
async function withProperties(
  ctx: TenantCtx,
  user: { userId: string },
  page: readonly ListedEventRow[],
): Promise<ShownEvent[]> {
  let bytes = 0;
  const shown = page.filter((row, index) => {
    bytes += row.largePropertiesBytes ?? 0;
    return index === 0 || bytes <= PAGE_PROPERTIES_BYTES_MAX;
  });
  const keys = shown.flatMap((row) => (row.largePropertiesBytes === null ? [] : [[row.occurredByMs, row.seq]]));
  const large = keys.length === 0 ? [] : await all(ctx.db, selectLarge(ctx, user, { keys: JSON.stringify(keys) }));
  const propertiesBySeq = new Map(large.map(({ seq, properties }) => [seq, properties]));
  return shown.map((row) => presentListedEvent(row, propertiesBySeq.get(row.seq) ?? row.properties));
}

/** An event as the API returns it. Without `properties` the field is left out. */
function presentListedEvent(row: ListedEventRow, properties?: string | null): ShownEvent {
  return {
    eventId: row.eventId,
    ...presentDescription(row),
    ...presentUsageTimes(row),
    reservationId: row.reservationId,
    debits: readDebits(row.debits).map(({ remaining: _, ...debit }) => debit),
    uncovered: row.uncovered === null ? null : (JSON.parse(row.uncovered) as ShownEvent["uncovered"]),
    ...(properties === undefined
      ? {}
      : { properties: properties === null ? null : (JSON.parse(properties) as JsonObject) }),
  };
}
