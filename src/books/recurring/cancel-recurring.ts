import { and, desc, eq, gt, gte, isNull, lt, sql } from "drizzle-orm";
import { drizzle, fields, type ValueOf } from "../../db/query.ts";
import { creditBalances, type Minor } from "../../db/schema.ts";
import { assert, invalid } from "../../errors.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { exactAmount, UNITS } from "../amounts/amount.ts";
import { grantRejections, USER_BALANCES_MAX } from "../credits/grant.ts";
import { accountQuery } from "../ledger/account.ts";
import { lastPeriod, periodAt, periodStart } from "../ledger/calendar.ts";
import { type Decision, replay, writeAll } from "../ledger/decision.ts";
import { readPackJson } from "../ledger/due-periods.ts";
import { guardNoneRevoked, insertClawbacks } from "../ledger/insert-clawbacks.ts";
import { changingCredits } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import { countBalances, countGranted } from "../ledger/new-balances.ts";
import { changeRecurring, insertPeriods, periodMessages } from "../ledger/period-writes.ts";
import { grantOfPeriod, planPeriods, RECURRING_REF, type RecurringChange } from "../ledger/plan-periods.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { apply, changesOfHolds } from "../ledger/settle.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";
import {
  presentRecurring,
  type RecurringOutput,
  recurringNotFound,
  type StoredRecurring,
  selectRecurring,
  tooManyRecurring,
  withChange,
} from "./recurring.ts";

export interface CancelRecurringInput {
  readonly at: "now" | "period_end";
  readonly reason?: string | undefined;
}

export interface ResumeRecurringInput {
  readonly undoCancel: boolean;
}

type UnexpiredSearch = { from: string; to: string; nowMs: number };

/** The last period of a recurring grant that was cancelled with immediate effect. */
const CANCELLED_NOW = -1;

/** The most balances that one batch of a cancellation revokes: as many as a user can spend (L6). */
const REVOKED_A_BATCH_MAX = USER_BALANCES_MAX;

/** The first balances of a recurring grant that are neither revoked nor expired. Those that can be spent come first. */
const selectUnexpired = accountQuery((value: ValueOf<UnexpiredSearch>, account) => {
  const { accountId, externalRef, revokedAtMs, expiresAtMs } = creditBalances;
  return drizzle
    .select(fields(creditBalances, "id", "unit", "remainingMinor"))
    .from(creditBalances)
    .where(
      and(
        eq(accountId, account),
        gte(externalRef, value("from")),
        lt(externalRef, value("to")),
        // The id of another recurring grant may begin with this one's and a colon.
        sql`substr(${externalRef}, 1 + length(${value("from")})) NOT GLOB '*[^0-9]*'`,
        isNull(revokedAtMs),
        gt(expiresAtMs, value("nowMs")),
      ),
    )
    .orderBy(desc(creditBalances.hasRemaining), creditBalances.grantSeq)
    .limit(REVOKED_A_BATCH_MAX);
});

/**
 * Ends a recurring grant, so that no further period begins (R4). If `at` is `now`, also revokes its balances that have not expired;
 * the note of these entries is the reason. The first batch revokes all that can be spent. A repeat changes nothing. Throws `not_found`.
 */
export async function cancelRecurring(
  ctx: TenantCtx,
  recurringId: string,
  input: CancelRecurringInput,
): Promise<RecurringOutput> {
  let cancelled = await cancelInOneBatch(ctx, recurringId, input);
  while (cancelled?.hasMore) cancelled = await cancelInOneBatch(ctx, recurringId, input);
  if (cancelled === null) throw recurringNotFound();
  return cancelled.output;
}

/** The reads that decide a cancellation. */
function readForCancel(ctx: TenantCtx, recurringId: string) {
  const reference = `${RECURRING_REF}${recurringId}`;
  return {
    user: { recurringId },
    read: (nowMs: number) =>
      [
        selectRecurring(ctx, recurringId),
        // `;` is the character after `:`, so this range has all references with the prefix.
        selectUnexpired(ctx, { recurringId }, { from: `${reference}:`, to: `${reference};`, nowMs }),
      ] as const,
  };
}

/** Returns what a cancellation with immediate effect would revoke of each unit. Throws `not_found`. */
export async function previewCancel(ctx: TenantCtx, recurringId: string) {
  const preview = await previewForUser(ctx, {
    ...readForCancel(ctx, recurringId),
    decide: ([, unexpired], account) => {
      const balances = apply(balancesToRevoke(account, recurringId, unexpired), changesOfHolds(account.settled));
      return UNITS.flatMap((unit) => {
        const ofUnit = balances.filter((balance) => balance.unit === unit);
        const minor = ofUnit.reduce((sum, { remainingMinor }) => sum + BigInt(remainingMinor), 0n);
        return minor === 0n ? [] : [{ unit, amount: exactAmount(unit, minor) }];
      });
    },
  });
  if (preview === null) throw recurringNotFound();
  return preview;
}

type Cancelled = { readonly output: RecurringOutput; readonly hasMore: boolean };

/** Returns null if there is no such recurring grant. If `hasMore`, further balances may have to be revoked. */
async function cancelInOneBatch(ctx: TenantCtx, recurringId: string, { at, reason }: CancelRecurringInput) {
  return writeForUser(ctx, {
    ...readForCancel(ctx, recurringId),
    decide: ([[found], unexpired], account): Decision<Cancelled> => {
      assert(found !== undefined, "the account was found by this recurring grant");
      const { pack: _, ...stored } = found;
      const row = withChange(stored, account.periods.changes);
      const clawbacks =
        at === "now"
          ? balancesToRevoke(account, recurringId, unexpired).map(({ id }) => ({
              balanceId: id,
              dueMinor: 0 as Minor,
              revokes: true,
            }))
          : [];
      const isDone =
        row.state === "ended" && (at === "period_end" || row.finalN === CANCELLED_NOW) && clawbacks.length === 0;
      const answer = (shown: StoredRecurring) => ({
        output: presentRecurring(account.userId, shown, account.nowMs),
        hasMore: at === "now" && unexpired.length === REVOKED_A_BATCH_MAX,
      });
      if (isDone) return replay(answer(row));
      // `now` also ends the current period.
      const finalN = at === "now" ? CANCELLED_NOW : row.lastN;
      const after = { ...row, state: "ended", reason: null, nextAtMs: null, finalN } as const;
      const revokes = [
        ...jsonChunks(clawbacks.map(({ balanceId }) => balanceId)).map((balanceIds) =>
          guardNoneRevoked({ balanceIds }),
        ),
        ...insertClawbacks(account, clawbacks, { kind: "revoke", note: reason ?? null }),
      ];
      return writeAll(
        [...changeRecurring([{ ...planCancel(row, after), accountId: account.accountId, finalN }]), ...revokes],
        () => answer(after),
        {
          audit: { action: "recurring.cancelled", target: recurringId, details: { at } },
          messages: () =>
            clawbacks.map((_, index) => entryWritten("credits.revoked", account.userId, clawbacks.length - 1 - index)),
        },
      );
    },
  });
}

type Unexpired = Pick<typeof creditBalances.$inferSelect, "id" | "unit" | "remainingMinor">;

/** Returns the balances that a cancellation with immediate effect revokes: also those of due periods. */
function balancesToRevoke(
  { periods }: AccountAtRead,
  recurringId: string,
  unexpired: readonly Unexpired[],
): readonly Unexpired[] {
  const due = periods.periods.filter((period) => period.recurringId === recurringId);
  const granted = due.flatMap(({ grant }) => grant.balances);
  return [...unexpired, ...granted.map(({ id, unit, amountMinor }) => ({ id, unit, remainingMinor: amountMinor }))];
}

function planCancel(
  before: StoredRecurring,
  { ordinal, id, lastN, state, reason, nextAtMs, utcOffsetMs, countedBalances }: StoredRecurring,
): RecurringChange {
  return {
    ordinal,
    id,
    lastN,
    state,
    reason,
    nextAtMs,
    utcOffsetMs,
    countedBalances,
    before: { state: before.state, lastN: before.lastN },
  };
}

const isSameState = (stored: StoredRecurring, { state, lastN, nextAtMs }: StoredRecurring): boolean =>
  stored.state === state && stored.lastN === lastN && stored.nextAtMs === nextAtMs;

const isUndoable = (row: StoredRecurring, nowMs: number): boolean =>
  row.state === "ended" &&
  row.finalN !== null &&
  row.finalN !== CANCELLED_NOW &&
  nowMs < periodStart(row, row.lastN + 1);

/** Throws `invalid_request` for a recurring grant that has nothing to resume. */
function assertResumable(row: StoredRecurring, undoCancel: boolean, nowMs: number): void {
  if (row.state === "suspended" || (undoCancel && isUndoable(row, nowMs))) return;
  if (!undoCancel) throw invalid("recurringId", `must be a suspended recurring grant; this one is ${row.state}`);
  throw invalid(
    "undoCancel",
    "must name a recurring grant that was cancelled at a period's end, and whose last period has not ended",
  );
}

/**
 * Resumes a suspended recurring grant with the current period, or ends it if no period is left. With `undoCancel` undoes a cancel at
 * a period's end, until that end (R4). Throws the rejection that suspended it if it still applies, `invalid_request` if there is
 * nothing to resume or the user has too many recurring grants, and `not_found`.
 */
export async function resumeRecurring(
  ctx: TenantCtx,
  recurringId: string,
  { undoCancel }: ResumeRecurringInput = { undoCancel: false },
): Promise<RecurringOutput> {
  // The change that an earlier attempt of this call sent. Its response may have been lost.
  let sent: StoredRecurring | null = null;
  const resumed = await writeForUser(ctx, {
    user: { recurringId },
    read: () => [selectRecurring(ctx, recurringId)],
    decide: ([[found]], account): Decision<RecurringOutput> => {
      assert(found !== undefined, "the account was found by this recurring grant");
      const { pack: packJson, ...stored } = found;
      const row = withChange(stored, account.periods.changes);
      if (sent !== null && isSameState(stored, sent))
        return replay(presentRecurring(account.userId, sent, account.nowMs));
      assertResumable(row, undoCancel, account.nowMs);
      const currentN = periodAt(row, account.nowMs);
      const endN = lastPeriod(row, row.endsAtMs);
      const lastN = Math.max(row.lastN, Math.min(currentN, endN + 1) - 1);
      const resumable = { ...row, pack: readPackJson(packJson), lastN, finalN: null };
      if (currentN <= endN) grantOfPeriod(ctx.environment, resumable, currentN);
      const plan = planPeriods(ctx.environment, [resumable], { nowMs: account.nowMs, quota: null, isWhole: true });
      const after = { ...withChange(row, plan.changes), finalN: null };
      sent = after;
      return writeAll(
        [
          ...changeRecurring([{ ...planCancel(row, after), accountId: account.accountId, finalN: null }]),
          ...countBalances(ctx, plan.newlyCounted),
          ...insertPeriods(account, plan.periods).map((insert) =>
            changingCredits(insert, { entries: 0, raises: true }),
          ),
        ],
        () => {
          for (const { grant } of plan.periods) countGranted(ctx, grant, account.nowMs);
          return presentRecurring(account.userId, after, account.nowMs);
        },
        {
          audit: { action: "recurring.resumed", target: recurringId },
          messages: () => periodMessages(account.userId, plan),
        },
      );
    },
    rejections: { ...grantRejections(ctx), recurring_grants_bounded: tooManyRecurring },
  });
  if (resumed === null) throw recurringNotFound();
  return resumed;
}
