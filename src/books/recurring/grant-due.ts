import { and, eq, lte, sql } from "drizzle-orm";
import { cronIn, workOnEach } from "../../db/cron-work.ts";
import { clockOf, guardFeatures } from "../../db/features.ts";
import { asInteger, computed, drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { all, batch, type Statement, type StatementRow } from "../../db/sql.ts";
import { personGuards, tombstoneSecretsIn } from "../../db/tombstones.ts";
import type { CronCtx, CronPart, TenantCtx } from "../../runtime.ts";
import { wantedMessages } from "../../webhooks/outbox.ts";
import { rearmAlertsOfMany } from "../ledger/alert-writes.ts";
import {
  balancesToIssue,
  changeRecurring,
  dueRecurring,
  insertPeriodsOfMany,
  periodMessages,
  readDuePeriods,
  writeForMany,
} from "../ledger/due-periods.ts";
import { isDue } from "../ledger/hold.ts";
import { ledgerMessageWrites } from "../ledger/insert-messages.ts";
import { countBalances, countGranted } from "../ledger/new-balances.ts";
import { settleDueHolds } from "../ledger/write.ts";

const USERS_A_PAGE_MAX = 200;
const DUE_PAGES_A_RUN_MAX = 100;
const DUE_QUERIES_A_PAGE = 12;
/** How many queries it usually takes to grant a user's periods, including their messages. */
const QUERIES_A_USER = 12;

type DuePosition = { nowMs: number; afterMs: number; afterId: number; limit: number };

/** Selects users of all environments with a period that is due at `nowMs`, the earliest period first. */
const selectUsersDue = query((value: ValueOf<DuePosition>) => {
  const { id, recurringDueAtMs } = accounts;
  const due = sql`SELECT * FROM ${accounts} INDEXED BY accounts_recurring_due
    WHERE ${recurringDueAtMs} IS NOT NULL AND ${recurringDueAtMs} <= ${value("nowMs")}
      AND ${accounts.isErased} = 0
      AND (${recurringDueAtMs}, ${id}) > (${value("afterMs")}, ${value("afterId")})
    ORDER BY ${recurringDueAtMs}, ${id} LIMIT ${asInteger(value("limit"))}`;
  return drizzle
    .select({
      ...fields(accounts, { accountId: "id", userId: "userId", dueAtMs: "recurringDueAtMs" }),
      ...fields(environments, "id", "appId", "mode", "features"),
      ...computed({
        clock: clockOf(),
        due: dueRecurring(value, id),
        hasHold: sql<0 | 1>`${hasRow(reservations, isDue(value, id))}`,
      }),
    })
    .from(sql`(${due}) AS ${accounts}`)
    .crossJoin(environments)
    .where(eq(environments.id, accounts.environmentId));
});
type UserDue = StatementRow<typeof selectUsersDue>;

/**
 * Grants the due periods of all applications (R3), for up to 200 users of an environment in one batch. Grants them user by user if
 * that batch fails, for users with a due hold, and in environments with a test clock, which have few users. The next run continues
 * where this one ends. Returns errors.
 */
export async function grantDuePeriods(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance } = root;
  const failures: unknown[] = [];
  let position = { afterMs: -1, afterId: 0 };
  for (let page = 0; page < DUE_PAGES_A_RUN_MAX && allowance.has(DUE_QUERIES_A_PAGE); page++) {
    const users = await all(db, selectUsersDue({ nowMs: root.now(), ...position, limit: USERS_A_PAGE_MAX }));
    const last = users.at(-1);
    if (last === undefined) break;
    position = { afterMs: last.dueAtMs ?? 0, afterId: last.accountId };
    for (const ofEnvironment of Map.groupBy(users, ({ id }) => id).values()) {
      if (!allowance.has(QUERIES_A_USER)) return failures;
      failures.push(...(await grantInEnvironment(root, ofEnvironment)));
    }
    if (users.length < USERS_A_PAGE_MAX) break;
    // Gives waiting requests a turn between pages. A local D1 answers without any real wait.
    await scheduler.wait(1);
  }
  return failures;
}

async function grantInEnvironment(root: CronCtx, users: readonly UserDue[]): Promise<unknown[]> {
  const [first] = users;
  if (first === undefined) return [];
  const { id, appId, mode, features, clock } = first;
  const ctx = cronIn(root, { id, appId, mode, database: root.database }, clock);
  const together = clock === null ? users.filter(({ hasHold }) => hasHold === 0) : [];
  const rest = users.filter((user) => !together.includes(user));
  const isGranted = together.length === 0 || (await grantTogether(ctx, features, together));
  return workOnEach(root, isGranted ? rest : users, QUERIES_A_USER, async ({ accountId }) => {
    while ((await settleDueHolds(ctx, { accountId })) && root.allowance.has(QUERIES_A_USER));
  });
}

/** Grants the due periods of several users in one batch. Returns whether the batch succeeded. */
async function grantTogether(ctx: TenantCtx, features: string | null, users: readonly UserDue[]): Promise<boolean> {
  const writing = writeForMany(ctx);
  const { nowMs } = writing;
  const plans = users.map(({ accountId, userId, due }) => ({
    ...{ accountId, userId, plan: readDuePeriods(ctx, due, { nowMs }) },
  }));
  const counted = plans.reduce((sum, { plan }) => sum + plan.newlyCounted, 0);
  const messages = wantedMessages(ctx, features, () =>
    plans.flatMap(({ userId, plan }) => periodMessages(userId, plan)),
  );
  const issued = plans.flatMap(({ accountId, plan }) => balancesToIssue(accountId, plan.periods));
  const changes = plans.flatMap(({ accountId, plan }) => plan.changes.map((change) => ({ ...change, accountId })));
  try {
    await batch(ctx.db, [
      guardFeatures({ environmentId: ctx.environment.id, features }),
      ...(await personGuards(
        ctx,
        tombstoneSecretsIn(features),
        users.map(({ userId }) => userId),
      )),
      ...changeRecurring(changes),
      ...insertPeriodsOfMany(writing, issued),
      ...countBalances(ctx, counted),
      ...rearmAlertsOfMany(
        { ...writing, features },
        users.map(({ accountId }) => accountId),
      ),
      ...ledgerMessageWrites(ctx, writing, messages),
    ]);
  } catch {
    // Another write for a user may have come first, or a user has too many balances. Then each user is granted separately.
    return false;
  }
  for (const { grant } of plans.flatMap(({ plan }) => plan.periods)) countGranted(ctx, grant, nowMs);
  return true;
}

export const periodsPart: CronPart = {
  code: "periods_not_granted",
  weight: 8,
  queriesOfStep: QUERIES_A_USER + 2,
  work: grantDuePeriods,
};

const selectNextDue = query((value: ValueOf<{ environmentId: number; untilMs: number }>) =>
  drizzle
    .select(fields(accounts, { accountId: "id", momentMs: "recurringDueAtMs" }))
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        eq(accounts.isErased, 0),
        lte(accounts.recurringDueAtMs, value("untilMs")),
      ),
    )
    .orderBy(accounts.recurringDueAtMs, accounts.id)
    .limit(1),
);
export interface NextPeriod {
  readonly accountId: number;
  readonly momentMs: number;
}

/** Selects the user whose period begins next in an environment, up to `untilMs`. */
export const selectNextPeriod = (environmentId: number, untilMs: number): Statement<NextPeriod> =>
  // The condition leaves out accounts without a next period.
  selectNextDue({ environmentId, untilMs }) as Statement<NextPeriod>;
