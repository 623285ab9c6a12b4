import { asInteger, drizzle, query, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import { invalid } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { writeReturning } from "../ledger/decision.ts";
import { writeForUser } from "../ledger/write.ts";
import { presentReservation, selectShownReservation } from "./read-reservation.ts";
import type { ReservationOutput } from "./responses.ts";
import { EXPIRES_IN_SECONDS_MAX, type ExtendInput } from "./schemas.ts";
import {
  ofReservationKey,
  type ReservationKey,
  reservationClosed,
  reservationNotFound,
  selectReservation,
} from "./stored-reservation.ts";

/**
 * Moves a reservation's end to so many seconds from now, and answers it as it stands then (U14). Throws
 * `reservation_not_found`; `reservation_closed` if it is settled or due; and `invalid_request` if the end would be earlier
 * than it was, or a day after the reservation was made.
 */
export async function extendReservation(
  ctx: TenantCtx,
  reservationId: string,
  { expiresInSeconds }: ExtendInput,
): Promise<ReservationOutput> {
  const extended = await writeForUser(ctx, {
    user: { reservationId },
    nonce: ctx.newId(""),
    read: () => [selectReservation(ctx, reservationId)],
    recall: ({ reservations }) => {
      const reservation = reservations.get(reservationId);
      return reservation === undefined ? null : [[reservation]];
    },
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      if (reservation.state !== "open" || account.due.some((hold) => hold.id === reservationId)) {
        throw reservationClosed("The reservation is already committed, released or expired.");
      }
      const expiresAtMs = account.nowMs + expiresInSeconds * 1_000;
      checkEnd(reservation, expiresAtMs);
      const parts = {
        before: [moveEnd({ environmentId: account.environmentId, reservationId, expiresAtMs })],
        returning: selectShownReservation(ctx, reservationId, account.nowMs),
        changes: { entries: [], newReservation: { ...reservation, state: "open", expiresAtMs } as const },
      };
      return writeReturning(parts, ([row]) => {
        assert(row !== undefined, "the reservation that was extended is there");
        return presentReservation(row.userId, row);
      });
    },
  });
  if (extended === null) throw reservationNotFound();
  return extended;
}

// If it was settled or extended since the read, a trigger aborts the batch: an end never moves to an earlier time.
const moveEnd = query((value: ValueOf<ReservationKey & { expiresAtMs: number }>) =>
  drizzle
    .update(reservations)
    .set({ expiresAtMs: asInteger(value("expiresAtMs")) })
    .where(ofReservationKey(value)),
);

function checkEnd(before: { readonly createdAtMs: number; readonly expiresAtMs: number }, expiresAtMs: number): void {
  if (expiresAtMs < before.expiresAtMs) {
    throw invalid("expiresInSeconds", `must not end before ${iso(before.expiresAtMs)}, where the reservation ends now`);
  }
  const lastMs = before.createdAtMs + EXPIRES_IN_SECONDS_MAX * 1_000;
  if (expiresAtMs > lastMs) {
    throw invalid("expiresInSeconds", `must end by ${iso(lastMs)}, a day after the reservation was made`);
  }
}
