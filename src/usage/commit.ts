import type { SpendableBalance } from "../ledger/balance.ts";
import { burnDown } from "../ledger/burn-down.ts";
import {
  afterReturn,
  balancesAbleToCommit,
  dueHolds,
  type Hold,
  readHold,
  returned,
  returnedDue,
  settleDue,
  spendable,
} from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";
import { persevere } from "./attempts.ts";
import { insufficient } from "./payment.ts";
import { stampRequest } from "./request-hash.ts";
import type { CommitInput } from "./schemas.ts";
import { landEvent, type Recorded, replayEvent, storedEvent } from "./stored-event.ts";
import {
  asHold,
  committedLate,
  isClosed,
  reservationClosed,
  reservationNotFound,
  storedReservation,
} from "./stored-reservation.ts";

/**
 * Turns a reservation into the usage that it was for: its holds come back, and the event is debited, in one write
 * (U6). After the reservation expired it still counts, once, as a plain event (U8).
 *
 * Throws `reservation_not_found`, `idempotency_conflict`, `reservation_closed` and `insufficient_credits`, which leaves
 * the hold standing.
 */
export async function commit(request: Ctx, reservationId: string, input: CommitInput): Promise<Recorded> {
  const { eventId } = input;
  const stamp = await stampRequest(request, ["commit", reservationId], input);
  return persevere(request, stamp.nonce, async (ctx) => {
    const state = await readState(ctx, reservationId, eventId);
    const { reservation, userId, due, rows } = state;
    if (state.stored !== undefined || isClosed(reservation)) await settleDue(ctx, userId, due);
    if (state.stored !== undefined) return replayEvent(eventId, state.stored, stamp);
    if (isClosed(reservation)) throw reservationClosed("The reservation was committed or released already.");

    const own = asHold(reservation);
    const isLate = reservation.state === "expired" || due.some((hold) => hold.id === own.id);
    const able = spendable(afterReturn(rows, isLate ? due : [...due, own]), ctx.now());
    const { event, model } = reservation;
    const payment = burnDown(isLate ? able : heldFirst(able, own), {
      event,
      model: model ?? undefined,
      quantities: input.quantities,
    });
    if (payment.uncovered !== null && input.onShortage === "reject") {
      await settleDue(ctx, userId, due);
      throw insufficient(ctx, payment.uncovered);
    }
    const { quantities, properties, occurredAt } = input;
    const paid = { userId, eventId, event, model, quantities, properties, occurredAt, reservationId, payment };
    const settlement = { state: "committed", eventId } as const;
    return landEvent(ctx, paid, stamp, [
      ...returnedDue(ctx, userId, due),
      ...(isLate ? [committedLate(ctx, own.id, eventId)] : returned(ctx, userId, [own], settlement)),
    ]);
  });
}

/** All that a commit must know, in one trip: the reservation's owner is found on the way. */
async function readState(ctx: Ctx, reservationId: string, eventId: string) {
  const [[reservation], [stored], rows, dueRows] = await ctx.db.batch([
    storedReservation(ctx, reservationId),
    storedEvent(ctx, eventId),
    balancesAbleToCommit(ctx, reservationId),
    dueHolds(ctx, { ofReservation: reservationId }),
  ]);
  if (reservation === undefined) throw reservationNotFound();
  return { reservation, userId: reservation.userId, stored, rows, due: dueRows.map(readHold) };
}

/** The balances that were held, then the others, each group in its order. */
function heldFirst(balances: readonly SpendableBalance[], own: Hold): SpendableBalance[] {
  const held = new Set(own.legs.map((leg) => leg.balanceId));
  return [...balances.filter(({ id }) => held.has(id)), ...balances.filter(({ id }) => !held.has(id))];
}
