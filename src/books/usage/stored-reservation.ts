import { and, eq, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { priceLists, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { WriteContext } from "../ledger/account.ts";
import { type Hold, type ReservationRow, readLegs, settlementFields } from "../ledger/hold.ts";
import { namedMemberOf } from "../ledger/payer-members.ts";
import { seqOfSettlingEvent } from "../ledger/settle-reservations.ts";
import { legsField } from "../ledger/stored-legs.ts";
import { isPinnedAndUnknown, type PinnedVersion, pinnedVersionFields } from "../prices/price-versions.ts";

/** The longest that credits are held, from a reservation's creation on. */
export const EXPIRES_IN_SECONDS_MAX = 86_400;

export type ReservationKey = { environmentId: number; reservationId: string };
export const ofReservationKey = (value: ValueOf<ReservationKey>) =>
  and(eq(reservations.environmentId, value("environmentId")), eq(reservations.id, value("reservationId")));

const settleableFields = () => ({
  ...fields(reservations, "id", "reservationNumber", "event", "model", "state"),
  ...legsField(),
  ...fields(
    reservations,
    "createdAtMs",
    "expiresAtMs",
    "settledEventSeq",
    "requestHash",
    "priceVersion",
    "memberNumber",
  ),
  ...settlementFields(),
  ...computed({ memberId: namedMemberOf(reservations) }),
});
const selectReservationById = query((value: ValueOf<ReservationKey>) =>
  drizzle.select(settleableFields()).from(reservations).where(ofReservationKey(value)),
);
const selectReservationAndPrices = query((value: ValueOf<ReservationKey & { known: string }>) =>
  drizzle
    .select({ ...settleableFields(), ...pinnedVersionFields() })
    .from(reservations)
    .leftJoin(priceLists, isPinnedAndUnknown(value))
    .where(ofReservationKey(value)),
);

/** The reservation with an id: at most one row. */
export function selectReservation(ctx: TenantCtx, reservationId: string): Statement<ReservationRow> {
  return selectReservationById({ environmentId: ctx.environment.id, reservationId });
}

/** The same with the version of the price list that it pins, unless it is among the known ones. `known` is null if it needs no price. */
export function selectReservationToCommit(
  ctx: TenantCtx,
  reservationId: string,
  known: string | null,
): Statement<ReservationRow & Partial<PinnedVersion>> {
  if (known === null) return selectReservation(ctx, reservationId);
  return selectReservationAndPrices({ environmentId: ctx.environment.id, reservationId, known });
}

export function asHold(row: ReservationRow): Hold {
  const { id, reservationNumber, legs, owed, revocations } = row;
  return { id, reservationNumber, legs: readLegs(legs), owed, revocations };
}

/** Returns whether a reservation was committed, in time or late, or released. Then it cannot be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventSeq !== null;
}

/** Records a late commit. The reservation stays expired, and no other event can commit it. */
export const commitLate = query((value: ValueOf<WriteContext & ReservationKey & { eventId: string }>) =>
  drizzle
    .update(reservations)
    .set({ settledEventSeq: seqOfSettlingEvent(value, sql`${value("eventId")}`) })
    .where(ofReservationKey(value)),
);

export function reservationNotFound(): PurserError {
  return new PurserError(
    "reservation_not_found",
    "The application has no such reservation in this mode. Ids are compared exactly, and begin with `res_`.",
    { param: "reservationId" },
  );
}

export function reservationClosed(message: string): PurserError {
  return new PurserError("reservation_closed", message, { param: "reservationId" });
}
