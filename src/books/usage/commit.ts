import { sql } from "drizzle-orm";
import { asInteger, drizzle, fields, query, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, reservations } from "../../db/schema.ts";
import { formsOfId } from "../../db/usage-ids.ts";
import { assert, invalid } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { JsonObject } from "../../lib/json.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, type Quantities, type Unit } from "../amounts/amount.ts";
import type { SentMeters } from "../amounts/meters.ts";
import { writingValues } from "../ledger/account.ts";
import { burnDown } from "../ledger/burn-down.ts";
import {
  committedFields,
  fingerprintRequest,
  type Outcome,
  replay,
  writeAll,
  writeReturning,
} from "../ledger/decision.ts";
import { presentLeg, type ReservationRow } from "../ledger/hold.ts";
import { type AccountAtRead, spendableOf } from "../ledger/read-account.ts";
import {
  apply,
  changesOfHolds,
  payersOfCommit,
  type SettledHold,
  type Settlement,
  settleHold,
} from "../ledger/settle.ts";
import { selectBalancesForCommit } from "../ledger/spendable-balances.ts";
import { eachLeg, isBalanceOfLeg } from "../ledger/stored-legs.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";
import { countUsage } from "../limits/count-usage.ts";
import { needsPrice, withPrices } from "../prices/prices-in-force.ts";
import type { AmountOfBalance } from "./describe-events.ts";
import { assertNotAhead, insufficientCredits, noteIfRejected, warnOfQuantities } from "./plan.ts";
import { presentReservation, type ReservationOutput, selectShownReservation } from "./read-reservation.ts";
import {
  asHold,
  commitLate,
  EXPIRES_IN_SECONDS_MAX,
  isClosed,
  keyOfReservation,
  ofReservationKey,
  type ReservationKey,
  reservationClosed,
  reservationNotFound,
  selectReservation,
  selectReservationToCommit,
} from "./stored-reservation.ts";
import { answerEventRepeat, type EventOutput, selectEvent, writeEvent } from "./write-event.ts";

export interface ReleaseOutput {
  readonly reservationId: string;
  readonly status: "expired" | "released";
  readonly returned: AmountOfBalance[];
}

export interface CommitInput {
  readonly eventId: string;
  readonly model: string | undefined;
  /** Undefined if meters were sent. */
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
  readonly properties: JsonObject | undefined;
  readonly onShortage: "partial" | "reject";
  readonly occurredAt?: number | undefined;
}

export interface ExtendInput {
  readonly expiresInSeconds: number;
}

/**
 * Returns a reservation's holds and debits the actual usage, in one write (U6). A held balance pays even if it has
 * expired. A commit after the expiry is recorded, once, as a
 * plain event (U8). Throws `reservation_not_found`, `idempotency_conflict`, `reservation_closed`, and `insufficient_credits`, after
 * which the hold remains.
 */
export async function commitReservation(
  ctx: TenantCtx,
  reservationId: string,
  input: CommitInput,
): Promise<Outcome<EventOutput>> {
  const { eventId } = input;
  const [forms, formsOfEvent] = await Promise.all([formsOfId(ctx, reservationId), formsOfId(ctx, eventId)]);
  const key = keyOfReservation(ctx, forms);
  assertNotAhead(input.occurredAt, ctx.now());
  const fingerprint = await fingerprintRequest(ctx, ["commit", reservationId], input, ["model", ...committedFields]);
  // `decide` fills it in before it throws, because only the reservation has the user, the event and the model.
  const rejectedUsage: Parameters<typeof noteIfRejected>[1] = { userId: "", event: "", model: undefined };
  let heldUnits: readonly Unit[] = [];
  let used: Quantities = {};
  const sent = { quantities: input.quantities, meters: input.meters };
  const recorded = await noteIfRejected(ctx, rejectedUsage, () =>
    withPrices(ctx, (prices) =>
      writeForUser(ctx, {
        user: { reservationId, forms: key.forms },
        read: () => [
          selectReservationToCommit(ctx, forms, needsPrice({ event: "", ...sent }) ? prices.known : null),
          selectEvent(ctx, formsOfEvent),
        ],
        balances: (nowMs) =>
          selectBalancesForCommit(ctx, { reservationId, forms: key.forms }, { nowMs, forms: key.forms }),
        recall: ({ reservations }) => {
          const reservation = reservations.get(reservationId);
          return reservation === undefined ? null : [[reservation], []];
        },
        decide: ([[reservation], [stored]], account) => {
          assert(reservation !== undefined, "the account was found by this reservation");
          prices.takePinned(reservation);
          const hold = asHold(reservation);
          heldUnits = hold.legs.map(({ unit }) => unit);
          if (stored !== undefined) {
            const { accountId } = account;
            const { event, model } = { ...reservation, model: input.model ?? reservation.model };
            const again = { ...sent, accountId, event, model, occurredAt: input.occurredAt, reservation: forms };
            return replay(answerEventRepeat(eventId, stored, fingerprint, again));
          }
          const due = settledNow(account, reservation);
          if (isClosed(reservation) || due?.charged) {
            throw reservationClosed("The reservation is already committed or released.");
          }
          const isLate = reservation.state === "expired" || due !== undefined;
          const payers = isLate ? spendableOf(account) : payersOfCommit(account.balances, hold, account.nowMs);
          const { event, memberId, reservationNumber } = reservation;
          const hasMember = memberId !== null || reservation.memberNumber !== null;
          // The texts of a member who was erased since are not kept (ME6).
          const properties = memberId === null && hasMember ? undefined : input.properties;
          const model = input.model ?? reservation.model;
          const named = { event, model: model ?? undefined };
          const priced = prices.price({ ...named, ...sent }, prices.pinned(account, reservation.priceVersion));
          used = priced.quantities;
          const usage = { ...named, memberId, ...priced };
          const payment = burnDown(payers, usage);
          if (payment.uncovered !== null && input.onShortage === "reject") {
            Object.assign(rejectedUsage, { ...named, memberId: memberId ?? undefined, userId: account.userId });
            throw insufficientCredits(payment.uncovered, payment, payers, usage, heldUnits);
          }
          // Limits never reject usage that has already happened (Q4).
          const counts = countUsage(account, usage, false);
          const described = { eventId, memberId, event, model, properties, occurredAt: input.occurredAt };
          const newEvent = {
            ...{ ...priced, ...described, forms: formsOfEvent, reservationId: reservation.id, payment, counts },
            memberOfReservation: hasMember ? reservationNumber : undefined,
          };
          if (isLate) {
            return writeEvent(ctx, account, newEvent, fingerprint, {
              before: [commitLate({ ...writingValues(account), ...key, storedId: reservation.id, eventId })],
            });
          }
          return writeEvent(ctx, account, newEvent, fingerprint, { settles: hold });
        },
      }),
    ),
  );
  if (recorded === null) throw reservationNotFound();
  warnOfQuantities(ctx, input, recorded.output.debits);
  const units = input.quantities ?? used;
  const isKnown = input.quantities !== undefined || !recorded.replayed;
  if (isKnown && heldUnits.length > 0 && heldUnits.every((unit) => units[unit] === undefined))
    warn(ctx, "held_units_missing");
  return recorded;
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

/** Returns the settlement of a reservation that is due. */
const settledNow = (
  { settled }: AccountAtRead,
  { reservationNumber }: Pick<ReservationRow, "reservationNumber">,
): SettledHold | undefined => settled.find(({ hold }) => hold.reservationNumber === reservationNumber);

function recallReservation(reservation: ReservationRow | undefined): [ReservationRow[]] | null {
  return reservation === undefined ? null : [[reservation]];
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
