import { and, asc, eq, lte, type SQL, sql } from "drizzle-orm";
import { environments, reservations } from "../db/schema.ts";
import { type Hold, readHold, settleDue } from "../ledger/holds.ts";
import type { Ctx, RootCtx } from "../runtime.ts";

const PAGE_RESERVATIONS_MAX = 200;
/** A Worker may send 1,000 queries in one invocation, and a user's holds take up to three. */
const USERS_MAX = 250;

export interface Expired {
  readonly users: number;
  /** Why holds could not be found, or returned, user by user; the next run tries again. */
  readonly failures: readonly unknown[];
}

interface Due {
  readonly ctx: Ctx;
  readonly userId: string;
  readonly holds: Hold[];
}

/**
 * Returns the holds that are due, of every application, user by user: each is one batch that lands once. A user whose
 * write was faster has returned them already. What one run does not reach, the next does (U8).
 */
export async function expireReservations(root: RootCtx): Promise<Expired> {
  const nowMs = root.now();
  let users = 0;
  const failures: unknown[] = [];
  let after: SQL = sql`1`;
  while (users < USERS_MAX) {
    const page = await dueAfter(root, nowMs, after).catch((error: unknown): readonly DueRow[] => {
      failures.push(error);
      return [];
    });
    for (const { ctx, userId, holds } of groupByUser(root, page)) {
      users++;
      await settleDue(ctx, userId, holds).catch((error: unknown) => failures.push(error));
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_RESERVATIONS_MAX) break;
    after = sql`(${reservations.environmentId}, ${reservations.userId}, ${reservations.expiresAtMs}, ${reservations.id})
      > (${last.environmentId}, ${last.userId}, ${last.expiresAtMs}, ${last.id})`;
  }
  return { users, failures };
}

/** A page of due reservations in the order of the index of open ones, which is all that it reads. */
function dueAfter(root: RootCtx, nowMs: number, after: SQL) {
  return (
    root.db
      .select({
        environmentId: environments.id,
        appId: environments.appId,
        mode: environments.mode,
        userId: reservations.userId,
        expiresAtMs: reservations.expiresAtMs,
        id: reservations.id,
        legs: reservations.legs,
      })
      .from(reservations)
      .innerJoin(environments, eq(environments.id, reservations.environmentId))
      // Written out, so that the planner sees the partial index's own condition.
      .where(and(sql`${reservations.state} = 'open'`, lte(reservations.expiresAtMs, nowMs), after))
      .orderBy(
        asc(reservations.environmentId),
        asc(reservations.userId),
        asc(reservations.expiresAtMs),
        asc(reservations.id),
      )
      .limit(PAGE_RESERVATIONS_MAX)
  );
}

type DueRow = Awaited<ReturnType<typeof dueAfter>>[number];

function groupByUser(root: RootCtx, page: readonly DueRow[]): Due[] {
  const groups: Due[] = [];
  for (const row of page) {
    const { environmentId: id, appId, mode, userId } = row;
    const group = groups.at(-1);
    if (group?.userId === userId && group.ctx.environment.id === id) group.holds.push(readHold(row));
    else {
      const ctx: Ctx = { ...root, environment: { id, appId, mode }, caller: { kind: "cron" } };
      groups.push({ ctx, userId, holds: [readHold(row)] });
    }
  }
  return groups;
}
