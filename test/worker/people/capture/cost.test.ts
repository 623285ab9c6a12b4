import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { device, identify, type SentEvent, send } from "../../../support/people.ts";
import { Clock, makeApp, makeClient } from "../../../support/world.ts";

/** The cost of sending `batch` after `before` was sent. */
async function costOf(
  before: readonly SentEvent[],
  batch: readonly SentEvent[],
  kind: "pk_live" | "sk_live" = "pk_live",
) {
  const counting = countingD1(env.DB);
  const clock = new Clock();
  const call = makeClient(clock, { DB: counting.d1 });
  const app = await makeApp();
  await send(call, app.keys[kind], [...before, { event: "seen", distinct_id: "somebody else" }]);
  clock.advance(1_000);
  counting.spent();
  await send(call, app.keys[kind], batch);
  return counting.spent();
}

const many = (count: number, idOf: (n: number) => string): SentEvent[] =>
  Array.from({ length: count }, (_, n) => ({ event: "seen", distinct_id: idOf(n) }));
const ana = (properties = {}): SentEvent => ({ event: "seen", distinct_id: "ana", properties });

/** Rows that the check of the key reads in the first trip, and two rows that tell whether ids are erased. */
const KEY_CHECK = 4;

it.each([
  {
    name: "an event of an id that is known",
    before: [ana()],
    batch: [ana()],
    rowsRead: 31 + KEY_CHECK,
    rowsWritten: 5,
  },
  { name: "an event of a new id", before: [], batch: [ana()], rowsRead: 28 + KEY_CHECK, rowsWritten: 5 },
  {
    name: "ten events of one id",
    before: [ana()],
    batch: many(10, () => "ana"),
    rowsRead: 132 + KEY_CHECK,
    rowsWritten: 32,
  },
  { name: "ten events of ten ids", before: [], batch: many(10, (n) => `id-${n}`), rowsRead: 205, rowsWritten: 41 },
])(
  "$name: takes one trip, and writes three rows an event, one an id and one for the day",
  async ({ before, batch, rowsRead, rowsWritten }) => {
    const cost = await costOf(before, batch);
    expect(cost).toMatchObject({ roundTrips: 1, rowsWritten });
    expect(cost.rowsRead).toBeLessThanOrEqual(rowsRead);
  },
);

const set = (a: number) => ana({ $set: { a } });
const known = [{ event: "seen", distinct_id: device(1) }, ana()];
it.each([
  { name: "properties that stay as they are", before: [set(1)], batch: [set(1)], trips: 1, rowsWritten: 5 },
  { name: "properties that change", before: [set(1)], batch: [set(2)], trips: 2, rowsWritten: 6 },
  {
    name: "an identification of a known device",
    before: known,
    batch: [identify("ana", device(1))],
    trips: 2,
    rowsWritten: 7,
  },
  {
    name: "the same identification again",
    before: [...known, identify("ana", device(1))],
    batch: [identify("ana", device(1))],
    trips: 1,
    rowsWritten: 5,
  },
])(
  "$name: takes $trips trips, and writes rows only for what changes",
  async ({ before, batch, trips, rowsWritten }) => {
    const cost = await costOf(before, batch);
    expect(cost).toMatchObject({ roundTrips: trips, rowsWritten });
    expect(cost.rowsRead).toBeLessThanOrEqual(60);
  },
);

it("a link costs the same however many ids its claimer claims, and by a publishable key however long the chain above is", async () => {
  const chain = Array.from(
    { length: 500 },
    (_, n): SentEvent => ({
      event: "$create_alias",
      distinct_id: `id-${n}`,
      properties: { alias: `id-${n + 1}` },
    }),
  );
  const star = Array.from({ length: 500 }, (_, n) => identify("ana", device(n)));
  expect((await costOf(star, [identify("ana", device(900))])).rowsRead).toBeLessThanOrEqual(60);
  const counting = countingD1(env.DB);
  const call = makeClient(new Clock(), { DB: counting.d1 });
  const app = await makeApp();
  await send(call, app.keys.sk_live, chain.toReversed());
  await send(call, app.keys.pk_live, [ana()]);
  counting.spent();
  await send(call, app.keys.pk_live, [identify("id-500", device(1))]);
  expect(counting.spent().rowsRead).toBeLessThanOrEqual(220);
  await send(call, app.keys.sk_live, [identify("id-500", device(2))]);
  expect(counting.spent().rowsRead).toBeLessThanOrEqual(5 * 500);
});
