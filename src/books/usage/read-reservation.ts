import { all, type Statement, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { ReservationOutput } from "./responses.ts";
import { presentReservation, type ShownRow, shownColumns } from "./shown-reservation.ts";
import { reservationNotFound } from "./stored-reservation.ts";

/** A reservation as it stands (U13). Throws `reservation_not_found`. */
export async function readReservation(ctx: TenantCtx, reservationId: string): Promise<ReservationOutput> {
  const [row] = await all(ctx.db, selectShownReservation(ctx, reservationId, ctx.now()));
  if (row === undefined) throw reservationNotFound();
  return presentReservation(row.userId, row);
}

const selectShown = statement<
  { environmentId: number; reservationId: string; nowMs: number },
  ShownRow & { userId: string }
>`
  SELECT ${shownColumns}, (SELECT user_id FROM accounts WHERE id = account_id) AS userId
  FROM reservations WHERE environment_id = :environmentId AND id = :reservationId`;

/** The reservation as it is shown at a time: at most one row. */
export function selectShownReservation(
  { environment }: Pick<TenantCtx, "environment">,
  reservationId: string,
  nowMs: number,
): Statement<ShownRow & { userId: string }> {
  return selectShown({ environmentId: environment.id, reservationId, nowMs });
}
