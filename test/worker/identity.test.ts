import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IdentityModel, type ModelEvent } from "../support/identity-model.ts";
import { eventsOf, exportOf, personEventUuids, personOf, type SentEvent, send } from "../support/people.ts";
import { Clock, makeApp, makeClient } from "../support/world.ts";

const IDS = ["ana", "bob", "device-1", "device-2", "device-3", "anonymous", ' "NULL" '];

const wire = ({ uuid, kind, id, other }: ModelEvent): SentEvent => {
  const common = { uuid, distinct_id: id };
  if (kind === "capture") return { ...common, event: "seen", properties: {} };
  if (kind === "personless") return { ...common, event: "seen", properties: { $process_person_profile: false } };
  if (kind === "identify") {
    return { ...common, event: "$identify", properties: other === undefined ? {} : { $anon_distinct_id: other } };
  }
  return { ...common, event: "$create_alias", properties: { distinct_id: id, alias: other } };
};

const id = fc.constantFrom(...IDS);
const step = fc.oneof(
  fc.record({ kind: fc.constantFrom("capture" as const, "personless" as const), id }),
  fc.record({ kind: fc.constant("identify" as const), id, other: fc.option(id, { nil: undefined }) }),
  fc.record({ kind: fc.constant("alias" as const), id, other: id }),
);
/** Requests of a few events each. */
const history = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 8 });

describe("identity", () => {
  it("gives every id exactly the events that the union-find gives it, after any history", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (requests) => {
        const call = makeClient(new Clock());
        const app = await makeApp();
        const model = new IdentityModel();
        for (const request of requests) {
          const events = request.map((event): ModelEvent => {
            const { other, ...rest } = { other: undefined, ...event };
            return { ...rest, uuid: crypto.randomUUID(), ...(other === undefined ? {} : { other }) };
          });
          await send(call, app.keys.pk_live, events.map(wire));
          for (const event of events) model.play(event);
        }
        for (const distinctId of IDS) {
          const expected = model.eventUuidsOf(distinctId);
          expect(await personEventUuids(app, distinctId), distinctId).toEqual(expected);
          const document = await exportOf(call, app, distinctId);
          expect(document.events.analytics.map((event) => event.uuid).sort(), distinctId).toEqual(expected);
          const { person } = await personOf(app, distinctId);
          expect(person?.isIdentified ?? null, distinctId).toBe(model.isIdentified(distinctId));
        }
      }),
      { numRuns: 20 },
    );
  }, 120_000);

  it("keeps seq gapless and event_count true, however requests interleave", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const events = Array.from({ length: 40 }, (_, index): SentEvent => {
      const anonymous = `device-${index % 3}`;
      if (index % 10 === 9) {
        return {
          event: "$identify",
          distinct_id: "ana",
          properties: { $anon_distinct_id: anonymous, $set: { index } },
        };
      }
      return {
        event: "seen",
        distinct_id: index % 2 === 0 ? anonymous : "ana",
        properties: { $set_once: { [index]: 1 } },
      };
    });
    await Promise.all(events.map((event) => send(call, app.keys.pk_live, [event])));
    const { results } = await env.DB.prepare(
      `SELECT d.distinct_id, d.event_count AS counted, count(*) AS n, max(e.seq) AS last
       FROM person_distinct_ids AS d JOIN analytics_events AS e USING (environment_id, distinct_id)
       WHERE d.environment_id = ? GROUP BY 1`,
    )
      .bind(app.environments.live.id)
      .all<{ counted: number; n: number; last: number }>();
    expect(results.reduce((sum, row) => sum + row.n, 0)).toBe(40);
    for (const row of results) expect(row).toMatchObject({ counted: row.n, last: row.n });
    const { person, distinctIds } = await personOf(app, "ana");
    expect(distinctIds.map((row) => row.distinctId).sort()).toEqual(["ana", "device-0", "device-1", "device-2"]);
    const properties = JSON.parse(person?.properties ?? "{}");
    const once = events.flatMap((_, index) => (index % 10 === 9 ? [] : [`${index}`]));
    expect(Object.keys(properties).sort()).toEqual([...once, "index"].sort());
  });

  it("leaves one person and loses no event when twenty requests make the same person at once", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const one = (index: number): SentEvent => ({
      event: "seen",
      distinct_id: "ana",
      properties: { $set: { [`k${index}`]: index } },
    });
    await Promise.all(Array.from({ length: 20 }, (_, index) => send(call, app.keys.pk_live, [one(index)])));
    expect(await eventsOf(app, "ana")).toHaveLength(20);
    const { results } = await env.DB.prepare("SELECT properties FROM persons WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .all<{ properties: string }>();
    expect(results).toHaveLength(1);
    expect(Object.keys(JSON.parse(results[0]?.properties ?? "{}"))).toHaveLength(20);
  });

  it("tells how and when each id was linked", async () => {
    const clock = new Clock();
    const call = makeClient(clock);
    const app = await makeApp();
    const times = [clock.ms];
    const later = () => {
      clock.advance(1_000);
      times.push(clock.ms);
    };
    await send(call, app.keys.pk_live, [{ event: "seen", distinct_id: "device-1" }]);
    later();
    await send(call, app.keys.pk_live, [
      { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "device-1" } },
    ]);
    later();
    await send(call, app.keys.pk_live, [
      { event: "$create_alias", distinct_id: "ana", properties: { alias: "crm-7" } },
    ]);
    await send(call, app.keys.pk_live, [{ event: "seen", distinct_id: "device-2" }]);
    later();
    await send(call, app.keys.pk_live, [
      { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "device-2" } },
    ]);
    const { person, distinctIds } = await personOf(app, "device-2");
    expect(person).toMatchObject({ isIdentified: true, createdAtMs: times[0], lastSeenAtMs: times[3] });
    expect(distinctIds.map(({ distinctId, via, linkedAtMs }) => [distinctId, via, linkedAtMs])).toEqual([
      ["device-1", "capture", times[0]],
      ["ana", "identify", times[1]],
      ["crm-7", "alias", times[2]],
      ["device-2", "merge", times[3]],
    ]);
  });

  it("lets the properties of `distinct_id` win a merge, and applies $set_once, $set and $unset as PostHog does", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    await send(call, app.keys.pk_live, [
      { event: "seen", distinct_id: "device-1", properties: { $set: { plan: "free", city: "Ghent" } } },
      { event: "seen", distinct_id: "ana", properties: { $set: { plan: "gold" }, $set_once: { first: "a" } } },
      {
        event: "$identify",
        distinct_id: "ana",
        $set_once: { first: "b", last: "c" },
        properties: { $anon_distinct_id: "device-1" },
      },
      { event: "seen", distinct_id: "device-1", $set: { plan: "silver" }, properties: { $unset: ["last"] } },
      { event: "seen", distinct_id: "ana", properties: { $process_person_profile: false, $set: { plan: "none" } } },
    ]);
    const { person } = await personOf(app, "device-1");
    expect(JSON.parse(person?.properties ?? "")).toEqual({ plan: "silver", city: "Ghent", first: "a" });
  });

  it("never merges a person who is identified, and keeps the event that asked for it", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    await send(call, app.keys.pk_live, [
      { event: "$identify", distinct_id: "ana" },
      { event: "$identify", distinct_id: "bob" },
      { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "bob" } },
      { event: "$create_alias", distinct_id: "ana", properties: { alias: "bob" } },
    ]);
    expect((await personOf(app, "ana")).distinctIds).toHaveLength(1);
    expect((await eventsOf(app, "ana")).map((event) => event.event)).toEqual([
      "$identify",
      "$identify",
      "$create_alias",
    ]);
  });

  it("takes $merge_dangerously as a plain event", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    await send(call, app.keys.pk_live, [
      { event: "$merge_dangerously", distinct_id: "ana", properties: { alias: "bob" } },
    ]);
    expect((await personOf(app, "bob")).person).toBeNull();
    expect(await eventsOf(app, "ana")).toHaveLength(1);
  });

  it("joins a person of ten thousand ids to another, all ids and events with them", async () => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const key = app.keys.pk_live;
    for (let start = 0; start < 10_000; start += 2_500) {
      const aliases = Array.from({ length: 2_500 }, (_, index) => ({
        event: "$create_alias",
        distinct_id: "many",
        properties: { alias: `alias-${start + index}` },
      }));
      await send(call, key, aliases);
    }
    await send(call, key, [
      { event: "seen", distinct_id: "alias-9999" },
      { event: "$identify", distinct_id: "ana" },
      { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "alias-5000" } },
    ]);
    const { person, distinctIds } = await personOf(app, "alias-1");
    expect(person?.isIdentified).toBe(true);
    expect(distinctIds).toHaveLength(10_002);
    expect(await personEventUuids(app, "ana")).toHaveLength(10_003);
    const document = await exportOf(call, app, "alias-77");
    expect(document.person?.distinctIds).toHaveLength(10_002);
    expect(document.events.analytics).toHaveLength(10_003);
    expect((await personOf(app, "many")).person?.id).toBe(person?.id);
  });
});
