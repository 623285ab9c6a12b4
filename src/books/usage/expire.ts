import { and, eq, lte, sql } from "drizzle-orm";
import { cronIn, hasFailed, mayTry, workOnEach } from "../../db/cron-work.ts";
import { asInteger, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { clockOf } from "../../db/settings-snapshot.ts";
import { all, type Statement, type StatementRow } from "../../db/sql.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { settleDueHolds } from "../ledger/write.ts";

/** How many queries it usually takes to settle a user's holds, including their messages. */
const HOLD_QUERIES_A_USER = 12;
const USERS_A_RUN_MAX = 250;
const HOLDS_PART = "holds_not_returned";

/**
 * Returns or charges the due holds of all applications, user by user, each user in one or a few writes. Another write for the user
 * may have settled them already. The next run continues where this one ends (U8). A user whose write fails is set aside. Returns
 * errors.
 */
export async function expireReservations(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const nowMs = root.now();
  const due = await all(db, selectUsersWithDueHolds({ nowMs, realMs: nowMs, limit: USERS_A_RUN_MAX }));
  const pieces = {
    queries: HOLD_QUERIES_A_USER,
    pieceOf: ({ id, accountId, hasFailed }: UserWithDueHolds) =>
      ({ part: HOLDS_PART, environmentId: id, subject: accountId, hasFailed }) as const,
  };
  return workOnEach(root, due, pieces, async ({ accountId, id, appId, mode, clock }) => {
    const ctx = cronIn(root, { id, appId, mode, database }, clock);
    while ((await settleDueHolds(ctx, { accountId })) && allowance.has(HOLD_QUERIES_A_USER));
  });
}

export const holdsPart: CronPart = {
  code: HOLDS_PART,
  weight: 8,
  queriesOfStep: HOLD_QUERIES_A_USER + 1,
  work: expireReservations,
};

/** Selects users with a due hold. Reads only the index of open reservations, in its order. */
const selectUsersWithDueHolds = query((value: ValueOf<{ nowMs: number; realMs: number; limit: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  const due = sql`SELECT DISTINCT ${accountId} FROM ${reservations} INDEXED BY reservations_open
    WHERE ${state} = 'open' AND ${expiresAtMs} <= ${value("nowMs")} AND ${mayTry(HOLDS_PART, value, accountId)} ORDER BY ${accountId} LIMIT ${asInteger(value("limit"))}`;
  return drizzle
    .select({
      ...fields(accounts, { accountId: "id" }),
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: clockOf(), hasFailed: hasFailed(HOLDS_PART, accountId) }),
    })
    .from(sql`(${due}) AS ${reservations}`)
    .crossJoin(accounts)
    .crossJoin(environments)
    .where(and(eq(accounts.id, accountId), eq(environments.id, accounts.environmentId)));
});

type UserWithDueHolds = StatementRow<typeof selectUsersWithDueHolds>;

const selectNextHoldEnd = query((value: ValueOf<{ environmentId: number; realMs: number; untilMs: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  return drizzle
    .select({
      ...fields(reservations, { accountId: "accountId", momentMs: "expiresAtMs" }),
      ...computed({ hasFailed: hasFailed(HOLDS_PART, accounts.id) }),
    })
    .from(accounts)
    .crossJoin(sql`${reservations} INDEXED BY reservations_open`)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        eq(accounts.isErased, 0),
        mayTry(HOLDS_PART, value, accounts.id),
        eq(accountId, accounts.id),
        sql`${state} = 'open'`,
        lte(expiresAtMs, value("untilMs")),
      ),
    )
    .orderBy(expiresAtMs, accountId)
    .limit(1);
});
export type NextHold = StatementRow<typeof selectNextHoldEnd>;

/**
 * Selects the user whose hold ends next in an environment, up to `untilMs`, without users who are set aside at the real time. Erased
 * users are skipped: erasures release their holds.
 */
export const selectNextHold = (environmentId: number, realMs: number, untilMs: number): Statement<NextHold> =>
  selectNextHoldEnd({ environmentId, realMs, untilMs });
