import { and, eq, lte, sql } from "drizzle-orm";
import { cronIn, workOnEach } from "../../db/cron-work.ts";
import { clockOf } from "../../db/features.ts";
import { asInteger, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { all, type Statement, type StatementRow } from "../../db/sql.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { settleDueHolds } from "../ledger/write.ts";

/** How many queries it usually takes to settle a user's holds, including their messages. */
const HOLD_QUERIES_A_USER = 12;
const USERS_A_RUN_MAX = 250;

/**
 * Returns or charges the due holds of all applications, user by user, each user in one or a few writes. Another write for the user
 * may have settled them already. The next run continues where this one ends (U8). Returns errors.
 */
export async function expireReservations(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const due = await all(db, selectUsersWithDueHolds({ nowMs: root.now(), limit: USERS_A_RUN_MAX }));
  return workOnEach(root, due, HOLD_QUERIES_A_USER, async ({ accountId, clock, ...row }) => {
    const ctx = cronIn(root, { ...row, database }, clock);
    while ((await settleDueHolds(ctx, { accountId })) && allowance.has(HOLD_QUERIES_A_USER));
  });
}

export const holdsPart: CronPart = {
  code: "holds_not_returned",
  weight: 8,
  queriesOfStep: HOLD_QUERIES_A_USER + 1,
  work: expireReservations,
};

/** Selects users with a due hold. Reads only the index of open reservations, in its order. */
const selectUsersWithDueHolds = query((value: ValueOf<{ nowMs: number; limit: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  const due = sql`SELECT DISTINCT ${accountId} FROM ${reservations} INDEXED BY reservations_open
    WHERE ${state} = 'open' AND ${expiresAtMs} <= ${value("nowMs")} ORDER BY ${accountId} LIMIT ${asInteger(value("limit"))}`;
  return drizzle
    .select({
      ...fields(accounts, { accountId: "id" }),
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: clockOf() }),
    })
    .from(sql`(${due}) AS ${reservations}`)
    .crossJoin(accounts)
    .crossJoin(environments)
    .where(and(eq(accounts.id, accountId), eq(environments.id, accounts.environmentId)));
});

const selectNextHoldEnd = query((value: ValueOf<{ environmentId: number; untilMs: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  return drizzle
    .select(fields(reservations, { accountId: "accountId", momentMs: "expiresAtMs" }))
    .from(accounts)
    .crossJoin(sql`${reservations} INDEXED BY reservations_open`)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        eq(accounts.isErased, 0),
        eq(accountId, accounts.id),
        sql`${state} = 'open'`,
        lte(expiresAtMs, value("untilMs")),
      ),
    )
    .orderBy(expiresAtMs, accountId)
    .limit(1);
});
export type NextHold = StatementRow<typeof selectNextHoldEnd>;

/** Selects the user whose hold ends next in an environment, up to `untilMs`. Erased users are skipped: erasures release their holds. */
export const selectNextHold = (environmentId: number, untilMs: number): Statement<NextHold> =>
  selectNextHoldEnd({ environmentId, untilMs });
