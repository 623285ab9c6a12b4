import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { guardFeatures } from "../db/features.ts";
import { batch, type RowsOf, type Statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import type { TenantCtx } from "../runtime.ts";
import { noteMessages } from "../webhooks/outbox.ts";
import { createAccount, type WriteContext, writingValues } from "./account.ts";
import type { Write } from "./decision.ts";
import { type DueHold, settleHolds } from "./hold.ts";
import { alertsAmong, alertWrites } from "./judge-alerts.ts";
import { afterWrite, guardAccount, memoryOf, type StateBefore, type StateChanges, selectStateAfter } from "./memory.ts";
import { ledgerMessageWrites, reservationExpired, wantedOf } from "./messages.ts";
import { motionsOf } from "./motion.ts";

/** A user's account at the time of an attempt. */
export interface AccountAtRead extends WriteContext {
  /** The last seq of the ledger; 0 when it is empty. */
  readonly lastSeq: number;
  /** The environment's, as text (db/features.ts). The write aborts where they have changed. */
  readonly features: string | null;
  /** Due holds. Whatever is decided, they are returned, so a plan counts them as returned. None is to be charged any more. */
  readonly due: readonly DueHold[];
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
  const { environmentId, features } = account;
  const values = writingValues(account);
  const leading = [
    isOld ? guardAccount({ ...values, features, seq: account.lastSeq }) : guardFeatures({ environmentId, features }),
    ...(account.accountId === null ? [createAccount(values)] : []),
    ...settleHolds(account, account.due, { state: "expired" }),
  ];
  const messages = wantedOf(ctx, account, () => [
    ...account.due.map((hold) => reservationExpired(account.userId, hold)),
    ...(decision.messages?.() ?? []),
  ]);
  const isKept = before !== null && changes !== undefined;
  const stateAfter = isKept ? [stateAfterWrite(account, before, changes)] : [];
  const alerts = alertWrites(ctx, account, motionsOf(statements));
  const all = [
    ...leading,
    ...statements,
    ...auditRow(ctx, account, act),
    ...ledgerMessageWrites(ctx, account, messages),
    ...alerts.statements,
    ...stateAfter,
  ];
  const write = (): Promise<unknown[][]> => batch(ctx.db, all);
  const isRaise = changes?.entries.some(({ deltaSteps }) => deltaSteps > 0) === true;
  const rows = isRaise ? await memoryOf(ctx).whileRaising(ctx.environment, account.userId, write) : await write();
  noteMessages(ctx, [...messages, ...alertsAmong(alerts, all, rows)]);
  if (isKept) remember(ctx, account, before, changes, rows.at(-1));
  else memoryOf(ctx).forget(ctx.environment, account.userId);
  return { answer: answer(rows.slice(leading.length)) };
}

const insertAudit = auditStatement();

/** The audit row, if the administrator writes. A write that is refused or replayed writes none. */
function auditRow(ctx: TenantCtx, { nowMs }: AccountAtRead, act: Write<unknown>["act"]): Statement[] {
  const { caller, environment } = ctx;
  if (caller.kind !== "admin") return [];
  assert(act !== undefined, "a write that the administrator may do says what the audit calls it");
  const { appId, mode } = environment;
  const values = newAct({ ...ctx, caller }, { ...act, appId, details: { mode, ...act.details } });
  return [insertAudit({ ...values, atMs: nowMs })];
}

function stateAfterWrite(
  account: AccountAtRead,
  before: StateBefore,
  { newBalances = [], settledReservationId = "" }: StateChanges,
) {
  const newBalanceIds = JSON.stringify(newBalances.map((row) => row.id));
  return selectStateAfter({ ...writingValues(account), sinceSeq: before.seq, settledReservationId, newBalanceIds });
}

function remember(
  ctx: TenantCtx,
  { userId, features }: AccountAtRead,
  before: StateBefore,
  changes: StateChanges,
  rows: unknown[] | undefined,
): void {
  // The rows of `selectStateAfter`, which is the last statement.
  const [stateAfter] = (rows ?? []) as RowsOf<[ReturnType<typeof stateAfterWrite>]>[0];
  const memory = memoryOf(ctx);
  // What another write of this isolate changed meanwhile stays.
  const latest = memory.latest(ctx.environment, userId, before);
  memory.forget(ctx.environment, userId);
  if (stateAfter === undefined || stateAfter.isRaised === 1) return;
  const { accountId, seq } = stateAfter;
  memory.remember(ctx.environment, { accountId, userId, features, seq, ...afterWrite(latest, changes) });
}
