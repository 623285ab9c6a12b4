import { sql } from "drizzle-orm";
import { fields, query, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, reservations } from "../../db/schema.ts";
import { formsOfId } from "../../db/usage-ids.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor } from "../amounts/amount.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import { presentLeg, type ReservationRow } from "../ledger/hold.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { apply, changesOfHolds, type Settlement, settleHold } from "../ledger/settle.ts";
import { eachLeg, isBalanceOfLeg } from "../ledger/stored-legs.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";
import type { AmountOfBalance } from "./describe-events.ts";
import {
  asHold,
  keyOfReservation,
  ofReservationKey,
  type ReservationKey,
  recallReservation,
  reservationClosed,
  reservationNotFound,
  selectReservation,
  settledNow,
} from "./stored-reservation.ts";

export interface ReleaseOutput {
  readonly reservationId: string;
  readonly status: "expired" | "released";
  readonly returned: AmountOfBalance[];
}

/**
 * Releases a reservation and returns its holds (U7). A repeat, or a release after it expired, returns the same result.
 * Throws `reservation_not_found`, and `reservation_closed` after a commit.
 */
export async function releaseReservation(ctx: TenantCtx, reservationId: string): Promise<ReleaseOutput> {
  const forms = await formsOfId(ctx, reservationId);
  const present = (row: ReservationRow, status: ReleaseOutput["status"]) => ({
    ...{ reservationId, status },
    returned: asHold(row).legs.map(presentLeg),
  });
  const released = await writeForUser(ctx, {
    user: { reservationId, forms: JSON.stringify(forms) },
    read: () => [selectReservation(ctx, forms)],
    recall: ({ reservations }) => recallReservation(reservations.get(reservationId)),
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      const settlement = decideRelease(reservation, account);
      if (typeof settlement === "string") return replay(present(reservation, settlement));
      // The audit leaves out the reservation's id, because callers choose it and it may identify a person.
      const balanceIds = settlement.hold.legs.map((leg) => leg.balanceId);
      const target = balanceIds[0] ?? ctx.environment.appId;
      return writeAll([], () => present(reservation, "released"), {
        settles: settlement,
        audit: { action: "reservation.released", target, balanceIds },
        remembers: {},
      });
    },
  });
  if (released === null) throw reservationNotFound();
  return released;
}

/** Returns the settlement of a release, or how the reservation ended before. Throws `reservation_closed` after a commit. Pure. */
function decideRelease(reservation: ReservationRow, account: AccountAtRead): Settlement | ReleaseOutput["status"] {
  const due = settledNow(account, reservation);
  if (reservation.settledEventSeq !== null || due?.charged) {
    throw reservationClosed("The reservation is already committed.");
  }
  if (reservation.state !== "open" || due !== undefined) {
    return reservation.state === "released" ? "released" : "expired";
  }
  return settleHold(asHold(reservation), { state: "released" });
}

/**
 * Returns the balances of a reservation, each with its amount before and after a release: the same if the reservation has ended. Throws
 * the rejections of `releaseReservation`.
 */
export async function previewRelease(ctx: TenantCtx, reservationId: string) {
  const forms = await formsOfId(ctx, reservationId);
  const preview = await previewForUser(ctx, {
    user: { reservationId, forms: JSON.stringify(forms) },
    read: () => [selectReservation(ctx, forms), selectHeldBalances(keyOfReservation(ctx, forms))],
    decide: ([[reservation], balances], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      const settlement = decideRelease(reservation, account);
      const before = apply(balances, changesOfHolds(account.settled));
      const after = apply(before, typeof settlement === "string" ? [] : settlement.entries);
      return before.map(({ id, packName, unit, remainingMinor }, index) => ({
        ...{ balanceId: id, packName, unit },
        from: fromMinor(unit, remainingMinor),
        to: fromMinor(unit, after[index]?.remainingMinor ?? remainingMinor),
      }));
    },
  });
  if (preview === null) throw reservationNotFound();
  return preview;
}

const selectHeldBalances = query((value: ValueOf<ReservationKey>) =>
  read(
    fields(creditBalances, "id", "packName", "unit", "remainingMinor", "revokedAtMs"),
    (list) => sql`
      SELECT ${list} FROM ${reservations} CROSS JOIN ${eachLeg(reservations.legs)}
      CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)} WHERE ${ofReservationKey(value)}`,
  ),
);
