import { sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { priceLists, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { type FormsOfId, hasReservationId } from "../../db/usage-ids.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { WriteContext } from "../ledger/account.ts";
import { type Hold, type ReservationRow, readLegs, settlementFields } from "../ledger/hold.ts";
import { namedMemberOf } from "../ledger/payer-members.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import type { SettledHold } from "../ledger/settle.ts";
import { seqOfSettlingEvent } from "../ledger/settlement-writes.ts";
import { legsField } from "../ledger/stored-legs.ts";
import { isPinnedAndUnknown, type PinnedVersion, pinnedVersionFields } from "../prices/price-versions.ts";

/** The longest that credits are held, from a reservation's creation on. */
export const EXPIRES_IN_SECONDS_MAX = 86_400;

export type ReservationKey = { environmentId: number; forms: string };
export const ofReservationKey = (value: ValueOf<ReservationKey>) => hasReservationId(value, value("forms"));
export const keyOfReservation = ({ environment }: Pick<TenantCtx, "environment">, forms: FormsOfId) => ({
  environmentId: environment.id,
  forms: JSON.stringify(forms),
});

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
export function selectReservation(ctx: TenantCtx, forms: FormsOfId): Statement<ReservationRow> {
  return selectReservationById(keyOfReservation(ctx, forms));
}

/** The same with the version of the price list that it pins, unless it is among the known ones. `known` is null if it needs no price. */
export function selectReservationToCommit(
  ctx: TenantCtx,
  forms: FormsOfId,
  known: string | null,
): Statement<ReservationRow & Partial<PinnedVersion>> {
  if (known === null) return selectReservation(ctx, forms);
  return selectReservationAndPrices({ ...keyOfReservation(ctx, forms), known });
}

export function asHold(row: ReservationRow): Hold {
  const { id, reservationNumber, legs, owed, revocations } = row;
  return { id, reservationNumber, legs: readLegs(legs), owed, revocations };
}

/** Returns whether a reservation was committed, in time or late, or released. Then it cannot be committed. */
export function isClosed(row: ReservationRow): boolean {
  return row.state === "committed" || row.state === "released" || row.settledEventSeq !== null;
}

/**
 * Records a late commit. The reservation stays expired, and no other event can commit it. The batch aborts with
 * `reservations_settled_once` if one has, or if an erasure has replaced the id, which the event has too.
 */
export const commitLate = query(
  (value: ValueOf<WriteContext & ReservationKey & { storedId: string; eventId: string }>) =>
    drizzle
      .update(reservations)
      .set({
        settledEventSeq: sql`iif(${reservations.id} = ${value("storedId")}, ${seqOfSettlingEvent(value, sql`${value("eventId")}`)}, NULL)`,
      })
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

/** Returns the settlement of a reservation that is due. */
export const settledNow = (
  { settled }: AccountAtRead,
  { reservationNumber }: Pick<ReservationRow, "reservationNumber">,
): SettledHold | undefined => settled.find(({ hold }) => hold.reservationNumber === reservationNumber);

/** Returns what an isolate remembers of a reservation as the rows of its read. Null: it remembers nothing. */
export function recallReservation(reservation: ReservationRow | undefined): [ReservationRow[]] | null {
  return reservation === undefined ? null : [[reservation]];
}
