import { sql } from "drizzle-orm";
import { insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { noteSeen } from "../../db/activity/count.ts";
import { guardFeatures } from "../../db/features.ts";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { personGuards, standingIn } from "../../db/tombstones/check.ts";
import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import { noteMessages } from "../../webhooks/outbox.ts";
import { amountJson } from "../amounts/amount-sql.ts";
import { accountOfWrite, createAccount, type WriteContext, writingValues } from "./account.ts";
import type { Counters } from "./counters.ts";
import type { Write } from "./decision.ts";
import { countGranted, inOrderOfMoments, insertPeriods, periodChanges, periodMessages } from "./due-periods.ts";
import { type DueHold, settleHolds } from "./hold.ts";
import { selectSettled, type WrittenEntry, writesEntries } from "./insert-entries.ts";
import { alertWrites, messagesAmong } from "./judge-alerts.ts";
import { afterWrite, guardAccount, memoryOf, type StateBefore, type StateChanges } from "./memory.ts";
import { ledgerMessageWrites, limitMessages, reservationExpired, takingMessages, wantedOf } from "./messages.ts";
import { type Motion, motionsOf } from "./motion.ts";
import type { PeriodPlan } from "./plan-periods.ts";

/** A user's account at the time of an attempt. */
export interface AccountAtRead extends WriteContext {
  /** The last seq of the ledger; 0 when it is empty. */
  readonly lastSeq: number;
  /** The environment's, as text (db/features.ts). The write aborts where they have changed. */
  readonly features: string | null;
  /** Due holds. Whatever is decided, they are returned, so a plan counts them as returned. None is to be charged any more. */
  readonly due: readonly DueHold[];
  /** Due periods. They are granted like that, with the batch or before it (R3). */
  readonly periods: PeriodPlan;
  /** When the next period begins; null where none comes. What is remembered does not hold from then on. */
  readonly recurringDueAtMs: number | null;
  /** What the user has used of the environment's limits. Null where it is not known: the database judges. */
  readonly counters: Counters | null;
}

interface AccountBefore {
  /** Null when it is not complete enough for memory. */
  readonly before: StateBefore | null;
  /** Whether other batches were sent since the account was read. */
  readonly isOld: boolean;
}

/** The only place that builds a batch for a user. Whatever every write must contain is added here. */
export async function send<Answer>(
  ctx: TenantCtx,
  account: AccountAtRead,
  decision: Write<Answer>,
  { before, isOld }: AccountBefore,
): Promise<{ readonly answer: Answer }> {
  const { statements, answer, act, changes } = decision;
  const { features } = account;
  const values = writingValues(account);
  const leading = [
    guardOf({ ...values, features, seq: account.lastSeq }, isOld),
    ...(await personGuards(ctx, standingIn(features), [account.userId])),
    ...settleAllDue(ctx, account),
  ];
  const messages = wantedOf(ctx, account, () => [
    ...periodMessages(account.userId, account.periods),
    ...account.due.map((hold) => reservationExpired(account.userId, hold)),
    ...(decision.messages?.() ?? []),
    ...limitMessages(account.userId, decision.counts ?? []),
  ]);
  const ownId = changes?.settledReservationId;
  const settledIds = [...account.due.map(({ id }) => id), ...(ownId === undefined ? [] : [ownId])];
  const takings = takingMessages(ctx, account, settledIds);
  const alerts = alertWrites(ctx, account, [...periodMotions(account), ...motionsOf(statements)], settledIds);
  const sent: readonly Statement[] = [
    ...leading,
    ...statements,
    // What a reservation returns, and pays of what is owed, is written by triggers, which tell nothing.
    ...(before === null || ownId === undefined ? [] : [selectSettled(values, ownId)]),
    ...auditRow(ctx, account, act),
    ...ledgerMessageWrites(ctx, account, messages),
    ...takings.statements,
    ...alerts.statements,
  ];
  const write = (): Promise<unknown[][]> => batch(ctx.db, sent);
  const isRaise = changes?.entries.some(({ deltaSteps }) => deltaSteps > 0) === true;
  const rows = isRaise ? await memoryOf(ctx).whileRaising(ctx.environment, account.userId, write) : await write();
  countPeriods(ctx, account);
  noteSeen("user", ctx.environment, account.userId, account.nowMs);
  noteMessages(ctx, [...messages, ...messagesAmong(takings, sent, rows), ...messagesAmong(alerts, sent, rows)]);
  if (before === null || changes === undefined) memoryOf(ctx).forget(ctx.environment, account.userId);
  else {
    // The statement says what its rows are.
    const entries = sent.flatMap((one, index) => (writesEntries(one) ? (rows[index] as WrittenEntry[]) : []));
    remember(ctx, account, { before, changes, isOld, entries });
  }
  return { answer: answer(rows.slice(leading.length)) };
}

/** Grants due periods and returns due holds, in the order of their moments. */
function settleAllDue(ctx: TenantCtx, account: AccountAtRead): Statement[] {
  const { accountId, due, periods } = account;
  const runs = inOrderOfMoments(periods.periods, due, ({ endsAtMs }) => endsAtMs);
  return [
    ...periodChanges(ctx, accountId, periods),
    ...runs.flatMap((run) => [
      ...insertPeriods(account, run.periods),
      ...settleHolds(account, run.holds, { state: "expired" }),
    ]),
  ];
}

type OfPeriods = Pick<AccountAtRead, "periods" | "nowMs">;

/** What periods do to a user's alerts: they lift. Their entries stand before those of the verb. */
export const periodMotions = ({ periods }: Pick<OfPeriods, "periods">): Motion[] =>
  periods.periods.length === 0 ? [] : [{ entries: 0, lifts: true }];

/** Counts the periods that a batch granted, for the overview. */
export function countPeriods(ctx: TenantCtx, { periods, nowMs }: OfPeriods): void {
  for (const { grant } of periods.periods) countGranted(ctx, grant, nowMs);
}

/** Aborts the batch where the account, or its environment, is no longer as it was read. A user's first write makes the account. */
function guardOf(values: WriteContext & { features: string | null; seq: number }, isOld: boolean): Statement {
  if (values.accountId === null) return createAccount(values);
  return isOld ? guardAccount(values) : guardFeatures(values);
}

type Act = WriteContext & { details: string; balanceIds: string };

/** The entries that a write made last of these balances: of one the fields themselves, of several a list. */
const entriesOf = (value: ValueOf<Act>) => {
  const { unit, id, accountId, lastSeq } = creditBalances;
  const amount = sql`json(${amountJson(creditLedger.deltaSteps, unit)})`;
  const entry = sql`json_object('balanceId', ${id}, 'unit', ${unit}, 'amount', ${amount}, 'seq', ${creditLedger.seq})`;
  const entries = sql`json_group_array(${entry})`;
  return sql`(
    SELECT iif(count(*) > 1, json_object('entries', ${entries}), coalesce(${entries} -> '$[0]', '{}'))
    FROM json_each(${value("balanceIds")}) AS item
    CROSS JOIN ${creditBalances} ON ${id} = item.value
    CROSS JOIN ${creditLedger} ON ${creditLedger.accountId} = ${accountId} AND ${creditLedger.seq} = ${lastSeq}
  )`;
};
const insertAudit = insertAct<Act>(undefined, (value) => ({
  accountId: accountOfWrite(value),
  details: sql`json_patch(${value("details")}, ${entriesOf(value)})`,
}));

/** The audit row, if the administrator writes. A write that is refused or replayed writes none. */
function auditRow(ctx: TenantCtx, account: AccountAtRead, act: Write<unknown>["act"]): Statement[] {
  const { caller, environment } = ctx;
  if (caller.kind !== "admin") return [];
  assert(act !== undefined, "a write that the administrator may do says what the audit calls it");
  const { appId, mode } = environment;
  const values = newAct({ ...ctx, caller }, { ...act, appId, details: { mode, ...act.details } });
  // What the administrator did is told in real time.
  const atMs = ctx.clock === null ? account.nowMs : ctx.realNow();
  const balanceIds = JSON.stringify(act.balanceIds ?? []);
  return [insertAudit({ ...values, atMs, ...writingValues(account), by: values.by, balanceIds })];
}

interface Written {
  readonly before: StateBefore;
  readonly changes: StateChanges;
  readonly isOld: boolean;
  readonly entries: readonly WrittenEntry[];
}

/** Keeps the account in memory, unless somebody else may have raised a balance since it was read. */
function remember(
  ctx: TenantCtx,
  { userId, features, nowMs, recurringDueAtMs, ...account }: AccountAtRead,
  { before, changes, isOld, entries }: Written,
): void {
  const memory = memoryOf(ctx);
  // What another write of this isolate changed meanwhile stays.
  const last = entries.at(-1);
  const accountId = account.accountId ?? last?.accountId;
  const latest = memory.latest(ctx.environment, { userId, accountId }, before);
  memory.forget(ctx.environment, userId);
  const seq = last?.seq ?? latest.seq;
  // A guard has made sure of it, or there is no entry of another between what was read and what was written.
  const count = changes.entries.length + (changes.newBalances?.length ?? 0);
  const isComplete = isOld || seq === latest.seq + count;
  // A clock that is ahead gave new balances another time than this write's.
  const isAhead = changes.newBalances !== undefined && last?.atMs !== nowMs;
  // It is not known what each balance paid.
  const hasPaid = entries.some(({ paid }) => paid === 1);
  if (accountId === undefined || !isComplete || isAhead || hasPaid) return;
  memory.remember(ctx.environment, {
    accountId,
    userId,
    features,
    recurringDueAtMs,
    seq,
    ...afterWrite(latest, changes),
  });
}
