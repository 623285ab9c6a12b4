import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { ClaimsModel } from "../support/claims-model.ts";
import { alias, type ClaimsWorld, makeClaimsWorld, newDevice, seen, WITH_SECRET_KEY } from "../support/claims-world.ts";
import { countingD1 } from "../support/counting-d1.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED, isSoak, soakPart, timeoutOf } from "../support/soak.ts";

// Each test has thousands of ids, and must also pass on a slow machine.
vi.setConfig({ testTimeout: timeoutOf(10_000, 60) });

/** The most rows that an export reads besides its ids and events, and its trips besides those of its pages. */
const ROWS_FIXED = 100;
const ROWS_AN_ID = 8;
const TRIPS_FIXED = 6;

const devices = (count: number): string[] => Array.from({ length: count }, newDevice);

/** The cost of one export, after the link was created. */
async function costOfExport(counting: ReturnType<typeof countingD1>, world: ClaimsWorld, distinctId: string) {
  counting.spent();
  const document = await world.exportOf(distinctId);
  return { ...counting.spent(), document };
}

/** A person with this number of ids, each with about one event. */
function expectBounded({ roundTrips, rowsRead }: { roundTrips: number; rowsRead: number }, ids: number): void {
  expect(roundTrips).toBeLessThanOrEqual(TRIPS_FIXED + Math.ceil(ids / 400));
  expect(rowsRead).toBeLessThanOrEqual((1.05 * 2 + ROWS_AN_ID) * ids + ROWS_FIXED);
}

const LENGTH = 2_000;

it.each(["from the top", "from the bottom", "in any order"])(
  "a chain of verified claims of 2,000 ids, sent %s, is exported whole from its top and half from its middle, with rows and trips in proportion to its length",
  async (order) => {
    const counting = countingD1(env.DB);
    const world = await makeClaimsWorld({ DB: counting.d1 });
    const ids = Array.from({ length: LENGTH }, (_, index) => `link-${index}`);
    const links = ids.slice(1).map((id, index) => alias(ids[index] ?? "", id, WITH_SECRET_KEY));
    const random = createRandom(FIXED_SEED);
    if (order === "from the bottom") links.reverse();
    if (order === "in any order") {
      for (const [at, link] of links.entries()) {
        const swapped = random.integer(at, links.length - 1);
        [links[at], links[swapped]] = [links[swapped] ?? link, link];
      }
    }
    for (let start = 0; start < links.length; start += 500) await world.send(links.slice(start, start + 500));
    for (const from of [0, LENGTH / 2]) {
      const { document, roundTrips, rowsRead } = await costOfExport(counting, world, ids[from] ?? "");
      const length = LENGTH - from;
      expect(document.person?.distinctIds.map(({ distinctId }) => distinctId).sort()).toEqual(ids.slice(from).sort());
      expect(document.events.analytics).toHaveLength(length - 1);
      expectBounded({ roundTrips, rowsRead }, length);
    }
  },
);

it("a chain of verified claims of 300 ids gives each property the value of the nearest id", async () => {
  const world = await makeClaimsWorld();
  const ids = Array.from({ length: 300 }, (_, index) => `link-${index}`);
  const links = ids.slice(1).map((id, index) => alias(ids[index] ?? "", id, WITH_SECRET_KEY));
  const set = (at: number, value: string) =>
    seen(ids[at] ?? "", { ...WITH_SECRET_KEY, set: { [value]: value, name: value } });
  await world.send([...links, set(299, "last"), set(150, "middle"), set(10, "near")]);
  expect((await world.exportOf(ids[0] ?? "")).person?.properties).toEqual({
    ...{ last: "last", middle: "middle", near: "near", name: "near" },
  });
  expect((await world.exportOf(ids[11] ?? "")).person?.properties).toMatchObject({ name: "middle" });
});

async function expectWhole(count: number): Promise<void> {
  const counting = countingD1(env.DB);
  const world = await makeClaimsWorld({ DB: counting.d1 });
  const ids = Array.from({ length: count }, (_, index) => `alias-${index}`);
  for (let start = 0; start < count; start += 2_500) {
    await world.send(ids.slice(start, start + 2_500).map((id) => alias("many", id, WITH_SECRET_KEY)));
  }
  await world.send([seen(ids[count - 1] ?? "", { set: { name: "Ana" } })]);
  const balanceId = await world.grant(ids[7] ?? "");
  const { document, roundTrips, rowsRead } = await costOfExport(counting, world, "many");
  const { person, events } = document;
  expect(person?.distinctIds.map(({ distinctId }) => distinctId).sort()).toEqual([...ids, "many"].sort());
  expect(person?.distinctIds.filter(({ claimedBy, isVerified }) => claimedBy === "many" && isVerified)).toHaveLength(
    count,
  );
  expect(person?.properties).toEqual({ name: "Ana" });
  expect(person?.credits.balances.map((balance) => balance.balanceId)).toEqual([balanceId]);
  expect(events.analytics).toHaveLength(count + 1);
  expectBounded({ roundTrips, rowsRead }, count);
  expect(await world.idsOf(ids[0] ?? "")).toEqual([ids[0]]);
}

it("a person with many claimed ids of ten thousand is exported whole, with rows and trips in proportion to the ids", async () => {
  await expectWhole(10_000);
});

it("a person with many claimed ids has the model's ids in the export by each of them, after random claims", async () => {
  const random = createRandom(FIXED_SEED);
  const world = await makeClaimsWorld();
  const model = new ClaimsModel();
  const ids = [...devices(isSoak ? 300 : 45), ...Array.from({ length: isSoak ? 100 : 15 }, (_, n) => `user-${n}`)];
  const links = Array.from({ length: ids.length * 3 }, () => {
    const [id, other] = [random.pick(ids), random.pick(ids)];
    return alias(id, other);
  });
  for (let start = 0; start < links.length; start += 50) await world.send(links.slice(start, start + 50));
  for (const link of links) model.play(link);
  const tell = soakPart("trees of claims", ids.length, "ids", FIXED_SEED);
  for (const id of ids) {
    const expected = model.personOf(id)?.distinctIds ?? [];
    expect(await world.idsOf(id)).toEqual(expected.map(({ distinctId }) => distinctId).sort());
    tell();
  }
});
