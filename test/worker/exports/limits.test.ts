import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { auditOf, linkTo, open, readAll } from "../../support/exports.ts";
import { seedAnalytics, seedPerson, seedUsage } from "../../support/seed-rows.ts";
import { isSoak, soakPart, timeoutOf } from "../../support/soak.ts";
import { Clock, makeApp, type TestApp } from "../../support/world.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

async function countedExport(app: TestApp, distinctId: string) {
  const clock = new Clock();
  const counting = countingD1(env.DB);
  const response = await open(await linkTo(app, distinctId, clock), clock, counting.d1);
  let bytes = 0;
  let end = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    end = (end + decoder.decode(chunk, { stream: true })).slice(-20);
  }
  return { ...counting.spent(), bytes, end };
}

/** Inserts analytics events of an id, and records `bytes` as their size. */
async function seedMany(app: TestApp, distinctId: string, events: number, bytes: number): Promise<void> {
  const { id } = app.environments.live;
  for (let from = 1; from <= events; from += 100_000) {
    await env.DB.prepare(
      `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
       WITH RECURSIVE n (i) AS (SELECT CAST(?2 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
       SELECT CAST(?1 AS INTEGER), ?4, i, 'u-' || ?4 || i, 'e', i, i, '{}' FROM n`,
    )
      .bind(id, from, Math.min(events, from + 99_999), distinctId)
      .run();
  }
  await env.DB.prepare(
    "UPDATE distinct_ids SET event_count = CAST(? AS INTEGER), event_bytes = CAST(? AS INTEGER) WHERE environment_id = ? AND distinct_id = ?",
  )
    .bind(events, bytes, id, distinctId)
    .run();
}

/**
 * With `npm run soak` a million of each. Otherwise fewer events with a larger recorded size, so that their pages have as many
 * rows as those of a million.
 */
const { events, recordedBytes, tripsMax } = isSoak
  ? { events: 1_000_000, recordedBytes: 2_000_000, tripsMax: 891 }
  : { events: 40_000, recordedBytes: 1_632_000_000, tripsMax: 40 };

it(
  "an export takes at most 900 queries for a million analytics events and a million usage events",
  async () => {
    const app = await makeApp();
    await seedPerson(app.environments.live, {}, ["ana"]);
    await seedMany(app, "ana", events, recordedBytes);
    for (let from = 1; from <= events; from += 100_000) {
      await seedUsage(app.environments.live, "ana", Math.min(events, from + 99_999), from);
    }
    const tell = soakPart("the largest export", 2 * events, "events");
    const { roundTrips, rowsRead, end, bytes } = await countedExport(app, "ana");
    tell(2 * events);
    expect(end.endsWith("]}")).toBe(true);
    expect(bytes).toBeGreaterThan(200 * events);
    // The snapshot is one trip of ten queries.
    expect(roundTrips).toBeLessThanOrEqual(tripsMax);
    expect(rowsRead).toBeLessThanOrEqual(1.05 * 2 * events);
  },
  timeoutOf(2 * events, 1),
);

it.each([
  {
    name: "more bytes of analytics than its queries can read",
    make: async (app: TestApp) => {
      await seedAnalytics(app.environments.live, "ana", ["{}"]);
      await env.DB.prepare("UPDATE distinct_ids SET event_bytes = 3000000000 WHERE environment_id = ?")
        .bind(app.environments.live.id)
        .run();
    },
  },
  {
    name: "more ids than fit into memory",
    make: async (app: TestApp) => {
      await env.DB.prepare(
        `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms,
           claimed_by, claimed_via, claimed_at_ms, claim_is_verified)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 50000)
         SELECT CAST(? AS INTEGER), printf('id%0420d', i), 0, 1, 1, 'ana', 'alias', 1, 1 FROM n`,
      )
        .bind(app.environments.live.id)
        .run();
    },
  },
])("an export of $name is refused before the first byte, and the failure is recorded", async ({ make }) => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await make(app);
  const response = await open(await linkTo(app, "ana", clock), clock);
  const { error } = JSON.parse(await readAll(response));
  expect([response.status, error.code, error.details]).toEqual([503, "export_unavailable", { reason: "too_large" }]);
  expect(response.headers.get("retry-after")).toBeNull();
  expect(JSON.parse(String(warn.mock.calls[0]?.[0]))).toMatchObject({ fault: "export_too_large" });
  expect(await auditOf(app, "ana")).toEqual(["opened", "failed"]);
});
