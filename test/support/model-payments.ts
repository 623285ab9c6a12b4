import type { Answer, Balance, createModel, Pack } from "./model.ts";
import { toMinor } from "./model-amounts.ts";
import type { Random } from "./random.ts";

/** An event of Stripe about the payment with the number `of`, whose amount is 1000. `at` is the event's time. */
export type StripeRequest = { kind: "stripe"; of: number; at: number } & (
  | { what: "paid"; by: "session" | "intent"; userId: string; pack: string; quantity?: number }
  | { what: "refunded"; amount: number }
  | { what: "refundFailed"; which: number }
  | { what: "withdrawn" | "reinstated"; which: number; out: number }
);

/** The amounts of a payment's refunds that may fail. */
export const REFUNDS = [100, 300, 700] as const;
const PAYMENTS = 8;

/** A random event. Payments and times repeat, so the event that arrives last is not always the newest. */
export function someStripeEvent(
  random: Random,
  known: { readonly packs: readonly Pack[]; readonly users: readonly string[]; readonly past: readonly object[] },
): StripeRequest {
  const [of, at] = [random.integer(1, PAYMENTS), random.integer(0, 40)];
  const common = { kind: "stripe", of, at } as const;
  const what = random.weighted({ paid: 5, refunded: 4, refundFailed: 2, withdrawn: 2, reinstated: 2 });
  const which = random.integer(0, 2);
  if (what === "refunded") return { ...common, what, amount: random.pick([100, 333, 500, 1000] as const) };
  if (what === "refundFailed") return { ...common, what, which };
  if (what === "withdrawn") return { ...common, what, which, out: 250 };
  if (what === "reinstated") return { ...common, what, which, out: random.pick([0, 0, 50] as const) };
  const by = random.pick(["session", "session", "intent"] as const);
  const first = (known.past as StripeRequest[]).find(
    (earlier) => earlier.kind === "stripe" && earlier.what === "paid" && earlier.of === of,
  );
  if (first !== undefined) return { ...first, ...(first.what === "paid" ? { by } : {}), at };
  const pack = random.pick(known.packs);
  const isOpenAmount = pack.items.every((item) => item.packItemId === null);
  const quantity = isOpenAmount ? { quantity: random.integer(1, 40_000) / 1_000 } : {};
  return { ...common, what, by, userId: random.pick(known.users), pack: pack.packName.toUpperCase(), ...quantity };
}

interface Payment {
  /** The latest data of its session and its intent. */
  readonly paidAt: Map<"session" | "intent", number>;
  charge: { at: number; refunded: number } | null;
  readonly failed: Map<number, { at: number; failedAt: number }>;
  readonly disputes: Map<number, { at: number; isReinstated: boolean; out: number }>;
  grants: { readonly b: Balance; share: number }[];
}

export const noteOf = (event: {
  readonly what: StripeRequest["what"];
  readonly of: number;
  readonly by?: "session" | "intent";
  readonly which?: number;
}): string => {
  const { what, of, by, which } = event;
  return {
    paid: by === "intent" ? `Stripe payment_intent.succeeded: pi_${of}` : `Stripe checkout.session.completed: cs_${of}`,
    refunded: `Stripe charge.refunded: ch_${of}`,
    refundFailed: `Stripe refund.failed: re_${of}_${which}`,
    withdrawn: `Stripe charge.dispute.funds_withdrawn: dp_${of}_${which}`,
    reinstated: `Stripe charge.dispute.funds_reinstated: dp_${of}_${which}`,
  }[what];
};

/** The changes by one event: `entries` ledger entries with the same note. */
export interface PaymentBalanceChange {
  readonly type: "payment.taken" | "payment.restored";
  readonly userId: string;
  readonly paymentKey: string;
  readonly note: string;
  readonly entries: number;
}

/** A model of payments (S2 to S4). It adds changes to `changes`. */
export function createPayments(
  model: ReturnType<typeof createModel>,
  packs: readonly Pack[],
  changes: PaymentBalanceChange[] = [],
) {
  const payments = new Map<number, Payment>();

  /** Stores an event's data if it is newer. Returns whether it was. */
  const note = (payment: Payment, event: StripeRequest): boolean => {
    const { at } = event;
    if (event.what === "paid") {
      if ((payment.paidAt.get(event.by) ?? -1) >= at) return false;
      payment.paidAt.set(event.by, at);
    } else if (event.what === "refunded") {
      const { charge } = payment;
      if (charge !== null && (charge.at > at || (charge.at === at && charge.refunded >= event.amount))) return false;
      payment.charge = { at, refunded: event.amount };
    } else if (event.what === "refundFailed") {
      const before = payment.failed.get(event.which);
      if (before?.at === at) return false;
      const moments = [at, before?.at ?? at, before?.failedAt ?? at];
      const after = { at: Math.max(...moments), failedAt: Math.min(...moments) };
      if (before !== undefined && before.at === after.at && before.failedAt === after.failedAt) return false;
      payment.failed.set(event.which, after);
    } else {
      const before = payment.disputes.get(event.which);
      const isReinstated = event.what === "reinstated";
      if (before !== undefined && before.at > at) return false;
      if (before?.at === at && (before.isReinstated || !isReinstated)) return false;
      payment.disputes.set(event.which, { at, isReinstated, out: event.out });
    }
    return true;
  };

  /** The share of a payment that must be taken back, in thousandths. */
  const shareOf = ({ charge, failed, disputes }: Payment): number => {
    const later = [...failed].filter(([, { failedAt }]) => charge !== null && failedAt >= charge.at);
    const lost = later.reduce((sum, [which]) => sum + (REFUNDS[which] ?? 0), 0);
    const withheld = [...disputes.values()].reduce((sum, { out }) => sum + out, 0);
    return Math.min(1000, Math.max(0, (charge?.refunded ?? 0) - lost) + withheld);
  };

  const takeOrRestore = (b: Balance, share: number, isMore: boolean, note: string): void => {
    const whole = toMinor(b.unit, b.initial);
    const due = (whole * BigInt(share)) / 1000n;
    const isRevokedByOthers = b.revoked && !b.byPayment;
    const taken = b.taken ?? 0n;
    let delta = -b.remaining;
    if (share < 1000) delta = isRevokedByOthers ? 0n : taken - due > delta ? taken - due : delta;
    if (share === 1000 && !b.revoked) b.byPayment = true;
    const isStill = isRevokedByOthers || taken === due;
    const isTaken = share === 1000 || (isStill ? isMore : taken < due);
    const why = { cause: isTaken ? "payment_taken" : "payment_restored", note };
    model.post(b, delta, "admin_adjust", why);
    if (share < 1000 && b.byPayment) [b.byPayment, b.revoked] = [false, false];
    if (share === 1000 && !b.revoked) b.revokedWhy = why;
    if (share === 1000) b.revoked = true;
    if (!isRevokedByOthers) b.taken = taken - delta;
    b.owed = [];
    if (!b.revoked) model.owe(b, due - (taken - delta), why);
  };

  /** `ids` are the balances that the payment granted, by item. */
  return (event: StripeRequest, ids: readonly { readonly id: string; readonly packItemId: string }[]): Answer => {
    const payment = payments.get(event.of) ?? {
      ...{ paidAt: new Map(), charge: null, grants: [] },
      ...{ failed: new Map(), disputes: new Map() },
    };
    payments.set(event.of, payment);
    const isNewer = note(payment, event);
    const isGrant = event.what === "paid" && payment.grants.length === 0;
    if (isGrant) {
      const pack = packs.find(({ packName }) => packName.toUpperCase() === event.pack);
      if (pack === undefined) throw new Error(`The history names an unknown pack: ${event.pack}.`);
      const items = pack.items.map((item) => ({ ...item, initial: event.quantity ?? item.initial }));
      const grantedIds = items.map(
        (item) => ids.find(({ packItemId }) => packItemId === (item.packItemId ?? ""))?.id ?? "",
      );
      const to = {
        userId: event.userId,
        ref: `stripe:pi_${event.of}`,
        expiresAt: Infinity,
        note: noteOf(event),
        cause: "payment" as const,
      };
      model.grant({ ...pack, items }, to, grantedIds);
      for (const b of model.balances) if (grantedIds.includes(b.id)) b.paymentKey = `pi_${event.of}`;
      payment.grants = model.balances.filter(({ id }) => grantedIds.includes(id)).map((b) => ({ b, share: 0 }));
    }
    const share = shareOf(payment);
    const changingCredits = payment.grants.filter((grant) => grant.share !== share);
    const isMore = changingCredits.some((grant) => grant.share < share);
    if (changingCredits.length > 0 && !isGrant) model.expire(changingCredits[0]?.b.userId);
    for (const grant of changingCredits) {
      takeOrRestore(grant.b, share, share > grant.share, noteOf(event));
      grant.share = share;
    }
    const [userId] = changingCredits.map(({ b }) => b.userId);
    if (userId !== undefined) {
      const type = isMore ? "payment.taken" : "payment.restored";
      changes.push({
        type,
        userId,
        paymentKey: `pi_${event.of}`,
        note: noteOf(event),
        entries: changingCredits.length,
      });
    }
    const moved = changingCredits.length > 0 ? (isMore ? "taken" : "restored") : null;
    return { status: 200, body: isGrant ? "granted" : (moved ?? (isNewer ? "remembered" : "ignored")) };
  };
}
