import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { documentOf } from "../../support/exports.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import {
  seedAnalytics,
  seedBalances,
  seedBalancesOfMany,
  seedConsents,
  seedPerson,
  seedUsage,
} from "../../support/seed-rows.ts";
import { centsOnly, wallet } from "../../support/spender.ts";
import { Clock, makeApp, makeClient, makePack, type TestApp } from "../../support/world.ts";

/** Rows that every export reads: of the application, the person, the bounds, and the audit. */
const FIXED_ROWS = 65;

async function costOf(app: TestApp, distinctId: string) {
  const counting = countingD1(env.DB);
  const { person, events, consentLog } = await documentOf(app, distinctId, new Clock(), counting.d1);
  const lists = [
    events.analytics,
    events.metering,
    consentLog,
    person?.credits.ledger,
    person?.credits.balances,
    person?.exports,
    person?.distinctIds,
  ].map((list) => list?.length ?? 0);
  const entries = person?.credits.ledger.length ?? 0;
  const pages = lists.reduce((sum, length) => sum + Math.ceil(length / 2_000), 0);
  return { ...counting.spent(), rows: lists.reduce((sum, length) => sum + length, 0), entries, pages };
}

async function addOtherPeople(app: TestApp): Promise<void> {
  const { live } = app.environments;
  const others = Array.from({ length: 500 }, (_, index) => `other-${index}`);
  await seedPerson(live, {}, others);
  await seedUsage(live, "other-1", 3_000);
  await seedBalances(live, "other-1", 300);
}

it("an export takes two trips and writes two rows if it is small, however many other people there are", async () => {
  const app = await makeApp();
  await addOtherPeople(app);
  await seedPerson(app.environments.live, {}, ["ana"]);
  await seedAnalytics(app.environments.live, "ana", ["{}", "{}"]);
  const cost = await costOf(app, "ana");
  expect(cost).toMatchObject({ roundTrips: 2, rowsWritten: 2 });
  expect(cost.rowsRead).toBeLessThanOrEqual(cost.rows + FIXED_ROWS);
});

it("an export takes one trip a page and one more, and reads each row once, and a balance for each ledger entry", async () => {
  const app = await makeApp();
  const { live } = app.environments;
  await addOtherPeople(app);
  await seedPerson(live, {}, ["ana", "device"]);
  for (const id of ["ana", "device"]) {
    await seedAnalytics(
      live,
      id,
      Array.from({ length: 7_000 }, () => "{}"),
    );
    await seedUsage(live, id, 3_000);
    await seedConsents(live, id, 100);
    await seedBalances(live, id, 1_100);
  }
  const cost = await costOf(app, "ana");
  expect(cost.rowsRead).toBeLessThanOrEqual(1.05 * (cost.rows + cost.entries));
  expect(cost.roundTrips).toBeLessThanOrEqual(1 + cost.pages + Math.ceil(2_200 / 500));
  expect(cost.rowsWritten).toBe(2);
});

it("an export reads the balance of each debit and each ledger entry, and the event or the reservation of an entry that has one", async () => {
  const app = await makeApp();
  const clock = new Clock();
  const call = makeClient(clock);
  const packId = await makePack(app.appId, "Pack", [{ ...wallet, amountMinor: 1_000_000_000 }]);
  const post = async (path: string, body: unknown) => {
    const { status, body: answer } = await call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
    expect(status).toBe(200);
    return answer;
  };
  const usage = { userId: "ana", event: "chat.completed", ...centsOnly(1) };
  await post("credits/grant", { userId: "ana", packId });
  await post(
    "usage/events/batch",
    Array.from({ length: 100 }, (_, index) => ({ ...usage, eventId: `export-${app.appId}-${index}` })),
  );
  for (let count = 0; count < 10; count++) {
    const { reservationId } = await post("usage/reservations", usage);
    await post(`usage/reservations/${reservationId}/release`, {});
  }
  const counting = countingD1(env.DB);
  const { person, events } = await documentOf(app, "ana", clock, counting.d1);
  expect([person?.credits.ledger.length, events.metering.length]).toEqual([121, 100]);
  const ofLedger = 3 * 120 + 2;
  const ofMetering = 2 * 100;
  expect(counting.spent().rowsRead).toBeLessThanOrEqual(ofLedger + ofMetering + FIXED_ROWS);
});

it("an export binds only values that D1 accepts, even for long balance ids, and misses no balance", async () => {
  const app = await makeApp();
  const { live } = app.environments;
  // Each id has 800 bytes. A few thousand ids exceed the 2 MB that D1 accepts in a value.
  const ids = Array.from({ length: 1_200 }, (_, index) => `${"🦊".repeat(190)}${index}`);
  await seedPerson(live, {}, ids);
  const counts = new Map(ids.map((id, index) => [id, [1, 700][index] ?? (index % 499 === 0 ? 3 : 1)]));
  await seedBalancesOfMany(live, counts);
  let bytesMax = 0;
  const measuring = hookedD1(
    env.DB,
    async () => {},
    (values) => {
      for (const value of values) bytesMax = Math.max(bytesMax, new TextEncoder().encode(String(value)).length);
    },
  );
  const { person } = await documentOf(app, ids[0] ?? "", new Clock(), measuring);
  const { results } = await env.DB.prepare(
    "SELECT b.id FROM credit_balances AS b JOIN accounts AS a ON a.id = b.account_id WHERE a.environment_id = ?",
  )
    .bind(live.id)
    .all<{ id: string }>();
  const exported = person?.credits.balances.map(({ balanceId }) => balanceId) ?? [];
  expect(exported.toSorted()).toEqual(results.map(({ id }) => id).sort());
  expect(bytesMax).toBeLessThan(600_000);
  const cost = await costOf(app, ids[0] ?? "");
  expect(cost.roundTrips).toBeLessThanOrEqual(1 + cost.pages + Math.ceil(exported.length / 500) + ids.length / 500);
});

it("an export takes few trips for a person of 10,000 ids", async () => {
  const app = await makeApp();
  const { live } = app.environments;
  const ids = Array.from({ length: 10_000 }, (_, index) => `id-${index}`);
  await seedPerson(live, {}, ids);
  await env.DB.prepare(
    `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
       SELECT environment_id, distinct_id, 1, 'of-' || distinct_id, 'seen', 1, 1, '{}' FROM distinct_ids
       WHERE environment_id = ?`,
  )
    .bind(live.id)
    .run();
  await env.DB.prepare("UPDATE distinct_ids SET event_count = 1 WHERE environment_id = ?").bind(live.id).run();
  const cost = await costOf(app, "id-0");
  expect(cost.rows).toBe(20_001);
  expect(cost.roundTrips).toBeLessThanOrEqual(1 + cost.pages);
  expect(cost.rowsRead).toBeLessThanOrEqual(1.05 * cost.rows + 8 * ids.length);
  // Then each id is looked up among the payers and the members, however many limits there are.
  const call = makeClient(new Clock());
  for (const name of ["Calls", "Calls a member", "More calls", "More calls a member"]) {
    const body = {
      mode: "live",
      name,
      unit: "count",
      amount: 9,
      every: "day",
      per: /member/.test(name) ? "member" : "user",
    };
    const path = `/api/v1/admin/apps/${app.appId}/usage-limits`;
    expect((await call("POST", path, { key: env.ADMIN_TOKEN, body })).status).toBe(200);
  }
  const withLimits = await costOf(app, "id-0");
  expect(withLimits.roundTrips).toBeLessThanOrEqual(1 + withLimits.pages);
  expect(withLimits.rowsRead).toBeLessThanOrEqual(1.05 * withLimits.rows + 13 * ids.length);
});
