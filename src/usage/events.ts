import { burnDown } from "../ledger/burn-down.ts";
import { returnedDue, settleDue } from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";
import { readAccount } from "./account.ts";
import { persevere } from "./attempts.ts";
import { insufficient } from "./payment.ts";
import { stampRequest } from "./request-hash.ts";
import type { EventInput } from "./schemas.ts";
import { landEvent, type Recorded, replayEvent, storedEvent } from "./stored-event.ts";

/**
 * Records what a user used, and debits the balances that pay for it (U1 to U4). Two trips: what there is, and one batch
 * that changes it; when somebody else was faster, both again.
 *
 * Throws `insufficient_credits` (nothing recorded; the same id may be tried again) and `idempotency_conflict`.
 */
export async function recordEvent(request: Ctx, input: EventInput): Promise<Recorded> {
  const { userId, eventId } = input;
  const stamp = await stampRequest(request, ["event"], input);
  return persevere(request, stamp.nonce, async (ctx) => {
    const { stored, due, able } = await readAccount(ctx, userId, storedEvent(ctx, eventId));
    if (stored !== undefined) {
      await settleDue(ctx, userId, due);
      return replayEvent(eventId, stored, stamp);
    }
    const payment = burnDown(able, input);
    if (payment.uncovered !== null && input.onShortage === "reject") {
      await settleDue(ctx, userId, due);
      throw insufficient(ctx, payment.uncovered);
    }
    const paid = {
      ...input,
      model: input.model ?? null,
      properties: input.properties,
      occurredAt: input.occurredAt,
      reservationId: null,
      payment,
    };
    return landEvent(ctx, paid, stamp, returnedDue(ctx, userId, due));
  });
}
