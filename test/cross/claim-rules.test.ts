import { describe, expect, it } from "vitest";
import { alias, identify, makeClaimsWorld, newDevice, SECRETLY, seen } from "../support/claims-world.ts";

const LATER = 1_000;

describe("a claim by a publishable key", () => {
  it("joins a device's events, consents and properties to its user, and says who claimed it and how", async () => {
    const world = await makeClaimsWorld();
    const [device, older] = [newDevice(), newDevice()];
    const events = [
      seen(device, { set: { city: "Ghent", plan: "free" } }),
      identify("ana", device, { set: { plan: "gold" } }),
      alias(device, older),
      seen(older, { set: { city: "Rome", tone: "dark" } }),
    ];
    await world.send(events);
    const consentId = await world.consent(older, "secret key");
    const { person, events: held, consentLog } = await world.exportOf("ana");
    expect(person?.isIdentified).toBe(true);
    expect(person?.properties).toEqual({ plan: "gold", city: "Ghent", tone: "dark" });
    const linkedAt = expect.any(String);
    expect(person?.distinctIds).toHaveLength(3);
    expect(person?.distinctIds).toEqual(
      expect.arrayContaining([
        { distinctId: "ana", linkedAt, via: null, claimedBy: null, isVerified: false },
        { distinctId: device, linkedAt, via: "identify", claimedBy: "ana", isVerified: false },
        { distinctId: older, linkedAt, via: "alias", claimedBy: device, isVerified: false },
      ]),
    );
    expect(held.analytics.map(({ uuid }) => uuid).sort()).toEqual(events.map(({ uuid }) => uuid).sort());
    expect(consentLog.map((entry) => entry.consentId)).toEqual([consentId]);
  });

  it("tells the device who asks for itself nothing of whoever claims it, but all of its own", async () => {
    const world = await makeClaimsWorld();
    const device = newDevice();
    const personless = seen(device, { isPersonless: true });
    await world.send([personless, identify("claimer_of_it", device, { set: { plan: "gold" } })]);
    const document = await world.exportOf(device);
    expect(JSON.stringify(document)).not.toContain("claimer_of_it");
    expect(document.person).toMatchObject({ isIdentified: false, properties: {} });
    expect(document.person?.personId).toEqual(expect.any(String));
    expect(document.events.analytics.map(({ uuid }) => uuid)).toEqual([personless.uuid]);
  });

  it("tells when each id was linked, and when the asked id was first seen", async () => {
    const world = await makeClaimsWorld();
    const device = newDevice();
    const at = [0, 1, 2].map((step) => new Date(world.clock.ms + step * LATER).toISOString());
    await world.send([seen("ana")]);
    world.clock.advance(LATER);
    await world.send([identify("ana", device)]);
    world.clock.advance(LATER);
    await world.send([seen(device)]);
    const { person } = await world.exportOf("ana");
    const linkedAt = Object.fromEntries((person?.distinctIds ?? []).map((each) => [each.distinctId, each.linkedAt]));
    expect(linkedAt).toEqual({ ana: at[0], [device]: at[1] });
    expect(person).toMatchObject({ createdAt: at[0], lastSeenAt: at[2] });
  });

  it("is the first that counts: a second claim of a device links nothing, in whatever request it comes", async () => {
    const world = await makeClaimsWorld();
    const device = newDevice();
    await world.send([identify("ana", device), identify("mallory", device)]);
    await world.send([alias("mallory", device)], "v1");
    expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
    expect(await world.idsOf("mallory")).toEqual(["mallory"]);
  });

  it("that a personless event makes links nothing and sets nothing", async () => {
    for (const rest of [{}, SECRETLY]) {
      const world = await makeClaimsWorld();
      const device = newDevice();
      const personless = { ...rest, isPersonless: true, set: { plan: "none" } };
      await world.send([seen(device, rest), seen("ana", rest)]);
      await world.send([identify("ana", device, personless), alias("ana", device, personless)]);
      const { person, events } = await world.exportOf("ana");
      expect(person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual(["ana"]);
      expect(person?.properties).toEqual({});
      expect(events.analytics).toHaveLength(3);
    }
  });

  it("by an id 32 claims below the topmost links nothing; by the one above it, it does", async () => {
    const world = await makeClaimsWorld();
    const chain = Array.from({ length: 34 }, newDevice);
    const links = chain.slice(1).map((device, index) => alias(chain[index] ?? "", device));
    for (const start of [0, 10, 20, 30]) await world.send(links.slice(start, start + 10));
    expect(await world.idsOf(chain[0] ?? "")).toEqual(chain.slice(0, 33).sort());
    expect(await world.idsOf(chain[31] ?? "")).toEqual(chain.slice(31, 33).sort());
    await world.send([alias(chain[32] ?? "", chain[33] ?? "", SECRETLY)]);
    expect(await world.idsOf(chain[0] ?? "")).toEqual(chain.toSorted());
  });

  it("is read the other way round when an alias names a user to a device, as it arrives", async () => {
    const world = await makeClaimsWorld();
    const [device, other] = [newDevice(), newDevice()];
    await world.grant("ana");
    await world.send([alias(device, "ana"), alias(other, "bob")]);
    await world.grant("bob");
    expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
    expect(await world.idsOf(device)).toEqual([device]);
    expect((await world.exportOf("bob")).person?.distinctIds).toEqual([]);
    expect(await world.idsOf(other)).toEqual([other]);
  });

  it("that links nothing is kept as an event, and a v1 client is warned of it", async () => {
    const world = await makeClaimsWorld();
    await world.send([identify("ana")]);
    const links = [identify("mallory", "ana"), alias("mallory", "ana"), identify("mallory", "anonymous")];
    const answer = await world.send(links, "v1");
    for (const { uuid } of links) {
      expect(answer.body.results[uuid]).toEqual({ result: "warning", details: expect.any(String) });
    }
    const { events } = await world.exportOf("mallory");
    expect(events.analytics.map(({ uuid }) => uuid).sort()).toEqual(links.map(({ uuid }) => uuid).sort());
  });
});

describe("what a page says of another's id", () => {
  it("stays with that id: its properties, its name and its events", async () => {
    const world = await makeClaimsWorld();
    const planted = seen("ana", { set: { name: "planted" }, properties: { note: "planted" } });
    await world.send([seen("mallory", { set: { name: "Mallory" } }), planted, identify("mallory", "ana")]);
    const own = await world.exportOf("mallory");
    expect(own.person?.properties).toEqual({ name: "Mallory" });
    expect(JSON.stringify(own)).not.toContain("planted");
    const { person, events } = await world.exportOf("ana");
    expect(person?.properties).toEqual({ name: "planted" });
    expect(events.analytics).toMatchObject([{ uuid: planted.uuid, isVerified: false }]);
  });

  it("can be told from what a server said: an entry is verified when a secret key sent it", async () => {
    const world = await makeClaimsWorld();
    const [byPage, byServer] = [seen("ana"), seen("ana", SECRETLY)];
    await world.send([byPage]);
    await world.send([byServer], "v1");
    const { events } = await world.exportOf("ana");
    expect(events.analytics.map(({ uuid, isVerified }) => [uuid, isVerified])).toEqual([
      [byPage.uuid, false],
      [byServer.uuid, true],
    ]);
  });
});
