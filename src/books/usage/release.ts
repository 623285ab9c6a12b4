import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import { replay, write } from "../ledger/decision.ts";
import { presentLeg, type ReservationRow, returnEntries, settleHolds } from "../ledger/hold.ts";
import { writeForUser } from "../ledger/write.ts";
import type { ReleaseOutput } from "./responses.ts";
import { asHold, reservationClosed, reservationNotFound, selectReservation } from "./stored-reservation.ts";

/**
 * Releases a reservation and returns its holds (U7). A repeat, or a release after it expired, returns the same result.
 * Throws `reservation_not_found`, and `reservation_closed` after a commit.
 */
export async function releaseReservation(ctx: TenantCtx, reservationId: string): Promise<ReleaseOutput> {
  const released = await writeForUser(ctx, {
    user: { reservationId },
    nonce: ctx.newId(""),
    read: () => [selectReservation(ctx, reservationId)],
    recall: ({ reservations }) => recallReservation(reservations.get(reservationId)),
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      const isDue = account.due.some((hold) => hold.id === reservationId);
      if (reservation.settledEventId !== null) throw reservationClosed("The reservation is already committed.");
      if (reservation.state !== "open" || isDue) {
        return replay(releaseOutput(reservation, reservation.state === "released" ? "released" : "expired"));
      }
      const hold = asHold(reservation);
      // The reservation's own id is the caller's, and may name somebody.
      const balanceIds = hold.legs.map((leg) => leg.balanceId);
      const target = balanceIds[0] ?? ctx.environment.appId;
      return write(settleHolds(account, [hold], { state: "released" }), () => releaseOutput(reservation, "released"), {
        act: { action: "reservation.released", target, details: { balanceIds } },
        changes: { entries: returnEntries(hold), settledReservationId: reservationId },
      });
    },
  });
  if (released === null) throw reservationNotFound();
  return released;
}

function recallReservation(reservation: ReservationRow | undefined): [ReservationRow[]] | null {
  return reservation === undefined ? null : [[reservation]];
}

function releaseOutput(reservation: ReservationRow, status: ReleaseOutput["status"]): ReleaseOutput {
  return { reservationId: reservation.id, status, returned: asHold(reservation).legs.map(presentLeg) };
}
