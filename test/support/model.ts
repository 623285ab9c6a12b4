import {
  expiryText,
  fromMinor,
  isFree,
  matches,
  quantitiesOf,
  type Rule,
  sentQuantities,
  timeText,
  toMinor,
  UNITS,
  type Unit,
  type Use,
  usageDetails,
} from "./model-amounts.ts";
import { type Counted, createLimits } from "./model-limits.ts";
import { createPrices } from "./model-prices.ts";

/** A model of credits and usage by the rules of docs/rules.md, with plain objects. It uses no SQL and nothing from src. */
export type Spent = { eventId: string; occurredAt?: string; onShortage?: "reject" | "partial" };
export type Item = { packItemId: string | null; unit: Unit; initial: number; priority: number; matches: Rule[] };
export type Pack = { packId: string; packName: string; items: Item[] };
export type Answer = { status: number; code?: string; body?: unknown; replayed?: boolean };
export type OnExpiry = "return" | "charge";
export type Grantee = { userId: string; ref: string | null; expiresAt: number; note?: string; cause?: "payment" };
/** For a payment's balance: whether a payment revoked it, and the amount that was taken back (model-payments.ts). */
type OfPayment = { byPayment?: boolean; revokedWhy?: Why; taken?: bigint; paymentKey?: string };
/** The amount that is owed because `holds` held it at a refund (C21, S4). */
type Owed = Readonly<{ minor: bigint; why: Why; holds: Hold[] }>;
/** The amount that a settlement took from a return: an entry of a balance and a reservation. */
type SettlementClawback = Readonly<{ b: Balance; holdId: string; isPayment: boolean }>;
type BalanceState = OfPayment & { owed?: readonly Owed[] } & {
  id: string;
  grantedAt: number;
  revoked: boolean;
  remaining: bigint;
};
export type Balance = BalanceState & Grantee & Item & Omit<Pack, "items">;
type Leg = [balance: Balance, minor: bigint];
export type Hold = Readonly<{
  id: string;
  request: Fields;
  use: Use;
  legs: Leg[];
  createdAt: number;
  body: object;
  onExpiry: OnExpiry;
  counted: readonly Counted[];
  /** The version that it pins, also one with quantities (PR5). */
  pinned: number | null;
}> & {
  expiresAt: number;
  state: string;
  settledAt: number | null;
  eventId: string | null;
};

const modelOf = ({ model }: Use) => (model === undefined ? {} : { model });
const least = (a: bigint, b: bigint) => (a < b ? a : b);
const ceil = (n: bigint, d: bigint) => (n + d - 1n) / d;
export const reject = (status: number, code: string, body?: object): Answer => ({
  status,
  code,
  ...(body && { body }),
});
export type Fields = Readonly<Record<string, unknown>>;
export const again = (stored: { request: Fields; body: object }, request: Fields): Answer => {
  const [first, second] = [stored.request, request].map((fields) => JSON.stringify(fields));
  if (first === second) return { status: 200, body: stored.body, replayed: true };
  const common = Object.keys(request).filter((name) => name !== "hold" && name in stored.request);
  const differs = common.filter((name) => JSON.stringify(stored.request[name]) !== JSON.stringify(request[name]));
  return reject(409, "idempotency_conflict", { differs }); // U12
};
const rank = ({ priority, matches, expiresAt, grantedAt, id }: Balance) =>
  [priority, matches.length ? 0 : 1, expiresAt, grantedAt].map((n) => `${Math.min(n, 1e15)}`.padStart(16)).join() + id;
export const left = (b: Balance) => fromMinor(b.unit, b.remaining);
const names = ({ id: balanceId, packId, unit }: Balance) => ({ balanceId, packId, unit });
const shown = ([b, minor]: Leg) => ({ ...names(b), amount: fromMinor(b.unit, minor), remaining: left(b) });

/** The cause and the note of an entry. */
export type Why = Readonly<{ cause: string; note: string | null }>;
const CAUSES: Readonly<Record<string, string>> = {
  event_committed: "usage",
  reservation_held: "hold",
  reservation_released: "hold_returned",
  reservation_expired: "hold_returned",
};

export function createModel(clock: { now: () => number }) {
  const balances: Balance[] = [];
  const ledger: object[] = [];
  const holds = new Map<string, Hold>();
  const events = new Map<
    string,
    { request: Fields; body: object; use: Use; at: number; counted: readonly Counted[] }
  >();
  const countedOf = (userId: string) =>
    [...events.values(), ...[...holds.values()].filter(({ state }) => state === "open")]
      .filter(({ use }) => use.userId === userId)
      .flatMap(({ counted }) => counted);
  const limits = createLimits(clock, countedOf);
  const prices = createPrices(clock);
  /** The fields of an answer that tell the price of a usage with meters (PR6). */
  const priceOf = (use: Use) => (use.meters === undefined ? {} : usageDetails(use));
  /** Of several limits that reject, the one that resets last (Q4). */
  const rejectByLimit = (use: Use): Answer | null => {
    const [last] = limits.rejecting(use).toSorted((a, b) => Date.parse(b.resetsAt) - Date.parse(a.resetsAt));
    return last === undefined ? null : reject(429, "usage_limit_reached", last);
  };

  const post = (b: Balance, minor: bigint, reason: string, by: object = {}) => {
    b.remaining += minor;
    const causes = { cause: CAUSES[reason], eventId: null, reservationId: null, note: null, ...by };
    const entry = { userId: b.userId, ...names(b), delta: fromMinor(b.unit, minor), reason };
    ledger.push({ ...entry, ...causes, occurredAt: timeText(clock.now()) });
  };
  const statusOf = (b: Balance) =>
    b.revoked ? "revoked" : b.expiresAt <= clock.now() ? "expired" : b.remaining ? "active" : "depleted";
  const ordered = (userId: string) =>
    balances.filter((b) => b.userId === userId).sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  const clawbacks: SettlementClawback[] = [];
  const heldOf = (b: Balance, holds: Hold[]) =>
    holds
      .filter(({ state }) => state === "open")
      .flatMap(({ legs }) => legs)
      .reduce((sum, [other, minor]) => (other === b ? sum + minor : sum), 0n);
  /** Records an owed amount, at most the amount that open holds keep. */
  const owe = (b: Balance, short: bigint, why: Why) => {
    const open = [...holds.values()].filter(({ state }) => state === "open");
    const held = heldOf(b, open);
    const minor = short < held ? short : held;
    if (minor > 0n && !b.revoked) b.owed = [...(b.owed ?? []), { minor, why, holds: open }];
  };
  /** After the returns and debits of a settlement, its balances pay the amounts that they owe, the oldest first. */
  const payOwed = (hold: Hold, before: Map<Balance, bigint>) => {
    for (const [b] of hold.legs) {
      const back = b.remaining - (before.get(b) ?? 0n);
      let left = back > 0n ? back : 0n;
      const after = (b.owed ?? []).map((owed) => {
        if (!owed.holds.includes(hold)) return owed;
        const pays = left < owed.minor ? left : owed.minor;
        left -= pays;
        if (pays > 0n) {
          post(b, -pays, "admin_adjust", { reservationId: hold.id, ...owed.why });
          clawbacks.push({ b, holdId: hold.id, isPayment: b.paymentKey !== undefined });
          if (b.paymentKey) b.taken = (b.taken ?? 0n) + pays;
        }
        const has = heldOf(b, owed.holds);
        const unpaid = owed.minor - pays;
        return { ...owed, minor: least(unpaid, has) };
      });
      b.owed = after.filter(({ minor }) => minor > 0n);
    }
  };
  const remainingOf = (hold: Hold) => new Map(hold.legs.map(([b]) => [b, b.remaining] as const));
  const settle = (hold: Hold, state: string, reason: string) => {
    hold.state = state;
    hold.settledAt = clock.now();
    for (const [b, minor] of hold.legs) post(b, minor, reason, { reservationId: hold.id });
    const revoked = hold.legs.filter(([b]) => b.revoked); // U9
    for (const [b, minor] of revoked) {
      post(b, -minor, "admin_adjust", { reservationId: hold.id, ...b.revokedWhy });
      clawbacks.push({ b, holdId: hold.id, isPayment: b.byPayment === true });
      if (b.byPayment) b.taken = (b.taken ?? 0n) + minor; // S4
    }
  };
  /** Returns due holds: at the next write of the user, or for all users by the cron (U8). */
  const isDue = (hold: Hold) => hold.state === "open" && hold.expiresAt <= clock.now();
  const expire = (userId?: string) => {
    const due = [...holds.values()].filter((hold) => isDue(hold) && hold.use.userId === (userId ?? hold.use.userId));
    // Of one moment, in the order of their creation.
    for (const hold of due.sort((a, b) => a.expiresAt - b.expiresAt)) {
      if (hold.onExpiry === "charge" && !events.has(hold.id)) charge(hold);
      else {
        const before = remainingOf(hold);
        settle(hold, "expired", "reservation_expired");
        payOwed(hold, before);
      }
    }
  };
  /** An unsettled reservation is charged, like a commit at its end (U15). */
  const charge = (hold: Hold) => {
    const { id: eventId, use, legs: held, expiresAt } = hold;
    const { legs, uncovered } = burn(use, held, expiresAt);
    const before = remainingOf(hold);
    settle(hold, "committed", "reservation_released");
    hold.eventId = eventId;
    for (const [b, minor] of legs) post(b, -minor, "event_committed", { eventId, reservationId: eventId });
    const debits = legs.map(shown);
    payOwed(hold, before);
    const request = {
      charged: eventId,
      ...sentQuantities(use),
      ...{ occurredAt: timeText(expiresAt), onShortage: "partial" },
    };
    // The charge keeps its hold's count in that window, and counts nothing more (Q3).
    events.set(eventId, {
      request,
      body: { eventId, debits, uncovered, ...priceOf(use) },
      use,
      at: expiresAt,
      counted: hold.counted,
    });
  };
  /**
   * Burn-down (U2). `left / of` is the part of the event that is not paid yet. The balances of `held` pay first (U6): one that has
   * expired with what is held of it, the others with all that they have.
   */
  const burn = (use: Use, held: Leg[] = [], at = clock.now()) => {
    const returning = (b: Balance) => held.find(([other]) => other === b)?.[1];
    const quantity = (unit: Unit) => toMinor(unit, isFree(use) ? 0 : (quantitiesOf(use)[unit] ?? 0));
    const hasOf = (b: Balance) => (b.expiresAt > at ? b.remaining : 0n) + (returning(b) ?? 0n);
    const able = ordered(use.userId).filter(
      (b) => !b.revoked && (returning(b) !== undefined || (b.expiresAt > at && b.grantedAt <= at)),
    );
    let [left, of] = [1n, 1n];
    const legs: Leg[] = [];
    for (const b of [...able.filter(returning), ...able.filter((b) => !returning(b))]) {
      const has = hasOf(b);
      if (left === 0n || quantity(b.unit) === 0n || has === 0n || !matches(b, use)) continue;
      const owed = ceil(quantity(b.unit) * left, of);
      legs.push([b, least(owed, has)]);
      [left, of] = owed <= has ? [0n, 1n] : [quantity(b.unit) * left - has * of, quantity(b.unit) * of];
    }
    const short = UNITS.filter((unit) => quantity(unit) > 0n && left > 0n);
    const rest = short.map((unit) => [unit, fromMinor(unit, ceil(quantity(unit) * left, of))]);
    const why = (b: Balance) => {
      if (legs.some(([payer]) => payer === b)) return "exhausted";
      return matches(b, use) ? "wrong_unit" : "no_match";
    };
    const live = able.filter((b) => hasOf(b) > 0n);
    const reasons = live.map((b) => ({
      ...{ balanceId: b.id, packName: b.packName, unit: b.unit },
      remaining: fromMinor(b.unit, hasOf(b)),
      reason: why(b),
    }));
    const skipped = ["exhausted", "wrong_unit", "no_match"].flatMap((r) =>
      reasons.filter(({ reason }) => reason === r),
    );
    const uncovered = rest.length === 0 ? null : Object.fromEntries(rest);
    return { legs, uncovered, skipped: skipped.slice(0, 20) }; // U12
  };
  const spend = (given: Use, { eventId, occurredAt, onShortage = "reject" }: Spent, hold?: Hold): Answer => {
    const { userId, memberId, event, model } = given;
    // A commit's model replaces the reservation's (U6).
    const sentUse = hold && model === undefined ? { ...given, ...modelOf(hold.use) } : given;
    const subject = hold ? { hold: hold.id, model } : { userId, memberId, event, model };
    const sent = { ...sentQuantities(sentUse), occurredAt, onShortage };
    const request = { ...subject, ...sent };
    expire(userId);
    const known = events.get(eventId); // a charge's too
    if (known && !("charged" in known.request && hold?.id === eventId)) return again(known, request);
    if (hold && (hold.eventId !== null || hold.state === "released")) return reject(409, "reservation_closed");
    const priced = prices.price(sentUse, occurredAt, hold?.pinned);
    if ("rejection" in priced) return priced.rejection;
    const { use } = priced;
    const limited = hold || onShortage === "partial" ? null : rejectByLimit(use);
    if (limited) return limited;
    const { legs, uncovered, skipped } = burn(use, hold?.state === "open" ? hold.legs : []);
    if (uncovered && onShortage !== "partial")
      return reject(402, "insufficient_credits", { uncovered, skipped, ...usageDetails(use) });
    const settled = hold?.state === "open" ? hold : undefined;
    const before = settled && remainingOf(settled);
    if (settled) settle(settled, "committed", "reservation_released");
    if (hold) hold.eventId = eventId; // A late commit leaves the hold expired (U8).
    for (const [b, minor] of legs) post(b, -minor, "event_committed", { eventId, reservationId: hold?.id ?? null });
    const body = { eventId, debits: legs.map(shown), uncovered, ...priceOf(use) };
    if (settled && before) payOwed(settled, before);
    const at = Date.parse(occurredAt ?? "") || clock.now();
    events.set(eventId, { request, body, use, at, counted: limits.count(use) });
    return { status: 200, body };
  };

  /** Returns what `look` sees as if the user's due holds were settled. Changes nothing. */
  const afterDue = <Seen>(userId: string, look: () => Seen): Seen => {
    const before = {
      balances: balances.map((b) => ({ ...b })),
      holds: [...holds.values()].map((hold) => ({ ...hold })),
    };
    const [rows, taken, known] = [ledger.length, clawbacks.length, new Set(events.keys())];
    expire(userId);
    const seen = look();
    for (const [index, b] of balances.entries()) Object.assign(b, before.balances[index]);
    for (const hold of before.holds) Object.assign(holds.get(hold.id) ?? {}, hold);
    ledger.length = rows;
    clawbacks.length = taken;
    for (const id of events.keys()) if (!known.has(id)) events.delete(id);
    return seen;
  };

  return {
    afterDue,
    ...{ clawbacks, owe, limits, prices },
    ...{ balances, ledger, holds, events, post, burn, statusOf, ordered, isDue, expire, event: spend },
    grant({ items, ...pack }: Pack, to: Grantee, ids: string[]): Answer {
      const isIt = (b: Balance) =>
        to.ref ? b.userId === to.userId && b.ref === to.ref && b.packId === pack.packId : ids.includes(b.id);
      const replayed = balances.some(isIt);
      expire(to.userId);
      if (!replayed && to.expiresAt <= clock.now()) return reject(400, "invalid_request");
      for (const [index, item] of replayed ? [] : items.entries()) {
        const state = { id: ids[index] ?? "", grantedAt: clock.now(), revoked: false, remaining: 0n };
        const b = { ...item, ...pack, ...to, ...state };
        balances.push(b);
        post(b, toMinor(b.unit, b.initial), "grant", { cause: to.cause ?? "grant", note: to.note ?? null });
      }
      const rows = balances.filter(isIt).map((b) => [b.id, b.packItemId, left(b), expiryText(b.expiresAt)]);
      return { status: 200, body: rows, replayed };
    },
    revoke(b: Balance, note: string | null): Answer {
      expire(b.userId);
      const why: Why = { cause: "revoke", note };
      if (!b.revoked || b.byPayment) post(b, -b.remaining, "admin_adjust", why);
      if (!b.revoked) b.revokedWhy = why;
      [b.revoked, b.byPayment, b.owed] = [true, false, []];
      return { status: 200, body: { balanceId: b.id, remaining: 0 } };
    },
    adjust(b: Balance, delta: number, note: string): Answer {
      expire(b.userId);
      const minor = toMinor(b.unit, delta);
      if (b.revoked || b.remaining + minor < 0n) return reject(400, b.revoked ? "invalid_request" : "invalid_quantity");
      post(b, minor, "admin_adjust", { cause: "adjustment", note });
      return { status: 200, body: { balanceId: b.id, remaining: left(b) } };
    },
    commit: (hold: Hold, used: Pick<Use, "quantities" | "meters" | "model">, spent: Spent) => {
      const { userId, memberId, event } = hold.use;
      return spend({ userId, ...(memberId !== undefined && { memberId }), event, ...used }, spent, hold);
    },
    reserve(given: Use, seconds: number, onExpiry: OnExpiry | undefined, id: string): Answer {
      const { userId, event, model, memberId } = given;
      const sent = {
        ...sentQuantities(given),
        expiresInSeconds: seconds,
        onExpiry: onExpiry ?? "return",
      };
      const request = { userId, memberId, event, model, ...sent };
      const known = holds.get(id);
      expire(userId);
      if (known) return again(known, request);
      const priced = prices.price(given, undefined);
      if ("rejection" in priced) return priced.rejection;
      const { use } = priced;
      const limited = rejectByLimit(use);
      if (limited) return limited;
      const { legs, uncovered, skipped } = burn(use);
      if (uncovered) return reject(402, "insufficient_credits", { uncovered, skipped, ...usageDetails(use) });
      const expiresAt = clock.now() + seconds * 1_000;
      for (const [b, minor] of legs) post(b, -minor, "reservation_held", { reservationId: id });
      const body = { reservationId: id, expiresAt: timeText(expiresAt), holds: legs.map(shown) };
      const unsettled = { state: "open", settledAt: null, eventId: null };
      const created = { id, request, use, legs, createdAt: clock.now(), onExpiry: onExpiry ?? "return" };
      const pinned = prices.inForce();
      holds.set(id, { ...created, expiresAt, body, ...unsettled, counted: limits.count(use), pinned });
      return { status: 200, body };
    },
    /** Moves the end of a hold, within its bounds (U14). */
    extend(hold: Hold, seconds: number): Answer {
      expire(hold.use.userId);
      if (hold.state !== "open") return reject(409, "reservation_closed");
      const expiresAt = clock.now() + seconds * 1_000;
      if (expiresAt < hold.expiresAt || expiresAt > hold.createdAt + 86_400_000) return reject(400, "invalid_request");
      hold.expiresAt = expiresAt;
      return { status: 200, body: timeText(expiresAt) };
    },
    release(hold: Hold): Answer {
      expire(hold.use.userId);
      if (hold.eventId !== null) return reject(409, "reservation_closed");
      if (hold.state === "open") {
        const before = remainingOf(hold);
        settle(hold, "released", "reservation_released");
        payOwed(hold, before);
      }
      return { status: 200 };
    },
  };
}
