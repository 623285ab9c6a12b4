import { readKey } from "../../db/key-form.ts";
import { invalid, PurserError } from "../../errors.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { uuidsFrom } from "../../lib/ids.ts";
import type { TenantCtx } from "../../runtime.ts";
import { changesProperties } from "../id-properties.ts";
import { type EventSize, findLimitAhead } from "../limits/analytics-limits.ts";
import { isCounted } from "../limits/daily-limits.ts";
import { estimateRecordBytes, estimateStoredBytes } from "../limits/stored-bytes.ts";
import { eventKey } from "../plan-people.ts";
import { CaptureBudget } from "./capture-budget.ts";
import { type ClientEvents, keyBesideEvents } from "./client-events.ts";
import { dropAll, type StoredEvents } from "./dropped-events.ts";
import {
  type Arrival,
  type CapturedEvent,
  countPeopleChanges,
  foreignEvent,
  idsNamedBy,
  type ReadEvent,
  readEvent,
} from "./event.ts";
import type { AddedProperties, CaptureRequest, V1Request } from "./event-request.ts";
import { noteReached, storeEvents } from "./store-events.ts";

export interface CaptureOutput {
  readonly status: 1;
  readonly quota_limited?: "events"[] | undefined;
  readonly refused?: { readonly index: number; readonly param: string; readonly message: string }[] | undefined;
}

export interface CaptureV1Output {
  readonly results: {
    readonly [name: string]: { readonly result: "drop" | "ok" | "warning"; readonly details?: string | undefined };
  };
}

/** The characters of properties that are stored at a time, unless a single event has more. */
const PART_CHARACTERS_MAX = 512 * 1024;
/** The characters of an event without its properties, at most about. */
const EVENT_CHARACTERS = 500;

function readArrival(ctx: TenantCtx, sentAtMs: number | null): Arrival {
  const isForeign = (text: string | null) => {
    const named = readKey(text ?? "")?.environment;
    return named !== undefined && (named.appId !== ctx.environment.appId || named.mode !== ctx.environment.mode);
  };
  // Events that follow one another usually have the same key, or none.
  let last = { key: null as string | null, isForeign: false };
  const isForeignKey = (key: string | null) => {
    if (key !== last.key) last = { key, isForeign: isForeign(key) };
    return last.isForeign;
  };
  return { nowMs: ctx.now(), sentAtMs, newUuid: uuidsFrom(ctx.newId("")), isForeignKey };
}

/**
 * Stores the events of a v0 request. The response lists malformed events, which are skipped. If all are malformed, throws
 * `invalid_request`, because clients do not repeat such a request.
 */
export async function capture(ctx: TenantCtx, { body, sentAtMs }: CaptureRequest): Promise<CaptureOutput> {
  const refused: NonNullable<CaptureOutput["refused"]> = [];
  let isLimited = false;
  await storeInParts(ctx, body, readArrival(ctx, sentAtMs), undefined, (read, index, { drops }) => {
    if ("rejected" in read) refused.push({ index, ...read.rejected });
    isLimited ||= drops.size > 0;
  });
  const [first] = refused;
  if (first !== undefined && refused.length === body.events.length) {
    throw invalid(
      [body.events.length > 1 ? `batch[${first.index}]` : "", first.param].filter(Boolean).join("."),
      first.message,
    );
  }
  return {
    status: 1,
    ...(isLimited ? { quota_limited: ["events" as const] } : {}),
    ...(refused.length === 0 ? {} : { refused }),
  };
}

/** Stores the events of a v1 request. Returns a result for each: stored, stored with a warning, or dropped with the reason. */
export async function captureV1(ctx: TenantCtx, request: V1Request): Promise<CaptureV1Output> {
  const { body, uuids, sentAtMs, added } = request;
  const results: [string, CaptureResult][] = [];
  await storeInParts(ctx, body, readArrival(ctx, sentAtMs), added, (read, index, stored) => {
    results.push([uuids[index] ?? "", presentResult(read, stored)]);
  });
  // If two events have one UUID, the first is stored, and its result is returned.
  return { results: Object.fromEntries(results.toReversed()) };
}

/** An event's ids are stored up to six times, and the properties that it sets twice. A character has up to three bytes. */
const BYTES_ADDED_PER_CHARACTER = 3 * 8;
const BYTES_ADDED_PER_EVENT = 2_000;

/**
 * Returns the most bytes that an event can add, without its id's record. It adds fewer if some of its data is stored already.
 */
function measureEvent(captured: CapturedEvent): EventSize {
  const { uuid, distinctId, link, properties } = captured;
  const claimed = link === null ? 0 : estimateRecordBytes(link.otherId);
  const changed = changesProperties(captured) ? utf8Length(captured.changes() ?? properties) : 0;
  return [uuid, estimateStoredBytes(captured) + claimed + changed, distinctId];
}

/** The most distinct ids that a request with a publishable or relay key names (L1). */
const REQUEST_IDS_MAX = 1_000;
/** The most bytes of the ids that a request names, where an id counts each time. Each is sent to D1 several times. */
const REQUEST_ID_BYTES_MAX = 1024 * 1024;

/** The most changes to people that a request with a publishable or relay key asks for, as `countPeopleChanges` counts them (L1). */
const REQUEST_CHANGES_MAX = 20_000;

/** Throws `payload_too_large` when the events name too many ids or change too much. Clients then send half as many events at a time. */
function assertModest(ctx: TenantCtx, { events }: ClientEvents): void {
  const ids = new Set<string>();
  let [idBytes, changes] = [0, 0];
  for (const event of events) {
    for (const id of idsNamedBy(event)) {
      idBytes += utf8Length(id);
      ids.add(id);
    }
    changes += countPeopleChanges(event);
    if (idBytes > REQUEST_ID_BYTES_MAX)
      throw tooMuch(`The ids of a request have at most ${REQUEST_ID_BYTES_MAX} bytes`);
    if (!isCounted(ctx)) continue;
    if (changes > REQUEST_CHANGES_MAX) {
      throw tooMuch(`With a publishable or relay key a request has at most ${REQUEST_CHANGES_MAX} changes to people`);
    }
    if (ids.size > REQUEST_IDS_MAX) {
      throw tooMuch(`With a publishable or relay key a request names at most ${REQUEST_IDS_MAX} distinct ids`);
    }
  }
}

const tooMuch = (limit: string): PurserError =>
  new PurserError("payload_too_large", `${limit}. Send fewer events at a time.`);

/**
 * Reads and stores the events of a body in order, a part at a time, so that memory does not depend on their number. After an error
 * the client sends the whole request again, and each UUID is stored once. Calls `report` with the result of each event.
 */
async function storeInParts(
  ctx: TenantCtx,
  body: ClientEvents,
  arrival: Arrival,
  added: AddedProperties | undefined,
  report: (read: ReadEvent, index: number, stored: StoredEvents) => void,
): Promise<void> {
  const { events, characters } = body;
  assertModest(ctx, body);
  const budget = new CaptureBudget();
  const areOfOtherKey = arrival.isForeignKey(keyBesideEvents(body));
  let reachedLimit: StoredEvents["reachedLimit"] = null;
  if (characters > PART_CHARACTERS_MAX) {
    const sizes = () =>
      events.flatMap((event): EventSize[] => {
        const read = readEvent(event, arrival, added);
        return "captured" in read ? [measureEvent(read.captured)] : [];
      });
    const ahead = await findLimitAhead(ctx, {
      events: events.length,
      bytesMax: BYTES_ADDED_PER_CHARACTER * characters + BYTES_ADDED_PER_EVENT * events.length,
      sizes,
    });
    if (ahead !== null) await noteReached(ctx, ahead.limit);
    reachedLimit = ahead?.isOfAllIds === true ? ahead.limit : null;
  }
  for (let next = 0; next < events.length; ) {
    const first = next;
    const part: ReadEvent[] = [];
    for (let partCharacters = 0; next < events.length && partCharacters < PART_CHARACTERS_MAX; next++) {
      const read = areOfOtherKey ? foreignEvent : readEvent(events[next], arrival, added);
      part.push(read);
      if ("captured" in read) partCharacters += read.captured.properties.length + EVENT_CHARACTERS;
    }
    const captured = part.flatMap((read) => ("captured" in read ? read.captured : []));
    // Only responses of v1 contain warnings.
    const includesWarnings = added !== undefined;
    const stored: StoredEvents =
      reachedLimit === null
        ? await storeEvents(ctx, captured, budget, includesWarnings)
        : dropAll(captured, reachedLimit);
    reachedLimit = stored.reachedLimit;
    for (const [index, read] of part.entries()) report(read, first + index, stored);
  }
}

type CaptureResult = CaptureV1Output["results"][string];

function presentResult(event: ReadEvent, { warnings, drops }: StoredEvents): CaptureResult {
  if ("rejected" in event) return { result: "drop", details: `${event.rejected.param} ${event.rejected.message}` };
  const key = eventKey(event.captured);
  const limit = drops.get(key);
  if (limit === "day") return { result: "drop", details: "the day's limits of analytics are reached" };
  if (limit === "databaseBytes") return { result: "drop", details: "the database is almost full" };
  if (limit !== undefined) return { result: "drop", details: `the limit ${limit} of today is reached` };
  const details = event.warning ?? warnings.get(key);
  return details === undefined ? { result: "ok" } : { result: "warning", details };
}
