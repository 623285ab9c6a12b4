import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { scheduled } from "../../../../src/cron.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { deleteOldAnalytics } from "../../../../src/people/capture/delete-old-events.ts";
import { readSettings } from "../../../../src/settings.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart } from "../../../support/cron.ts";
import { FAULTS, faultyD1 } from "../../../support/faulty-d1.ts";
import { eventsOf, exportOf, idOf, send } from "../../../support/people.ts";
import { withoutTrigger } from "../../../support/without-trigger.ts";
import { type Bindings, bound, Clock, makeApp, makeClient } from "../../../support/world.ts";

const RETENTION: Bindings = { ANALYTICS_RETENTION_DAYS: "30" };

// Deletes the events of other test files, which no test needs any more.
beforeEach(async () => {
  await withoutTrigger("analytics_events_kept", env.DB.prepare("DELETE FROM analytics_events"));
});

async function world() {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const runtime = { isolate: {}, now: clock.now, newId: randomId };
  const root = (bindings: Bindings = RETENTION) => systemCtx(bound(bindings), runtime);
  let n = 0;
  /** Sends `events` events of an id, and then lets a day pass. */
  const seen = async (distinctId: string, events: number) => {
    const batch = Array.from({ length: events }, () => ({
      event: "seen",
      distinct_id: distinctId,
      properties: { n: ++n },
    }));
    await send(call, app.keys.pk_live, batch);
    clock.advance(DAY_MS);
  };
  const left = async (distinctId: string) =>
    (await eventsOf(app, distinctId)).map(({ seq, properties }) => [seq, JSON.parse(properties).n]);
  const cron = (bindings: Bindings) => scheduled(bound(bindings), runtime);
  return { clock, call, app, root, seen, left, cron };
}

it("retention deletes older events, keeps the rest, and exports and counts stay exact", async () => {
  const { clock, call, app, seen, left, cron } = await world();
  await call("POST", "/api/v1/consent", {
    key: app.keys.sk_live,
    body: { distinctId: "ana", purpose: "ads", decision: "denied" },
  });
  await seen("ana", 3);
  await seen("ana", 2);
  await seen("bo", 2);
  clock.advance(30 * DAY_MS - 3 * DAY_MS);
  await cron({});
  await cron(RETENTION);
  expect(await left("ana")).toHaveLength(5);
  clock.advance(1);
  await cron(RETENTION);
  const rest = [
    [4, 4],
    [5, 5],
  ];
  expect(await left("ana")).toEqual(rest);
  const exported = await exportOf(call, app, "ana");
  expect(exported.events.analytics.map(({ properties }) => properties)).toEqual([{ n: 4 }, { n: 5 }]);
  expect(exported.consentLog).toHaveLength(1);
  const dry = { key: app.keys.sk_live, body: { distinctId: "ana", dryRun: true } };
  expect((await call("POST", "/api/v1/erase-person", dry)).body.erased.analytics).toBe(2);
  expect(await idOf(app, "ana")).toMatchObject({ eventCount: 5, eventBytes: 2 * '{"n":4}'.length, isSender: 1 });
});

it("retention may delete all events of an id, whose next event is counted, limited and exported", async () => {
  const { clock, call, app, root, seen, left } = await world();
  await seen("ana", 3);
  clock.advance(30 * DAY_MS);
  expect(await runPart(deleteOldAnalytics, root())).toEqual([]);
  expect(await left("ana")).toEqual([]);
  const { person, events } = await exportOf(call, app, "ana");
  expect(events.analytics).toEqual([]);
  expect(person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual(["ana"]);
  await send(call, app.keys.pk_live, [{ event: "$identify", distinct_id: "ana" }]);
  await seen("ana", 1);
  expect((await left("ana")).map(([seq]) => seq)).toEqual([4, 5]);
  expect((await idOf(app, "ana"))?.eventCount).toBe(5);
  expect((await exportOf(call, app, "ana")).events.analytics).toHaveLength(2);
  const day = await env.DB.prepare(
    "SELECT d.day_events AS ofId, a.events AS ofAll FROM distinct_ids AS d JOIN analytics_days AS a USING (environment_id, day) WHERE environment_id = ?",
  )
    .bind(app.environments.live.id)
    .first();
  expect(day).toEqual({ ofId: 2, ofAll: 2 });
});

it("retention takes bounded steps, oldest events first, and reads one row if no event is old", async () => {
  const { clock, app, root, seen, left } = await world();
  await seen("ana", 7);
  const counting = countingD1(env.DB);
  const run = () =>
    runPart((ctx) => deleteOldAnalytics(ctx, { steps: 2, events: 2 }), root({ ...RETENTION, DB: counting.d1 }));
  await run();
  expect(counting.spent()).toEqual({ roundTrips: 1, rowsRead: 1, rowsWritten: 0 });
  clock.advance(30 * DAY_MS);
  for (const seqs of [[5, 6, 7], []]) {
    await run();
    expect((await left("ana")).map(([seq]) => seq)).toEqual(seqs);
    expect(counting.spent().roundTrips).toBe(3);
    expect((await idOf(app, "ana"))?.eventBytes).toBe(seqs.length * '{"n":4}'.length);
  }
});

it.each(FAULTS)("retention counts deleted events once, whichever trip fails: %s", async (fault) => {
  const { clock, app, root, seen, left } = await world();
  await seen("ana", 5);
  clock.advance(30 * DAY_MS);
  const faulty = faultyD1(env.DB);
  faulty.plan({ fault, at: 3, persists: true });
  const inMinor: typeof deleteOldAnalytics = (ctx) => deleteOldAnalytics(ctx, { steps: 2, events: 1 });
  const failures = await runPart(inMinor, root({ ...RETENTION, DB: faulty.d1 }));
  expect(failures).toHaveLength(1);
  const stored = await idOf(app, "ana");
  expect(stored?.eventBytes).toBe((await left("ana")).length * '{"n":4}'.length);
  await runPart(deleteOldAnalytics, root());
  expect(await left("ana")).toEqual([]);
  expect((await idOf(app, "ana"))?.eventBytes).toBe(0);
});

it("ANALYTICS_RETENTION_DAYS is a whole number of days from 1, and any other value is logged once", () => {
  const log = vi.spyOn(console, "error").mockReturnValue();
  const daysOf = (text?: string) => readSettings(text === undefined ? {} : { ANALYTICS_RETENTION_DAYS: text });
  for (const text of [undefined, ""]) expect(daysOf(text).analyticsRetentionDays).toBeNull();
  for (const [text, days] of [
    ["1", 1],
    ["400", 400],
  ] as const) {
    expect(daysOf(text).analyticsRetentionDays).toBe(days);
  }
  expect(log).not.toHaveBeenCalled();
  for (const text of ["0", "-1", "1.5", "07", " 7", "week", "1e3", "1000000"]) {
    const bindings = { ANALYTICS_RETENTION_DAYS: text };
    expect(readSettings(bindings).analyticsRetentionDays).toBeNull();
    readSettings(bindings);
    expect(log.mock.calls).toEqual([
      [JSON.stringify({ level: "error", code: "setting_malformed", setting: "ANALYTICS_RETENTION_DAYS" })],
    ]);
    log.mockClear();
  }
});
