import { sql } from "drizzle-orm";
import { withoutKeys } from "../../db/key-form.ts";
import {
  asInteger,
  computed,
  drizzle,
  fields,
  insertFrom,
  query,
  type RowOf,
  returning,
  type ValueOf,
} from "../../db/query.ts";
import { largeProperties, usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { type FormsOfId, hasEventId, idOfNewEvent } from "../../db/usage-ids.ts";
import { assert, type PurserError } from "../../errors.ts";
import { utf8Length } from "../../lib/encoding.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { presentQuantities, type UnitAmounts } from "../amounts/amount.ts";
import { type MeterAmounts, metersJson, presentMeters } from "../amounts/meters.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import { countSpent } from "../ledger/count-entries.ts";
import { countedJson, type NewCount } from "../ledger/counters.ts";
import type { Debit } from "../ledger/debits.ts";
import {
  debitsOfLegs,
  debitsOfPayment,
  lastEventOf,
  type PlannedPayment,
  placeOfEvent,
  readDebits,
  sumsAtDebits,
} from "../ledger/debits.ts";
import {
  compareFingerprint,
  type Decision,
  idempotencyConflict,
  type Outcome,
  type RequestFingerprint,
  writeReturning,
} from "../ledger/decision.ts";
import type { Hold } from "../ledger/hold.ts";
import { usageRecorded } from "../ledger/messages.ts";
import { memberOfReservation, memberOfWrite } from "../ledger/payer-members.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { planDebit, settleHold } from "../ledger/settle.ts";
import { debitsField } from "../ledger/stored-legs.ts";
import type { PricedUsage } from "../prices/priced-usage.ts";
import { quantitiesField } from "./describe-events.ts";
import { type EventSentAgain, isSameEvent } from "./erased-request.ts";

export interface EventOutput {
  readonly eventId: string;
  readonly debits: Debit[];
  readonly uncovered: UnitAmounts | null;
  /** Only for an event with meters. */
  readonly quantities?: UnitAmounts | undefined;
  readonly meters?: MeterAmounts | undefined;
  readonly priceVersion?: number | undefined;
}

/** Larger properties are stored in `large_properties`, so that they do not slow down other inserts. */
const PROPERTIES_BYTES_OF_ROW = 1_024;

const answerFields = () => ({
  ...debitsField(),
  ...fields(usageEvents, "uncovered"),
  ...fields(usageEvents, "countMinor", "tokensMinor", "secondsMinor", "centsMinor", "meters", "priceVersion"),
});
type StoredAnswer = RowOf<ReturnType<typeof answerFields>>;

/** The fields with which repeats are compared. */
const repeatedFields = () =>
  fields(
    usageEvents,
    ...(["requestHash", "accountId", "event", "model", "occurredAtMs", "receivedAtMs", "reservationId"] as const),
  );

/** A stored event's response, and the fields with which repeats are compared. */
export type StoredEvent = StoredAnswer & RowOf<ReturnType<typeof repeatedFields>>;

const selectEventSql = query((value: ValueOf<{ environmentId: number; forms: string }>) =>
  drizzle
    .select({ ...repeatedFields(), ...answerFields() })
    .from(usageEvents)
    .where(hasEventId(value, value("forms"))),
);

const selectEventsSql = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select({ ...computed({ sentId: sql<string>`named.value ->> 0` }), ...repeatedFields(), ...answerFields() })
    .from(sql`json_each(${value("ids")}) AS named`)
    .crossJoin(usageEvents)
    .where(hasEventId(value, sql`named.value`)),
);

/** The event with an id, of any user: at most one row. */
export function selectEvent(ctx: TenantCtx, forms: FormsOfId): ReturnType<typeof selectEventSql> {
  return selectEventSql({ environmentId: ctx.environment.id, forms: JSON.stringify(forms) });
}

/** The events with some ids, of any users, each with the id as it was sent. */
export function selectEvents(ctx: TenantCtx, ids: readonly FormsOfId[]): ReturnType<typeof selectEventsSql> {
  return selectEventsSql({ environmentId: ctx.environment.id, ids: JSON.stringify(ids) });
}

/** Returns the price of an event with meters. Nothing for one with quantities. */
function presentPrice(stored: StoredAnswer): Pick<EventOutput, "quantities" | "meters" | "priceVersion"> {
  const meters = presentMeters(stored.meters);
  if (meters === null || stored.priceVersion === null) return {};
  return { quantities: quantitiesField.of(stored), meters, priceVersion: stored.priceVersion };
}

function presentEvent(eventId: string, stored: StoredAnswer): EventOutput {
  return {
    eventId,
    debits: readDebits(stored.debits),
    uncovered: stored.uncovered === null ? null : (JSON.parse(stored.uncovered) as EventOutput["uncovered"]),
    ...presentPrice(stored),
  };
}

/** Returns `idempotency_conflict`: another event has the id. */
export function eventConflict(stored: string, fingerprint: RequestFingerprint): PurserError {
  return idempotencyConflict("Another event has this id. Send a new `eventId`.", "eventId", stored, fingerprint);
}

/** Returns the first result again. Throws `idempotency_conflict` if a different request used the id (U4). */
export function answerEventRepeat(
  eventId: string,
  stored: StoredEvent,
  fingerprint: RequestFingerprint,
  sent: EventSentAgain,
): Outcome<EventOutput> {
  const isErased = stored.requestHash === "";
  const comparison =
    isErased && isSameEvent(stored, sent) ? "replay" : compareFingerprint(stored.requestHash, fingerprint);
  if (comparison === "other") throw eventConflict(stored.requestHash, fingerprint);
  return { output: presentEvent(eventId, stored), replayed: comparison === "replay" };
}

/** An event to record, with its payment. */
export interface NewEvent extends PricedUsage {
  readonly eventId: string;
  readonly forms: FormsOfId;
  readonly event: string;
  /** Null for none. */
  readonly memberId: string | null;
  readonly model: string | null;
  readonly properties?: JsonObject | undefined;
  /** If undefined, the time of the request. */
  readonly occurredAt?: number | undefined;
  readonly reservationId: string | null;
  /** The number of its reservation, if that has a member. Then the event has the same. */
  readonly memberOfReservation?: number | undefined;
  readonly payment: PlannedPayment;
  readonly counts: readonly NewCount[];
}

/** The rows that are written with an event. */
interface EventContext {
  /** The statements before it. */
  readonly before?: readonly Statement[];
  /** The holds of the reservation that it settles. */
  readonly settles?: Hold;
  /** The sums by balance of the entries of earlier events, to which it adds its own. */
  readonly sums?: Map<string, number>;
}

/** Writes the event's row, and then its debits, so that a replay is found before insufficient credits. */
export function writeEvent(
  ctx: TenantCtx,
  writing: AccountAtRead,
  event: NewEvent,
  fingerprint: RequestFingerprint,
  { before = [], settles, sums }: EventContext = {},
): Decision<Outcome<EventOutput>> {
  const { eventId, payment } = event;
  const debits = payment.legs.map(({ balance, amountMinor }) => planDebit(balance.id, amountMinor, eventId));
  const settlement = settles === undefined ? undefined : settleHold(settles, { state: "committed", eventId }, debits);
  const entries = settlement?.entries ?? debits;
  const { largePropertiesWrites, returning } = insertEvent(writing, event, fingerprint, sumsAtDebits(entries, sums));
  const parts = {
    before: [...before, ...largePropertiesWrites],
    returning,
    ...(settlement === undefined ? { entries } : { settles: settlement }),
    remembers: {},
    counts: event.counts,
    members: event.memberId === null ? [] : [event.memberId],
    messages: () => [
      usageRecorded(writing.userId, {
        ...event,
        meters: event.meters === null ? null : presentMeters(metersJson(event.meters)),
        reservationNumber: settles?.reservationNumber,
        hasEntries: entries.length > 0,
      }),
    ],
    needsFreshRead: debits.length === 0 || payment.uncovered !== null,
  };
  return writeReturning(parts, ([row]) => {
    assert(row !== undefined, "the insert returns the event's row");
    countSpent(ctx.environment, writing.nowMs, event.payment);
    return { output: presentEvent(event.eventId, row), replayed: false };
  });
}

type InsertedEvent = WriteContext & ReturnType<typeof eventValues>;

/** The FROM clause: the numbers of the event, `given.n`, joined with the account's last event. */
const fromNumbers = (value: ValueOf<InsertedEvent>) =>
  sql`FROM (SELECT ${value("numbers")} AS n) AS given LEFT JOIN ${lastEventOf(value)}`;

const numberOfReservation = sql`(given.n ->> 'memberOfReservation')`;

const insertEventSql = query((value: ValueOf<InsertedEvent & { properties: string | null }>) =>
  returning(
    answerFields(),
    (list) =>
      sql`${insertFrom(
        usageEvents,
        {
          ...placeOfEvent(value),
          environmentId: asInteger(value("environmentId")),
          eventId: idOfNewEvent(value, value("forms")),
          event: value("event"),
          model: value("model"),
          countMinor: sql`given.n ->> 'count'`,
          tokensMinor: sql`given.n ->> 'tokens'`,
          secondsMinor: sql`given.n ->> 'seconds'`,
          centsMinor: sql`given.n ->> 'cents'`,
          meters: value("meters"),
          priceVersion: sql`given.n ->> 'priceVersion'`,
          costMinor: sql`given.n ->> 'costMinor'`,
          occurredAtMs: sql`given.n ->> 'occurredAtMs'`,
          receivedAfterMs: sql`given.n ->> 'receivedAfterMs'`,
          reservationId: value("reservationId"),
          requestHash: value("requestHash"),
          debits: debitsOfLegs(value, sql`${value("legs")}`),
          uncovered: value("uncovered"),
          counted: value("counted"),
          memberNumber: sql`iif(${numberOfReservation} IS NULL, ${memberOfWrite(value)}, ${memberOfReservation(accountOfWrite(value), numberOfReservation)})`,
          properties: value("properties"),
          largePropertiesBytes: sql`given.n ->> 'largeBytes'`,
        },
        fromNumbers(value),
      )} RETURNING ${list}`,
  ),
);

// Send it before its event, which the database rejects otherwise. A repeated event aborts the whole batch.
const insertLargePropertiesSql = query((value: ValueOf<InsertedEvent & { properties: string }>) =>
  insertFrom(largeProperties, { ...placeOfEvent(value), properties: value("properties") }, fromNumbers(value)),
);

/** Numbers are sent in JSON, because D1 binds them as REAL. */
function eventValues(
  event: NewEvent,
  fingerprint: RequestFingerprint,
  {
    sums,
    receivedAtMs,
    largeBytes,
  }: { sums: ReadonlyMap<string, number>; receivedAtMs: number; largeBytes: number | null },
) {
  const { forms, memberId, model, reservationId, quantities, meters, priceVersion, costMinor, payment, counts } = event;
  const occurredAtMs = event.occurredAt ?? receivedAtMs;
  const receivedAfterMs = receivedAtMs - occurredAtMs;
  return {
    forms: JSON.stringify(forms),
    memberId,
    event: event.event,
    model,
    reservationId,
    numbers: JSON.stringify({
      ...quantities,
      ...{ priceVersion, costMinor, occurredAtMs, receivedAfterMs, largeBytes },
      memberOfReservation: event.memberOfReservation,
    }),
    meters: meters === null ? null : metersJson(meters),
    requestHash: fingerprint.stored,
    legs: JSON.stringify(debitsOfPayment(payment, sums)),
    uncovered: payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered)),
    counted: countedJson(counts),
  };
}

/** The statements that store large properties, if any, and then record the event and return its debits. */
function insertEvent(
  writing: AccountAtRead,
  event: NewEvent,
  fingerprint: RequestFingerprint,
  sums: ReadonlyMap<string, number>,
) {
  const properties = event.properties === undefined ? null : withoutKeys(JSON.stringify(event.properties));
  const bytes = properties === null ? 0 : utf8Length(properties);
  const isLarge = bytes > PROPERTIES_BYTES_OF_ROW;
  const more = { sums, receivedAtMs: writing.nowMs, largeBytes: isLarge ? bytes : null };
  const values = { ...writingValues(writing), ...eventValues(event, fingerprint, more) };
  return {
    largePropertiesWrites: isLarge && properties !== null ? [insertLargePropertiesSql({ ...values, properties })] : [],
    returning: insertEventSql({ ...values, properties: isLarge ? null : properties }),
  };
}
