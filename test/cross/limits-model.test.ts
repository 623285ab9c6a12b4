import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { DAY_MS } from "../../src/lib/time.ts";
import { createRandom } from "../support/random.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { atRandom, Clock, makeApp, makeClient } from "../support/world.ts";

const OPERATIONS = soakCount(60, 40);

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

interface Stored {
  readonly id: string;
  readonly isVerified: boolean;
}

/** The events and bytes that new events add, the ids whose properties change, and the use of ids without a verified mark. */
interface Added extends Use {
  readonly unmarked: Use;
}

/** A model of rule L3: the stored events, and the used part of a day's limits. */
class Model {
  readonly stored = new Map<string, Stored>();
  #day = -1;
  #all: Use = { events: 0, bytes: 0 };
  #unmarked: Use = { events: 0, bytes: 0 };
  #ofIds = new Map<string, Use>();
  /** The limits that were in force when one was reached today. */
  #reached: string | null = null;
  readonly #known = new Set<string>();
  readonly #marked = new Set<string>();
  readonly #values = new Map<string, unknown>();

  #addedBy(events: readonly Event[]): Added {
    const sum = (some: readonly number[]) => some.reduce((total, one) => total + one, 0);
    const added: Added = { events: 0, bytes: 0, unmarked: { events: 0, bytes: 0 } };
    for (const [id, ofId] of Map.groupBy(events, (event) => event.distinct_id)) {
      let isSet = false;
      let value = this.#values.get(id);
      for (const { properties } of ofId) {
        if (!("$set" in properties)) continue;
        const { n } = properties.$set as { n: unknown };
        isSet ||= n !== value;
        value = n;
      }
      const record = this.#known.has(id) ? 0 : recordBytesOf(id);
      const bytes = sum(ofId.map(bytesOf)) + record + (isSet ? SET_BYTES : 0);
      for (const use of this.#marked.has(id) ? [added] : [added, added.unmarked]) {
        use.events += ofId.length;
        use.bytes += bytes;
      }
    }
    return added;
  }

  #isOver(id: string, events: readonly Event[], limits: Limits): boolean {
    const before = this.#ofIds.get(id) ?? { events: 0, bytes: 0 };
    const more = this.#addedBy(events.filter((event) => event.distinct_id === id));
    return (
      before.events + more.events > limits.eventsADayOfOneId || before.bytes + more.bytes > limits.bytesADayOfOneId
    );
  }

  /** The result of each event, in the order of the batch. */
  send(batch: readonly Event[], day: number, limits: Limits, isCounted: boolean): string[] {
    if (day !== this.#day) {
      this.#day = day;
      this.#reached = null;
      this.#all = { events: 0, bytes: 0 };
      this.#unmarked = { events: 0, bytes: 0 };
      this.#ofIds = new Map();
    }
    const uuids = batch.map(({ uuid }) => uuid);
    const fresh = batch.filter((event, index) => {
      const stored = this.stored.get(event.uuid);
      return uuids.indexOf(event.uuid) === index && (stored === undefined || (!isCounted && !stored.isVerified));
    });
    const allDropped = batch.map(() => "drop");
    if (!isCounted) {
      this.#store(fresh, true);
      for (const event of batch) this.#marked.add(event.distinct_id);
      return batch.map(() => "ok");
    }
    const kept = fresh.filter((event) => !this.#isOver(event.distinct_id, fresh, limits));
    if (this.#reached !== JSON.stringify(limits)) {
      if (fresh.length > 0 && this.#isFull(limits, { events: 0, bytes: 0 }, true))
        return this.#reach(limits, allDropped);
      const added = this.#addedBy(kept);
      const isShared = this.#unmarked.events + added.unmarked.events > 0;
      const isShareOver =
        4 * (this.#unmarked.events + added.events) > 3 * limits.eventsADay ||
        4 * (this.#unmarked.bytes + added.bytes) > 3 * limits.bytesADay;
      const isShareFull = kept.length > 0 && isShared && isShareOver;
      if (!isShareFull && kept.length > 0 && this.#isFull(limits, added)) return this.#reach(limits, allDropped);
      if (!isShareFull) {
        this.#store(kept, false);
        const dropped = new Set(fresh.filter((event) => !kept.includes(event)).map(({ uuid }) => uuid));
        return batch.map(({ uuid }) => (dropped.has(uuid) ? "drop" : "ok"));
      }
      this.#reach(limits, allDropped);
    }
    const marked = kept.filter((event) => this.#marked.has(event.distinct_id));
    if (!this.#isFull(limits, this.#addedBy(marked))) this.#store(marked, false);
    return allDropped;
  }

  #reach(limits: Limits, answer: string[]): string[] {
    this.#reached = JSON.stringify(limits);
    return answer;
  }

  #isFull(limits: Limits, more: Use, isAlready = false): boolean {
    const [events, bytes] = [this.#all.events + more.events, this.#all.bytes + more.bytes];
    return isAlready
      ? events >= limits.eventsADay || bytes >= limits.bytesADay
      : events > limits.eventsADay || bytes > limits.bytesADay;
  }

  used(day: number): Use {
    return day === this.#day ? this.#all : { events: 0, bytes: 0 };
  }

  #store(events: readonly Event[], isVerified: boolean): void {
    if (!isVerified) this.#count(events);
    for (const event of events) {
      this.stored.set(event.uuid, { id: event.distinct_id, isVerified });
      this.#known.add(event.distinct_id);
      if (!isVerified && "$set" in event.properties) {
        this.#values.set(event.distinct_id, (event.properties.$set as { n: unknown }).n);
      }
    }
  }

  #count(events: readonly Event[]): void {
    for (const [id, ofId] of Map.groupBy(events, (event) => event.distinct_id)) {
      const more = this.#addedBy(ofId);
      const plus = (before: Use, use: Use) => ({ events: before.events + use.events, bytes: before.bytes + use.bytes });
      this.#ofIds.set(id, plus(this.#ofIds.get(id) ?? { events: 0, bytes: 0 }, more));
      this.#all = plus(this.#all, more);
      this.#unmarked = plus(this.#unmarked, more.unmarked);
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
      `SELECT uuid, distinct_id AS id, is_verified AS isVerified FROM analytics_events
       WHERE environment_id = ? AND replaced_by IS NULL ORDER BY uuid`,
    )
      .bind(app.environments.live.id)
      .all<{ uuid: string; id: string; isVerified: number }>();
    const expected = [...model.stored].map(([uuid, { id, isVerified }]) => ({
      uuid,
      id,
      isVerified: Number(isVerified),
    }));
    expect(results).toEqual(expected.sort((a, b) => (a.uuid < b.uuid ? -1 : 1)));
  });
});
