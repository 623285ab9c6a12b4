import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { APPS } from "../support/paths.ts";
import { createRandom, type Random } from "../support/random.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { Clock, makeApp, makeClient, makeKey } from "../support/world.ts";

// The response to a batch does not show whether one of its ids was erased or is new (rule E4).

const BATCHES = soakCount(4, 200);

/** The ids of a batch, by role. `gone` and `goneDevice` are erased ids in one batch, and new ids in the other. */
interface Cast {
  readonly gone: string;
  readonly goneDevice: string;
  readonly user: string;
  readonly userDevice: string;
  readonly linked: string;
  readonly linkedByServer: string;
  readonly newUser: string;
  readonly newDevice: string;
  readonly shared: string;
}
type Part = keyof Cast;

const castOf = (own: Pick<Cast, "gone" | "goneDevice">): Cast => ({
  ...own,
  user: `user-${crypto.randomUUID()}`,
  userDevice: crypto.randomUUID(),
  linked: crypto.randomUUID(),
  linkedByServer: crypto.randomUUID(),
  newUser: `new-${crypto.randomUUID()}`,
  newDevice: crypto.randomUUID(),
  shared: "anonymous",
});
const PARTS = Object.keys(castOf({ gone: "", goneDevice: "" })) as Part[];
const GONE: readonly Part[] = ["gone", "goneDevice"];

const LARGE = Object.fromEntries(Array.from({ length: 600 }, (_, index) => [`name-${index}`, index]));
const OTHERS = Object.fromEntries(Array.from({ length: 600 }, (_, index) => [`other-${index}`, index]));

interface Template {
  readonly event: string;
  readonly own: Part;
  readonly named: Readonly<Record<string, Part>>;
  readonly properties: Readonly<Record<string, unknown>>;
  /** The index of the event whose UUID it has. */
  readonly uuidOf: number;
}

function randomBatch({ chance, integer, pick }: Random): readonly Template[] {
  // A few ids, so that several events have the same one.
  const few = [pick(GONE), ...Array.from({ length: integer(1, 3) }, () => pick(PARTS))];
  return Array.from({ length: integer(1, 6) }, (_, index) => {
    const event = pick(["seen", "$identify", "$identify", "$create_alias", "$create_alias", ""]);
    const other = event === "$identify" ? "$anon_distinct_id" : "alias";
    return {
      event: event === "" && chance(0.8) ? "$identify" : event,
      own: pick(few),
      named: {
        ...(chance(0.8) ? { [other]: pick(few) } : {}),
        ...(chance(0.2) ? { $device_id: pick(few) } : {}),
        ...(chance(0.1) ? { $user_id: pick(few) } : {}),
      },
      properties: {
        ...(chance(0.2) ? { $process_person_profile: false } : {}),
        ...(chance(0.2) ? { $is_identified: true } : {}),
        ...(chance(0.3) ? { $set: pick([LARGE, OTHERS, { plan: "gold" }]) } : {}),
      },
      uuidOf: chance(0.1) ? integer(0, index) : index,
    };
  });
}

function eventsOf(batch: readonly Template[], cast: Cast) {
  const uuids = batch.map(() => crypto.randomUUID());
  return batch.map(({ event, own, named, properties, uuidOf }) => {
    const ids = Object.fromEntries(Object.entries(named).map(([property, part]) => [property, cast[part]]));
    return { event, distinct_id: cast[own], uuid: uuids[uuidOf], properties: { ...ids, ...properties } };
  });
}

it.each(["secret", "relay", "publishable"] as const)(
  "an answer about an erased id equals the answer about an id that was never seen, including warnings, in random batches with a %s key",
  async (kind) => {
    const call = makeClient(new Clock());
    const app = await makeApp();
    const server = app.keys.sk_live;
    const key = await makeKey(app.environments.live, kind);
    const send = (key: string, batch: readonly object[]) =>
      call("POST", "/i/v1/analytics/events", { key, body: { batch } });
    const erased = { gone: "ana", goneDevice: crypto.randomUUID() };
    for (const distinctId of Object.values(erased)) {
      await send(server, [{ event: "$set", distinct_id: distinctId, uuid: crypto.randomUUID(), properties: {} }]);
      const erasure = await call("POST", "/api/v1/erase-person", { key: server, body: { distinctId } });
      expect(erasure.body).toMatchObject({ status: "completed" });
    }
    const answerOf = async (batch: readonly Template[], own: Pick<Cast, "gone" | "goneDevice">, dialect: string) => {
      const cast = castOf(own);
      const known: Template = { event: "$identify", own: "user", named: {}, properties: {}, uuidOf: 0 };
      const link = (named: Part): Template => ({ ...known, named: { $anon_distinct_id: named } });
      await send(server, eventsOf([link("linkedByServer"), { ...known, own: "userDevice" }], cast));
      await send(app.keys.pk_live, eventsOf([link("linked")], cast));
      const events = eventsOf(batch, cast);
      if (dialect === "v0") {
        const { status, body } = await call("POST", "/batch/", { body: { api_key: key, batch: events } });
        return [status, body.refused ?? body.error?.message ?? null];
      }
      const { status, body } = await send(key, events);
      return [status, events.map(({ uuid }) => body.results[uuid ?? ""])];
    };
    const random = createRandom(RANDOM_SEED);
    const count = soakPart(`answers about erased ids, ${kind}`, BATCHES, "batches", RANDOM_SEED);
    for (let index = 0; index < BATCHES; index++) {
      const batch = randomBatch(random);
      const dialect = random.chance(0.8) ? "v1" : "v0";
      const fresh = { gone: `eve-${crypto.randomUUID()}`, goneDevice: crypto.randomUUID() };
      const answers = [await answerOf(batch, erased, dialect), await answerOf(batch, fresh, dialect)];
      const shown = batch.map(({ properties: { $set, ...rest }, ...event }) => ({
        ...event,
        ...rest,
        sets: $set !== undefined,
      }));
      expect(answers[0], `PROOF_SEED=${RANDOM_SEED}, batch ${index}: ${JSON.stringify(shown)}`).toEqual(answers[1]);
      count();
    }
  },
  timeoutOf(BATCHES, 4_000),
);

const DIALECTS = ["v0", "v1"] as const;
type Dialect = (typeof DIALECTS)[number];

const withoutUuids = (value: unknown) => JSON.stringify(value).replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "uuid");

/** Two worlds with the same limits. In the first, `ana` is erased; in the second, she was never seen. */
async function twoWorlds(analytics: object, bindings: object = {}) {
  const clock = new Clock();
  const call = makeClient(clock, bindings);
  const worlds: { readonly key: string }[] = [];
  for (const isErased of [true, false]) {
    const app = await makeApp();
    const server = app.keys.sk_live;
    const seen = { event: "seen", distinct_id: "bob" };
    expect((await call("POST", "/batch/", { body: { api_key: server, batch: [seen] } })).status).toBe(200);
    if (isErased) {
      const mark = { event: "seen", distinct_id: "ana" };
      expect((await call("POST", "/batch/", { body: { api_key: server, batch: [mark] } })).status).toBe(200);
      const erasure = await call("POST", "/api/v1/erase-person", { key: server, body: { distinctId: "ana" } });
      expect(erasure.body).toMatchObject({ status: "completed" });
    }
    const limits = { key: env.ADMIN_TOKEN, body: { mode: "live", analytics } };
    expect((await call("PUT", `${APPS}/${app.appId}/limits`, limits)).status).toBe(200);
    worlds.push({ key: app.keys.pk_live });
  }
  const answersOf = async (dialect: Dialect, batches: readonly (readonly object[])[]) => {
    const answers = [];
    for (const { key } of worlds) {
      const ofWorld: unknown[] = [];
      for (const batch of batches) {
        const { status, body } =
          dialect === "v0"
            ? await call("POST", "/batch/", { body: { api_key: key, batch } })
            : await call("POST", "/i/v1/analytics/events", { key, body: { batch } });
        const { requestId: _, ...error } = body.error ?? {};
        ofWorld.push([status, error, status === 200 ? (body.results ?? body) : null].map((part) => withoutUuids(part)));
      }
      answers.push(ofWorld);
    }
    return answers;
  };
  return { clock, answersOf };
}

const of = (distinctId: string, properties: object = {}) => ({
  ...{ event: "seen", distinct_id: distinctId, uuid: crypto.randomUUID(), properties },
});
const each = (sizes: readonly number[], make: () => object) => sizes.map((size) => Array.from({ length: size }, make));

describe.each(DIALECTS)("in protocol %s, an answer about an erased id", (dialect) => {
  const long = { text: "x".repeat(1_000) };
  it.each([
    ["of events of one id", { eventsADayOfOneId: 3 }, each([2, 1, 1, 2], () => of("ana"))],
    ["of events of one id, by one batch", { eventsADayOfOneId: 3 }, each([4, 3, 1], () => of("ana"))],
    ["of bytes of one id", { bytesADayOfOneId: 6_000 }, each([1, 1, 1, 1, 1], () => of("ana", long))],
    ["of bytes of one id, exactly", { bytesADayOfOneId: 600 + 9 + 2 * 412 }, each([1, 1, 1], () => of("ana"))],
    [
      "of bytes of one id, by what each event sets anew",
      { bytesADayOfOneId: 30_000 },
      Array.from({ length: 8 }, (_, n) => [of("ana", { $set: { text: `${n}`.repeat(2_000) } })]),
    ],
    [
      "of bytes of one id, by what two events of a batch set",
      { bytesADayOfOneId: 30_000 },
      Array.from({ length: 6 }, (_, n) => [
        of("ana", { $set: { text: `${n}`.repeat(2_000) }, $set_once: { first: 1 } }),
        of("ana", { $set: { text: `${n}1`.repeat(1_000) } }),
      ]),
    ],
    [
      "of bytes, by what events set anew",
      { bytesADay: 30_000 },
      Array.from({ length: 8 }, (_, n) => [of("ana", { $set: { text: `${n}`.repeat(2_000) } })]),
    ],
    [
      "of one id, beside other ids",
      { eventsADayOfOneId: 2 },
      each([2], () => of("ana")).concat([[of("ana"), of("eve")]]),
    ],
    ["of events", { eventsADay: 4 }, each([2, 1, 1, 1], () => of("ana"))],
    ["of bytes", { bytesADay: 6_000 }, each([1, 1, 1, 1, 1], () => of("ana", long))],
    ["of events, with users whom the server knows", { eventsADay: 4 }, [1, 2, 3].map(() => [of("ana"), of("bob")])],
  ])("at the day's limit %s equals that about an id never seen", async (_what, limits, batches) => {
    const { answersOf } = await twoWorlds(limits);
    const [erased, unseen] = await answersOf(dialect, batches);
    expect(erased).toEqual(unseen);
    const isReached = JSON.stringify(unseen).includes(dialect === "v0" ? "quota_limited" : "drop");
    expect(isReached).toBe(true);
  });

  it("starts again on the next day", async () => {
    const { answersOf, clock } = await twoWorlds({ eventsADayOfOneId: 1 });
    for (let day = 0; day < 2; day++) {
      const [erased, unseen] = await answersOf(
        dialect,
        each([1, 1], () => of("ana")),
      );
      expect(erased).toEqual(unseen);
      clock.advance(86_400_000);
    }
  });

  it("says that the database is full, as for an id never seen", async () => {
    const { answersOf } = await twoWorlds({}, { DATABASE_BYTES_MAX: "1000000" });
    await env.DB.prepare("UPDATE database_size SET bytes = 900000, freed_bytes = 0").run();
    const [erased, unseen] = await answersOf(
      dialect,
      each([1], () => of("ana")),
    );
    await env.DB.prepare("UPDATE database_size SET bytes = 0").run();
    expect(erased).toEqual(unseen);
    expect(JSON.stringify(unseen)).toContain(dialect === "v0" ? "quota_limited" : "drop");
  });

  it("rejects malformed and too many ids, as for an id never seen", async () => {
    const { answersOf } = await twoWorlds({});
    const many = Array.from({ length: 1_001 }, (_, n) => ({
      ...of("ana", { alias: `a${n}` }),
      event: "$create_alias",
    }));
    const large = of("ana", { $set: { text: "x".repeat(66_000) } });
    const malformed = { ...of("ana"), event: "" };
    const [erased, unseen] = await answersOf(dialect, [many, [large, malformed], [malformed]]);
    expect(erased).toEqual(unseen);
  });
});
