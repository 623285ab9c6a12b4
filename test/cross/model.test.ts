import { env } from "cloudflare:workers";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { comparePrices } from "../support/compare-prices.ts";
import { compareState } from "../support/compare-state.ts";
import { FAULTS, type FaultPlan, faultyD1 } from "../support/faulty-d1.ts";
import { type Pair, sendToBoth } from "../support/history.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createModel, type Pack } from "../support/model.ts";
import type { Unit } from "../support/model-amounts.ts";
import { createErasures } from "../support/model-erasure.ts";
import type { Limit } from "../support/model-limits.ts";
import { compareMessages, MESSAGE_TYPES } from "../support/model-messages.ts";
import { createPayments, type PaymentBalanceChange } from "../support/model-payments.ts";
import { modelList } from "../support/model-reads.ts";
import { createRefunds, type RefundResult } from "../support/model-refunds.ts";
import { createRandom, type Random } from "../support/random.ts";
import { type Request, someRequest } from "../support/requests.ts";
import { takeStripe } from "../support/send-stripe.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { makeEndpoint } from "../support/webhooks.ts";
import {
  atRandom,
  bound,
  Clock,
  makeApp,
  makeClient,
  makeOpenAmountPack,
  makePack,
  type TestItem,
} from "../support/world.ts";

const OPERATIONS_A_HISTORY = 120;
const HISTORIES = soakCount(2, 1_000 / OPERATIONS_A_HISTORY);
const OPERATIONS = HISTORIES * OPERATIONS_A_HISTORY;

afterAll(expectLedgerInvariants);

// Repeated attempts do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const ITEMS: Readonly<Record<string, readonly TestItem[]>> = {
  Mixed: [
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountMinor: 5_250_000, unit: "cents" },
  ],
  Wallet: [{ amountMinor: 20_000_001, unit: "cents", priority: 200 }],
  Seats: [
    { amountMinor: 3_000, unit: "count", matches: [{ event: "image.*" }, { event: "other", model: "*" }] },
    { amountMinor: 30_500, unit: "seconds", matches: [{ event: "*made" }], priority: 50 },
  ],
  Large: [
    { amountMinor: 1_000_007, unit: "tokens", matches: [{ model: "large" }], priority: 50 },
    { amountMinor: 777_777, unit: "cents", matches: [{ event: "chat.*", model: "s*l" }] },
  ],
};

/** Creates packs, and returns them in the form of the model. */
async function makePacks(appId: string): Promise<Pack[]> {
  const packs: Pack[] = [];
  const scale = (unit: Unit): number => (unit === "cents" ? 1_000_000 : 1_000);
  for (const [packName, items] of Object.entries(ITEMS)) {
    const packId = await makePack(appId, packName, items);
    const stored = await env.DB.prepare(
      "SELECT id FROM credit_pack_items WHERE app_id = ? AND pack_id = ? ORDER BY position",
    )
      .bind(appId, packId)
      .all<{ id: string }>();
    packs.push({
      packId,
      packName,
      items: items.map(({ amountMinor, unit, matches = [], priority = 100 }, index) => ({
        packItemId: stored.results[index]?.id ?? "",
        unit,
        initial: amountMinor / scale(unit),
        priority,
        matches: matches.map(({ event, model }) => ({ ...(event && { event }), ...(model && { model }) })),
      })),
    });
  }
  for (const [packName, unit] of [["Tokens", "tokens"] as const, ["Top-up", "cents"] as const]) {
    const packId = await makeOpenAmountPack(appId, packName, unit);
    const item = { packItemId: null, unit, initial: 0, priority: 100, matches: [] };
    packs.push({ packId, packName, items: [item] });
  }
  return packs;
}

const LIMITS = [
  { name: "Calls", unit: "count", amount: 12, every: "hour", matches: [] },
  { name: "Calls of each", unit: "count", amount: 5, every: "hour", per: "member", matches: [] },
  { name: "Chats", unit: "tokens", amount: 900, every: "minute", matches: [{ event: "chat.*" }] },
  {
    name: "Large",
    unit: "cents",
    amount: 40,
    every: "day",
    timeZone: "Europe/Berlin",
    matches: [{ model: "large" }, { event: "other" }],
  },
] as const;

/** Times shortly before midnight in Berlin, on nights when its clocks change, and an ordinary noon. */
const FIRST_TIMES = ["2026-01-15T12:00:00Z", "2026-03-28T22:40:00Z", "2026-10-24T21:40:00Z"];

/** Creates usage limits, and returns them in the form of the model. */
async function makeLimits(clock: Clock, appId: string): Promise<Limit[]> {
  const call = makeClient(clock);
  const created: Limit[] = [];
  for (const { matches, ...limit } of LIMITS) {
    const path = `/api/v1/admin/apps/${appId}/usage-limits`;
    const answer = await call("POST", path, { key: env.ADMIN_TOKEN, body: { mode: "live", ...limit, matches } });
    created.push({ timeZone: null, per: "user", ...limit, matches: [...matches], limitId: answer.body.limitId });
  }
  return created;
}

/** A request with an id takes effect once, so its caller may repeat it after a 503. */
function isIdempotent(request: Request): boolean {
  if (request.kind === "grant") return request.ref !== null;
  if (request.kind === "reserve") return request.reservationId !== null;
  // The cron has no caller: its next run does what one run could not do.
  return request.kind !== "adjust" && request.kind !== "cron";
}

function someFault(random: Random, request: Request): FaultPlan | null {
  if (request.kind === "limit" || !random.chance(0.12)) return null;
  const at = random.integer(1, 3);
  if (isIdempotent(request) && random.chance(0.4)) return { fault: random.pick(FAULTS), at, persists: true };
  return { fault: random.pick(["before", "amid", "after"] as const), at };
}

/** Often does not move the clock; sometimes moves it to the exact millisecond at which a balance or a hold expires. */
function moveClock(random: Random, clock: Clock, model: ReturnType<typeof createModel>): void {
  const moments = [...model.balances, ...model.holds.values()].map(({ expiresAt }) => expiresAt);
  // To the last millisecond of a minute, or the first of the next.
  if (random.chance(0.03)) clock.ms += 60_000 - (clock.ms % 60_000) - random.integer(0, 1);
  const next = Math.min(...moments.filter((ms) => ms > clock.ms));
  if (Number.isFinite(next) && random.chance(0.08)) clock.advance(next - clock.ms);
  else if (random.chance(0.25)) clock.advance(random.integer(1, 90_000));
}

/** Lists the balances as of an earlier moment, whose state the model recorded then (C23). */
async function compareMoment({ call, key }: Pair, userId: string, atMs: number, expected: string): Promise<void> {
  const query = new URLSearchParams({ userId, asOf: new Date(atMs).toISOString() });
  const { body } = await call("GET", `/api/v1/credits?${query}`, { key });
  const rows = body.credits as { balanceId: string; remaining: number; status: string }[];
  const seen = JSON.stringify(rows.map(({ balanceId, remaining, status }) => ({ balanceId, remaining, status })));
  expect(seen, `${userId} as of ${query.get("asOf")}`).toBe(expected);
}

/** Plays a history. Returns how many events and holds had a price. */
async function play(seed: number): Promise<number> {
  const random = createRandom(seed);
  const clock = new Clock();
  clock.ms = Date.parse(random.pick(FIRST_TIMES));
  const app = await makeApp();
  const faulty = faultyD1(env.DB);
  const model = createModel(clock);
  const refunds: RefundResult[] = [];
  const refund = createRefunds(model, refunds);
  const paymentBalanceChanges: PaymentBalanceChange[] = [];
  // Two worlds in three have an endpoint, which gets every message.
  const endpointId = random.chance(0.66) ? await makeEndpoint(app.environments.live, MESSAGE_TYPES) : null;
  const users = ["ada", "böb"];
  const packs = await makePacks(app.appId);
  await takeStripe(makeClient(clock), app.appId);
  if (random.chance(0.66)) model.limits.limits.push(...(await makeLimits(clock, app.appId)));
  const pair: Pair = {
    // An isolate's memory of a user is sometimes outdated, by the writes of other isolates.
    call: makeClient(clock, { DB: faulty.d1 }, random.id, atRandom(3, random)),
    key: app.keys.sk_live,
    cron: () => scheduled(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId: random.id }),
    environmentId: app.environments.live.id,
    packs,
    ...{ appId: app.appId, clock, model },
    pay: createPayments(model, packs, paymentBalanceChanges),
    paymentBalanceChanges,
    refund,
    refunds,
    erasures: createErasures(model, refund),
    erasureIds: new Map(),
    compared: { rows: 0, seqs: new Map(users.map((user) => [user, 0])) },
  };
  // A history has Stripe's events or erasures, not both. test/worker/payments/erasure.test.ts tests payments of erased users.
  const absent: readonly Request["kind"][] = random.chance(0.5) ? ["stripe"] : ["erase", "lift"];
  const past: Request[] = [];
  /** The balances of each user at the end of each millisecond that a request used. */
  const moments = new Map<number, string[]>();
  for (let count = 1; count <= OPERATIONS_A_HISTORY; count++) {
    moveClock(random, clock, model);
    const known = {
      packs: pair.packs,
      users,
      balances: model.balances,
      reservationIds: [...model.holds.keys()],
      limits: model.limits.limits,
      past,
      nowMs: clock.ms,
    };
    let request = someRequest(random, known);
    while (absent.includes(request.kind)) request = someRequest(random, known);
    past.push(request);
    const plan = someFault(random, request);
    const where = `operation ${count} (PROOF_SEED=${seed})`;
    await sendToBoth(pair, request, where, plan === null ? null : { faulty, plan });
    await compareState(pair, `after ${where}: ${JSON.stringify(request)}`);
    if (endpointId !== null && count % 20 === 0) await compareMessages(pair, `after ${where}`);
    // After an erasure, the user has no balances at any moment, past or present.
    const erased = users.findIndex((userId) => request.kind === "erase" && request.userId === userId);
    if (erased !== -1) for (const lists of moments.values()) lists[erased] = "[]";
    const lists = users.map((userId) => JSON.stringify(modelList(model, userId, true)));
    moments.set(clock.ms, lists);
  }
  const priced = await comparePrices(pair, `after PROOF_SEED=${seed}`);
  for (const [atMs, lists] of moments) {
    if (!random.chance(0.2)) continue;
    for (const [index, userId] of users.entries()) await compareMoment(pair, userId, atMs, lists[index] ?? "");
  }
  // The cron of later histories would work on these deliveries.
  await env.DB.prepare("DELETE FROM webhook_deliveries WHERE endpoint_id = ?").bind(endpointId).run();
  return priced;
}

describe(`random histories from PROOF_SEED=${RANDOM_SEED} on`, () => {
  it(`give the same answers, balances and ledger entries in Purser as in the model, in ${OPERATIONS} operations`, {
    timeout: timeoutOf(OPERATIONS, 1_000),
  }, async () => {
    console.info(`model.test.ts: PROOF_SEED=${RANDOM_SEED}`);
    const tell = soakPart("model of credits and usage", OPERATIONS, "operations", RANDOM_SEED);
    let priced = 0;
    for (let history = 0; history < HISTORIES; history++) {
      priced += await play(RANDOM_SEED + history);
      tell(OPERATIONS_A_HISTORY);
    }
    expect(priced).toBeGreaterThan(0);
  });
});
