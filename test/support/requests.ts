import { HOUR_MS } from "../../src/lib/time.ts";
import type { OnExpiry, Pack, Spent } from "./model.ts";
import { type Quantities, UNITS, type Unit, type Use } from "./model-amounts.ts";
import { type StripeRequest, someStripeEvent } from "./model-payments.ts";
import type { PriceRule, PricesRequest } from "./model-prices.ts";
import type { RefundRequest } from "./model-refunds.ts";
import type { Random } from "./random.ts";

/** A request of a history. It is plain data, so that it can be printed and sent again unchanged. */
export type Request =
  | { kind: "grant"; pack: string; userId: string; ref: string | null; expiresAt: number | null; quantity?: number }
  | ({ kind: "refund" } & RefundRequest)
  | { kind: "revoke"; balanceId: string; reason: string }
  | { kind: "adjust"; balanceId: string; delta: number; note: string }
  | { kind: "event"; use: Use; spent: Spent }
  | { kind: "events"; list: readonly { use: Use; spent: Spent }[] }
  | { kind: "reserve"; use: Use; seconds: number; onExpiry?: OnExpiry; reservationId: string | null }
  | { kind: "commit"; reservationId: string; quantities?: Quantities; meters?: Meters; model?: string; spent: Spent }
  | { kind: "release"; reservationId: string }
  | { kind: "extend"; reservationId: string; seconds: number }
  | StripeRequest
  | ({ kind: "prices" } & PricesRequest)
  | { kind: "cron" }
  | { kind: "erase"; userId: string }
  | { kind: "lift"; userId: string }
  | { kind: "limit"; name: string; amount: number }
  | { kind: "own amount"; userId: string; memberId?: string; name: string; amount: number | null | undefined }
  | { kind: "checkpoints"; userId: string; memberId?: string }
  | { kind: "reservations"; userId: string; status: string | null; limit: number }
  | { kind: "list"; userId: string; includeExpired: boolean; ref?: string }
  | { kind: "plan"; use: Use }
  | { kind: "totals"; userId: string; fromMs: number; toMs: number };

type Meters = Readonly<Record<string, number>>;

/** The things that a request may refer to. */
export interface Known {
  readonly packs: readonly Pack[];
  readonly users: readonly string[];
  readonly balances: readonly { readonly id: string; readonly unit: Unit }[];
  readonly reservationIds: readonly string[];
  readonly limits: readonly { readonly name: string; readonly unit: Unit; readonly per: "user" | "member" }[];
  readonly past: readonly Request[];
  readonly nowMs: number;
}

const EVENT_NAMES = ["chat.completed", "chat.started", "image.made", "other"] as const;
const WEIGHTS = {
  grant: 12,
  event: 24,
  events: 5,
  reserve: 16,
  commit: 14,
  release: 6,
  extend: 5,
  refund: 7,
  revoke: 3,
  adjust: 6,
  stripe: 10,
  prices: 9,
  cron: 3,
  erase: 2,
  lift: 6,
  list: 3,
  reservations: 4,
  plan: 5,
  limit: 2,
  "own amount": 4,
  checkpoints: 4,
  totals: 3,
  again: 8,
  altered: 5,
} as const;

/** Members of every user. None is a user who is erased (test/worker/books/members tests erasures of members). */
const MEMBERS = ["mia", "ñed"] as const;

/** A random amount in whole units, in halves or in minor units of the unit. It is sometimes 0. */
function someAmount(random: Random, unit: Unit): number {
  const decimals = unit === "cents" ? 6 : 3;
  const amountMax = { count: 4, tokens: 600, seconds: 40, cents: 12 }[unit];
  if (random.chance(0.05)) return 0;
  if (random.chance(0.5)) return random.integer(1, amountMax);
  if (random.chance(0.3)) return random.integer(1, amountMax * 2) / 2;
  return random.integer(1, amountMax * 10 ** decimals) / 10 ** decimals;
}

/** Random quantities. Sometimes they are all 0, and sometimes sums of floats or smaller than a step, which are rounded (C1). */
function someQuantities(random: Random): Quantities {
  const units = UNITS.filter((unit) => random.chance(unit === "count" ? 0.3 : 0.5));
  const isFree = random.chance(0.05);
  const noise = random.chance(0.1) ? random.pick([1e-7, 0.1 + 0.2, 5e-324, 1 / 3]) : 0;
  return Object.fromEntries(units.map((unit) => [unit, isFree ? 0 : someAmount(random, unit) + noise]));
}

const METERS = ["input", "cacheRead", "output"] as const;

/** Random meters, sometimes of 0, which still are another body than without it (PR3). */
function someMeters(random: Random): Meters {
  const named = METERS.filter(() => random.chance(0.6));
  const amountOf = () =>
    random.chance(0.1) ? 0 : random.integer(1, random.chance(0.5) ? 40 : 4_000) / random.pick([1, 8]);
  return Object.fromEntries(named.map((name) => [name, amountOf()]));
}

/** Random rules. Some lists have no price for some models or meters. */
function someRules(random: Random, units: readonly Unit[]): PriceRule[] {
  const ruleOf = (unit: Unit): PriceRule => {
    const isFlat = random.chance(0.2);
    const named = METERS.filter(() => random.chance(0.8));
    const priceOf = () => ({ amount: random.integer(0, 5), units: random.pick([1, 3, 100, 1_000]) });
    return {
      unit,
      ...(random.chance(0.5) && { event: random.pick(["chat.*", "*", "image.made"]) }),
      ...(random.chance(0.4) && { model: random.pick(["small", "large", "*"]) }),
      ...(random.chance(0.2) && { when: { meters: ["input", "cacheRead"], above: random.integer(0, 500) } }),
      ...((isFlat || random.chance(0.3)) && { perEvent: random.integer(0, 3) }),
      ...(!isFlat && { per: Object.fromEntries([...named, "output"].map((name) => [name, priceOf()])) }),
    };
  };
  return Array.from({ length: random.integer(1, 6) }, () => ruleOf(random.pick(units)));
}

function somePrices(random: Random, known: Known): Request {
  const units = ["cents", "cents", "tokens", "tokens", "seconds", "count"] as const;
  const rules = random.chance(0.03) ? [] : someRules(random, units);
  const costs = someRules(random, ["cents"]).map(({ unit: _, ...cost }) => cost);
  const effectiveAt = random.chance(0.4) ? known.nowMs + random.integer(1, 120_000) : null;
  return { kind: "prices", rules, costs, effectiveAt };
}

/** Meters, quantities or neither. */
const someUsed = (random: Random): Pick<Use, "quantities" | "meters"> =>
  random.chance(0.4)
    ? { meters: someMeters(random) }
    : random.chance(0.05)
      ? {}
      : { quantities: someQuantities(random) };

function someUse(random: Random, known: Known): Use {
  const model = random.pick([undefined, "small", "large"] as const);
  return {
    userId: random.pick(known.users),
    ...(random.chance(0.5) ? { memberId: random.pick(MEMBERS) } : {}),
    event: random.pick(EVENT_NAMES),
    ...(model === undefined ? {} : { model }),
    ...someUsed(random),
  };
}

function someSpent(random: Random, known: Known): Spent {
  const onShortage = random.pick([undefined, undefined, "reject", "partial"] as const);
  const occurredMs = known.nowMs - random.integer(0, HOUR_MS);
  return {
    eventId: random.id("evt-"),
    ...(random.chance(0.3) ? { occurredAt: new Date(occurredMs).toISOString() } : {}),
    ...(onShortage === undefined ? {} : { onShortage }),
  };
}

/** Some events, which may share their ids with each other and with earlier events. */
function someEvents(random: Random, known: Known): Request {
  const past = known.past.flatMap((request) => (request.kind === "event" ? [request] : []));
  const list: { use: Use; spent: Spent }[] = [];
  for (let count = random.integer(1, 8); count > 0; count--) {
    const before = [...list, ...past.slice(-3)];
    const event = { use: someUse(random, known), spent: someSpent(random, known) };
    if (before.length === 0 || random.chance(0.75)) list.push(event);
    else if (random.chance(0.5)) list.push(random.pick(before));
    else list.push({ ...event, spent: { ...event.spent, eventId: random.pick(before).spent.eventId } });
  }
  return { kind: "events", list: list.map(({ use, spent }) => ({ use, spent })) };
}

function someGrant(random: Random, known: Known): Request {
  const pack = random.pick(known.packs);
  const isOpenAmount = pack.items.every((item) => item.packItemId === null);
  const unit = pack.items[0]?.unit ?? "count";
  return {
    kind: "grant",
    pack: random.pick([pack.packId, pack.packName, pack.packName.toUpperCase()]),
    userId: random.pick(known.users),
    ref: random.chance(0.6) ? `order-${random.integer(1, 12)}` : null,
    expiresAt: random.chance(0.5) ? null : known.nowMs + random.integer(1, 600_000),
    ...(isOpenAmount ? { quantity: someAmount(random, unit) || 1 } : {}),
  };
}

/** A random refund, often of a known reference, sometimes with an id that was used before. */
function someRefund(random: Random, known: Known): Request {
  const grants = known.past.filter((request) => request.kind === "grant" && request.ref !== null);
  const of = grants.length === 0 || random.chance(0.1) ? someGrant(random, known) : random.pick(grants.slice(-6));
  const [userId, ref] = of.kind === "grant" ? [of.userId, of.ref ?? "order-1"] : ["nobody", "order-1"];
  const whole = random.integer(1, 7);
  return {
    kind: "refund",
    userId,
    ref,
    refundRef: random.chance(0.15) ? "re-1" : random.id("re-"),
    ...(random.chance(0.3) ? { pack: of.kind === "grant" ? of.pack : "Mixed" } : {}),
    ...(random.chance(0.8)
      ? { share: { part: random.integer(1, whole), of: random.pick([whole, 10, 1_500] as const) } }
      : {}),
    ...(random.chance(0.5) ? { reason: "refunded" } : {}),
  };
}

/** An earlier request with the same id and another body, or a new grant if no earlier request has an id. */
function alteredRequest(random: Random, known: Known): Request {
  const past = known.past.filter(({ kind }) => /^(event|reserve|commit|refund)$/.test(kind));
  const request = past.length === 0 ? someGrant(random, known) : random.pick(past);
  if (request.kind === "refund") return { ...request, share: { part: 1, of: 97 } };
  if (request.kind === "commit") {
    const { meters, quantities, ...rest } = request;
    if (meters !== undefined && random.chance(0.5)) return { ...rest, meters: { ...meters, output: 77.777 } };
    return { ...rest, quantities: { ...quantities, seconds: 77.777 } };
  }
  if (request.kind === "reserve" || request.kind === "event") {
    const userId = random.pick(known.users);
    const memberId = random.pick(MEMBERS);
    return { ...request, use: { ...request.use, userId, memberId, event: `${request.use.event}.altered` } };
  }
  return request;
}

export function someRequest(random: Random, known: Known): Request {
  const someId = (list: readonly string[], none: string): string =>
    list.length === 0 || random.chance(0.02) ? none : random.pick(random.chance(0.7) ? list.slice(-4) : list);
  const kind = random.weighted(WEIGHTS);
  if (kind === "grant" || (known.balances.length === 0 && random.chance(0.8))) return someGrant(random, known);
  if (kind === "event") return { kind, use: someUse(random, known), spent: someSpent(random, known) };
  if (kind === "events") return someEvents(random, known);
  if (kind === "reserve") {
    const reservationId = random.chance(0.7) ? random.id("res_") : null;
    const onExpiry = random.pick(["charge", "charge", "return", undefined] as const);
    const seconds = random.integer(1, 300);
    return { kind, use: someUse(random, known), seconds, ...(onExpiry && { onExpiry }), reservationId };
  }
  if (kind === "refund") return someRefund(random, known);
  if (kind === "prices") return somePrices(random, known);
  if (kind === "stripe") return someStripeEvent(random, known);
  const reservationId = someId(known.reservationIds, "res_unknown");
  if (kind === "commit") {
    const model = random.chance(0.2) ? { model: random.pick(["small", "large"]) } : {};
    const used = random.chance(0.4) ? { meters: someMeters(random) } : { quantities: someQuantities(random) };
    return { kind, reservationId, ...used, ...model, spent: someSpent(random, known) };
  }
  if (kind === "release") return { kind, reservationId };
  if (kind === "extend") {
    return { kind, reservationId, seconds: random.integer(1, random.chance(0.1) ? 86_400 : 600) };
  }
  const balance = known.balances.length === 0 ? undefined : random.pick(known.balances);
  const balanceId = balance?.id ?? "crb_unknown";
  if (kind === "revoke") return { kind, balanceId, reason: random.pick(["refunded", "fraud"]) };
  if (kind === "adjust") {
    const delta = someAmount(random, balance?.unit ?? "count") * random.pick([1, 1, -1]);
    return { kind, balanceId, delta: delta === 0 ? 1 : delta, note: "by hand" };
  }
  if (kind === "list") {
    const list = { kind, userId: random.pick(known.users), includeExpired: random.chance(0.5) };
    return random.chance(0.5) ? list : { ...list, ref: `order-${random.integer(1, 12)}` };
  }
  if (kind === "limit" || kind === "own amount" || kind === "checkpoints") {
    const userId = random.pick(known.users);
    const member = { memberId: random.pick(MEMBERS) };
    if (kind === "checkpoints" || known.limits.length === 0)
      return { kind: "checkpoints", userId, ...(random.chance(0.5) ? member : {}) };
    const { name, unit, per } = random.pick(known.limits);
    // Rounded, because the product of doubles may have more digits than a unit.
    const amount = Math.round(someAmount(random, unit) * random.integer(1, 6) * 1e6) / 1e6;
    if (kind === "limit") return { kind, name, amount };
    return {
      kind,
      userId,
      ...(per === "member" ? member : {}),
      name,
      amount: random.pick([amount, amount, null, undefined]),
    };
  }
  if (kind === "erase" || kind === "lift") return { kind, userId: random.pick(known.users) };
  if (kind === "reservations") {
    const status = random.pick([null, "open", "committed", "released", "expired"]);
    return { kind, userId: random.pick(known.users), status, limit: random.integer(1, 9) };
  }
  if (kind === "plan") return { kind, use: someUse(random, known) };
  if (kind === "totals") {
    const fromMs = known.nowMs - random.integer(0, HOUR_MS);
    return { kind, userId: random.pick(known.users), fromMs, toMs: fromMs + random.integer(1, 7_200_000) };
  }
  if (kind === "cron" || known.past.length === 0) return { kind: "cron" };
  return kind === "again" ? random.pick(known.past) : alteredRequest(random, known);
}
