import { expect, it } from "vitest";
import {
  alias,
  type ClaimsEvent,
  type ClaimsWorld,
  identify,
  makeClaimsWorld,
  newDevice,
  seen,
  WITH_SECRET_KEY,
} from "../support/claims-world.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED } from "../support/soak.ts";

const devices = (count: number): string[] => Array.from({ length: count }, newDevice);

/** The claims in the exports of all ids, by the claimed id. Throws if exports contradict each other. */
async function claimsShown(world: ClaimsWorld, ids: readonly string[]): Promise<Map<string, string>> {
  const shown = new Map<string, string>();
  for (const id of ids) {
    const entries = (await world.exportOf(id)).person?.distinctIds ?? [];
    expect(new Set(entries.map((entry) => entry.distinctId)).size, "each id once").toBe(entries.length);
    for (const { distinctId, claimedBy } of entries) {
      if (claimedBy === null) continue;
      if ((shown.get(distinctId) ?? claimedBy) !== claimedBy) throw new Error(`${distinctId} is claimed twice`);
      shown.set(distinctId, claimedBy);
    }
  }
  for (const id of ids) {
    const above = new Set<string>();
    for (let at = shown.get(id); at !== undefined; at = shown.get(at)) {
      if (at === id || above.has(at)) throw new Error(`${id} claims itself`);
      above.add(at);
    }
  }
  return shown;
}

const users = (count: number): string[] => Array.from({ length: count }, () => `user-${crypto.randomUUID()}`);

const ringOf = (ids: readonly string[], rest: Partial<ClaimsEvent>): ClaimsEvent[] =>
  ids.map((id, index) => alias(id, ids[(index + 1) % ids.length] ?? "", rest));

it("a circle of claims cannot be built with a publishable key, because a claimed id claims nothing", async () => {
  const world = await makeClaimsWorld();
  const ids = [...devices(6), ...users(6)];
  await world.send([...ids.map((id) => alias(id, id)), ...ringOf(ids, {}), ...ringOf(ids.toReversed(), {})]);
  const shown = await claimsShown(world, ids);
  expect([...shown.values()].filter((claimer) => shown.has(claimer))).toEqual([]);
  expect([...shown.keys()].filter((claimed) => claimed.startsWith("user-"))).toEqual([]);
});

it.each([
  ["devices", devices],
  ["users", users],
])(
  "a circle of claims of %s cannot be closed by a secret key in one batch, in either direction or by an id that claims itself",
  async (_, some) => {
    const world = await makeClaimsWorld();
    const [ids, rest] = [some(12), WITH_SECRET_KEY];
    const forwards = ringOf(ids, rest);
    await world.send([...ids.map((id) => alias(id, id, rest)), ...forwards, ...ringOf(ids.toReversed(), rest)]);
    const shown = await claimsShown(world, ids);
    expect(shown.size).toBe(ids.length - 1);
    expect(await world.idsOf(ids[0] ?? "")).toEqual(ids.toSorted());
  },
);

it("a circle of claims that a secret key sends in concurrent requests of one claim each lacks exactly one claim", async () => {
  const world = await makeClaimsWorld();
  for (const size of [2, 3, 9]) {
    const ids = users(size);
    await Promise.all(
      ringOf(ids, WITH_SECRET_KEY).map((link, index) => world.send([link], index % 2 === 0 ? "v0" : "v1")),
    );
    expect((await claimsShown(world, ids)).size, `a ring of ${size}`).toBe(size - 1);
  }
});

it("a circle of claims never results from concurrent claims with both kinds of keys, no id is claimed twice, and no event is lost", async () => {
  const world = await makeClaimsWorld();
  const random = createRandom(FIXED_SEED);
  for (let round = 0; round < 3; round++) {
    const ids = [...devices(4), ...users(2)];
    const links = Array.from({ length: 24 }, () => {
      const [id, other] = [random.pick(ids), random.pick(ids)];
      return random.chance(0.5) ? alias(id, other) : alias(id, other, WITH_SECRET_KEY);
    });
    await Promise.all(links.map((link) => world.send([link])));
    await claimsShown(world, ids);
    for (const id of ids) {
      const { events } = await world.exportOf(id);
      const uuids = new Set(events.analytics.map(({ uuid }) => uuid));
      for (const link of links) if (link.id === id) expect(uuids).toContain(link.uuid);
    }
  }
});

it("a device in concurrent claims belongs to exactly one of four users that claim it", async () => {
  const world = await makeClaimsWorld();
  for (let round = 0; round < 5; round++) {
    const device = newDevice();
    await world.send([seen(device)]);
    const claimers = Array.from({ length: 4 }, (_, index) => `user-${round}-${index}`);
    await Promise.all(claimers.map((claimer) => world.send([identify(claimer, device)])));
    const persons = await Promise.all(claimers.map((claimer) => world.idsOf(claimer)));
    expect(persons.filter((ids) => ids.includes(device))).toHaveLength(1);
  }
});

it("a device in concurrent claims belongs to itself if it becomes a user at the same time", async () => {
  const world = await makeClaimsWorld();
  const waysToBecomeUser = [
    (id: string) => world.grant(id, "marker"),
    (id: string) => world.use(id, "marker"),
    (id: string) => world.consent(id, "user token", "marker"),
    (id: string) => world.send([identify(id, undefined, { set: { name: "marker" } })]),
    (id: string) => world.send([seen(id, { ...WITH_SECRET_KEY, set: { name: "marker" } })]),
    (id: string) => world.send([seen(id, { isSignedIn: true, set: { name: "marker" } })]),
  ];
  for (const [index, become] of waysToBecomeUser.entries()) {
    for (let round = 0; round < 2; round++) {
      const [device, mallory] = [newDevice(), `mallory-${index}-${round}`];
      const attack = () => world.send([identify(mallory, device), alias(mallory, device)]);
      await Promise.all(round % 2 === 0 ? [attack(), become(device)] : [become(device), attack()]);
      const stolen = await world.exportOf(mallory);
      expect(stolen.person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual([mallory]);
      expect(JSON.stringify(stolen)).not.toContain("marker");
      expect(JSON.stringify(await world.exportOf(device))).toContain("marker");
    }
  }
});
