import Stripe from "stripe";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { PRICES, STORY_EVENTS, storyOf } from "../support/payment-story.ts";
import { createRandom, type Random } from "../support/random.ts";
import type { TestEvent } from "../support/stripe-events.ts";
import { type KillableServer, startKillableServer } from "./support/killable-server.ts";
import { ADMIN_TOKEN } from "./support/server.ts";
import { RANDOM_SEED, SOAK_OPERATIONS } from "./support/soak.ts";

// Sends Stripe's events, signed by Stripe's own package, to the built Worker, whose process is killed meanwhile. Stripe resends
// events that did not get a 200, in any order. In the end each payment has the same state as if each event had arrived once.

const KILLS = SOAK_OPERATIONS === 0 ? 1 : Math.min(60, Math.ceil(SOAK_OPERATIONS / 500));
const PAYMENTS = 12;
const CALLERS = 16;
const SIGNING_SECRET = "whsec_of_the_tests_0001";
const INITIAL = 250_500_000;

let server: KillableServer;
beforeAll(async () => {
  server = await startKillableServer();
}, 120_000);
afterAll(() => server.close());

interface Shop {
  readonly appId: string;
  readonly key: string;
}

async function post(path: string, key: string, body: object, method = "POST"): Promise<Response> {
  return fetch(`${server.url()}/api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
}

async function openShop(cycle: number): Promise<Shop> {
  const admin = async (path: string, body: object, method?: string) => {
    const answer = await post(`admin/${path}`, ADMIN_TOKEN, body, method);
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    return JSON.parse(text);
  };
  const { appId } = await admin("apps", { name: `Shop ${cycle}` });
  const { key } = await admin(`apps/${appId}/keys`, { kind: "secret", mode: "live" });
  await admin(`apps/${appId}/packs`, { packName: "Wallet", items: [], unit: "cents" });
  const prices = [{ price: PRICES.wallet, packId: "wallet", quantity: 250.5 }];
  const setting = { signingSecrets: [SIGNING_SECRET], prices };
  await admin(`apps/${appId}/stripe`, { mode: "live", setting }, "PUT");
  return { appId, key };
}

/** Delivers an event as Stripe does. Null if there was no response. */
async function deliver({ appId }: Shop, event: TestEvent): Promise<{ status: number; outcome: string } | null> {
  const payload = JSON.stringify(event);
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: SIGNING_SECRET });
  try {
    const answer = await fetch(`${server.url()}/api/v1/stripe/${appId}/live`, {
      method: "POST",
      headers: { "stripe-signature": signature },
      body: payload,
      signal: AbortSignal.timeout(20_000),
    });
    const body = (await answer.json()) as { outcome?: string };
    return { status: answer.status, outcome: body.outcome ?? "" };
  } catch {
    return null;
  }
}

/** Repeats a delivery until it gets a 200, as Stripe does for three days. */
async function deliverAgain(shop: Shop, event: TestEvent): Promise<string> {
  for (let attempt = 1; attempt <= 20; attempt++) {
    const delivered = await deliver(shop, event);
    if (delivered?.status === 200) return delivered.outcome;
    expect(delivered?.status ?? 503).toBe(503);
  }
  throw new Error(`${event.type} is not taken after 20 deliveries`);
}

const shuffled = <Item>(items: readonly Item[], random: Random): Item[] =>
  items
    .map((item) => [random.fraction(), item] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, item]) => item);

interface Count {
  readonly deliveries: number;
  readonly unanswered: number;
  /** The number of these that had no effect when they were repeated. */
  readonly idle: number;
}

async function storm(cycle: number): Promise<Count> {
  const random = createRandom(RANDOM_SEED + cycle);
  const shop = await openShop(cycle);
  const users = Array.from({ length: PAYMENTS }, (_, index) => `user-${cycle}-${index}`);
  const stories = users.map((userId, index) =>
    storyOf({ nowS: 1_768_478_400, userId, id: `${cycle}_${index}`, isTied: index % 2 === 0 }),
  );
  const all = stories.flatMap((story) => STORY_EVENTS.map((name) => story[name]));
  // Most events arrive once, and some twice.
  const queue = shuffled([...all, ...all.filter(() => random.chance(0.4))], random);
  const unanswered = new Set<TestEvent>();
  let [deliveries, isOver] = [0, false];
  const spend = (userId: string) =>
    post("usage/events", shop.key, {
      ...{ userId, event: "chat", eventId: random.id("evt-") },
      quantities: { count: 0, cents: random.integer(1, 4) },
    }).catch(() => null);
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      const event = queue.pop();
      if (event === undefined) return;
      deliveries++;
      if ((await deliver(shop, event))?.status !== 200) unanswered.add(event);
      if (!isOver && random.chance(0.3)) await spend(random.pick(users));
    }
  });
  const killAt = random.integer(CALLERS, all.length);
  await vi.waitUntil(() => deliveries >= killAt, { timeout: 30_000, interval: 1 });
  isOver = true;
  await server.kill();
  await server.start();
  await Promise.all(callers);

  // An event has no effect if it is already stored, or is older than the known state.
  let idle = 0;
  for (const event of unanswered) if ((await deliverAgain(shop, event)) === "ignored") idle++;
  for (const event of shuffled(all, random)) await deliverAgain(shop, event);
  for (const event of shuffled(all, random).slice(0, 20)) expect(await deliverAgain(shop, event)).toBe("ignored");
  await expectTrue(shop);
  return { deliveries, unanswered: unanswered.size, idle };
}

interface Row {
  readonly userId: string;
  readonly initial: number;
  readonly remaining: number;
  readonly taken: number;
  readonly isSurplus: 0 | 1;
  readonly isRevoked: 0 | 1;
  readonly sum: number;
  readonly spent: number;
}

/** Expects one valid grant for each payment, of which 35 % are taken back. Other grants of the payment are taken back except their spent part. */
async function expectTrue({ appId }: Shop): Promise<void> {
  const db = await server.db();
  const { results } = await db
    .prepare(
      `SELECT a.user_id AS userId, b.initial_minor AS initial, b.remaining_minor AS remaining, g.clawed_back_minor AS taken,
         g.is_surplus AS isSurplus, b.revoked_at_ms IS NOT NULL AS isRevoked, sum(l.delta_minor) AS sum,
         -sum(l.delta_minor) FILTER (WHERE l.reason = 'event_committed') AS spent
       FROM environments AS e CROSS JOIN accounts AS a ON a.environment_id = e.id
       CROSS JOIN credit_balances AS b ON b.account_id = a.id
       CROSS JOIN payment_grants AS g ON g.balance_id = b.id
       CROSS JOIN credit_ledger AS l ON l.account_id = a.id AND l.grant_seq = b.grant_seq
       WHERE e.app_id = ? AND e.mode = 'live' GROUP BY b.id ORDER BY a.user_id, g.is_surplus`,
    )
    .bind(appId)
    .all<Row>();
  const own = results.filter(({ isSurplus }) => isSurplus === 0);
  expect(new Set(own.map(({ userId }) => userId)).size).toBe(PAYMENTS);
  expect(own).toHaveLength(PAYMENTS);
  for (const row of results) {
    const spent = row.spent ?? 0;
    const taken = row.isSurplus === 1 ? INITIAL - spent : INITIAL * 0.35;
    expect(row).toMatchObject({
      initial: INITIAL,
      taken,
      remaining: INITIAL - taken - spent,
      isRevoked: row.isSurplus,
    });
    expect(row.sum).toBe(row.remaining);
  }
  const payments = await db
    .prepare(
      "SELECT count(*) AS n FROM payments AS p JOIN environments AS e ON e.id = p.environment_id WHERE app_id = ?",
    )
    .bind(appId)
    .first<number>("n");
  expect(payments).toBe(PAYMENTS);
  const gaps = await db
    .prepare("SELECT account_id FROM credit_ledger GROUP BY account_id HAVING count(*) <> max(seq)")
    .all();
  expect(gaps.results).toEqual([]);
}

describe(`Stripe's events to the built Worker, from PROOF_SEED=${RANDOM_SEED}`, () => {
  it(`each take effect once when the whole server is killed, kills: ${KILLS}`, {
    timeout: 60_000 + KILLS * 60_000,
  }, async () => {
    const counts: Count[] = [];
    for (let cycle = 0; cycle < KILLS; cycle++) {
      counts.push(await storm(cycle));
      if (counts.length < KILLS && (SOAK_OPERATIONS === 0 || counts.length % 10 > 0)) continue;
      const sum = (field: keyof Count) => counts.reduce((total, one) => total + one[field], 0).toLocaleString("en");
      console.info(
        `soak: kills during Stripe's events: ${counts.length} of ${KILLS} kills, ${sum("deliveries")} deliveries, ` +
          `${sum("unanswered")} without an answer and sent again, ${sum("idle")} of them did nothing then, PROOF_SEED=${RANDOM_SEED}`,
      );
    }
    expect(counts.some(({ unanswered }) => unanswered > 0)).toBe(true);
  });
});
