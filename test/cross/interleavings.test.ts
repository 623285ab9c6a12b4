import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { NEVER_MS } from "../../src/books/ledger/balance.ts";
import { holdsPart } from "../../src/books/usage/expire.ts";
import { scheduled } from "../../src/cron.ts";
import { idIn } from "../../src/db/session.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { comparePrices } from "../support/compare-prices.ts";
import { compareState } from "../support/compare-state.ts";
import { type Pair, sendToBoth } from "../support/history.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createModel, type Pack } from "../support/model.ts";
import { createErasures } from "../support/model-erasure.ts";
import { createPayments } from "../support/model-payments.ts";
import type { PriceRule } from "../support/model-prices.ts";
import { createRefunds } from "../support/model-refunds.ts";
import { createRandom } from "../support/random.ts";
import type { Request } from "../support/requests.ts";
import { isSoak, RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { atRandom, bound, Clock, home, makeApp, makeClient, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const ACTIONS = ["commit", "release", "expire", "revoke", "balance expires", "adjust"] as const;
type Action = (typeof ACTIONS)[number];

/** The target of each action: one of two reservations, or one of three balances. */
interface Targets {
  readonly commit: number;
  readonly release: number;
  readonly expire: number;
  readonly revoke: number;
  readonly "balance expires": number;
  readonly adjust: number;
}

/** One order of the six actions, on their targets. */
interface Interleaving {
  readonly order: readonly Action[];
  /** The way to take back a balance: revoke it, or refund it by its reference. */
  readonly takes: "revoke" | "refund" | "refund in part";
  readonly targets: Targets;
}

interface User {
  readonly userId: string;
  readonly interleaving: Interleaving;
}

function ordersOf(actions: readonly Action[]): Action[][] {
  if (actions.length === 0) return [[]];
  return actions.flatMap((first) =>
    ordersOf(actions.filter((action) => action !== first)).map((rest) => [first, ...rest]),
  );
}

/** Every target that the six actions can have: 2 × 2 × 2 × 3 × 3 × 3. */
const TARGETS: readonly Targets[] = Array.from({ length: 216 }, (_, index) => ({
  commit: index % 2,
  release: (index >> 1) % 2,
  expire: (index >> 2) % 2,
  revoke: Math.floor(index / 8) % 3,
  "balance expires": Math.floor(index / 24) % 3,
  adjust: Math.floor(index / 72) % 3,
}));

/** One of each six orders that differ in the last three actions. Which one differs from run to run. The soak has all. */
const ORDERS = ordersOf(ACTIONS).filter(
  (_, index) => isSoak || (index + Math.floor(index / 6) + RANDOM_SEED) % 6 === 0,
);

// Each order gets one of the 216 targets, which differs from run to run. 89 and 216 have no common divisor, so no target occurs
// again before all have occurred. The soak gives each order several targets.
const TURNS = Math.min(TARGETS.length, soakCount(1, 0.2));
const INTERLEAVINGS: readonly Interleaving[] = Array.from({ length: TURNS }, (_, turn) =>
  ORDERS.map((order, index) => ({
    order,
    takes: (["revoke", "refund", "refund in part"] as const)[(index + turn) % 3] ?? "revoke",
    targets: TARGETS[((index + RANDOM_SEED + turn * 11) * 89) % TARGETS.length] as Targets,
  })),
).flat();

const STEP_MS = 60_000;
const CHUNK = 60;

/** Three balances: two in tokens and one in cents. The first pays before the second. */
const PACKS = [
  { name: "First", amountMinor: 100_000, unit: "tokens", matches: [{ event: "chat.*" }], priority: 1 },
  { name: "Second", amountMinor: 200_000, unit: "tokens", matches: [], priority: 2 },
  { name: "Third", amountMinor: 9_000_000, unit: "cents", matches: [], priority: 3 },
] as const;

async function enter(): Promise<{ pair: Pair; clock: Clock }> {
  const clock = new Clock();
  const app = await makeApp();
  const packs: Pack[] = [];
  for (const { name, ...item } of PACKS) {
    const packId = await makePack(app.appId, name, [item]);
    const stored = await env.DB.prepare("SELECT id FROM credit_pack_items WHERE pack_id = ?")
      .bind(packId)
      .first<{ id: string }>();
    const { amountMinor, unit, priority, matches } = item;
    const initial = amountMinor / (unit === "cents" ? 1_000_000 : 1_000);
    const packItemId = stored?.id ?? "";
    packs.push({ packId, packName: name, items: [{ packItemId, unit, initial, priority, matches: [...matches] }] });
  }
  const model = createModel(clock);
  const refund = createRefunds(model);
  const pair: Pair = {
    call: makeClient(clock, {}, randomId, atRandom(3, createRandom(20_260_115))),
    key: app.keys.sk_live,
    cron: () => scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId }, [holdsPart]),
    environmentId: app.environments.live.id,
    packs,
    ...{ appId: app.appId, clock, model },
    pay: createPayments(model, packs),
    paymentBalanceChanges: [],
    refund,
    refunds: [],
    erasures: createErasures(model, refund),
    erasureIds: new Map(),
    compared: { rows: 0, seqs: new Map() },
  };
  return { pair, clock };
}

/** Creates every user's three balances in one statement, because the grants are not tested here. */
async function issueAll(pair: Pair, clock: Clock, users: readonly User[]): Promise<void> {
  const issued = users.flatMap(({ userId, interleaving: { order, targets } }) =>
    PACKS.map((item, index) => {
      const isToExpire = targets["balance expires"] === index;
      const expiresAt = isToExpire ? clock.ms + (order.indexOf("balance expires") + 1) * STEP_MS : Infinity;
      const pack = pair.packs[index] as Pack;
      const id = idIn(home(), randomId("crb_"));
      pair.model.grant(pack, { userId, ref: makeReference(index), expiresAt }, [id]);
      const { packId, packName } = pack;
      const { amountMinor, unit, matches, priority } = item;
      return {
        ...{ userId, id, packId, packName, unit, priority, amountMinor, seq: index + 1 },
        packNumber: index + 1,
        ref: makeReference(index),
        matches: JSON.stringify(matches),
        expiresAtMs: Math.min(expiresAt, NEVER_MS),
      };
    }),
  );
  await env.DB.prepare(
    "INSERT INTO accounts (environment_id, user_id) SELECT CAST(?1 AS INTEGER), value FROM json_each(?2)",
  )
    .bind(pair.environmentId, JSON.stringify(users.map(({ userId }) => userId)))
    .run();
  await env.DB.prepare(
    `INSERT INTO credit_balances (
       account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
       has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq
     )
     SELECT a.id, value ->> 'id', value ->> 'packId', value ->> 'packName',
       value ->> 'packNumber', 1, value ->> 'unit', value ->> 'matches', value ->> 'priority', value ->> 'amountMinor',
       value ->> 'amountMinor', 1, 0, value ->> 'ref', CAST(?2 AS INTEGER), value ->> 'expiresAtMs', value ->> 'seq', value ->> 'seq'
     FROM json_each(?3) CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = value ->> 'userId'
     ORDER BY key`,
  )
    .bind(pair.environmentId, clock.ms, JSON.stringify(issued))
    .run();
}

/**
 * Sets the next version of the price list, dearer than those before. Only a commit that its hold's version prices has the amounts
 * of this test. Every other version is scheduled for the next action.
 */
async function setPrices(pair: Pair, clock: Clock, place: number): Promise<void> {
  const amount = place + 1;
  const rules: readonly PriceRule[] = [
    { unit: "tokens", per: { input: { amount, units: 1 }, output: { amount: 0, units: 1 } } },
    { unit: "cents", per: { input: { amount: 0, units: 1 }, output: { amount, units: 1 } } },
  ];
  const costs = [{ perEvent: place }];
  const effectiveAt = place % 2 === 0 ? null : clock.ms + STEP_MS;
  const answer = await sendToBoth(pair, { kind: "prices", rules, costs, effectiveAt }, "a version of prices");
  expect(answer.status).toBe(200);
}

const numberOf = (userId: string): number => Number(userId.replace(/\D/g, ""));
/** Half of the users' reservations, and another half of their commits, send meters. */
const holdsByMeters = (userId: string): boolean => numberOf(userId) % 4 < 2;
const commitsByMeters = (userId: string): boolean => numberOf(userId) % 3 < 2;

/** Creates the two reservations. One of them expires at the place of `expire` in the order. */
async function reserveBoth(pair: Pair, { userId, interleaving: { order, targets } }: User): Promise<void> {
  // The first holds 100 and 60 tokens, the second 140 tokens and 6 cents: they share the second balance.
  const amounts: readonly { tokens: number; cents?: number }[] = [{ tokens: 160 }, { tokens: 200, cents: 20 }];
  for (const [index, quantities] of amounts.entries()) {
    const seconds = targets.expire === index ? ((order.indexOf("expire") + 1) * STEP_MS) / 1_000 : 86_400;
    const { tokens: input, cents: output = 0 } = quantities;
    const used = holdsByMeters(userId) ? { meters: { input, output } } : { quantities: { count: 0, ...quantities } };
    // Two of three holds are a member's.
    const member = ["", "mia", userId][(numberOf(userId) + index) % 3];
    const use = { userId, ...(member ? { memberId: member } : {}), event: "chat.completed", ...used };
    const reservationId = reservationOf(userId, index);
    // Half of the users' reservations are charged when they expire.
    const onExpiry = numberOf(userId) % 2 === 0 ? "charge" : "return";
    const answer = await sendToBoth(pair, { kind: "reserve", use, seconds, onExpiry, reservationId }, "a hold");
    expect(answer.status).toBe(200);
  }
}

const makeReference = (index: number): string => `order-${index}`;
const reservationOf = (userId: string, index: number): string => `res_${userId}_${index}`;

/** The action's request to Purser; null if only the clock moves. */
function requestOf(pair: Pair, userId: string, action: Action, { targets, takes }: Interleaving): Request | null {
  const target = targets[action];
  const balance = pair.model.balances.filter((b) => b.userId === userId)[target];
  const balanceId = balance?.id ?? "";
  switch (action) {
    case "commit": {
      const spent = { eventId: `${userId}-commit` };
      // Less than was held for the first reservation, more for the second.
      const reservationId = reservationOf(userId, target);
      if (commitsByMeters(userId)) {
        const meters = target === 0 ? { input: 110.5 } : { input: 250, output: 20.001 };
        return { kind: "commit", reservationId, meters, spent };
      }
      const quantities = target === 0 ? { tokens: 110.5 } : { tokens: 250, cents: 20.000001 };
      return { kind: "commit", reservationId, quantities, spent };
    }
    case "release":
      return { kind: "release", reservationId: reservationOf(userId, target) };
    case "revoke": {
      if (takes === "revoke") return { kind: "revoke", balanceId, reason: "refunded" };
      const refund = { userId, ref: makeReference(target), refundRef: "re", reason: "refunded" };
      return { kind: "refund", ...refund, ...(takes === "refund" ? {} : { share: { part: 2, of: 3 } }) };
    }
    case "adjust":
      return { kind: "adjust", balanceId, delta: -3, note: "by hand" };
    case "expire":
    case "balance expires":
      return null;
  }
}

/** Runs a chunk of interleavings, one user each: the clock moves, then all users' next actions run concurrently. */
async function play(chunk: readonly Interleaving[], withCron: boolean): Promise<void> {
  const { pair, clock } = await enter();
  const users = chunk.map((interleaving, index): User => ({ userId: `user${index}`, interleaving }));
  for (const { userId } of users) pair.compared.seqs.set(userId, 0);
  await issueAll(pair, clock, users);
  await setPrices(pair, clock, 0);
  await Promise.all(users.map((user) => reserveBoth(pair, user)));
  await compareState(pair, "before the first action");
  for (let place = 0; place < ACTIONS.length; place++) {
    clock.advance(STEP_MS);
    await setPrices(pair, clock, place + 1);
    if (withCron) await sendToBoth(pair, { kind: "cron" }, "the cron");
    await Promise.all(
      users.map(async ({ userId, interleaving }) => {
        const action = interleaving.order[place];
        const request = action === undefined ? null : requestOf(pair, userId, action, interleaving);
        const where = `action ${place + 1} of ${JSON.stringify(interleaving)}, PROOF_SEED=${RANDOM_SEED}`;
        if (request !== null) await sendToBoth(pair, request, where);
      }),
    );
    await compareState(pair, `after action ${place + 1}`);
  }
  clock.advance(DAY_MS);
  await sendToBoth(pair, { kind: "cron" }, "the last cron");
  await compareState(pair, "at the end");
  expect(await comparePrices(pair, "at the end")).toBeGreaterThan(0);
  expect([...pair.model.holds.values()].map(({ state }) => state)).not.toContain("open");
}

/** Runs half of the chunks, with the cron or without it. */
async function playAll(withCron: boolean): Promise<void> {
  const chunks = Array.from({ length: INTERLEAVINGS.length / CHUNK }, (_, index) => index * CHUNK)
    .filter((_, index) => (index % 2 === 0) === withCron)
    .map((start) => INTERLEAVINGS.slice(start, start + CHUNK));
  const name = `interleavings, ${withCron ? "the cron" : "the next write"} expires holds`;
  const tell = soakPart(name, chunks.length * CHUNK, "interleavings");
  for (const chunk of chunks) {
    await play(chunk, withCron);
    tell(CHUNK);
  }
}

describe(`${INTERLEAVINGS.length} interleavings of commit, release, expire, revoke or refund, a balance's own expiry and adjust, amid versions of prices`, () => {
  const timeout = timeoutOf(INTERLEAVINGS.length, 4_000);

  it(
    "end as rules.md says, with correct ledgers after every step, when the cron expires holds",
    {
      timeout,
    },
    () => playAll(true),
  );

  it(
    "end as rules.md says, with correct ledgers after every step, when the user's next write expires holds",
    {
      timeout,
    },
    () => playAll(false),
  );
});
