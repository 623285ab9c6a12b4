import { all, fragment, statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

type IdRow = {
  distinctId: string;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  eventCount: number;
  isIdentified: 0 | 1;
  claimedBy: string | null;
};

const columns = fragment`distinct_id AS distinctId, first_seen_at_ms AS firstSeenAtMs, last_seen_at_ms AS lastSeenAtMs,
  event_count - deleted_count AS eventCount, is_identified AS isIdentified, claimed_by AS claimedBy`;

const selectIds = statement<{ environmentId: number; after: string; from: string; to: string; limit: number }, IdRow>`
  SELECT ${columns} FROM distinct_ids
  WHERE environment_id = :environmentId AND distinct_id > :after AND distinct_id >= :from AND distinct_id < :to
  ORDER BY distinct_id LIMIT :limit`;

/** Distinct ids that begin with a text, by id. Throws `invalid_request` for another list's cursor. */
export async function findPeople(
  ctx: TenantCtx,
  { beginning, limit, cursor }: { beginning: string; limit: number; cursor?: string | undefined },
) {
  const environmentId = ctx.environment.id;
  const scope = ["found people", environmentId, beginning];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const range = { from: beginning, to: `${beginning}\u{10ffff}` };
  const rows = await all(ctx.db, selectIds({ environmentId, after, ...range, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return { people: shown.map(presentId), nextCursor: isMore ? encodeTextCursor(last.distinctId, scope) : null };
}

const presentId = ({ firstSeenAtMs, lastSeenAtMs, isIdentified, ...row }: IdRow) => ({
  ...row,
  isIdentified: isIdentified === 1,
  firstSeenAt: iso(firstSeenAtMs),
  lastSeenAt: iso(lastSeenAtMs),
});

const selectRecent = statement<
  { environmentId: number; beforeDay: number; beforeId: string; limit: number },
  IdRow & { lastActiveDay: number }
>`
  SELECT ${columns}, last_active_day AS lastActiveDay FROM distinct_ids INDEXED BY distinct_ids_active
  WHERE environment_id = :environmentId AND last_active_day IS NOT NULL
    AND (last_active_day, distinct_id) < (:beforeDay, :beforeId)
  ORDER BY last_active_day DESC, distinct_id DESC LIMIT :limit`;

/**
 * People's ids by the day on which they last sent something, the latest first, as far as isolates told it
 * (db/activity/last-seen.ts). Throws `invalid_request` for another list's cursor.
 */
export async function recentPeople(ctx: TenantCtx, { limit, cursor }: { limit: number; cursor?: string | undefined }) {
  const environmentId = ctx.environment.id;
  const scope = ["recent people", environmentId];
  const text = cursor === undefined ? `${Number.MAX_SAFE_INTEGER} ` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const end = text.indexOf(" ");
  const before = { beforeDay: Number(text.slice(0, end)), beforeId: text.slice(end + 1) };
  const rows = await all(ctx.db, selectRecent({ environmentId, ...before, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return {
    people: shown.map(({ lastActiveDay: _, ...row }) => presentId(row)),
    nextCursor: isMore ? encodeTextCursor(`${last.lastActiveDay} ${last.distinctId}`, scope) : null,
  };
}
