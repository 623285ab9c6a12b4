import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import { burnDown } from "../ledger/burn-down.ts";
import { type Decision, type Outcome, replay } from "../ledger/decision.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import { committedFields, type Stamp, stampRequest } from "../ledger/request-hash.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import { selectPayingBalances, spendableBalances, withReturns } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { countUsage } from "../limits/judge.ts";
import { countShortage, insufficientCredits, warnOfCount } from "./payment.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";
import { answerEventRepeat, type StoredEvent, selectEvent, writeEvent } from "./stored-event.ts";

/**
 * Records a usage event and debits the balances that pay for it (U1 to U4). Throws `idempotency_conflict`, and
 * `insufficient_credits` or `usage_limit_reached`, in which case nothing is recorded and the same id may be used again.
 */
export async function recordEvent(ctx: TenantCtx, input: EventInput): Promise<Outcome<EventOutput>> {
  const { userId, eventId } = input;
  const stamp = await stampEvent(ctx, input);
  const recorded = await countShortage(ctx, input, () =>
    writeForUser(ctx, {
      user: { userId },
      read: (nowMs) => [selectEvent(ctx, eventId), selectPayingBalances(ctx, { userId }, nowMs)],
      recall: ({ balances }) => [[], [...balances.values()]],
      balances: ([, rows]) => rows,
      decide: ([[stored], rows], account) => {
        const balances = spendableBalances(
          withReturns([...rows, ...balancesOfPeriods(account.periods)], account.due),
          account.nowMs,
        );
        return decideEvent(ctx, account, { input, stamp, stored, balances });
      },
    }),
  );
  assert(recorded !== null, "a user named by id is never unknown");
  warnOfCount(ctx, input.quantities, recorded.output.debits);
  return recorded;
}

export function stampEvent(ctx: TenantCtx, input: EventInput): Promise<Stamp> {
  return stampRequest(ctx, ["event"], input, ["userId", "event", "model", ...committedFields]);
}

interface EventToDecide {
  readonly input: EventInput;
  readonly stamp: Stamp;
  /** The stored event with the same id. */
  readonly stored: StoredEvent | undefined;
  /** The balances that can pay, in spending order. */
  readonly balances: readonly SpendableBalance[];
}

/** A replay, or the event and its debits. Throws the errors of `recordEvent`. */
export function decideEvent(
  ctx: TenantCtx,
  account: AccountAtRead,
  { input, stamp, stored, balances }: EventToDecide,
): Decision<Outcome<EventOutput>> {
  if (stored !== undefined) return replay(answerEventRepeat(input.eventId, stored, stamp));
  const counts = countUsage(account, input, input.onShortage === "reject");
  const payment = burnDown(balances, input);
  if (payment.uncovered !== null && input.onShortage === "reject") {
    throw insufficientCredits(payment.uncovered, payment, balances, input);
  }
  const { model = null } = input;
  return writeEvent(ctx, account, { ...input, model, reservationId: null, payment, counts }, stamp);
}
