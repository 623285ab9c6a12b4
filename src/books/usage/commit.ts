import { formsOfId } from "../../db/usage-ids.ts";
import { assert } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { Quantities, Unit } from "../amounts/amount.ts";
import type { SentMeters } from "../amounts/meters.ts";
import { writingValues } from "../ledger/account.ts";
import { burnDown } from "../ledger/burn-down.ts";
import { committedFields, fingerprintRequest, type Outcome, replay } from "../ledger/decision.ts";
import { spendableOf } from "../ledger/read-account.ts";
import { payersOfCommit } from "../ledger/settle.ts";
import { selectBalancesForCommit } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { countUsage } from "../limits/count-usage.ts";
import { needsPrice } from "../prices/priced-usage.ts";
import { withPrices } from "../prices/prices-in-force.ts";
import { assertNotAhead, insufficientCredits, noteIfRejected, warnOfQuantities } from "./plan.ts";
import {
  asHold,
  commitLate,
  isClosed,
  keyOfReservation,
  reservationClosed,
  reservationNotFound,
  selectReservationToCommit,
  settledNow,
} from "./stored-reservation.ts";
import { answerEventRepeat, type EventOutput, selectEvent, writeEvent } from "./write-event.ts";

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

/**
 * Returns a reservation's holds and debits the actual usage, in one write (U6). A held balance pays even if it has expired. A commit
 * after the reservation's expiry is recorded, once, as a plain event (U8). Throws `reservation_not_found`, `idempotency_conflict`,
 * `reservation_closed`, and `insufficient_credits`, after which the hold remains.
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
