import { formsOfId } from "../../db/usage-ids.ts";
import { assert, PurserError, rejectionIn } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type AccountAtRead, readTogether, spendableOf } from "../ledger/read-account.ts";
import { selectPayingBalances } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { Prices, withPrices } from "../prices/prices-in-force.ts";
import { announceMissingPrices } from "./announce-missing-prices.ts";
import { noteRejectedUsage, warnOfQuantities } from "./plan.ts";
import {
  decideEvents,
  type EventInput,
  type EventResult,
  type FingerprintedEvent,
  fingerprintEvent,
  type ListedEventOutput,
  membersOfInputs,
} from "./record-event.ts";
import { selectEvents } from "./write-event.ts";

/** An event of a list, with its place in it. */
export interface ListedEvent extends FingerprintedEvent {
  readonly place: number;
}

/** Events of one user, in the order of the list. */
export interface Part {
  readonly userId: string;
  readonly events: readonly ListedEvent[];
}

/**
 * Splits a list into parts that can be written concurrently, and events that must wait. An event waits if an earlier event of another
 * user, or a waiting event, has its id, or if an earlier event of its user waits.
 */
function partsOfList(events: readonly ListedEvent[]): {
  readonly parts: readonly Part[];
  readonly later: readonly ListedEvent[];
} {
  const parts = new Map<string, ListedEvent[]>();
  const later: ListedEvent[] = [];
  const owners = new Map<string, string>();
  const waitingUsers = new Set<string>();
  const waitingIds = new Set<string>();
  for (const listed of events) {
    const { userId, eventId } = listed.input;
    const owner = owners.get(eventId) ?? userId;
    owners.set(eventId, owner);
    if (owner !== userId || waitingIds.has(eventId)) waitingUsers.add(userId);
    if (waitingUsers.has(userId)) {
      waitingIds.add(eventId);
      later.push(listed);
      continue;
    }
    const eventsOfUser = parts.get(userId) ?? [];
    parts.set(userId, eventsOfUser);
    eventsOfUser.push(listed);
  }
  return { parts: toParts(parts), later };
}

const toParts = (parts: ReadonlyMap<string, readonly ListedEvent[]>): Part[] =>
  [...parts].map(([userId, events]) => ({ userId, events }));

/** The rejection of one event, with its id if that can be read. */
export interface EventRejection {
  readonly eventId: string | null;
  readonly rejection: PurserError;
}

/** An element of a list: an event, or why it is rejected. */
export type ListElement = { readonly input: EventInput } | EventRejection;

/** The result of an element. */
export type ElementResult = ListedEventOutput | EventRejection;

/** A request may use six connections to D1 at a time. */
const CONNECTIONS_MAX = 6;

/**
 * Records the events of a list, and returns a result for each, in order. All users are read in one batch. The events of a user are
 * written in one batch, and the batches of six users are sent concurrently.
 */
export async function recordList(ctx: TenantCtx, elements: readonly ListElement[]): Promise<readonly ElementResult[]> {
  const results: (ElementResult | undefined)[] = elements.map((element) => ("input" in element ? undefined : element));
  const bugs: unknown[] = [];
  const prices = new Prices(ctx);
  let heavy: Promise<unknown> = Promise.resolve();
  /** Users with very many balances are not read with the others. They are written one by one: six would not fit into memory. */
  const afterHeavy: InTurn = (write) => {
    const turn = heavy.then(write);
    heavy = turn.catch(() => {});
    return turn;
  };
  const record = async (part: Part, read: PartsRead | undefined): Promise<void> => {
    try {
      const found = await recordPart(ctx, part, { read, afterHeavy, prices });
      for (const [index, { place }] of part.events.entries()) results[place] = found[index];
    } catch (error) {
      bugs.push(error);
    }
  };
  /** The rejections of events that could not be recorded now, by event id. Later events with the same id get the same rejection. */
  const unavailable = new Map<string, PurserError>();
  let waiting = await fingerprintEvents(ctx, elements);
  while (waiting.length > 0) {
    const { parts, later } = partsOfList(waiting);
    const read = parts.length > 1 ? readParts(ctx, parts, prices) : undefined;
    for (let at = 0; at < parts.length; at += CONNECTIONS_MAX) {
      await Promise.all(parts.slice(at, at + CONNECTIONS_MAX).map((part) => record(part, read)));
    }
    for (const { events } of parts) {
      for (const { input, place } of events) noteUnavailable(unavailable, input.eventId, results[place]);
    }
    waiting = later.filter(({ input: { eventId }, place }) => {
      const rejection = unavailable.get(eventId);
      if (rejection !== undefined) results[place] = { eventId, rejection };
      return rejection === undefined;
    });
  }
  await announceMissingPrices(
    ctx,
    results.flatMap((result) => (result !== undefined && "rejection" in result ? [result.rejection] : [])),
  );
  // An unexpected error is thrown only after all events are processed.
  if (bugs.length > 0) throw bugs[0];
  return results.map((result) => {
    assert(result !== undefined, "every element has a result");
    return result;
  });
}

function noteUnavailable(
  unavailable: Map<string, PurserError>,
  eventId: string,
  result: ElementResult | undefined,
): void {
  if (result === undefined || !("rejection" in result) || unavailable.has(eventId)) return;
  if (result.rejection.code === "temporarily_unavailable") unavailable.set(eventId, result.rejection);
}

async function fingerprintEvents(ctx: TenantCtx, elements: readonly ListElement[]): Promise<readonly ListedEvent[]> {
  const fingerprinted = elements.map(async (element, place) =>
    "input" in element
      ? [
          {
            ...{ input: element.input, place },
            forms: await formsOfId(ctx, element.input.eventId),
            fingerprint: await fingerprintEvent(ctx, element.input),
          },
        ]
      : [],
  );
  return (await Promise.all(fingerprinted)).flat();
}

const idsOf = (events: readonly ListedEvent[]) => events.map(({ forms }) => forms);

const readInputs = (events: readonly ListedEvent[]) => events.map(({ input }) => input);

type PartsRead = ReturnType<typeof readParts>;
/** How the events of a part are written. */
interface PartWriting {
  /** Its rows, if they were read together with those of other users. */
  readonly read: PartsRead | undefined;
  readonly afterHeavy: InTurn;
  readonly prices: Prices;
}

type InTurn = <Answer>(write: () => Promise<Answer>) => Promise<Answer>;

function readParts(ctx: TenantCtx, parts: readonly Part[], prices: Prices) {
  const events = parts.flatMap((part) => part.events);
  const users = parts.map(({ userId, events }) => ({ userId, memberIds: membersOfInputs(readInputs(events)) }));
  return readTogether(ctx, users, [
    selectEvents(ctx, idsOf(events)),
    ...prices.select(readInputs(events), ctx.now()),
  ] as const);
}

/**
 * Returns the results of a user's events, in order. If the database fails, each event gets that error. Throws `clockMoved`, and the
 * caller then records the whole list again at the environment's new time: events that are recorded already are repeats.
 */
async function recordPart(ctx: TenantCtx, part: Part, writing: PartWriting): Promise<readonly ElementResult[]> {
  const { events } = part;
  const found = await writePart(ctx, part, writing).catch((error: unknown) => {
    const rejection = rejectionIn(error);
    if (rejection === null || rejection.fault === "clock_moved") throw error;
    return events.map(() => rejection);
  });
  return found.map((result, index) => {
    const input = events[index]?.input;
    if (!(result instanceof PurserError)) {
      if (input !== undefined) warnOfQuantities(ctx, input, result.debits);
      return result;
    }
    if (input !== undefined) noteRejectedUsage(ctx, input, result);
    return { eventId: input?.eventId ?? null, rejection: result };
  });
}

async function writePart(
  ctx: TenantCtx,
  { userId, events }: Part,
  { read, afterHeavy, prices: pricesOfList }: PartWriting,
): Promise<readonly EventResult[]> {
  const rejected = new Map<FingerprintedEvent, PurserError>();
  const together = await read;
  const account = together?.accounts.get(userId);
  const isHeavy = together !== undefined && account === undefined;
  const writeWith = (prices: Prices) =>
    writeForUser(ctx, {
      user: { userId },
      members: membersOfInputs(readInputs(events)),
      readBefore:
        together === undefined || account === undefined
          ? undefined
          : { account: asOfNow(ctx, account), found: together.found },
      read: (nowMs) => [selectEvents(ctx, idsOf(events)), ...prices.select(readInputs(events), nowMs)] as const,
      balances: (nowMs) => selectPayingBalances(ctx, { userId }, { nowMs }),
      recall: ({ settingsSnapshot }) => (prices.canRecall(settingsSnapshot, readInputs(events)) ? [[]] : null),
      decide: ([stored, listed], account) => {
        prices.take(listed);
        return decideEvents(ctx, account, {
          events,
          stored: new Map(stored.map((row) => [row.sentId, row])),
          balances: spendableOf(account),
          rejected,
          prices,
        });
      },
    });
  const write = () => withPrices(ctx, writeWith, pricesOfList);
  const written = await (isHeavy ? afterHeavy(write) : write());
  assert(written !== null, "a user named by id is never unknown");
  return written;
}

/** Returns an account at the current time. It was read before the batches of other users. */
function asOfNow(ctx: TenantCtx, account: AccountAtRead): AccountAtRead {
  return { ...account, nowMs: ctx.now() };
}
