import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { type ColumnsOf, computed, hasRow, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, type Minor, refundOwed, reservations, usageEvents } from "../../db/schema.ts";
import { fromMinor, type Quantities, type Unit } from "../amounts/amount.ts";
import type { Counted } from "./counters.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "./stored-legs.ts";
import { back, isLastOf, walkBack } from "./walk-back.ts";

/** The amount that a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountMinor: Minor;
  /** The balance after the hold was made. */
  readonly remainingMinor: Minor;
}

/** Returns a hold as the API returns it, without the remaining amount. */
export function presentLeg({ balanceId, packId, unit, amountMinor }: HoldLeg) {
  return { balanceId, packId, unit, amount: fromMinor(unit, amountMinor) };
}

/** The holds of an open reservation. */
export interface Hold {
  readonly id: string;
  readonly reservationNumber: number;
  readonly legs: readonly HoldLeg[];
  /** The amounts that its balances owe. They pay them from the returned holds (C21). */
  readonly owed: readonly Owed[];
  /** Its balances that are revoked. Returns to them are taken back at once (U9). */
  readonly revocations: readonly RevokedLeg[];
}

/** A revoked balance, and the seq of the first entry after which it is revoked. */
export interface RevokedLeg {
  readonly balanceId: string;
  readonly seq: number;
}

/** The usage that an expired reservation is charged (U15). */
export interface Charge {
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  /** Its meters, as JSON, and the version that priced them. Null for quantities. */
  readonly meters: string | null;
  readonly priceVersion: number | null;
  readonly costMinor: number | null;
  /** The reservation's end. */
  readonly occurredAtMs: number;
}

/**
 * An amount that a balance owes to a refund or a payment, because open reservations held it when it was to be taken (C21, S4). When
 * such a reservation is settled, its balances pay. `leg` is the balance's place in the hold, `seq` that of the entry that took too
 * little.
 */
export type Owed = readonly [leg: number, seq: number, minor: number];

/** The holds of an open reservation that has expired. */
export interface DueHold extends Hold {
  readonly endsAtMs: number;
  /** Its member, as messages name it. Null for none, and for one who was erased. */
  readonly memberId: string | null;
  /** Whether it has a member, also one who was erased. */
  readonly hasMember: boolean;
  readonly event: string;
  /** Null if the holds are only returned. */
  readonly charge: Charge | null;
  /** The amounts that it counts towards usage limits. */
  readonly counted: readonly Counted[];
}

/** A reservation's row, with the columns that the ledger needs. */
export type ReservationRow = Pick<
  typeof reservations.$inferSelect,
  | "id"
  | "reservationNumber"
  | "event"
  | "model"
  | "legs"
  | "state"
  | "createdAtMs"
  | "expiresAtMs"
  | "settledEventSeq"
  | "requestHash"
  | "priceVersion"
  | "memberNumber"
> &
  Pick<Hold, "owed" | "revocations"> &
  Pick<DueHold, "memberId">;
export type OpenReservation = ReservationRow & { readonly state: "open" };

/** Reads `shownLegs`: JSON that Purser wrote. */
export function readLegs(stored: string): readonly HoldLeg[] {
  return JSON.parse(stored) as HoldLeg[];
}

export type DueAt = { nowMs: number };

/** Returns a condition: a reservation is open. It repeats the condition of the partial index, so that SQLite uses the index. */
export const isOpen = (reservation: Pick<ColumnsOf<typeof reservations>, "state"> = reservations): SQL =>
  sql`${reservation.state} = 'open'`;

/** Returns a condition: a reservation of the account is due. */
export const isDue = (
  value: ValueOf<DueAt>,
  account: SQL | SQLiteColumn,
  reservation: Pick<ColumnsOf<typeof reservations>, "accountId" | "state" | "expiresAtMs"> = reservations,
): SQL =>
  sql`${reservation.accountId} = ${account} AND ${isOpen(reservation)} AND ${reservation.expiresAtMs} <= ${value("nowMs")}`;

/** Returns the minor units that some holds have of a balance. */
export const heldMinorOf = (holds: readonly Pick<Hold, "legs">[], balanceId: string): number =>
  holds.flatMap(({ legs }) => legs).reduce((sum, leg) => sum + (leg.balanceId === balanceId ? leg.amountMinor : 0), 0);

/** The minor units that open reservations hold of a row of `creditBalances`. */
export const heldMinorOfBalance = () => sql<Minor>`coalesce((
  SELECT sum(${storedLeg.minor}) FROM ${reservations}, ${eachLeg(reservations.legs)}
  WHERE ${reservations.accountId} = ${creditBalances.accountId} AND ${isOpen()}
    AND ${storedLeg.grantSeq} = ${creditBalances.grantSeq}
), 0)`;

const chargeEvent = alias(usageEvents, "charge_event");
/** Returns a condition: an expired reservation will be charged. It is not charged if an event with its id exists (U15). */
export const willBeCharged = () =>
  sql<0 | 1>`(${reservations.onExpiry} = 'charge' AND NOT ${hasRow(
    chargeEvent,
    and(eq(chargeEvent.environmentId, reservations.environmentId), eq(chargeEvent.eventId, reservations.id)),
  )})`;

/** The FROM clause: the owed amounts that a reservation's settlement may pay, each with its leg. */
export const fromOwed = () =>
  sql`FROM ${eachLeg(reservations.legs)} CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)}
    CROSS JOIN ${refundOwed} ON ${refundOwed.accountId} = ${reservations.accountId} AND ${refundOwed.balanceId} = ${creditBalances.id}
    AND ${refundOwed.seq} > ${reservations.createdAtSeq}`;

/** Returns SQL for these amounts, the oldest of each leg first. An account has at most `OWED_MAX` of them. */
export const owedOfReservation = () =>
  sql`(
  SELECT json_group_array(json_array(leg.key, ${refundOwed.seq}, ${refundOwed.owedMinor}) ORDER BY leg.key, ${refundOwed.seq})
  ${fromOwed()}
)`;
const readOwed = (stored: string) => JSON.parse(stored) as readonly Owed[];

const held = alias(creditBalances, "held");

/** Returns SQL for the seq of the entry that revoked `held`. Earlier reversals (U9) repeat its cause and note, so it ends at the last. */
const revokingSeq = () => {
  const walk = walkBack({
    columns: ["reservationNumber"],
    start: sql`${creditLedger} WHERE ${isLastOf(held)}`,
    continues: sql`${creditLedger.isRevoked} = 1 AND ${back.reservationNumber} IS NULL`,
  });
  return sql`(WITH RECURSIVE ${walk} SELECT min(${back.seq}) FROM ${back})`;
};

/** Returns SQL for the revoked balances of a reservation's holds. */
const revocationsOfReservation = () => sql`(
  SELECT json_group_array(json_object('balanceId', ${held.id}, 'seq', ${revokingSeq()}))
  FROM ${eachLeg(reservations.legs)} CROSS JOIN ${creditBalances} AS ${held} ON ${isBalanceOfLeg(reservations.accountId, held)}
  WHERE ${held.revokedAtMs} IS NOT NULL
)`;
const readRevocations = (stored: string) => JSON.parse(stored) as readonly RevokedLeg[];

/** The fields of an open reservation that only its settlement needs. They are empty lists unless `isFirst`. */
export const settlementFields = (isFirst: SQL = sql`1`) => {
  const isNeeded = sql`${isFirst} AND ${isOpen()}`;
  return computed({
    owed: emptyUnless(isNeeded, owedOfReservation()).mapWith(readOwed),
    revocations: emptyUnless(isNeeded, revocationsOfReservation()).mapWith(readRevocations),
  });
};

export const emptyUnless = (condition: SQL, list: SQL | SQLiteColumn) => sql`iif(${condition}, ${list}, '[]')`;
