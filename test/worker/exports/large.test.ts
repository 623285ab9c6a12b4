import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { auditOf, documentOf, linkTo, open, readAll, readDocument } from "../../support/exports.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { seedAnalytics, seedBalances, seedPerson } from "../../support/seed-rows.ts";
import { isSoak, soakPart, timeoutOf } from "../../support/soak.ts";
import { Clock, makeApp, type TestApp } from "../../support/world.ts";

/** The size of the person's data: the maximum in `npm run soak`, and less otherwise. */
const [IDS, BALANCES, EVENTS] = isSoak ? [400_000, 10_000, 2_000] : [9_000, 1_200, 40];
const LARGEST = "x".repeat(256 * 1_024 - 12);

/** A D1 that counts queries as the platform does: each statement of a batch is one. */
function countingQueries() {
  let queries = 0;
  const d1 = hookedD1(env.DB, async (_, statements) => {
    queries += statements;
  });
  return { d1, spent: () => queries };
}

async function claimIds(app: TestApp, count: number): Promise<void> {
  for (let from = 1; from <= count; from += 50_000) {
    await env.DB.prepare(
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
         claimed_via, claimed_at_ms)
       WITH RECURSIVE n (i) AS (SELECT CAST(?2 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
       SELECT CAST(?1 AS INTEGER), printf('%08x-0000-4000-8000-%012x', i, i), 1, 1, 1, 'ana', 'alias', i FROM n`,
    )
      .bind(app.environments.live.id, from, Math.min(count, from + 49_999))
      .run();
  }
}

/** Reads a document to its end. Returns how often `word` is in it, and whether it is complete. */
async function readCounting(app: TestApp, d1: D1Database, word: string) {
  const clock = new Clock();
  const response = await open(await linkTo(app, "ana", clock), clock, d1);
  const decoder = new TextDecoder();
  let words = 0;
  let tail = "";
  for await (const chunk of response.body ?? []) {
    const text = tail + decoder.decode(chunk, { stream: true });
    words += text.split(word).length - 1;
    tail = text.slice(1 - word.length);
  }
  return { status: response.status, words, isWhole: tail.endsWith("]}") };
}

it("a large export is complete with many claimed ids", { timeout: timeoutOf(IDS, 5) }, async () => {
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await claimIds(app, IDS);
  const { d1, spent } = countingQueries();
  const tell = soakPart("an export of many ids", IDS, "ids");
  const { status, words, isWhole } = await readCounting(app, d1, '"linkedAt"');
  tell(IDS);
  expect([status, words, isWhole]).toEqual([200, IDS + 1, true]);
  expect(spent()).toBeLessThanOrEqual(900);
});

it("a large export is complete with many balances", { timeout: timeoutOf(BALANCES, 50) }, async () => {
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await seedBalances(app.environments.live, "ana", BALANCES);
  const { d1, spent } = countingQueries();
  const tell = soakPart("an export of many balances", BALANCES, "balances");
  const { status, words, isWhole } = await readCounting(app, d1, '"externalRef"');
  tell(BALANCES);
  expect([status, words, isWhole]).toEqual([200, BALANCES, true]);
  expect(spent()).toBeLessThanOrEqual(20 + BALANCES / 250);
});

it("a large export is complete with many events of the largest size, several to a query", {
  timeout: timeoutOf(EVENTS, 500),
}, async () => {
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  for (let seeded = 0; seeded < EVENTS; seeded += 40) {
    await seedAnalytics(app.environments.live, "ana", Array(40).fill(JSON.stringify({ text: LARGEST })));
  }
  const { d1, spent } = countingQueries();
  const tell = soakPart("an export of large events", EVENTS, "events of 256 KiB");
  const { status, words, isWhole } = await readCounting(app, d1, '"uuid"');
  tell(EVENTS);
  expect([status, words, isWhole]).toEqual([200, EVENTS, true]);
  expect(spent()).toBeLessThanOrEqual(20 + (EVENTS * LARGEST.length) / 2_000_000);
});

async function withProperties(): Promise<TestApp> {
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await claimIds(app, 200);
  await env.DB.prepare(
    `INSERT INTO id_properties (environment_id, distinct_id, properties)
       SELECT environment_id, distinct_id, json_object('nearest', distinct_id, distinct_id, 1.5, 'text', ?2)
       FROM distinct_ids WHERE environment_id = ?1`,
  )
    .bind(app.environments.live.id, "y".repeat(40_000))
    .run();
  return app;
}

it("properties of many ids are one object, with each name from the nearest id", async () => {
  const app = await withProperties();
  const { d1, spent } = countingQueries();
  const { person } = await documentOf(app, "ana", new Clock(), d1);
  expect(Object.keys(person?.properties ?? {})).toHaveLength(203);
  expect(person?.properties).toMatchObject({ nearest: "ana", ana: 1.5 });
  expect(spent()).toBeLessThanOrEqual(32);
});

it("properties that change, grow or go after the snapshot are as they are when they are read", async () => {
  const app = await withProperties();
  const clock = new Clock();
  let trips = 0;
  const d1 = hookedD1(env.DB, async () => {
    if (++trips !== 3) return;
    // The largest properties that ids may have are eight times what the snapshot counted for a page.
    await env.DB.prepare(
      `UPDATE id_properties SET version = 2, properties = json_object('nearest', 'later', distinct_id || '-later', ?2)
         WHERE environment_id = ?1`,
    )
      .bind(app.environments.live.id, "z".repeat(64_000))
      .run();
  });
  const text = await readAll(await open(await linkTo(app, "ana", clock), clock, d1));
  const { person } = readDocument(text);
  const later = Object.keys(person?.properties ?? {}).filter((name) => name.endsWith("-later"));
  // The snapshot has the properties of the requested id.
  expect(person?.properties).toMatchObject({ nearest: "ana" });
  expect(later.length).toBeGreaterThan(150);
  expect(await auditOf(app, "ana")).toEqual(["opened", "completed"]);
});

it.each([1, 10, 40, 150, 151, 400])(
  "an export reads at most 1.05 rows for each of its rows and 8 for each id, for a person of %i ids",
  async (count) => {
    const app = await makeApp();
    const { live } = app.environments;
    await seedPerson(live, {}, ["ana"]);
    await claimIds(app, count - 1);
    await env.DB.prepare(
      `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
     SELECT environment_id, distinct_id, 1, 'of-' || distinct_id, 'seen', 1, 1, '{}' FROM distinct_ids WHERE environment_id = ?`,
    )
      .bind(live.id)
      .run();
    await env.DB.prepare("UPDATE distinct_ids SET event_count = 1 WHERE environment_id = ?").bind(live.id).run();
    const counting = countingD1(env.DB);
    const { person, events } = await documentOf(app, "ana", new Clock(), counting.d1);
    const rows = events.analytics.length + (person?.distinctIds.length ?? 0) + (person?.exports.length ?? 0);
    expect(rows).toBe(2 * count + 1);
    // 49 rows are fixed: of the application, the audit, the bounds, the looks for notes and limits, and the opening that an erasure would move.
    expect(counting.spent().rowsRead).toBeLessThanOrEqual(1.05 * rows + 8 * count + 49);
  },
);
