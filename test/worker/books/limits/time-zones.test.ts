import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { refreshOffsets } from "../../../../src/books/limits/refresh-offsets.ts";
import { makeStatements } from "../../../../src/books/statements/make-statements.ts";
import { HOUR_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart, sumDaysOf } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeAdminCtx, type TestApp } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const BERLIN = { timeZone: "Europe/Berlin" };

const LIMIT = { mode: "live", name: "Zoned", unit: "count", amount: 10, every: "day" };
const ZONES = "SELECT count(DISTINCT time_zone) AS zones FROM usage_limits WHERE time_zone <> 'UTC'";

/** The offsets that are stored with the environment's limits, which its snapshot must repeat. */
async function offsetsOf(app: TestApp): Promise<readonly number[]> {
  const { id } = app.environments.live;
  const rows = await env.DB.prepare(
    `SELECT l.utc_offset_ms AS stored, s.value ->> '$.utcOffsetMs' AS copied FROM usage_limits AS l
     JOIN environments AS e ON e.id = l.environment_id JOIN json_each(e.settings_snapshot, '$.limits') AS s ON s.value ->> '$.id' = l.id
     WHERE e.id = ? ORDER BY l.ordinal`,
  )
    .bind(id)
    .all<{ stored: number; copied: number }>();
  expect(rows.results.map(({ copied }) => copied)).toEqual(rows.results.map(({ stored }) => stored));
  return rows.results.map(({ stored }) => stored);
}

/** Sets the clock before the first request that reads it. */
async function berlinWorld(at: string, limits: readonly object[] = [BERLIN]) {
  const world = await limitsWorld({ limits });
  world.clock.ms = Date.parse(at);
  return world;
}

it.each([
  ["day", "Pacific/Auckland", "2026-01-16T11:00:00.000Z"],
  ["week", "America/Los_Angeles", "2026-01-19T08:00:00.000Z"],
  ["month", "asia/kathmandu", "2026-01-31T18:15:00.000Z"],
  ["day", undefined, "2026-01-16T00:00:00.000Z"],
])(
  "a usage limit with a time zone of a %s in %s resets at the zone's own midnight, and shows its zone as sent",
  async (every, timeZone, resetsAt) => {
    const { admin, checkpoints, app } = await limitsWorld({ limits: [{ every, timeZone }] });
    const shown = { every, timeZone: timeZone ?? "UTC" };
    expect((await admin("GET", "/usage-limits?mode=live")).body.limits).toMatchObject([shown]);
    expect(await checkpoints()).toMatchObject([{ ...shown, resetsAt }]);
    const row = "SELECT time_zone FROM usage_limits WHERE environment_id = ?";
    expect(await env.DB.prepare(row).bind(app.environments.live.id).first("time_zone")).toBe(shown.timeZone);
  },
);

it.each(["minute", "hour"])(
  "a usage limit with a time zone of a %s is rejected, whatever the zone, and has null as its zone",
  async (every) => {
    const { admin, makeLimit, checkpoints } = await limitsWorld({ limits: [] });
    const limit = { mode: "live", name: "Zoned", unit: "count", amount: 10, every };
    for (const timeZone of ["Europe/Berlin", "UTC", "Nowhere", null]) {
      expectError(await admin("POST", "/usage-limits", { ...limit, timeZone }), "invalid_request", "timeZone");
    }
    await makeLimit({ every });
    expect((await admin("GET", "/usage-limits?mode=live")).body.limits).toMatchObject([{ every, timeZone: null }]);
    expect(await checkpoints()).toMatchObject([{ timeZone: null }]);
  },
);

it.each([["+01:00"], ["IST"], ["GMT+2"], ["Europe/Atlantis"], [""], [" UTC"], [null], [2]])(
  "a usage limit with a time zone is rejected for %j, which is no name of a zone, and nothing is written",
  async (timeZone) => {
    const { admin } = await limitsWorld({ limits: [] });
    const limit = { mode: "live", name: "Zoned", unit: "count", amount: 10, every: "day", timeZone };
    expectError(await admin("POST", "/usage-limits", limit), "invalid_request", "timeZone");
    expect((await admin("GET", "/usage-limits?mode=live")).body.limits).toEqual([]);
  },
);

it("a usage limit with a time zone keeps its zone when it is changed, and a change of the zone is rejected", async () => {
  const { admin, limitIds } = await limitsWorld({ limits: [BERLIN] });
  const path = `/usage-limits/${limitIds[0]}`;
  expectError(await admin("PATCH", path, { timeZone: "UTC" }), "invalid_request", "timeZone");
  expect((await admin("PATCH", path, { amount: 11 })).body).toMatchObject(BERLIN);
});

it.each([
  ["2026-03-28T22:59:59.999Z", "2026-03-28T23:00:00.000Z", 23],
  ["2026-10-24T21:59:59.999Z", "2026-10-24T22:00:00.000Z", 25],
])(
  "a usage limit with a time zone counts a day of other than 24 hours when clocks change, from %s",
  async (before, midnight, hours) => {
    const { clock, use, event, checkpoints } = await berlinWorld(before);
    await use(10);
    expect((await event(1)).body.error.details).toMatchObject({ used: 10, resetsAt: midnight });
    clock.ms = Date.parse(midnight);
    await use(10);
    const endMs = clock.ms + hours * HOUR_MS;
    expect(await checkpoints()).toMatchObject([{ used: 10, resetsAt: new Date(endMs).toISOString() }]);
    clock.ms = endMs - 1;
    expect((await event(1)).headers.get("retry-after")).toBe("1");
    clock.ms = endMs;
    await use(1);
  },
);

it("a usage limit with a time zone counts a hold in the day in which it was made, and its commit in the day of the commit", async () => {
  const { clock, holdOk, commit, checkpoints } = await berlinWorld("2026-03-28T22:59:30.000Z");
  const id = await holdOk(4);
  expect(await checkpoints()).toMatchObject([{ used: 4 }]);
  clock.advance(30_000);
  expect(await checkpoints()).toMatchObject([{ used: 0 }]);
  expect((await commit(id, 3)).status).toBe(200);
  expect(await checkpoints()).toMatchObject([{ used: 3, resetsAt: "2026-03-29T22:00:00.000Z" }]);
});

it("a usage limit with a time zone lets exactly its amount pass of many racing events on a night when clocks change", async () => {
  const { event, used, callOk } = await berlinWorld("2026-10-24T22:00:00.000Z");
  const answers = await Promise.all(Array.from({ length: 25 }, () => event(1)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(await used()).toEqual([10]);
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

/** Replaces the zone of the environment's limits, as if its rules were other ones. */
const replaceZone = (environmentId: number, timeZone: string) =>
  env.DB.prepare(
    "UPDATE environments SET settings_snapshot = replace(settings_snapshot, 'Europe/Berlin', ?) WHERE id = ?",
  )
    .bind(timeZone, environmentId)
    .run();

it.each([
  ["an hour later", "Europe/London", "2026-01-16T00:00:00.000Z"],
  ["an hour earlier", "Europe/Athens", "2026-01-16T22:00:00.000Z"],
])(
  "a counter keeps the end of its window, and its usage, if other rules of its zone say %s",
  async (_, timeZone, nextEnd) => {
    const { app, clock, use, event, used, checkpoints, holdOk, release } =
      await berlinWorld("2026-01-15T12:00:00.000Z");
    const resetsAt = "2026-01-15T23:00:00.000Z";
    await use(6);
    await replaceZone(app.environments.live.id, timeZone);
    await use(1);
    // Now the isolate remembers the account with the other rules, but no counter.
    await use(2);
    expect(await used()).toEqual([9]);
    expect(await checkpoints()).toMatchObject([{ resetsAt }]);
    expect((await event(2)).body.error.details).toMatchObject({ used: 9, resetsAt });
    expect((await release(await holdOk(1))).status).toBe(200);
    expect(await used()).toEqual([9]);
    clock.ms = Date.parse(resetsAt) - 1;
    expect((await event(2)).status).toBe(429);
    clock.ms = Date.parse(resetsAt);
    await use(10);
    expect(await checkpoints()).toMatchObject([{ used: 10, resetsAt: nextEnd }]);
  },
);

it("a counter costs the same trips and rows with a zone as without, one trip if the isolate remembers the account", async () => {
  const { d1, spent } = countingD1(env.DB);
  const costs: unknown[] = [];
  for (const limit of [BERLIN, {}]) {
    const { use } = await limitsWorld({ limits: [limit], bindings: { DB: d1 } });
    await use(1);
    await use(1);
    spent();
    await use(1);
    costs.push(spent());
  }
  expect(costs[0]).toMatchObject({ roundTrips: 1 });
  expect(costs[0]).toEqual(costs[1]);
});

it("the cron keeps each zone's last known offset, so a zone that is no longer known is read at the offset of the season", async () => {
  const zones = [BERLIN, { timeZone: "asia/kolkata", every: "month" }, {}, { every: "hour" }];
  const world = await berlinWorld("2026-03-01T12:00:00.000Z", zones);
  const { app, clock, admin, checkpoints, use } = world;
  const deleted = (await admin("POST", "/usage-limits", { ...LIMIT, ...BERLIN })).body.limitId;
  expect((await admin("DELETE", `/usage-limits/${deleted}`)).status).toBe(200);
  const [, ...others] = await offsetsOf(app);
  for (const [at, hours] of [
    ["2026-03-29T00:59:59.999Z", 1],
    ["2026-03-29T01:00:00.000Z", 2],
    ["2026-10-25T00:59:59.999Z", 2],
    ["2026-10-25T01:00:00.000Z", 1],
    ["2027-06-01T00:00:00.000Z", 2],
  ] as const) {
    clock.ms = Date.parse(at);
    expect(await runPart(refreshOffsets, makeAdminCtx(clock))).toEqual([]);
    expect([at, await offsetsOf(app)]).toEqual([at, [hours * HOUR_MS, ...others]]);
  }
  // Sends the changed features to the isolate, which then judges by them.
  await use(1);
  await replaceZone(app.environments.live.id, "Europe/Atlantis");
  expect((await checkpoints())[0].resetsAt).toBe("2027-06-01T22:00:00.000Z");
});

it("the cron reads a few rows for each zone, and writes nothing if no clocks have changed", async () => {
  const { clock } = await limitsWorld({ limits: [BERLIN, BERLIN, BERLIN] });
  await limitsWorld({ limits: [BERLIN, { timeZone: "Asia/Tokyo" }] });
  const { d1, spent } = countingD1(env.DB);
  const root = makeAdminCtx(clock, d1);
  await runPart(refreshOffsets, root);
  const [{ zones }] = (await env.DB.prepare(ZONES).all<{ zones: number }>()).results as [{ zones: number }];
  spent();
  await runPart(refreshOffsets, root);
  const { roundTrips, rowsRead, rowsWritten } = spent();
  expect({ roundTrips, rowsWritten }).toEqual({ roundTrips: 1, rowsWritten: 0 });
  expect(rowsRead).toBeLessThanOrEqual(5 * zones + 2);
});

it("a zone that the runtime does not know is read at its last known offset, and fails no write", async () => {
  const { app, clock, use, event, hold, checkpoints, admin, limitIds } = await limitsWorld({ limits: [BERLIN] });
  await replaceZone(app.environments.live.id, "Europe/Atlantis");
  await use(10);
  expect((await event(1)).status).toBe(429);
  clock.ms = Date.parse("2026-01-15T23:00:00.000Z");
  expect((await hold(1)).status).toBe(200);
  expect(await checkpoints()).toMatchObject([{ used: 1, resetsAt: "2026-01-16T23:00:00.000Z" }]);
  expect((await admin("PATCH", `/usage-limits/${limitIds[0]}`, { amount: 20 })).status).toBe(200);
});

it("day sums, the times of totals and statements are in UTC, whatever the zone of limits and grants", async () => {
  const zone = { timeZone: "Pacific/Auckland" };
  const world = await berlinWorld("2026-01-31T22:00:00.000Z", [zone, { ...zone, every: "month" }]);
  const { app, clock, use, callOk, admin } = world;
  await use(1);
  const span = "from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z";
  const timesBy = async (groupBy: string): Promise<string[]> =>
    (await callOk("GET", `/usage?userId=u&${span}&groupBy=${groupBy}`)).totals.map(
      ({ time }: { time: string }) => time,
    );
  expect(await timesBy("day")).toEqual(["2026-01-31T00:00:00.000Z"]);
  expect(await timesBy("month")).toEqual(["2026-01-01T00:00:00.000Z"]);
  expect(await sumDaysOf(makeAdminCtx(clock), app.environments.live)).toEqual([]);
  const sums = (await admin("GET", `/usage?mode=live&${span}&groupBy=day`)).body.totals;
  expect(sums).toMatchObject([{ time: "2026-01-31T00:00:00.000Z", events: 1 }]);
  clock.ms = Date.parse("2026-02-01T01:00:00.000Z");
  const { statementId } = (await admin("POST", "/statements", { mode: "live", month: "2026-01" })).body;
  expect(await runPart(makeStatements, makeAdminCtx(clock))).toEqual([]);
  const statement = (await admin("GET", `/statements/${statementId}`)).body;
  expect(statement).toMatchObject({ month: "2026-01", lines: [{ unit: "count", spent: 1 }] });
});
