import { asInteger, drizzle, query, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import { formsOfId } from "../../db/usage-ids.ts";
import { assert, invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { writeReturning } from "../ledger/decision.ts";
import { writeForUser } from "../ledger/write.ts";
import { presentReservation, type ReservationOutput, selectShownReservation } from "./read-reservation.ts";
import {
  EXPIRES_IN_SECONDS_MAX,
  keyOfReservation,
  ofReservationKey,
  type ReservationKey,
  recallReservation,
  reservationClosed,
  reservationNotFound,
  selectReservation,
  settledNow,
} from "./stored-reservation.ts";

export interface ExtendInput {
  readonly expiresInSeconds: number;
}

/**
 * Moves the end of a reservation to the given number of seconds from now, and returns the reservation (U14). Throws
 * `reservation_not_found`, `reservation_closed` if it is settled or due, and `invalid_request` if the new end is earlier than the
 * current one or more than a day after the reservation's creation.
 */
export async function extendReservation(
  ctx: TenantCtx,
  reservationId: string,
  { expiresInSeconds }: ExtendInput,
): Promise<ReservationOutput> {
  const forms = await formsOfId(ctx, reservationId);
  const key = keyOfReservation(ctx, forms);
  const extended = await writeForUser(ctx, {
    user: { reservationId, forms: key.forms },
    read: () => [selectReservation(ctx, forms)],
    recall: ({ reservations }) => recallReservation(reservations.get(reservationId)),
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      if (reservation.state !== "open" || settledNow(account, reservation) !== undefined) {
        throw reservationClosed("The reservation is already committed, released or expired.");
      }
      const expiresAtMs = account.nowMs + expiresInSeconds * 1_000;
      checkNewEnd(reservation, expiresAtMs);
      const parts = {
        before: [moveEnd({ ...key, expiresAtMs })],
        returning: selectShownReservation(ctx, forms, account.nowMs),
        remembers: { newReservation: () => ({ ...reservation, state: "open" as const, expiresAtMs }) },
      };
      return writeReturning(parts, ([row]) => {
        assert(row !== undefined, "the extended reservation exists");
        return presentReservation(row.userId, row, reservationId);
      });
    },
  });
  if (extended === null) throw reservationNotFound();
  return extended;
}

// A trigger aborts the batch if the reservation was settled since the read, or if the new end is earlier than the current one.
const moveEnd = query((value: ValueOf<ReservationKey & { expiresAtMs: number }>) =>
  drizzle
    .update(reservations)
    .set({ expiresAtMs: asInteger(value("expiresAtMs")) })
    .where(ofReservationKey(value)),
);

function checkNewEnd(
  before: { readonly createdAtMs: number; readonly expiresAtMs: number },
  expiresAtMs: number,
): void {
  if (expiresAtMs < before.expiresAtMs) {
    throw invalid(
      "expiresInSeconds",
      `must not move the end to before ${iso(before.expiresAtMs)}, the reservation's current end`,
    );
  }
  const lastMs = before.createdAtMs + EXPIRES_IN_SECONDS_MAX * 1_000;
  if (expiresAtMs > lastMs) {
    throw invalid(
      "expiresInSeconds",
      `must not move the end beyond ${iso(lastMs)}, a day after the reservation was created`,
    );
  }
}
