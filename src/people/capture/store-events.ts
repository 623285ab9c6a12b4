import { countActivity, noteUse } from "../../db/activity.ts";
import { attempt, constraintOf, RetryAttempt } from "../../db/attempt.ts";
import { withTombstones } from "../../db/known-tombstones.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { findErased, personGuards } from "../../db/tombstones.ts";
import type { TenantCtx } from "../../runtime.ts";
import { needsStoredPeople } from "../claims.ts";
import { environmentLimitIn, idsOverLimit, idUseReads, isIdLimit, type ReachedLimit } from "../limits/count.ts";
import { reachedWrites } from "../limits/reached.ts";
import { guardOfKnown, readPeopleFirst, rememberPeople } from "../memory.ts";
import {
  noStoredPeople,
  type PeopleChange,
  planPeople,
  type StoredPeople,
  warningsAlone,
  withoutPeople,
} from "../plan-people.ts";
import type { CapturedEvent } from "./event.ts";
import { idsMentioned, idsWritten, nothingErased, type Remaining, withoutErased } from "./without-erased.ts";
import {
  type CaptureBudget,
  dropAll,
  dropsOf,
  type EventBatch,
  readStoredEvents,
  type StoredEvents,
  writeEvents,
} from "./write-events.ts";

/** Planning a link reads stored ids, which may be long. This bounds how many links a batch plans. */
const LINKS_MAX = 1_000;

/**
 * Stores events, each UUID once, with their changes to people (P2, P3) and their counts for the day's limits (L3), in one batch or
 * a few. A repeated batch changes nothing. Events without changes to people need no read. When an id's limit is exceeded, none of
 * its events are stored; when an environment's is, storing stops. `areWarned`: whether the response contains warnings.
 */
export function storeEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  budget: CaptureBudget,
  areWarned: boolean,
): Promise<StoredEvents> {
  const isVerified = ctx.caller.kind === "secret";
  return withTombstones(ctx, async (fingerprints, guard) => {
    const guards: EventBatch["guards"] = async (some) => [
      guard,
      ...(fingerprints.length === 0
        ? []
        : await personGuards(ctx, fingerprints, idsWritten(some, isVerified), idsMentioned(some))),
    ];
    let remaining = nothingErased;
    for (;;) {
      try {
        const stored = await storeAll(ctx, events, remaining, budget, guards);
        return isVerified ? stored : { ...stored, warnings: areWarned ? warningsAlone(events) : noWarnings };
      } catch (error) {
        if (!(error instanceof PersonErased)) throw error;
        const ids = [...idsWritten(events, isVerified), ...idsMentioned(events)];
        remaining = withoutErased(events, await findErased(ctx, fingerprints, ids), isVerified);
      }
    }
  });
}

async function storeAll(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  remaining: Remaining,
  budget: CaptureBudget,
  guards: EventBatch["guards"],
): Promise<StoredEvents> {
  const warnings = new Map<string, string>();
  const drops = new Map<string, ReachedLimit>();
  for (let rest = onceEach(events); rest.length > 0; ) {
    const attempts: Attempts = { guards, remaining, warnings: noWarnings, isIdOver: false };
    const stored = await attempt(ctx, () => storeWithin(ctx, rest, budget, attempts));
    const { full } = stored;
    for (const [uuid, limit] of full === null ? stored.drops : dropAll(rest, full).drops) drops.set(uuid, limit);
    if (full !== null) return { warnings, drops, full };
    for (const [uuid, warning] of attempts.warnings) warnings.set(uuid, warning);
    for (const { distinctId } of remaining.of(rest.slice(0, stored.count)))
      noteUse("person", ctx.environment, distinctId, ctx.now());
    rest = rest.slice(stored.count);
  }
  return { warnings, drops, full: null };
}

function onceEach(events: readonly CapturedEvent[]): readonly CapturedEvent[] {
  const first = new Map<string, CapturedEvent>();
  for (const event of events) if (!first.has(event.uuid)) first.set(event.uuid, event);
  return [...first.values()];
}

/** Thrown when a person of the events was erased after the tombstones were looked up. */
class PersonErased extends Error {}

/** State that the attempts at one batch share. */
interface Attempts extends EventBatch {
  /** The warnings of the latest plan. */
  warnings: ReadonlyMap<string, string>;
  /** Whether an id exceeded a limit. Then the next attempt first reads what the ids sent today. */
  isIdOver: boolean;
}

/** How many of the first events are processed, and their results. */
interface Processed extends Pick<StoredEvents, "drops" | "full"> {
  readonly count: number;
}

const allStored = (count: number): Processed => ({ count, drops: new Map(), full: null });

/** Calls `storeSome`, and drops the events when a limit of the environment is reached. */
async function storeWithin(
  ctx: TenantCtx,
  rest: readonly CapturedEvent[],
  budget: CaptureBudget,
  attempts: Attempts,
): Promise<Processed> {
  try {
    return await storeSome(ctx, rest, budget, attempts);
  } catch (error) {
    if (constraintOf(error) === "guard_person") throw new PersonErased();
    if (isIdLimit(error)) {
      attempts.isIdOver = true;
      throw new RetryAttempt("The counts of the ids are read first.", { cause: error });
    }
    const full = environmentLimitIn(error);
    if (full === null) throw error;
    await noteReached(ctx, full);
    return { ...allStored(0), full };
  }
}

/** Records that a limit of the environment was reached. */
export async function noteReached(ctx: TenantCtx, full: ReachedLimit): Promise<void> {
  const reached = reachedWrites(ctx, [full], ctx.now());
  await batch(ctx.db, reached.statements);
  reached.onWritten();
}

/** Stores the first events, at least one, in one batch, except those of ids that exceed a limit. */
async function storeSome(
  ctx: TenantCtx,
  rest: readonly CapturedEvent[],
  budget: CaptureBudget,
  attempts: Attempts,
): Promise<Processed> {
  const isVerified = ctx.caller.kind === "secret";
  const { remaining } = attempts;
  const asked = withinLinks(rest);
  const nowMs = ctx.now();
  if (!attempts.isIdOver) {
    if (!asked.some(needsStoredPeople)) {
      const change = planPeople(remaining.of(asked), noStoredPeople, isVerified);
      await writeEvents(ctx, attempts, asked, nowMs, { change });
      return allStored(asked.length);
    }
    // Nothing is remembered of erased ids, and a secret key gets all warnings (E4).
    const guard = remaining.erased.size > 0 && isVerified ? null : guardOfKnown(ctx, remaining.of(asked), nowMs);
    if (guard !== null) {
      await writeKnown(ctx, attempts, asked, guard, nowMs);
      return allStored(asked.length);
    }
  }
  const useReads = attempts.isIdOver ? idUseReads(ctx, asked, ctx.realNow()) : [];
  const { sent, newEvents, stored, uses } = await readStoredEvents(ctx, asked, budget, useReads);
  // An earlier attempt whose response was lost may have stored them.
  if (newEvents.length === 0) return allStored(sent.length);
  const planned = planPeople(remaining.of(newEvents), stored, isVerified);
  const over = idsOverLimit(uses, newEvents, planned.ids);
  const kept = newEvents.filter(({ distinctId }) => !over.has(distinctId));
  const change = over.size === 0 ? planned : planPeople(remaining.of(kept), stored, isVerified);
  attempts.warnings = warningsOf(kept, stored, change, attempts, isVerified);
  const reached = reachedWrites(ctx, over.values(), nowMs);
  await writeEvents(ctx, attempts, kept, nowMs, { change, following: reached.statements });
  reached.onWritten();
  if (!isVerified && change.refusedClaims > 0) {
    countActivity(ctx.environment, "refused_claim", nowMs, "", change.refusedClaims);
  }
  rememberPeople(ctx, change.settled, nowMs);
  return { ...allStored(sent.length), drops: dropsOf(newEvents, over) };
}

const noWarnings: ReadonlyMap<string, string> = new Map();

/** The warnings for a secret key. For erased ids they are computed as if the ids had never been seen (E4). */
function warningsOf(
  events: readonly CapturedEvent[],
  stored: StoredPeople,
  { warnings }: PeopleChange,
  { remaining: { erased } }: Attempts,
  isVerified: boolean,
): ReadonlyMap<string, string> {
  if (erased.size === 0 || !isVerified) return warnings;
  return planPeople(events, withoutPeople(stored, erased), true).warnings;
}

/** Stores events that change nothing about people. The batch aborts when `guard` fails. */
async function writeKnown(
  ctx: TenantCtx,
  attempts: Attempts,
  events: readonly CapturedEvent[],
  guard: Statement,
  nowMs: number,
) {
  const kept = attempts.remaining.of(events);
  const done = { link: null, set: null, setOnce: null, unset: null, changes: "" };
  // A personless event changes no properties, but may still make its id a user.
  const plain = kept.map((event) => (event.isPersonless ? event : { ...event, ...done }));
  const change = planPeople(plain, noStoredPeople, ctx.caller.kind === "secret");
  try {
    await writeEvents(ctx, attempts, events, nowMs, { change, guard });
  } catch (error) {
    if (constraintOf(error) === "guard_people") readPeopleFirst(ctx, kept, nowMs);
    throw error;
  }
}

function withinLinks(events: readonly CapturedEvent[]): readonly CapturedEvent[] {
  let links = 0;
  const end = events.findIndex(({ link }) => link !== null && ++links > LINKS_MAX);
  return end === -1 ? events : events.slice(0, end);
}
