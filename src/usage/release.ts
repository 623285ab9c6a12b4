import { batchAll } from "../db/statement.ts";
import { dueHolds, readHold, returned, returnedDue, settleDue } from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";
import type { ReleaseOutput } from "./answers.ts";
import { landed, OVERTAKEN, persevere } from "./attempts.ts";
import {
  asHold,
  presentLeg,
  type ReservationRow,
  reservationClosed,
  reservationNotFound,
  storedReservation,
} from "./stored-reservation.ts";

/**
 * Gives a reservation up: its holds come back (U7). Again, or after it expired: the same answer, and nothing happens
 * twice. Throws `reservation_not_found`, and `reservation_closed` after a commit.
 */
export async function release(request: Ctx, reservationId: string): Promise<ReleaseOutput> {
  return persevere(request, request.newId(""), async (ctx) => {
    const [[reservation], dueRows] = await ctx.db.batch([
      storedReservation(ctx, reservationId),
      dueHolds(ctx, { ofReservation: reservationId }),
    ]);
    if (reservation === undefined) throw reservationNotFound();
    const { userId, state } = reservation;
    const due = dueRows.map(readHold);
    const isDue = due.some((hold) => hold.id === reservationId);
    if (state !== "open" || isDue) {
      await settleDue(ctx, userId, due);
      if (reservation.settledEventId !== null) throw reservationClosed("The reservation was committed already.");
      return present(reservation, state === "released" ? "released" : "expired");
    }
    const statements = [
      ...returnedDue(ctx, userId, due),
      ...returned(ctx, userId, [asHold(reservation)], { state: "released" }),
    ];
    const outcome = await landed(() => batchAll(ctx.db, statements));
    return outcome === OVERTAKEN ? OVERTAKEN : present(reservation, "released");
  });
}

function present(reservation: ReservationRow, status: ReleaseOutput["status"]): ReleaseOutput {
  return { reservationId: reservation.id, status, returned: asHold(reservation).legs.map(presentLeg) };
}
