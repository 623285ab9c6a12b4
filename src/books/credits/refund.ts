import { nameKey } from "../../catalog/pack.ts";
import type { Minor } from "../../db/schema.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { writingValues } from "../ledger/account.ts";
import {
  compareFingerprint,
  type Decision,
  fingerprintRequest,
  idempotencyConflict,
  type Outcome,
  type RequestFingerprint,
  replay,
  writeReturning,
} from "../ledger/decision.ts";
import { type Clawback, insertClawbacks } from "../ledger/insert-clawbacks.ts";
import { insertRefundOwed, OWED_MAX, OWED_TOO_MUCH } from "../ledger/owed.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { apply, changesOfHolds } from "../ledger/settle.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";
import { REFERENCE_BALANCES_MAX, tooManyOfReference } from "./grant.ts";
import {
  balancesOfRefund,
  type ClawbackRow,
  type DueShare,
  earlierShare,
  type IssuedRow,
  insertRefund,
  planRefund,
  type RefundRow,
  type Share,
  selectIssued,
  selectRefunds,
  selectTaken,
  storedShare,
} from "./stored-refund.ts";

export interface RefundOutput {
  readonly refundRef: string;
  readonly externalRef: string;
  readonly balances: {
    readonly balanceId: string;
    readonly packItemId: string | null;
    readonly unit: Unit;
    readonly taken: number;
    readonly short: number;
    readonly remaining: number;
  }[];
}

export interface RefundInput {
  readonly userId: string;
  readonly externalRef: string;
  readonly refundRef: string;
  readonly packId?: string | undefined;
  readonly share?: { readonly part: number; readonly of: number } | undefined;
  readonly reason?: string | undefined;
}

/**
 * Takes back a share of the initial amount of each balance under a reference, as far as it remains. A part that open reservations
 * hold is owed (C21). Throws `credit_balance_not_found`; `idempotency_conflict`; and `invalid_request` if the shares would total more
 * than 1, if nothing is left to refund, for more than a hundred refunds, and if the user's held credits owe too many.
 */
export async function refundCredits(ctx: TenantCtx, input: RefundInput): Promise<Outcome<RefundOutput>> {
  const { userId, externalRef, refundRef } = input;
  const fingerprint = await fingerprintRequest(ctx, ["refund"], input, ["packId", "share", "reason"]);
  const refunded = await writeForUser(ctx, {
    user: { userId },
    read: () => [
      selectIssued(ctx, { userId }, { externalRef }),
      selectRefunds(ctx, { userId }, { externalRef }),
      selectTaken(ctx, { userId }, { externalRef, refundRef }),
    ],
    decide: ([stored, refunds, taken], account) => {
      const issued = issuedAfterDue(stored, externalRef, account);
      return decideRefund(ctx, { input, fingerprint, issued, refunds, taken }, account);
    },
    rejections: { guard_owed: owedTooMuch },
  });
  assert(refunded !== null, "a user named by id is never unknown");
  return refunded;
}

/** Returns the balances under a reference after everything due, with those of due periods (R3). */
function issuedAfterDue(stored: readonly IssuedRow[], externalRef: string, account: AccountAtRead): IssuedRow[] {
  const due = balancesOfPeriods(account.periods).filter((row) => row.externalRef === externalRef);
  return apply<IssuedRow>([...stored, ...due], changesOfHolds(account.settled));
}

const REFUNDS_MAX = 100;

interface Refund {
  readonly input: RefundInput;
  readonly fingerprint: RequestFingerprint;
  readonly issued: readonly IssuedRow[];
  readonly refunds: readonly RefundRow[];
  readonly taken: readonly ClawbackRow[];
}

function decideRefund(ctx: TenantCtx, refund: Refund, account: AccountAtRead): Decision<Outcome<RefundOutput>> {
  const { input, fingerprint, issued, refunds, taken } = refund;
  const { userId, externalRef, refundRef, reason = null } = input;
  const ordinal = refunds.findIndex((row) => row.refundRef === refundRef);
  const stored = refunds[ordinal];
  if (stored !== undefined) {
    const comparison = compareFingerprint(stored.requestHash, fingerprint);
    if (comparison === "other") {
      const message = "Another refund has this id. Send a new `refundRef`.";
      throw idempotencyConflict(message, "refundRef", stored.requestHash, fingerprint);
    }
    const due = planRefundDue(balancesOfRefund(stored, issued), refunds.slice(0, ordinal), storedShare(stored));
    return replay({ output: presentRefund(input, due, taken), replayed: comparison === "replay" });
  }

  const share = input.share ?? null;
  const due = decideDue(input, issued, refunds);
  return writeReturning(
    {
      before: [
        insertRefund({
          ...writingValues(account),
          ...{ externalRef, refundRef, requestHash: fingerprint.stored },
          ordinal: refunds.length + 1,
          packIds: [...new Set(due.map(({ balance }) => balance.packId))],
          part: share?.part ?? null,
          ofParts: share?.of ?? null,
          entries: due.length,
        }),
        ...insertClawbacks(account, planClawbacks(due), { kind: "refund", note: reason }),
        ...insertRefundOwed(account, planClawbacks(due)),
      ],
      returning: selectTaken(ctx, { userId }, { externalRef, refundRef }),
      audit: {
        action: "credits.refunded",
        target: due[0]?.balance.id ?? "",
        balanceIds: due.map(({ balance }) => balance.id),
      },
      messages: () => [
        {
          type: "credits.refunded",
          subject: userId,
          data: { userId, refundRef, externalRef },
          changes: due.map(({ balance, dueMinor }) => {
            return { balanceId: balance.id, unit: balance.unit, packItemId: balance.packItemId || null, dueMinor };
          }),
          last: { after: 0 },
        },
      ],
    },
    (rows) => ({ output: presentRefund(input, due, rows), replayed: false }),
  );
}

/**
 * Returns the amounts that a refund would take from each balance now, and the missing amounts. Writes nothing. Throws the rejections of
 * `refundCredits`, except for repeats.
 */
export async function previewRefund(ctx: TenantCtx, input: Omit<RefundInput, "refundRef">) {
  const { userId, externalRef } = input;
  const due = await previewForUser(ctx, {
    user: { userId },
    read: () => [selectIssued(ctx, { userId }, { externalRef }), selectRefunds(ctx, { userId }, { externalRef })],
    decide: ([stored, refunds], account) => decideDue(input, issuedAfterDue(stored, externalRef, account), refunds),
  });
  assert(due !== null, "a user named by id is never unknown");
  return due.map(({ balance, dueMinor, revokes }) => {
    const { id, packName, unit, initialMinor, remainingMinor } = balance;
    const clawedBackMinor = revokes ? remainingMinor : Math.min(dueMinor, remainingMinor);
    const amount = (minor: number) => fromMinor(unit, minor as Minor);
    return {
      ...{ balanceId: id, packName, unit, revokes },
      initial: amount(initialMinor),
      remaining: amount(remainingMinor),
      taken: amount(clawedBackMinor),
      short: amount(Math.max(0, dueMinor - clawedBackMinor)),
    };
  });
}

/** Returns the amounts that a new refund is due from each balance. Throws the rejections of `refundCredits`. Pure. */
function decideDue(
  input: Pick<RefundInput, "packId" | "share">,
  issued: readonly IssuedRow[],
  refunds: readonly RefundRow[],
): DueShare<IssuedRow>[] {
  const { share = null } = input;
  const covered = balancesToRefund(input, issued);
  if (covered.length === 0) throw nothingGranted(issued.length === 0 ? "externalRef" : "packId");
  if (covered.length > REFERENCE_BALANCES_MAX) throw tooManyOfReference();
  if (refunds.length >= REFUNDS_MAX) throw tooManyRefunds();
  const due = planRefundDue(covered, refunds, share);
  if (share === null && due.every(({ wasWhole }) => wasWhole)) throw nothingLeft();
  return due;
}

/** Returns the balances that a refund covers: all, or those of one pack, found by its id or by its name at the grant. */
function balancesToRefund({ packId }: Pick<RefundInput, "packId">, issued: readonly IssuedRow[]): readonly IssuedRow[] {
  if (packId === undefined) return issued;
  const ofPack = issued.filter((row) => row.packId === packId);
  return ofPack.length > 0 ? ofPack : issued.filter((row) => nameKey(row.packName) === nameKey(packId));
}

/** Returns the amounts due. Throws when the shares of one balance would total above 1. */
function planRefundDue(
  covered: readonly IssuedRow[],
  earlier: readonly RefundRow[],
  share: Share,
): DueShare<IssuedRow>[] {
  const due = planRefund(covered, earlier.map(earlierShare), share);
  if (due === null)
    throw invalid(
      "share",
      "This refund and the earlier ones would take back more than was granted. Send a smaller share.",
    );
  return due;
}

function planClawbacks(due: readonly DueShare<IssuedRow>[]): Clawback[] {
  return due.map(({ balance, dueMinor, revokes }) => ({ balanceId: balance.id, dueMinor, revokes }));
}

const nothingLeft = (): PurserError => invalid("share", "Nothing is left to refund: everything was already refunded.");

function nothingGranted(param: "externalRef" | "packId"): PurserError {
  const nothing = param === "packId" ? "Nothing of this pack" : "Nothing";
  return new PurserError(
    "credit_balance_not_found",
    `${nothing} was granted to the user under this reference in this mode. References must match exactly, and names of packs except for letter case.`,
    { param },
  );
}

const owedTooMuch = (): PurserError =>
  new PurserError("invalid_request", OWED_TOO_MUCH, { param: "externalRef", details: { limit: OWED_MAX } });

function tooManyRefunds(): PurserError {
  return new PurserError("invalid_request", "This reference has the maximum number of refunds.", {
    param: "externalRef",
    details: { limit: REFUNDS_MAX },
  });
}

function presentRefund(
  input: RefundInput,
  due: readonly DueShare<IssuedRow>[],
  taken: readonly ClawbackRow[],
): RefundOutput {
  const entries = new Map(taken.map((row) => [row.balanceId, row]));
  const balances = due.map(({ balance, dueMinor }) => {
    const entry = entries.get(balance.id);
    assert(entry !== undefined, "every balance of a refund has its entry");
    const clawedBackMinor = (entry.deltaMinor === 0 ? 0 : -entry.deltaMinor) as Minor;
    return {
      balanceId: balance.id,
      packItemId: balance.packItemId === "" ? null : balance.packItemId,
      unit: balance.unit,
      taken: fromMinor(balance.unit, clawedBackMinor),
      short: fromMinor(balance.unit, Math.max(0, dueMinor - clawedBackMinor) as Minor),
      remaining: fromMinor(balance.unit, entry.remainingMinor),
    };
  });
  return { refundRef: input.refundRef, externalRef: input.externalRef, balances };
}
