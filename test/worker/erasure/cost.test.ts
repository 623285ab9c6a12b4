import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { erasurePageStatements } from "../../../src/erasure/page.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { ANA, erasureWorld, oneToken } from "../../support/erasure.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import {
  seedAnalytics,
  seedBalances,
  seedConsents,
  seedEntries,
  seedPerson,
  seedUsage,
} from "../../support/seed-rows.ts";
import { makeClient } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

/** An application with a call that returns its cost by D1's own counters, for the table of docs/architecture.md. */
async function world() {
  const world = await erasureWorld();
  const { app, clock } = world;
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const post = async (path: string, body: object) => {
    counting.spent();
    const { body: answer } = await call("POST", path === "batch/" ? "/batch/" : `/api/v1/${path}`, {
      key: app.keys.sk_live,
      body,
    });
    return { answer, cost: counting.spent() };
  };
  return { ...world, counted: post };
}

it.each([1, 40, 400])(
  "a dry run takes one trip and writes nothing, an erasure takes seven trips, and a repeat three: %i rows of each kind",
  async (rows) => {
    const { app, counted } = await world();
    const { live } = app.environments;
    await seedAnalytics(live, ANA, Array(rows).fill("{}"));
    await seedUsage(live, ANA, rows);
    const [balanceId = ""] = await seedBalances(live, ANA, rows);
    await seedEntries(live, ANA, balanceId, rows);
    await seedConsents(live, ANA, rows);
    const dry = await counted("erase-person", { distinctId: ANA, dryRun: true });
    expect(dry.cost).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    const erasure = await counted("erase-person", { distinctId: ANA });
    expect(erasure.answer.status).toBe("completed");
    // Events, usage, balances with their grants, other entries, consents.
    const all = 6 * rows;
    expect(dry.cost.rowsRead).toBeLessThanOrEqual(2 * all + 30);
    expect(erasure.cost.roundTrips).toBe(7);
    expect(erasure.cost.rowsRead).toBeLessThanOrEqual(20 * all + 320);
    expect(erasure.cost.rowsWritten).toBeLessThanOrEqual(3 * all + 30);
    const again = await counted("erase-person", { distinctId: ANA });
    expect(again.cost).toMatchObject({ roundTrips: 3, rowsWritten: 0 });
    expect(again.cost.rowsRead).toBeLessThanOrEqual(30);
  },
);

it("an erasure reads rows in proportion to the person's ids", async () => {
  for (const count of [300, 3_000]) {
    const { app, counted } = await world();
    await seedPerson(app.environments.live, {}, [ANA, ...Array.from({ length: count }, (_, n) => `${ANA}-${n}`)]);
    const body = { distinctId: ANA, distinctIdCount: count + 1 };
    let rowsRead = 0;
    for (let status = "running", calls = 0; status === "running" && calls < 40; calls++) {
      const { answer, cost } = await counted("erase-person", body);
      ({ status } = answer);
      rowsRead += cost.rowsRead;
    }
    expect(rowsRead).toBeLessThanOrEqual(105 * count);
  }
});

it("an erasure scans no table, and never reads all rows of an environment", async () => {
  const tables = await env.DB.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all<{ name: string }>();
  const names = new Set(tables.results.map(({ name }) => name));
  const scans: string[] = [];
  // A search by the environment alone would read all its rows in one of these tables.
  const ofEnvironment =
    /^SEARCH (analytics_events|consent_log|distinct_ids|export_audit|id_properties|payments|rejections|stripe_customers|webhook_messages) .*\(environment_id=\?\)$/;
  for (const { text, params } of erasurePageStatements({ environmentId: 1, erasureId: "era_1", rows: 10 })) {
    const plan = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
      .bind(...params)
      .all<{ detail: string }>();
    for (const { detail } of plan.results)
      if (names.has(/^SCAN (\w+)/.exec(detail)?.[1] ?? "") || ofEnvironment.test(detail))
        scans.push(`${detail}: ${text}`);
  }
  expect(scans).toEqual([]);
});

it("a tombstone adds no trip and no row written to the writes of others", async () => {
  const { counted, app } = await world();
  const costs = async (n: number) => {
    await counted("credits/grant", { userId: "bo", packId: "Two" });
    const { cost: event } = await counted("usage/events", { eventId: `${n}`, userId: "bo", ...oneToken });
    const { cost: consent } = await counted("consent", { distinctId: "bo", purpose: "ads", decision: "denied" });
    const { cost: seen } = await counted("batch/", {
      api_key: app.keys.sk_live,
      batch: [{ event: "seen", distinct_id: "bo" }],
    });
    return { event, consent, seen };
  };
  await costs(1);
  const before = await costs(2);
  await counted("erase-person", { distinctId: ANA });
  await costs(3);
  const after = await costs(4);
  for (const [name, { roundTrips, rowsRead, rowsWritten }] of Object.entries(before)) {
    expect(after).toMatchObject({ [name]: { roundTrips, rowsWritten } });
    expect(after[name as keyof typeof after].rowsRead).toBeLessThanOrEqual(rowsRead + 12);
  }
});
