import { and, eq, lte, sql } from "drizzle-orm";
import type { Pack } from "../../catalog/pack.ts";
import { cronIn, hasFailed, mayTry, workOnEach } from "../../db/cron-work.ts";
import { asInteger, computed, drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { clockOf, guardSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { all, batch, type Statement, type StatementRow } from "../../db/sql.ts";
import { personGuards, tombstoneSecretsIn } from "../../db/tombstones.ts";
import type { CronCtx, CronPart, TenantCtx } from "../../runtime.ts";
import { wantedMessages } from "../../webhooks/outbox.ts";
import { rearmAlertsOfMany } from "../ledger/alert-writes.ts";
import { readPackJson, selectDueOfMany, selectPacksOfMany } from "../ledger/due-periods.ts";
import { isDue } from "../ledger/hold.ts";
import { ledgerMessageWrites } from "../ledger/insert-messages.ts";
import { countBalances, countGranted, quotaOf } from "../ledger/new-balances.ts";
import {
  balancesToIssue,
  changeRecurring,
  insertPeriodsOfMany,
  periodMessages,
  writeForMany,
} from "../ledger/period-writes.ts";
import { type PeriodPlan, planPeriods } from "../ledger/plan-periods.ts";
import { settleDueHolds } from "../ledger/write.ts";

const PERIODS_PART = "periods_not_granted";
const USERS_A_PAGE_MAX = 200;
const DUE_PAGES_A_RUN_MAX = 100;
const DUE_QUERIES_A_PAGE = 12;
/** How many queries it usually takes to grant a user's periods, including their messages. */
const QUERIES_A_USER = 12;

type DuePosition = { nowMs: number; realMs: number; afterMs: number; afterId: number; limit: number };

/** Selects users of all environments with a period that is due at `nowMs`, the earliest period first. */
const selectUsersDue = query((value: ValueOf<DuePosition>) => {
  const { id, recurringDueAtMs } = accounts;
  const due = sql`SELECT * FROM ${accounts} INDEXED BY accounts_recurring_due
    WHERE ${recurringDueAtMs} IS NOT NULL AND ${recurringDueAtMs} <= ${value("nowMs")}
      AND ${accounts.isErased} = 0 AND ${mayTry(PERIODS_PART, value, id)}
      AND (${recurringDueAtMs}, ${id}) > (${value("afterMs")}, ${value("afterId")})
    ORDER BY ${recurringDueAtMs}, ${id} LIMIT ${asInteger(value("limit"))}`;
  return drizzle
    .select({
      ...fields(accounts, { accountId: "id", userId: "userId", dueAtMs: "recurringDueAtMs" }),
      ...fields(environments, "id", "appId", "mode", "settingsSnapshot", "testBalanceCount"),
      ...computed({
        clock: clockOf(),
        hasHold: sql<0 | 1>`${hasRow(reservations, isDue(value, id))}`,
        hasFailed: hasFailed(PERIODS_PART, id),
      }),
    })
    .from(sql`(${due}) AS ${accounts}`)
    .crossJoin(environments)
    .where(eq(environments.id, accounts.environmentId));
});
type UserDue = StatementRow<typeof selectUsersDue>;

/**
 * Grants the due periods of all applications (R3), for up to 200 users of an environment in one batch. Grants them user by user if
 * that batch fails, for users with a due hold or a very large pack, and in environments with a test clock, which have few users. A
 * user whose own batch fails is set aside. The next run continues where this one ends. Returns errors.
 */
export async function grantDuePeriods(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance } = root;
  const failures: unknown[] = [];
  let position = { afterMs: -1, afterId: 0 };
  for (let page = 0; page < DUE_PAGES_A_RUN_MAX && allowance.has(DUE_QUERIES_A_PAGE); page++) {
    const nowMs = root.now();
    const users = await all(db, selectUsersDue({ nowMs, realMs: nowMs, ...position, limit: USERS_A_PAGE_MAX }));
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
  const { id, appId, mode, settingsSnapshot, clock } = first;
  const ctx = cronIn(root, { id, appId, mode, database: root.database }, clock);
  const granted = clock === null ? await grantTogether(root, ctx, settingsSnapshot, users) : new Set<UserDue>();
  const pieces = {
    queries: QUERIES_A_USER,
    pieceOf: ({ accountId, hasFailed }: UserDue) =>
      ({ part: PERIODS_PART, environmentId: id, subject: accountId, hasFailed }) as const,
  };
  return workOnEach(
    root,
    users.filter((user) => !granted.has(user)),
    pieces,
    async ({ accountId }) => {
      while ((await settleDueHolds(ctx, { accountId })) && root.allowance.has(QUERIES_A_USER));
    },
  );
}

/** The most bytes of the rules of one batch. Each of its statements carries less than half of what a value of D1 takes. */
const RULE_BYTES_TOGETHER_MAX = 4_000_000;

/** Grants the due periods of several users in one batch, or a few if their match rules are long. Returns the users who got all. */
async function grantTogether(
  root: CronCtx,
  ctx: TenantCtx,
  settingsSnapshot: string | null,
  users: readonly UserDue[],
): Promise<ReadonlySet<UserDue>> {
  const granted = new Set<UserDue>();
  let plans: UserPlan[] = [];
  let bytes = 0;
  const send = async () => {
    if (plans.length > 0 && root.allowance.has(QUERIES_A_USER) && (await sendTogether(ctx, settingsSnapshot, plans)))
      for (const { user } of plans) granted.add(user);
    plans = [];
    bytes = 0;
  };
  // A failure here occurs again for the user whom it concerns, who is then set aside.
  for (const userPlan of await planTogether(ctx, users).catch(() => [])) {
    const added = countRuleBytes(userPlan.plan);
    if (plans.length > 0 && bytes + added > RULE_BYTES_TOGETHER_MAX) await send();
    plans.push(userPlan);
    bytes += added;
  }
  await send();
  return granted;
}

interface UserPlan {
  readonly user: UserDue;
  readonly plan: PeriodPlan;
}

const countRuleBytes = ({ periods }: PeriodPlan): number =>
  periods.reduce((sum, { grant }) => sum + grant.balances.reduce((of, { matches }) => of + matches.length, 0), 0);

/** Plans the periods of the users who can be granted together: who has no due hold, no earlier failure and no very large pack. */
async function planTogether(ctx: TenantCtx, users: readonly UserDue[]): Promise<readonly UserPlan[]> {
  const simple = users.filter(({ hasHold, hasFailed }) => hasHold === 0 && hasFailed === 0);
  if (simple.length === 0) return [];
  const nowMs = ctx.now();
  const due = { accountIds: JSON.stringify(simple.map(({ accountId }) => accountId)), nowMs };
  const [grants, rows] = await batch(ctx.db, [selectDueOfMany(due), selectPacksOfMany(due)] as const);
  const packs = new Map(rows.map(({ packId, pack }) => [packId, readPackJson(pack)]));
  const byAccount = Map.groupBy(grants, ({ accountId }) => accountId);
  return simple.flatMap((user) => {
    const recurring = (byAccount.get(user.accountId) ?? []).map((row) => ({ ...row, pack: packs.get(row.packId) }));
    const isRead = recurring.every((row): row is typeof row & { pack: Pack } => row.pack !== undefined);
    if (!isRead) return [];
    const quota = quotaOf(ctx, user.testBalanceCount);
    return [{ user, plan: planPeriods(ctx.environment, recurring, { nowMs, quota }) }];
  });
}

/** Sends the plans of several users as one batch. Returns whether the batch succeeded. */
async function sendTogether(
  ctx: TenantCtx,
  settingsSnapshot: string | null,
  users: readonly UserPlan[],
): Promise<boolean> {
  const writing = writeForMany(ctx);
  const { nowMs } = writing;
  const plans = users.map(({ user: { accountId, userId }, plan }) => ({ accountId, userId, plan }));
  const counted = plans.reduce((sum, { plan }) => sum + plan.newlyCounted, 0);
  const messages = wantedMessages(ctx, settingsSnapshot, () =>
    plans.flatMap(({ userId, plan }) => periodMessages(userId, plan)),
  );
  const issued = plans.flatMap(({ accountId, plan }) => balancesToIssue(accountId, plan.periods));
  const changes = plans.flatMap(({ accountId, plan }) => plan.changes.map((change) => ({ ...change, accountId })));
  try {
    await batch(ctx.db, [
      guardSettingsSnapshot({ environmentId: ctx.environment.id, settingsSnapshot }),
      ...(await personGuards(
        ctx,
        tombstoneSecretsIn(settingsSnapshot),
        plans.map(({ userId }) => userId),
      )),
      ...changeRecurring(changes),
      ...insertPeriodsOfMany(writing, issued),
      ...countBalances(ctx, counted),
      ...rearmAlertsOfMany(
        { ...writing, settingsSnapshot },
        plans.map(({ accountId }) => accountId),
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
  code: PERIODS_PART,
  weight: 8,
  queriesOfStep: QUERIES_A_USER + 2,
  work: grantDuePeriods,
};

const selectNextDue = query((value: ValueOf<{ environmentId: number; realMs: number; untilMs: number }>) =>
  drizzle
    .select({
      ...fields(accounts, { accountId: "id", momentMs: "recurringDueAtMs" }),
      ...computed({ hasFailed: hasFailed(PERIODS_PART, accounts.id) }),
    })
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        eq(accounts.isErased, 0),
        mayTry(PERIODS_PART, value, accounts.id),
        lte(accounts.recurringDueAtMs, value("untilMs")),
      ),
    )
    .orderBy(accounts.recurringDueAtMs, accounts.id)
    .limit(1),
);
export interface NextPeriod {
  readonly accountId: number;
  readonly momentMs: number;
  readonly hasFailed: 0 | 1;
}

/** Selects the user whose period begins next in an environment, up to `untilMs`, without users who are set aside at the real time. */
export const selectNextPeriod = (environmentId: number, realMs: number, untilMs: number): Statement<NextPeriod> =>
  // The condition leaves out accounts without a next period.
  selectNextDue({ environmentId, realMs, untilMs }) as Statement<NextPeriod>;
