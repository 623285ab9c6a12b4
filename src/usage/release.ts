import { settleHolds } from "../ledger/hold.ts";
import { replay, write, writeForUser } from "../ledger/write.ts";
import { assert } from "../lib/assert.ts";
import type { Ctx } from "../runtime.ts";
import type { ReleaseOutput } from "./answers.ts";
import {
  asHold,
  presentLeg,
  type ReservationRow,
  reservationClosed,
  reservationNotFound,
  selectReservation,
} from "./stored-reservation.ts";

/**
 * Gives a reservation up: its holds come back (U7). Again, or after it expired: the same answer, and nothing happens
 * twice. Throws `reservation_not_found`, and `reservation_closed` after a commit.
 */
export async function release(ctx: Ctx, reservationId: string): Promise<ReleaseOutput> {
  const released = await writeForUser(ctx, {
    user: { reservationId },
    nonce: ctx.newId(""),
    read: () => [selectReservation(ctx, reservationId)],
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      const isDue = account.due.some((hold) => hold.id === reservationId);
      if (reservation.settledEventId !== null) throw reservationClosed("The reservation was committed already.");
      if (reservation.state !== "open" || isDue) {
        return replay(present(reservation, reservation.state === "released" ? "released" : "expired"));
      }
      return write(settleHolds(account, [asHold(reservation)], { state: "released" }), () =>
        present(reservation, "released"),
      );
    },
  });
  if (released === null) throw reservationNotFound();
  return released;
}

function present(reservation: ReservationRow, status: ReleaseOutput["status"]): ReleaseOutput {
  return { reservationId: reservation.id, status, returned: asHold(reservation).legs.map(presentLeg) };
}
