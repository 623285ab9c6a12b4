import { and, desc, eq, gte, type SQL, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, largeProperties, usageEvents } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { formsOfId, hasEventId } from "../../db/usage-ids.ts";
import { invalid, invalidCursor, PurserError } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor, firstWithin, LIST_PAGE_BYTES_MAX } from "../../lib/cursor.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { filterCovers } from "../amounts/match.ts";
import type { MeterAmounts } from "../amounts/meters.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { readDebits } from "../ledger/debits.ts";
import { memberIdOf, memberNumberOf } from "../ledger/payer-members.ts";
import { debitsField, SHOWN_DEBIT_BYTES_MAX, shownDebits } from "../ledger/stored-legs.ts";
import {
  type AmountOfBalance,
  describedFields,
  presentCost,
  presentDescription,
  presentUsageTimes,
} from "./describe-events.ts";

export interface ShownEvent {
  readonly eventId: string;
  /** Absent for a publishable key. */
  readonly memberId?: string | null | undefined;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: UnitAmounts;
  readonly meters: MeterAmounts | null;
  readonly priceVersion: number | null;
  /** Absent for a publishable key, like the properties. */
  readonly cost?: number | null | undefined;
  readonly occurredAt: string;
  readonly receivedAt: string;
  readonly reservationId: string | null;
  readonly debits: AmountOfBalance[];
  readonly uncovered: UnitAmounts | null;
  readonly properties?: { readonly [name: string]: unknown } | null | undefined;
}

export interface EventsOutput {
  readonly events: ShownEvent[];
  readonly nextCursor: string | null;
}

export interface EventsInput {
  readonly userId?: string | undefined;
  readonly memberId?: string | undefined;
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
/** Longer debits are read after the page is cut. */
const DEBITS_BYTES_MAX = LIST_PAGE_BYTES_MAX / 2_048;

const listedEventFields = () => ({
  ...describedFields(),
  ...fields(usageEvents, "seq", "occurredAtMs", "receivedAtMs", "reservationId"),
  ...fields(usageEvents, "uncovered", "properties", "largePropertiesBytes", "costMinor"),
  ...computed({ memberId: memberIdOf(usageEvents) }),
  ...debitsField(),
});
type ListedEventRow = RowOf<ReturnType<typeof listedEventFields>>;

const shortDebits = () => {
  // A shown debit has not more than the stored one and this.
  const bytes = sql<number>`${SHOWN_DEBIT_BYTES_MAX} * json_array_length(${usageEvents.debits})`;
  return computed({
    debits: sql<string | null>`iif(${bytes} > ${DEBITS_BYTES_MAX}, NULL, ${shownDebits()})`,
    debitsBytes: bytes,
  });
};
type PageRow = Omit<ListedEventRow, "debits"> & RowOf<ReturnType<typeof shortDebits>>;

/** The position of an event in a list, for the cursor. */
interface EventPosition {
  readonly beforeMs: number;
  readonly beforeSeq: number;
}

type EventSpan = EventPosition & { from: number };

type PageValues = EventSpan & { limit: number; memberId: string };

/** The events of a span, the newest by `occurredAt` first. */
const eventsPageBy = (
  index: SQL,
  isOfMember: (value: ValueOf<PageValues & { environmentId: number }>, account: SQL) => SQL | undefined,
) =>
  accountQuery((value: ValueOf<PageValues & OfUser>, account) => {
    const { accountId, occurredAtMs, seq } = usageEvents;
    return drizzle
      .select({ ...listedEventFields(), ...shortDebits() })
      .from(sql`${usageEvents} INDEXED BY ${index}`)
      .where(
        and(
          eq(accountId, account),
          isOfMember(value, account),
          gte(occurredAtMs, value("from")),
          sql`(${occurredAtMs}, ${seq}) < (${value("beforeMs")}, ${value("beforeSeq")})`,
        ),
      )
      .orderBy(desc(occurredAtMs), desc(seq))
      .limit(boundLimit(value("limit")));
  });

const selectEventsPage = eventsPageBy(sql`usage_events_occurred`, () => undefined);
/** The same for one member, from the index of members' events. */
const selectMemberEventsPage = eventsPageBy(sql`usage_events_member`, (value, account) => {
  const number = memberNumberOf(value, account, sql`${value("memberId")}`);
  return sql`${usageEvents.memberNumber} = ${number} AND ${usageEvents.memberNumber} IS NOT NULL`;
});

/** Whether a text matches a filter: none, a name or a glob. */
const passesEventFilter = (filter: string | undefined, text: string | null): boolean =>
  filter === undefined || (text !== null && filterCovers(filter, text));

/**
 * Returns a page of a user's usage events, newest `occurredAt` first; at equal times, the latest arrival first (U16). A page with a
 * filter examines a bounded number of events, so it may be short, even empty, while `nextCursor` is not null. Large properties and
 * long lists of debits take another trip, and end the page early. A publishable key gets no properties.
 */
export async function listEvents(
  ctx: TenantCtx,
  input: EventsInput & { userId: string },
  hasProperties = ctx.caller.kind !== "publishable",
): Promise<EventsOutput> {
  const { userId, memberId, event, model, from, to, limit, cursor } = input;
  if (from !== undefined && to !== undefined && to < from) throw invalid("to", "must not be before `from`");
  const scope = ["usage events", ctx.environment.id, userId];
  const first = { beforeMs: to ?? Number.MAX_SAFE_INTEGER, beforeSeq: 0 };
  const span = { ...earlier(first, cursor === undefined ? first : readEventPosition(cursor, scope)), from: from ?? 0 };
  const user = { userId };
  const isFiltered = event !== undefined || model !== undefined;
  const examinedMax = isFiltered ? EXAMINED_MAX : limit + 1;
  const select = memberId === undefined ? selectEventsPage : selectMemberEventsPage;
  const rows = await all(ctx.db, select(ctx, user, { ...span, memberId: memberId ?? "", limit: examinedMax }));
  const passing = rows.filter((row) => passesEventFilter(event, row.event) && passesEventFilter(model, row.model));
  const withinLimit = firstWithin(passing.slice(0, limit), ({ debitsBytes }) => debitsBytes, LIST_PAGE_BYTES_MAX);
  const page = hasProperties
    ? firstWithin(withinLimit, (row) => row.largePropertiesBytes ?? 0, PAGE_PROPERTIES_BYTES_MAX)
    : withinLimit;
  const shown = await presentEventsPage(ctx, user, page, hasProperties);
  const hasMore = page.length < passing.length;
  const last = hasMore ? page.at(-1) : rows.length === examinedMax ? rows.at(-1) : undefined;
  return {
    events: shown,
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.occurredAtMs} ${last.seq}`, scope),
  };
}

/** Returns an event by its id, with its user's id. Throws `not_found`. */
export async function readUsageEventById(ctx: TenantCtx, eventId: string): Promise<ShownEvent & { userId: string }> {
  const forms = JSON.stringify(await formsOfId(ctx, eventId));
  const [row] = await all(ctx.db, selectEventById({ environmentId: ctx.environment.id, forms }));
  if (row === undefined) {
    throw new PurserError("not_found", "There is no usage event with this id.", { param: "eventId" });
  }
  const { userId, large, ...event } = row;
  return { userId, ...presentListedEvent({ ...event, eventId }, large ?? event.properties) };
}

const isOfEvent = () =>
  and(eq(largeProperties.accountId, usageEvents.accountId), eq(largeProperties.seq, usageEvents.seq));

const selectEventById = query((value: ValueOf<{ environmentId: number; forms: string }>) =>
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
    .where(hasEventId(value, value("forms"))),
);

const earlier = (a: EventPosition, b: EventPosition): EventPosition =>
  a.beforeMs < b.beforeMs || (a.beforeMs === b.beforeMs && a.beforeSeq < b.beforeSeq) ? a : b;

function readEventPosition(cursor: string, scope: readonly (string | number)[]): EventPosition {
  const text = decodeTextCursor(cursor, scope);
  const [, beforeMs, beforeSeq] = /^(\d{1,15}) (\d{1,15})$/.exec(text ?? "") ?? [];
  if (beforeMs === undefined || beforeSeq === undefined) throw invalidCursor();
  return { beforeMs: Number(beforeMs), beforeSeq: Number(beforeSeq) };
}

/** Returns a condition: a row belongs to one of the events that `seqs` names. */
const isOfSeqs = (account: SQL, table: typeof largeProperties | typeof usageEvents): SQL =>
  sql`${table.accountId} = ${account} AND ${table.seq} = named.value`;
const eventSeqs = (value: ValueOf<{ seqs: string }>) => sql`json_each(${value("seqs")}) AS named`;

const selectLarge = accountQuery((value: ValueOf<{ seqs: string }>, account) =>
  drizzle
    .select(fields(largeProperties, "seq", "properties"))
    .from(eventSeqs(value))
    .crossJoin(largeProperties)
    .where(isOfSeqs(account, largeProperties)),
);
const selectDebits = accountQuery((value: ValueOf<{ seqs: string }>, account) =>
  drizzle
    .select({ ...fields(usageEvents, "seq"), ...debitsField() })
    .from(eventSeqs(value))
    .crossJoin(usageEvents)
    .where(isOfSeqs(account, usageEvents)),
);

/** Returns the events of a page, with what the page left out. */
async function presentEventsPage(
  ctx: TenantCtx,
  user: { userId: string },
  page: readonly PageRow[],
  hasProperties: boolean,
): Promise<ShownEvent[]> {
  const seqsOf = (isLeftOut: (row: PageRow) => boolean) => ({
    seqs: JSON.stringify(page.filter(isLeftOut).map(({ seq }) => seq)),
  });
  const hasLarge = (row: PageRow): boolean => hasProperties && row.largePropertiesBytes !== null;
  const hasLong = (row: PageRow): boolean => row.debits === null;
  const [large, long] = page.some((row) => hasLarge(row) || hasLong(row))
    ? await batch(ctx.db, [selectLarge(ctx, user, seqsOf(hasLarge)), selectDebits(ctx, user, seqsOf(hasLong))] as const)
    : [[], []];
  const propertiesBySeq = new Map(large.map(({ seq, properties }) => [seq, properties]));
  const debitsBySeq = new Map(long.map(({ seq, debits }) => [seq, debits]));
  return page.map((row) => {
    const event = { ...row, debits: row.debits ?? debitsBySeq.get(row.seq) ?? "[]" };
    const properties = propertiesBySeq.get(row.seq) ?? row.properties;
    return hasProperties ? presentListedEvent(event, properties) : presentListedEvent(event);
  });
}

/** An event as the API returns it. Without `properties`, for a publishable key, its cost is left out too (PR8). */
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
      : {
          memberId: row.memberId,
          cost: presentCost(row.costMinor),
          properties: properties === null ? null : (JSON.parse(properties) as JsonObject),
        }),
  };
}
