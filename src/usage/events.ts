import { burnDown } from "../ledger/burn-down.ts";
import { type Outcome, replay } from "../ledger/decision.ts";
import { stampRequest } from "../ledger/request-hash.ts";
import { selectPayingBalances, spendableBalances, withReturns } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { assert } from "../lib/assert.ts";
import type { TenantCtx } from "../runtime.ts";
import { countShortage, insufficientCredits } from "./payment.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";
import { answerRepeat, committedFields, selectEvent, writeEvent } from "./stored-event.ts";

/**
 * Records a usage event and debits the balances that pay for it (U1 to U4). Throws `idempotency_conflict`, and
 * `insufficient_credits`, in which case nothing is recorded and the same id may be used again.
 */
export async function recordEvent(ctx: TenantCtx, input: EventInput): Promise<Outcome<EventOutput>> {
  const { userId, eventId } = input;
  const stamp = await stampRequest(ctx, ["event"], input, ["userId", "event", "model", ...committedFields]);
  const recorded = await countShortage(ctx, () =>
    writeForUser(ctx, {
      user: { userId },
      nonce: stamp.nonce,
      read: (nowMs) => [selectEvent(ctx, eventId), selectPayingBalances(ctx, { userId }, nowMs)],
      recall: ({ balances }) => [[], [...balances.values()]],
      balances: ([, rows]) => rows,
      decide: ([[stored], rows], account) => {
        if (stored !== undefined) return replay(answerRepeat(eventId, stored, stamp));
        const live = spendableBalances(withReturns(rows, account.due), account.nowMs);
        const payment = burnDown(live, input);
        if (payment.uncovered !== null && input.onShortage === "reject") {
          throw insufficientCredits(payment.uncovered, payment, live, input);
        }
        return writeEvent(ctx, account, { ...input, model: input.model ?? null, reservationId: null, payment }, stamp);
      },
    }),
  );
  assert(recorded !== null, "a user named by id is never unknown");
  return recorded;
}
