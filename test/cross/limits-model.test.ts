import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { DAY_MS } from "../../src/lib/time.ts";
import { createRandom } from "../support/random.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { atRandom, Clock, makeApp, makeClient } from "../support/world.ts";

const OPERATIONS = soakCount(120, 40);

interface Event {
  readonly uuid: string;
  readonly event: string;
  readonly distinct_id: string;
  readonly properties: object;
}

interface Limits {
  readonly eventsADay: number;
  readonly bytesADay: number;
  readonly eventsADayOfOneId: number;
  readonly bytesADayOfOneId: number;
}

interface Use {
  events: number;
  bytes: number;
}

/** All text is ASCII. An event counts its id twice, its name, its properties and 400 bytes; a record its id three times and 600. */
const bytesOf = ({ distinct_id: id, event, properties }: Event): number =>
  400 + 2 * id.length + event.length + JSON.stringify(properties).length;
const recordBytesOf = (id: string): number => 600 + 3 * id.length;
/** The stored size of a `$set` of one digit. */
const SET_BYTES = '{"n":0}'.length;

/** A model of rule L3: the stored events, and the used part of a day's limits. */
class Model {
  readonly stored = new Map<string, string>();
  #day = -1;
  #all: Use = { events: 0, bytes: 0 };
  #ofIds = new Map<string, Use>();
  readonly #known = new Set<string>();
  readonly #hasProperties = new Set<string>();

  /** The events and bytes that new events add, including new records and properties. */
  #useOf(events: readonly Event[]): Use {
    const ids = [...new Set(events.map((event) => event.distinct_id))];
    const records = ids.filter((id) => !this.#known.has(id)).map(recordBytesOf);
    const sets = ids.filter(
      (id) =>
        !this.#hasProperties.has(id) && events.some((event) => event.distinct_id === id && "$set" in event.properties),
    );
    const bytes = [...events.map(bytesOf), ...records, ...sets.map(() => SET_BYTES)].reduce(
      (sum, some) => sum + some,
      0,
    );
    return { events: events.length, bytes };
  }

  /** The result of each event, in the order of the batch. */
  send(batch: readonly Event[], day: number, limits: Limits, isCounted: boolean): string[] {
    if (day !== this.#day) {
      this.#day = day;
      this.#all = { events: 0, bytes: 0 };
      this.#ofIds = new Map();
    }
    const firsts = new Map(batch.toReversed().map((event) => [event.uuid, event]));
    const fresh = [...firsts.values()].filter(({ uuid }) => !this.stored.has(uuid));
    const isNothingLeft = this.#all.events >= limits.eventsADay || this.#all.bytes >= limits.bytesADay;
    if (isCounted && fresh.length > 0 && isNothingLeft) return batch.map(() => "drop");
    const over = new Set<string>();
    for (const id of isCounted ? new Set(fresh.map((event) => event.distinct_id)) : []) {
      const before = this.#ofIds.get(id) ?? { events: 0, bytes: 0 };
      const more = this.#useOf(fresh.filter((event) => event.distinct_id === id));
      if (before.events + more.events > limits.eventsADayOfOneId) over.add(id);
      if (before.bytes + more.bytes > limits.bytesADayOfOneId) over.add(id);
    }
    const kept = fresh.filter((event) => !over.has(event.distinct_id));
    const more = this.#useOf(kept);
    const isFull =
      isCounted &&
      kept.length > 0 &&
      (this.#all.events + more.events > limits.eventsADay || this.#all.bytes + more.bytes > limits.bytesADay);
    if (isFull) return batch.map(() => "drop");
    const dropped = new Set(fresh.filter((event) => over.has(event.distinct_id)).map(({ uuid }) => uuid));
    for (const event of kept) this.stored.set(event.uuid, event.distinct_id);
    if (isCounted) this.#count(kept);
    for (const event of kept) {
      this.#known.add(event.distinct_id);
      if ("$set" in event.properties) this.#hasProperties.add(event.distinct_id);
    }
    return batch.map(({ uuid }) => (dropped.has(uuid) ? "drop" : "ok"));
  }

  used(day: number): Use {
    return day === this.#day ? this.#all : { events: 0, bytes: 0 };
  }

  #count(kept: readonly Event[]): void {
    for (const [id, events] of Map.groupBy(kept, (event) => event.distinct_id)) {
      const more = this.#useOf(events);
      const before = this.#ofIds.get(id) ?? { events: 0, bytes: 0 };
      this.#ofIds.set(id, { events: before.events + more.events, bytes: before.bytes + more.bytes });
      this.#all = { events: this.#all.events + more.events, bytes: this.#all.bytes + more.bytes };
    }
  }
}

describe(`random analytics events, PROOF_SEED=${RANDOM_SEED}`, () => {
  it("are stored or dropped as the model of daily limits says, with three isolates, repeats, other days and changed limits", {
    timeout: timeoutOf(OPERATIONS, 1_000),
  }, async () => {
    console.info(`limits-model.test.ts: PROOF_SEED=${RANDOM_SEED}`);
    const random = createRandom(RANDOM_SEED);
    const clock = new Clock();
    const app = await makeApp();
    const call = makeClient(clock, {}, undefined, atRandom(3, random));
    const path = `/api/v1/admin/apps/${app.appId}/limits`;
    const model = new Model();
    const past: Event[] = [];
    let limits: Limits = { eventsADay: 40, bytesADay: 16_000, eventsADayOfOneId: 12, bytesADayOfOneId: 5_000 };
    const setLimits = () => call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", analytics: limits } });
    await setLimits();
    const someEvent = (): Event =>
      past.length > 0 && random.chance(0.25)
        ? random.pick(past)
        : {
            uuid: `00000000-0000-4000-8000-${random
              .integer(0, 2 ** 40)
              .toString(16)
              .padStart(12, "0")}`,
            event: "seen",
            distinct_id: `id-${random.integer(1, 5)}`,
            properties: random.chance(0.2)
              ? { $set: { n: random.integer(0, 3) } }
              : { n: "x".repeat(random.integer(0, 12)) },
          };
    const tell = soakPart("model of limits", OPERATIONS, "captures", RANDOM_SEED);
    for (let operation = 0; operation < OPERATIONS; operation++) {
      if (random.chance(0.08)) clock.advance(random.integer(1, DAY_MS));
      if (random.chance(0.06)) {
        limits = { ...limits, eventsADay: random.integer(0, 60), eventsADayOfOneId: random.integer(0, 20) };
        await setLimits();
      }
      const batch = Array.from({ length: random.integer(1, 8) }, someEvent);
      past.push(...batch);
      const isCounted = random.chance(0.85);
      const key = isCounted ? app.keys.pk_live : app.keys.sk_live;
      const { body } = await call("POST", "/i/v1/analytics/events", { key, body: { batch } });
      const day = Math.floor(clock.ms / DAY_MS);
      const expected = model.send(batch, day, limits, isCounted);
      const outcomes = batch.map(({ uuid }) => body.results[uuid].result);
      expect(outcomes, `operation ${operation}`).toEqual(expected);
      const { today } = (await call("GET", `${path}?mode=live`, { key: env.ADMIN_TOKEN })).body;
      expect({ events: today.events, bytes: today.bytes }, `operation ${operation}`).toEqual(model.used(day));
      tell();
    }
    const { results } = await env.DB.prepare(
      "SELECT uuid, distinct_id AS id FROM analytics_events WHERE environment_id = ? ORDER BY uuid",
    )
      .bind(app.environments.live.id)
      .all<{ uuid: string; id: string }>();
    expect(results).toEqual([...model.stored].sort().map(([uuid, id]) => ({ uuid, id })));
  });
});
