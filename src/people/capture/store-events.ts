import { attempt, findConstraint, RetryAttempt } from "../../db/attempt.ts";
import { countActivity, noteUse } from "../../db/count-activity.ts";
import { withTombstones } from "../../db/known-tombstones.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { findErased, personGuards } from "../../db/tombstones.ts";
import { warn } from "../../http/warnings.ts";
import type { TenantCtx } from "../../runtime.ts";
import { needsStoredPeople } from "../claims.ts";
import { idsOverLimit, idUseReads, markedReads } from "../limits/count.ts";
import {
  type DropReason,
  type EnvironmentLimit,
  environmentLimitIn,
  isCounted,
  isIdLimit,
  shareLimitIn,
} from "../limits/daily-limits.ts";
import { markDayReached, spaceGuards } from "../limits/guard-space.ts";
import { reachedWrites } from "../limits/reached.ts";
import { guardRemembered, readPeopleFirst, rememberPeople } from "../people-memory.ts";
import {
  eventKey,
  noStoredPeople,
  type PeopleChange,
  planPeople,
  type StoredPeople,
  warningsFromEvents,
  withoutPeople,
} from "../plan-people.ts";
import type { CaptureBudget } from "./capture-budget.ts";
import { allDropped, planDrops, type StoredEvents } from "./dropped-events.ts";
import type { CapturedEvent } from "./event.ts";
import { readStoredEvents } from "./read-stored-events.ts";
import { idsMentioned, idsWritten, nothingErased, type Remaining, withoutErased } from "./without-erased.ts";
import { type EventBatch, findErasedIds, writeEvents } from "./write-events.ts";

/** The most links that a batch plans, because planning a link reads stored ids, which may be long. */
const LINKS_MAX = 1_000;

/**
 * Stores events, each one by its id and UUID (P4), with their changes to people (P2, P3) and their counts for the day's limits (L3), in one
 * batch or a few. A repeated batch changes nothing. Events without changes to people need no read. If an id exceeds its
 * limit, none of its events are stored. If the environment reaches a limit, no more events are stored. After ids without a verified
 * mark have filled their share of the day, only events of other ids are stored, and every event is answered as dropped.
 * `includesWarnings`: whether the response contains warnings.
 */
export function storeEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  budget: CaptureBudget,
  includesWarnings: boolean,
): Promise<StoredEvents> {
  const isVerified = ctx.caller.kind === "secret";
  return withTombstones(ctx, async (fingerprints, guard) => {
    const guards: EventBatch["guards"] = async (written) => [
      guard,
      ...(fingerprints.length === 0
        ? []
        : await personGuards(ctx, fingerprints, idsWritten(written, isVerified), idsMentioned(written))),
    ];
    let remaining = nothingErased;
    for (;;) {
      try {
        const stored = await storeAll(ctx, events, remaining, budget, guards);
        return isVerified
          ? stored
          : { ...stored, warnings: includesWarnings ? warningsFromEvents(events) : noWarnings };
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
  const drops = new Map<string, DropReason>();
  let isShareFull = false;
  for (let rest = withoutRepeats(events); rest.length > 0; ) {
    const attempts: Attempts = { guards, remaining, warnings: noWarnings, isIdOverLimit: false, isShareFull };
    const stored = await attempt(ctx, () => storeWithin(ctx, rest, budget, attempts));
    isShareFull = attempts.isShareFull;
    const { reachedLimit } = stored;
    for (const [key, limit] of reachedLimit === null ? stored.drops : allDropped(rest, reachedLimit))
      drops.set(key, limit);
    if (reachedLimit !== null)
      return { warnings, drops: isShareFull ? allDropped(events, "day") : drops, reachedLimit };
    for (const [key, warning] of attempts.warnings) warnings.set(key, warning);
    const ids = new Set(remaining.toStore(rest.slice(0, stored.count)).map(({ distinctId }) => distinctId));
    for (const id of ids) noteUse("person", ctx.environment, id, ctx.now());
    rest = rest.slice(stored.count);
  }
  return { warnings, drops: isShareFull ? allDropped(events, "day") : drops, reachedLimit: null };
}

function withoutRepeats(events: readonly CapturedEvent[]): readonly CapturedEvent[] {
  const first = new Map<string, CapturedEvent>();
  for (const event of events) {
    const key = eventKey(event);
    if (!first.has(key)) first.set(key, event);
  }
  return [...first.values()];
}

/** Thrown when a person of the events was erased after the tombstones were read. */
class PersonErased extends Error {}

/** The state that all attempts at one batch share. */
interface Attempts extends EventBatch {
  /** The warnings of the latest plan. */
  warnings: ReadonlyMap<string, string>;
  /** Whether an id exceeded a limit. Then the next attempt first reads today's counts of the ids. */
  isIdOverLimit: boolean;
  isShareFull: boolean;
}

/** How many of the first events are processed, and their results. */
interface Processed extends Pick<StoredEvents, "drops" | "reachedLimit"> {
  readonly count: number;
}

const allStored = (count: number): Processed => ({ count, drops: new Map(), reachedLimit: null });

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
    if (findConstraint(error) === "guard_person") throw new PersonErased();
    if (isIdLimit(error)) {
      attempts.isIdOverLimit = true;
      throw new RetryAttempt("The next attempt reads the counts of the ids first.", { cause: error });
    }
    const share = shareLimitIn(error);
    if (share !== null) {
      if (share.reached !== null) await noteReached(ctx, share.reached);
      attempts.isShareFull = true;
      throw new RetryAttempt("The next attempt stores only events of ids with a verified mark.", { cause: error });
    }
    const reachedLimit = environmentLimitIn(error);
    if (reachedLimit === null) throw error;
    await noteReached(ctx, reachedLimit);
    return { ...allStored(0), reachedLimit };
  }
}

/** Records that a limit of the environment was reached. */
export async function noteReached(ctx: TenantCtx, reachedLimit: EnvironmentLimit): Promise<void> {
  const reached = reachedWrites(ctx, [reachedLimit], ctx.now());
  await batch(ctx.db, [...reached.statements, ...markDayReached(ctx, reachedLimit, ctx.realNow())]);
  reached.onWritten();
}

/**
 * Stores the first events, at least one, in one batch. Skips events of ids that exceed a limit, and, once their share of the day is
 * full, of ids without a verified mark.
 */
async function storeSome(
  ctx: TenantCtx,
  rest: readonly CapturedEvent[],
  budget: CaptureBudget,
  attempts: Attempts,
): Promise<Processed> {
  const isVerified = ctx.caller.kind === "secret";
  const { remaining } = attempts;
  const batchEvents = firstWithinLinks(rest);
  const nowMs = ctx.now();
  if (!attempts.isIdOverLimit && !attempts.isShareFull) {
    if (!batchEvents.some(needsStoredPeople)) {
      const change = planPeople(remaining.toStore(batchEvents), noStoredPeople, isVerified);
      await writeEvents(ctx, attempts, batchEvents, nowMs, { change });
      return allStored(batchEvents.length);
    }
    // The memory has no erased ids, and a secret key must get all warnings (E4).
    const guard =
      remaining.erased.size > 0 && isVerified ? null : guardRemembered(ctx, remaining.toStore(batchEvents), nowMs);
    if (guard !== null) {
      await writeRemembered(ctx, attempts, batchEvents, guard, nowMs);
      return allStored(batchEvents.length);
    }
  }
  const candidates = attempts.isShareFull ? await withMark(ctx, batchEvents) : batchEvents;
  if (candidates.length === 0) return allStored(batchEvents.length);
  const useReads = attempts.isIdOverLimit ? idUseReads(ctx, candidates, remaining.erased, ctx.realNow()) : [];
  const { firstEvents, newEvents, stored, uses } = await readStoredEvents(ctx, candidates, budget, useReads);
  const lastEvent = firstEvents.at(-1);
  const count =
    firstEvents.length === candidates.length || lastEvent === undefined
      ? batchEvents.length
      : batchEvents.indexOf(lastEvent) + 1;
  // Nothing is written, but the answer still depends on whether a limit was reached today.
  if (newEvents.length === 0) {
    if (isCounted(ctx) && !attempts.isShareFull) await batch(ctx.db, spaceGuards(ctx, [], ctx.realNow(), false));
    return allStored(count);
  }
  const planned = planPeople(remaining.toStore(newEvents), stored, isVerified);
  const overLimit = idsOverLimit(uses, newEvents, [...planned.ids, ...findErasedIds(newEvents, remaining)]);
  const eventsToStore = newEvents.filter(({ distinctId }) => !overLimit.has(distinctId));
  const change = overLimit.size === 0 ? planned : planPeople(remaining.toStore(eventsToStore), stored, isVerified);
  budget.rewrite(ctx, change);
  const answered = answeredPlan(eventsToStore, stored, change, attempts, isVerified);
  attempts.warnings = answered.warnings;
  const isOverClaims = change.ids.some(({ claimsOverLimit }) => claimsOverLimit > 0);
  const reached = reachedWrites(ctx, [...overLimit.values(), ...(isOverClaims ? ["claims" as const] : [])], nowMs);
  await writeEvents(ctx, attempts, eventsToStore, nowMs, { change, following: reached.statements });
  reached.onWritten();
  if (answered.hasUncertainAlias) warn(ctx, "device_claims_id");
  if (!isVerified && change.rejectedClaims > 0) {
    countActivity(ctx.environment, "rejected_claim", nowMs, "", change.rejectedClaims);
  }
  rememberPeople(ctx, change.settled, nowMs);
  return { ...allStored(count), drops: planDrops(newEvents, overLimit) };
}

/** Returns the events of ids with a verified mark, which have the rest of the day's limits for themselves (L3). */
async function withMark(ctx: TenantCtx, events: readonly CapturedEvent[]): Promise<readonly CapturedEvent[]> {
  const rows = await batch(ctx.db, markedReads(ctx, events));
  const ids = new Set(rows.flat().map(({ markedId }) => markedId));
  return events.filter(({ distinctId }) => ids.has(distinctId));
}

const noWarnings: ReadonlyMap<string, string> = new Map();

/** Returns the plan that the answer tells of. For erased ids it is the same as if the ids had never been seen (E4). */
function answeredPlan(
  events: readonly CapturedEvent[],
  stored: StoredPeople,
  change: PeopleChange,
  { remaining: { erased } }: Attempts,
  isVerified: boolean,
): Pick<PeopleChange, "warnings" | "hasUncertainAlias"> {
  if (erased.size === 0 || !isVerified) return change;
  return planPeople(events, withoutPeople(stored, erased), true);
}

/** Stores events that change nothing about people. The batch aborts when `guard` fails. */
async function writeRemembered(
  ctx: TenantCtx,
  attempts: Attempts,
  events: readonly CapturedEvent[],
  guard: Statement,
  nowMs: number,
) {
  const eventsToStore = attempts.remaining.toStore(events);
  const noChanges = { link: null, set: null, setOnce: null, unset: null };
  // A personless event stays as it is, because it changes no properties but may make its id a user.
  const unchanging = eventsToStore.map((event) => (event.isPersonless ? event : { ...event, ...noChanges }));
  const change = planPeople(unchanging, noStoredPeople, ctx.caller.kind === "secret");
  try {
    await writeEvents(ctx, attempts, events, nowMs, { change, guard });
  } catch (error) {
    if (findConstraint(error) === "guard_people") readPeopleFirst(ctx, eventsToStore, nowMs);
    throw error;
  }
}

function firstWithinLinks(events: readonly CapturedEvent[]): readonly CapturedEvent[] {
  let links = 0;
  const end = events.findIndex(({ link }) => link !== null && ++links > LINKS_MAX);
  return end === -1 ? events : events.slice(0, end);
}
