import { sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { noteUse } from "../../db/activity.ts";
import { guardFeatures } from "../../db/features.ts";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { personGuards, tombstoneSecretsIn } from "../../db/tombstones.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { noteMessages, wantedMessages } from "../../webhooks/outbox.ts";
import { amountJson } from "../amounts/amount.ts";
import { accountOfWrite, createAccount, type WriteContext, writingValues } from "./account.ts";
import { alertWrites, rearmAlerts } from "./alert-writes.ts";
import type { Write } from "./decision.ts";
import { inOrderOfMoments, insertPeriods, periodChanges, periodMessages } from "./due-periods.ts";
import { settleHolds } from "./hold.ts";
import { motionsOf, selectSettled, type WrittenEntry, writesEntries } from "./insert-entries.ts";
import { ledgerMessageWrites, takingMessages } from "./insert-messages.ts";
import { afterWrite, guardAccount, memoryOf, type StateBefore, type StateChanges } from "./memory.ts";
import { limitMessages, messagesAmong, reservationExpired } from "./messages.ts";
import { countGranted } from "./new-balances.ts";
import type { DuePeriod } from "./plan-periods.ts";
import type { AccountAtRead } from "./read-account.ts";

interface AccountBefore {
  /** The state to remember. Null when it is incomplete. */
  readonly before: StateBefore | null;
  /** Whether other batches were sent since the account was read. */
  readonly isOld: boolean;
}

/** Sends a write for a user. Only this function builds such batches: it adds the statements that every write must contain. */
export async function send<Answer>(
  ctx: TenantCtx,
  account: AccountAtRead,
  decision: Write<Answer>,
  { before, isOld }: AccountBefore,
): Promise<{ readonly answer: Answer }> {
  const { statements, answer, audit, changes } = decision;
  const { features } = account;
  const values = writingValues(account);
  const leading = [
    guardOf({ ...values, features, seq: account.lastSeq }, isOld),
    ...(await personGuards(ctx, tombstoneSecretsIn(features), [account.userId])),
    ...settleAllDue(ctx, account),
  ];
  const messages = wantedMessages(ctx, account.features, () => [
    ...periodMessages(account.userId, account.periods),
    ...account.due.map((hold) => reservationExpired(account.userId, hold)),
    ...(decision.messages?.() ?? []),
    ...limitMessages(account.userId, decision.counts ?? []),
  ]);
  const ownId = changes?.settledReservationId;
  const settledIds = [...account.due.map(({ id }) => id), ...(ownId === undefined ? [] : [ownId])];
  const takings = takingMessages(ctx, account, settledIds);
  const alerts = alertWrites(ctx, account, motionsOf(statements), settledIds);
  const sent: readonly Statement[] = [
    ...leading,
    ...statements,
    // Triggers write the entries of a settled reservation but return no rows, so the last of these entries is read.
    ...(before === null || ownId === undefined ? [] : [selectSettled(values, ownId)]),
    ...auditWrites(ctx, account, audit),
    ...ledgerMessageWrites(ctx, account, messages),
    ...takings.statements,
    ...alerts.statements,
  ];
  const write = (): Promise<unknown[][]> => batch(ctx.db, sent);
  const raisesBalance = changes?.entries.some(({ deltaSteps }) => deltaSteps > 0) === true;
  const rows = raisesBalance ? await memoryOf(ctx).whileRaising(ctx.environment, account.userId, write) : await write();
  countPeriods(ctx, account);
  noteUse("user", ctx.environment, account.userId, account.nowMs);
  noteMessages(ctx, [...messages, ...messagesAmong(takings, sent, rows), ...messagesAmong(alerts, sent, rows)]);
  if (before === null || changes === undefined) memoryOf(ctx).forget(ctx.environment, account.userId);
  else {
    // `writesEntries` proves the type of the statement's rows.
    const entries = sent.flatMap((statement, index) =>
      writesEntries(statement) ? (rows[index] as WrittenEntry[]) : [],
    );
    remember(ctx, account, { before, changes, isOld, entries });
  }
  return { answer: answer(rows.slice(leading.length)) };
}

/** Grants due periods and returns due holds, in order of time. */
function settleAllDue(ctx: TenantCtx, account: AccountAtRead): Statement[] {
  const { accountId, due, periods } = account;
  const runs = inOrderOfMoments(periods.periods, due, ({ endsAtMs }) => endsAtMs);
  return [
    ...periodChanges(ctx, accountId, periods),
    ...runs.flatMap((run) => [
      ...grantPeriods(account, run.periods),
      ...settleHolds(account, run.holds, { state: "expired" }),
    ]),
  ];
}

/**
 * Grants periods, and then re-arms alerts, because the rest of the batch may bring the user below their thresholds again (H5).
 */
export function grantPeriods(
  account: WriteContext & { readonly features: string | null },
  periods: readonly DuePeriod[],
): Statement[] {
  return periods.length === 0 ? [] : [...insertPeriods(account, periods), ...rearmAlerts(account)];
}

type GrantedPeriods = Pick<AccountAtRead, "periods" | "nowMs">;

/** Counts the periods that a batch granted, for the overview. */
export function countPeriods(ctx: TenantCtx, { periods, nowMs }: GrantedPeriods): void {
  for (const { grant } of periods.periods) countGranted(ctx, grant, nowMs);
}

/**
 * Returns the statement that aborts the batch if the account or its environment has changed since it was read. For a user's first
 * write, this statement also creates the account.
 */
function guardOf(values: WriteContext & { features: string | null; seq: number }, isOld: boolean): Statement {
  if (values.accountId === null) return createAccount(values);
  return isOld ? guardAccount(values) : guardFeatures(values);
}

type AuditedWrite = WriteContext & { details: string; balanceIds: string };

/** The last entries of these balances, for the audit: the fields of a single one, or a list. */
const lastEntriesOf = (value: ValueOf<AuditedWrite>) => {
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
const insertAudit = insertAuditEntry<AuditedWrite>(undefined, (value) => ({
  accountId: accountOfWrite(value),
  details: sql`json_patch(${value("details")}, ${lastEntriesOf(value)})`,
}));

/** Returns the statement that writes the audit entry of an administrator's write. Other writes have none. */
function auditWrites(ctx: TenantCtx, account: AccountAtRead, audit: Write<unknown>["audit"]): Statement[] {
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
  { userId, features, nowMs, recurringDueAtMs, ...account }: AccountAtRead,
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
  // The amounts that balances paid are unknown.
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
