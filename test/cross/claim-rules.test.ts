import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { flushActivity } from "../../src/db/count-activity.ts";
import { alias, identify, makeClaimsWorld, newDevice, seen, WITH_SECRET_KEY } from "../support/claims-world.ts";
import { bound } from "../support/world.ts";

const LATER_MS = 1_000;

it("a claim by a publishable key joins a device's events, consents and properties to its user, and the export says who claimed it and how", async () => {
  const world = await makeClaimsWorld();
  const [device, older] = [newDevice(), newDevice()];
  const events = [
    seen(device, { set: { city: "Ghent", plan: "free" } }),
    identify("ana", device, { set: { plan: "gold" } }),
    alias("ana", older),
    seen(older, { set: { tone: "dark" } }),
  ];
  await world.send(events);
  const consentId = await world.consent(older, "secret key, of a device");
  const { person, events: held, consentLog } = await world.exportOf("ana");
  expect(person?.isIdentified).toBe(true);
  expect(person?.properties).toEqual({ plan: "gold", city: "Ghent", tone: "dark" });
  const linkedAt = expect.any(String);
  expect(person?.distinctIds).toHaveLength(3);
  expect(person?.distinctIds).toEqual(
    expect.arrayContaining([
      { distinctId: "ana", linkedAt, via: null, claimedBy: null, isVerified: false },
      { distinctId: device, linkedAt, via: "identify", claimedBy: "ana", isVerified: false },
      { distinctId: older, linkedAt, via: "alias", claimedBy: "ana", isVerified: false },
    ]),
  );
  expect(held.analytics.map(({ uuid }) => uuid).sort()).toEqual(events.map(({ uuid }) => uuid).sort());
  expect(consentLog.map((entry) => entry.consentId)).toEqual([consentId]);
});

it("a claim by a publishable key leaves the device an export of all its own data, with none of its claimer's", async () => {
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

it("a claim by a publishable key dates each id in the export: when it was linked, or when the requested id was first seen", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  const at = [0, 1, 2].map((step) => new Date(world.clock.ms + step * LATER_MS).toISOString());
  await world.send([seen("ana")]);
  world.clock.advance(LATER_MS);
  await world.send([identify("ana", device)]);
  world.clock.advance(LATER_MS);
  await world.send([seen(device)]);
  const { person } = await world.exportOf("ana");
  const linkedAt = Object.fromEntries((person?.distinctIds ?? []).map((each) => [each.distinctId, each.linkedAt]));
  expect(linkedAt).toEqual({ ana: at[0], [device]: at[1] });
  expect(person).toMatchObject({ createdAt: at[0], lastSeenAt: at[2] });
});

it("a claim by a publishable key links nothing if the device is already claimed, in the same request or an earlier one", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([identify("ana", device), identify("mallory", device)]);
  await world.send([alias("mallory", device)], "v1");
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  expect(await world.idsOf("mallory")).toEqual(["mallory"]);
});

it("a claim by a publishable key made by a personless event links nothing and sets nothing", async () => {
  for (const rest of [{}, WITH_SECRET_KEY]) {
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

it("a claim by a publishable key links no device that became a user by a personless $identify or a secret key's personless $set, in one request or two", async () => {
  for (const isOneRequest of [true, false]) {
    const world = await makeClaimsWorld();
    const [identified, other, set, untouched] = [newDevice(), newDevice(), newDevice(), newDevice()];
    const personless = { isPersonless: true };
    const claims = [identified, other, set, untouched].map((device) => identify("ana", device));
    await world.send([
      identify(other, newDevice(), { ...WITH_SECRET_KEY, ...personless }),
      seen(set, { ...WITH_SECRET_KEY, ...personless, set: { plan: "gold" } }),
      seen(untouched, { ...WITH_SECRET_KEY, ...personless }),
    ]);
    const first = [identify(identified, newDevice(), personless), seen(untouched, { ...personless, set: { a: "b" } })];
    for (const events of isOneRequest ? [[...first, ...claims]] : [first, claims]) await world.send(events);
    expect(await world.idsOf("ana")).toEqual([untouched, "ana"].sort());
    expect((await world.exportOf(identified)).person).toBeNull();
  }
});

it("a claim by a publishable key reaches only one step: devices claim nothing, whether they are claimed or not", async () => {
  const world = await makeClaimsWorld();
  const [device, second, third] = [newDevice(), newDevice(), newDevice()];
  await world.send([identify("ana", device), alias(device, second), alias(second, third)]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  expect(await world.idsOf(second)).toEqual([second]);
});

it("a claim by a publishable key by a UUID counts if an $identify, a server's event or a signed-in SDK made the UUID a user", async () => {
  const world = await makeClaimsWorld();
  const [byPage, byServer, bySdk] = [newDevice(), newDevice(), newDevice()];
  const devices = [newDevice(), newDevice(), newDevice()] as const;
  await world.send([seen(byServer, WITH_SECRET_KEY)]);
  await world.send([identify(byPage, devices[0]), alias(byServer, devices[1])]);
  await world.send([seen(bySdk, { isSignedIn: true }), alias(bySdk, devices[2])]);
  for (const [index, user] of [byPage, byServer, bySdk].entries()) {
    expect(await world.idsOf(user)).toEqual([user, devices[index]].sort());
  }
});

it("a claim by a publishable key counts for a device that only has events of its own, a server's personless event and a device's consent", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([seen(device), seen(device, { isSignedIn: false })]);
  await world.send([seen(device, { ...WITH_SECRET_KEY, isPersonless: true })]);
  const consentId = await world.consent(device, "secret key, of a device");
  await world.exportOf(device);
  await world.wouldErase(device);
  await world.send([identify("ana", device)]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  expect((await world.exportOf("ana")).consentLog).toMatchObject([{ consentId }]);
});

it("a claim by a publishable key is reversed if a device sends an alias about a user or about an id without a device's form", async () => {
  const world = await makeClaimsWorld();
  const [device, other, user] = [newDevice(), newDevice(), newDevice()];
  await world.grant(user);
  await world.send([alias(device, "ana"), alias(other, user)]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  expect(await world.idsOf(user)).toEqual([other, user].sort());
  expect(await world.idsOf(device)).toEqual([device]);
});

it("a claim by a publishable key that links nothing is still stored as an event, and a v1 client gets a warning", async () => {
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

it("a warning tells a publishable key only reasons that its event shows, and a secret key every reason", async () => {
  const world = await makeClaimsWorld();
  const [user, linked, device] = [newDevice(), newDevice(), newDevice()];
  await world.grant(user);
  await world.send([identify("ana", linked)]);
  const warned = async (event: ReturnType<typeof seen>) =>
    (await world.send([event], "v1")).body.results[event.uuid].result;
  for (const link of [identify, alias]) {
    for (const visible of ["bob", "anonymous", "$posthog_cookieless"])
      expect(await warned(link("eve", visible))).toBe("warning");
    expect(await warned(link("anonymous", device))).toBe("warning");
    for (const hidden of [user, linked, device]) expect(await warned(link("eve", hidden))).toBe("ok");
  }
  expect(await warned(alias(device, newDevice()))).toBe("ok");
  await world.send([alias("ana", linked, WITH_SECRET_KEY)]);
  expect(await warned(alias("bob", linked, WITH_SECRET_KEY))).toBe("warning");
  expect(await warned(alias("bob", "anonymous", WITH_SECRET_KEY))).toBe("warning");
  expect(await warned(alias("bob", "crm-7", WITH_SECRET_KEY))).toBe("ok");
});

it("a warning that a publishable key does not get is counted for the dashboard", async () => {
  const world = await makeClaimsWorld();
  const user = newDevice();
  await world.grant(user);
  await world.send([identify("mallory", user), alias("mallory", user), identify("mallory", "ana")]);
  await flushActivity(bound());
  const counted = await env.DB.prepare(
    "SELECT amount FROM daily_activity WHERE environment_id = ? AND kind = 'rejected_claim'",
  )
    .bind(world.app.environments.live.id)
    .first("amount");
  expect(counted).toBe(2);
});

it("data that a page sends for another user's id stays with that id: properties, names and events", async () => {
  const world = await makeClaimsWorld();
  const planted = seen("ana", { set: { name: "planted" }, properties: { note: "planted" } });
  await world.send([seen("mallory", { set: { name: "Mallory" } }), planted, identify("mallory", "ana")]);
  const document = await world.exportOf("mallory");
  expect(document.person?.properties).toEqual({ name: "Mallory" });
  expect(JSON.stringify(document)).not.toContain("planted");
  const { person, events } = await world.exportOf("ana");
  expect(person?.properties).toEqual({ name: "planted" });
  expect(events.analytics).toMatchObject([{ uuid: planted.uuid, isVerified: false }]);
});

it("data that a page sends for another user's id is marked as unverified, unlike data that a secret key sends", async () => {
  const world = await makeClaimsWorld();
  const [byPage, byServer] = [seen("ana"), seen("ana", WITH_SECRET_KEY)];
  await world.send([byPage]);
  await world.send([byServer], "v1");
  const { events } = await world.exportOf("ana");
  expect(events.analytics.map(({ uuid, isVerified }) => [uuid, isVerified])).toEqual([
    [byPage.uuid, false],
    [byServer.uuid, true],
  ]);
});
