import type { Answer, Balance, createModel, Hold } from "./model.ts";
import {
  fromMinor,
  matches,
  quantitiesOf,
  timeText,
  toMinor,
  UNITS,
  type Unit,
  type Use,
  usageDetails,
} from "./model-amounts.ts";

type Model = ReturnType<typeof createModel>;

const quantity = (use: Use, unit: Unit): number => quantitiesOf(use)[unit] ?? 0;

/** The user's balances in spending order, active ones or all (C11, C13), or all of a reference. */
export function modelList(model: Model, userId: string, includeExpired: boolean, ref?: string) {
  return model
    .ordered(userId)
    .filter((b) => (ref === undefined ? includeExpired || model.statusOf(b) === "active" : b.ref === ref))
    .map((b) => ({ balanceId: b.id, remaining: fromMinor(b.unit, b.remaining), status: model.statusOf(b) }));
}

/**
 * The debits that an event would make now, and why each other balance would not be debited (U11). Due holds count as settled
 * (U8, U15).
 */
export function modelPlan(model: Model, use: Use): Answer {
  const priced = model.prices.price(use, undefined);
  if ("rejection" in priced) return priced.rejection;
  return { status: 200, body: model.afterDue(use.userId, () => planAsItStands(model, priced.use)) };
}

function planAsItStands(model: Model, use: Use) {
  const { legs, uncovered } = model.burn(use);
  const why = (b: Balance): string => {
    if (model.statusOf(b) !== "active") return model.statusOf(b);
    if (!matches(b, use)) return "no_match";
    return quantity(use, b.unit) > 0 ? "not_needed" : "wrong_unit";
  };
  const idle = model.ordered(use.userId).filter((b) => legs.every(([payer]) => payer !== b));
  return {
    debits: legs.map(([b, minor]) => ({
      balanceId: b.id,
      packId: b.packId,
      unit: b.unit,
      amount: fromMinor(b.unit, minor),
      remaining: fromMinor(b.unit, b.remaining - minor),
    })),
    uncovered,
    memberId: use.memberId ?? null,
    ...usageDetails(use),
    skipped: idle.map((b) => ({
      ...{ balanceId: b.id, packName: b.packName, unit: b.unit, remaining: fromMinor(b.unit, b.remaining) },
      reason: why(b),
    })),
    limits: model.limits.rejecting(use),
  };
}

/** The quantities used in [fromMs, toMs), by event and unit (U10). */
export function modelTotals(model: Model, userId: string, fromMs: number, toMs: number): string[] {
  const sums = new Map<string, { event: string; unit: Unit; minor: bigint }>();
  for (const { use, at } of model.events.values()) {
    if (use.userId !== userId || at < fromMs || at >= toMs) continue;
    for (const unit of UNITS) {
      const minor = toMinor(unit, quantity(use, unit));
      const sum = sums.get(`${use.event} ${unit}`) ?? { event: use.event, unit, minor: 0n };
      if (minor > 0n) sums.set(`${use.event} ${unit}`, { ...sum, minor: sum.minor + minor });
    }
  }
  return [...sums.values()].map(({ event, unit, minor }) => `${event} ${unit} ${fromMinor(unit, minor)}`).sort();
}

/** The current state of a reservation. A due reservation already has its next status (U13). */
function modelReservation(model: Model, hold: Hold) {
  const { id: reservationId, use, legs, createdAt, expiresAt, settledAt, eventId } = hold;
  const isToCharge = hold.onExpiry === "charge" && !model.events.has(reservationId);
  return {
    ...{
      reservationId,
      userId: use.userId,
      event: use.event,
      model: use.model ?? null,
      memberId: use.memberId ?? null,
      ...usageDetails(use),
      onExpiry: hold.onExpiry,
    },
    status: !model.isDue(hold) ? hold.state : isToCharge ? "committed" : "expired",
    createdAt: timeText(createdAt),
    expiresAt: timeText(expiresAt),
    settledAt: settledAt === null ? null : timeText(settledAt),
    eventId: model.isDue(hold) && isToCharge ? reservationId : eventId,
    holds: legs.map(([b, minor]) => ({
      ...{ balanceId: b.id, packId: b.packId, unit: b.unit, amount: fromMinor(b.unit, minor) },
    })),
  };
}

/** The user's reservations, newest first, of one status or of all. */
export function modelReservations(model: Model, userId: string, status: string | null) {
  // In the order of creation, also of those of one millisecond.
  return [...model.holds.values()]
    .filter((hold) => hold.use.userId === userId)
    .reverse()
    .map((hold) => modelReservation(model, hold))
    .filter((shown) => status === null || shown.status === status);
}
