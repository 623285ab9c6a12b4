import { sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { noteUse } from "../../db/count-activity.ts";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger } from "../../db/schema.ts";
import { guardSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { personGuards, tombstoneSecretsIn } from "../../db/tombstones.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { noteMessages, wantedMessages } from "../../webhooks/outbox.ts";
import { amountJson } from "../amounts/amount-sql.ts";
import { accountOfWrite, createAccount, type WriteContext, writingValues } from "./account.ts";
import { alertWrites, rearmAlerts } from "./alert-writes.ts";
import { countEntries, countSpent } from "./count-entries.ts";
import type { Change } from "./decision.ts";
import {
  type CreditMovement,
  entriesAmong,
  insertEntries,
  readCreditMovements,
  type WrittenEntry,
} from "./insert-entries.ts";
import { clawbackMessages, ledgerMessageWrites } from "./insert-messages.ts";
import { afterWrite, guardAccount, memoryOf, type StateBefore, type StateChanges } from "./memory.ts";
import { limitMessages, messagesAmong } from "./messages.ts";
import { countGranted } from "./new-balances.ts";
import { createMembers } from "./payer-members.ts";
import { inOrderOfMoments, insertPeriods, periodChanges, periodMessages } from "./period-writes.ts";
import type { DuePeriod } from "./plan-periods.ts";
import type { AccountAtRead } from "./read-account.ts";
import { changesOfHolds, type Settlement } from "./settle.ts";
import {
  changesOfSettlements,
  guardsOfOwed,
  settlementMessage,
  settlementWrites,
  writesOfSettlements,
} from "./settlement-writes.ts";

interface AccountBefore {
  /** The state to remember. Null when it is incomplete. */
  readonly before: StateBefore | null;
  /** Whether other batches were sent since the account was read. */
  readonly isOld: boolean;
}

/** The change of one user's account that one batch writes, after everything that is due. */
export interface AccountChange extends AccountBefore {
  /** The decision of a verb. Null if the batch writes only what is due. */
  readonly decision: Omit<Change<unknown>, "answer"> | null;
}

const NO_DECISION: NonNullable<AccountChange["decision"]> = { kind: "write", statements: [] };

/**
 * Writes the changes of a user's account: what is due, then what a verb decided. It adds the statements that every such batch must
 * contain; only the cron's periods of many users and an erasure's pages are sent elsewhere. Returns the rows of the decision's
 * statements.
 */
export async function commit(
  ctx: TenantCtx,
  account: AccountAtRead,
  { decision, before, isOld }: AccountChange,
): Promise<readonly unknown[][]> {
  const change = decision ?? NO_DECISION;
  const { statements, messages: make, counts = [], members = [], remembers } = change;
  const { settingsSnapshot, userId, nowMs, settled } = account;
  const values = writingValues(account);
  const dueNumbers = settled.map(({ hold }) => hold.reservationNumber);
  const own = change.settles === undefined ? [] : [change.settles];
  const ownNumbers = own.map(({ hold }) => hold.reservationNumber);
  const settledNumbers = [...dueNumbers, ...ownNumbers];
  const entries = [...own.flatMap((settlement) => settlement.entries), ...(change.entries ?? [])];
  const [dueChanges, ownChanges] = [changesOfSettlements(settled), changesOfChange(change, own)];
  // A change that raises could hide that a settlement crossed a threshold, so that is found before.
  const isAlertedBefore = dueNumbers.length > 0 && ownChanges.some(({ raises }) => raises);
  const dueAlerts = isAlertedBefore ? alertWrites(ctx, account, dueChanges, dueNumbers) : null;
  const alerts = isAlertedBefore
    ? alertWrites(ctx, account, ownChanges, ownNumbers)
    : alertWrites(ctx, account, [...dueChanges, ...ownChanges], settledNumbers);
  const settling = writesOfSettlements(account, own);
  const leading = [
    buildGuard({ ...values, settingsSnapshot, seq: account.lastSeq }, isOld),
    ...(await personGuards(ctx, tombstoneSecretsIn(settingsSnapshot), [userId, ...members])),
    ...dueWrites(ctx, account),
    ...(dueAlerts?.statements ?? []),
    ...settling.before,
    ...createMembers(values, account.members, members),
  ];
  const messages = wantedMessages(ctx, settingsSnapshot, () => [
    ...periodMessages(userId, account.periods),
    ...settled.map((hold) => settlementMessage(userId, hold)),
    ...(make?.() ?? []),
    ...limitMessages(userId, counts),
  ]);
  const clawbacks = clawbackMessages(ctx, account, settledNumbers);
  const sent: readonly Statement[] = [
    ...leading,
    ...statements,
    ...settling.after,
    ...insertEntries(account, change.entries ?? []),
    ...(decision === null ? [] : auditWrites(ctx, account, decision.audit)),
    ...ledgerMessageWrites(ctx, account, messages),
    ...clawbacks.statements,
    ...alerts.statements,
  ];
  const write = (): Promise<unknown[][]> => batch(ctx.db, sent);
  const raisesBalance = entries.some(({ deltaMinor }) => deltaMinor > 0);
  const rows = raisesBalance ? await memoryOf(ctx).whileRaising(ctx.environment, userId, write) : await write();
  const rowsOfDecision = rows.slice(leading.length, leading.length + statements.length);
  const written = entriesAmong(sent, rows);
  countDue(ctx, account);
  countEntries(ctx.environment, nowMs, written);
  if (decision !== null) noteUse("user", ctx.environment, userId, nowMs);
  noteMessages(ctx, [
    ...messages,
    ...[clawbacks, alerts, ...(dueAlerts === null ? [] : [dueAlerts])].flatMap((made) =>
      messagesAmong(made, sent, rows),
    ),
  ]);
  if (before === null || remembers === undefined) memoryOf(ctx).forget(ctx.environment, userId);
  else {
    const { newBalances, newReservation } = remembers;
    const settledIds = [...settled, ...own].map(({ hold }) => hold.id);
    const changes = {
      ...{ newBalances, newReservation: newReservation?.(rowsOfDecision), settledIds, members },
      entries: [...changesOfHolds(settled), ...entries],
    };
    remember(ctx, account, { before, changes, isOld, entries: written });
  }
  return rowsOfDecision;
}

/** Returns how a verb changes the user's credits. Holds do not change them (H5). */
function changesOfChange(
  { statements, entries = [] }: NonNullable<AccountChange["decision"]>,
  own: Settlement[],
): CreditMovement[] {
  const changingCredits = entries.filter(({ kind }) => kind !== "hold");
  const change = { entries: changingCredits.length, raises: changingCredits.some(({ deltaMinor }) => deltaMinor > 0) };
  return [
    ...readCreditMovements(statements),
    ...changesOfSettlements(own),
    ...(changingCredits.length === 0 ? [] : [change]),
  ];
}

/** Grants due periods and settles due holds, in order of time. */
function dueWrites(ctx: TenantCtx, account: AccountAtRead): Statement[] {
  const { accountId, periods, settled } = account;
  const runs = inOrderOfMoments(periods.periods, settled, ({ hold }) => hold.endsAtMs);
  return [
    ...guardsOfOwed(account, settled),
    ...periodChanges(ctx, accountId, periods),
    ...runs.flatMap((run) => [...grantPeriods(account, run.periods), ...settlementWrites(account, run.holds)]),
  ];
}

/**
 * Grants periods, and then re-arms alerts, because the rest of the batch may bring the user below their thresholds again (H5).
 */
function grantPeriods(
  account: WriteContext & { readonly settingsSnapshot: string | null },
  periods: readonly DuePeriod[],
): Statement[] {
  return periods.length === 0 ? [] : [...insertPeriods(account, periods), ...rearmAlerts(account)];
}

/** Counts what a batch granted and charged, for the overview. */
function countDue(ctx: TenantCtx, { periods, nowMs, settled }: AccountAtRead): void {
  for (const { grant } of periods.periods) countGranted(ctx, grant, nowMs);
  for (const { charged } of settled) if (charged !== null) countSpent(ctx.environment, nowMs, charged.payment);
}

/**
 * Returns the statement that aborts the batch if the account or its environment has changed since it was read. For a user's first
 * write, this statement also creates the account.
 */
function buildGuard(
  values: WriteContext & { settingsSnapshot: string | null; seq: number },
  isOld: boolean,
): Statement {
  if (values.accountId === null) return createAccount(values);
  return isOld ? guardAccount(values) : guardSettingsSnapshot(values);
}

type AuditedWrite = WriteContext & { details: string; balanceIds: string };

/** The last entries of these balances, for the audit: the fields of a single one, or a list. */
const lastEntriesOf = (value: ValueOf<AuditedWrite>) => {
  const { unit, id, accountId, lastSeq } = creditBalances;
  const amount = sql`json(${amountJson(creditLedger.deltaMinor, unit)})`;
  const entry = sql`json_object('balanceId', ${id}, 'unit', ${unit}, 'amount', ${amount}, 'seq', ${creditLedger.seq})`;
  const entries = sql`json_group_array(${entry})`;
  return sql`(
    SELECT iif(count(*) > 1, json_object('entries', ${entries}), coalesce(${entries} -> '$[0]', '{}'))
    FROM json_each(${value("balanceIds")}) AS item
    CROSS JOIN ${creditBalances} ON ${id} = item.value
    CROSS JOIN ${creditLedger} ON ${creditLedger.accountId} = ${accountId} AND ${creditLedger.seq} = ${lastSeq}
  )`;
};
const insertAudit = insertAuditEntry<AuditedWrite>(undefined, (value) => ({
  accountId: accountOfWrite(value),
  details: sql`json_patch(${value("details")}, ${lastEntriesOf(value)})`,
}));

/** Returns the statement that writes the audit entry of an administrator's write. Other writes have none. */
function auditWrites(ctx: TenantCtx, account: AccountAtRead, audit: Change<unknown>["audit"]): Statement[] {
  const { caller, environment } = ctx;
  if (caller.kind !== "admin") return [];
  assert(audit !== undefined, "a write that the administrator may do has an audit entry");
  const { appId, mode } = environment;
  const values = newAuditEntry({ ...ctx, caller }, { ...audit, appId, details: { mode, ...audit.details } });
  // The audit uses real time.
  const atMs = ctx.clock === null ? account.nowMs : ctx.realNow();
  const balanceIds = JSON.stringify(audit.balanceIds ?? []);
  return [insertAudit({ ...values, atMs, ...writingValues(account), by: values.by, balanceIds })];
}

interface Written {
  readonly before: StateBefore;
  readonly changes: StateChanges;
  readonly isOld: boolean;
  readonly entries: readonly WrittenEntry[];
}

/** Remembers the account, unless another write may have raised a balance since it was read. */
function remember(
  ctx: TenantCtx,
  { userId, settingsSnapshot, nowMs, recurringDueAtMs, ...account }: AccountAtRead,
  { before, changes, isOld, entries }: Written,
): void {
  const memory = memoryOf(ctx);
  // Keep the changes that another write of this isolate made meanwhile.
  const last = entries.at(-1);
  const accountId = account.accountId ?? last?.accountId;
  const latest = memory.latest(ctx.environment, { userId, accountId }, before);
  memory.forget(ctx.environment, userId);
  const seq = last?.seq ?? latest.seq;
  // Either a guard has checked this, or no other entry is between the read state and the written entries.
  const count = changes.entries.length + (changes.newBalances?.length ?? 0);
  const isComplete = isOld || seq === latest.seq + count;
  // If another isolate's clock is ahead, new balances got a later time than this write's.
  const isAhead = changes.newBalances !== undefined && last?.atMs !== nowMs;
  if (accountId === undefined || !isComplete || isAhead) return;
  memory.remember(ctx.environment, {
    accountId,
    userId,
    settingsSnapshot,
    recurringDueAtMs,
    seq,
    ...afterWrite(latest, changes),
  });
}
