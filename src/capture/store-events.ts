import { constraintOf } from "../db/constraint.ts";
import { temporarilyUnavailable } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import { planIdentity } from "../people/identity.ts";
import type { Ctx } from "../runtime.ts";
import type { CapturedEvent } from "./event.ts";
import { landing } from "./landing.ts";
import { readStored } from "./read-stored.ts";

/** Each attempt that fails means that somebody else's write about the same people landed. */
const ATTEMPTS_MAX = 50;

/** What fails a batch when something it builds on has changed since it was read. */
const STALE = new Set([
  "persons_version",
  "person_distinct_ids_stay",
  "analytics_events_uuid",
  "analytics_events_primary_key",
]);

/**
 * Stores events, each UUID once, and what they say about people (P2, P3): one batch for all of them. Sent again, it
 * finds its UUIDs stored and changes nothing. Answers the warnings, by UUID.
 */
export async function ingest(ctx: Ctx, events: readonly CapturedEvent[]): Promise<ReadonlyMap<string, string>> {
  const first = new Map<string, CapturedEvent>();
  for (const event of events) if (!first.has(event.uuid)) first.set(event.uuid, event);
  let warnings: ReadonlyMap<string, string> = new Map();
  for (let attempt = 1; attempt <= ATTEMPTS_MAX && first.size > 0; attempt++) {
    const { uuids, known } = await readStored(ctx, [...first.values()]);
    const fresh = [...first.values()].filter((event) => !uuids.has(event.uuid));
    // After an attempt, they are its own: it landed, and its answer was lost.
    if (fresh.length === 0) return warnings;
    const change = planIdentity(fresh, known, { nowMs: ctx.now(), newPersonId: () => ctx.newId("per_") });
    warnings = change.warnings;
    const [statement, ...others] = landing(ctx, fresh, change);
    assert(statement !== undefined, "events make statements");
    try {
      await ctx.db.batch([statement, ...others]);
      return warnings;
    } catch (error) {
      if (!STALE.has(constraintOf(error) ?? "")) throw error;
    }
  }
  if (first.size === 0) return warnings;
  throw temporarilyUnavailable("Others write about the same people; try again.");
}
