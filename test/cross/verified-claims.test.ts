import { expect, it } from "vitest";
import { alias, identify, makeClaimsWorld, newDevice, seen, WITH_SECRET_KEY } from "../support/claims-world.ts";
import { expectError } from "../support/rejections.ts";

const DIALECTS = ["v0", "v1"] as const;

it.each(DIALECTS)(
  "a secret key in analytics is rejected in a page's request (%s), and nothing is stored",
  async (dialect) => {
    const world = await makeClaimsWorld();
    for (const origin of ["https://shop.example", "null"]) {
      const answer = await world.post([alias("ana", "bob", WITH_SECRET_KEY)], dialect, {
        origin,
        "sec-fetch-site": "cross-site",
      });
      expectError(answer, "forbidden");
    }
    expect((await world.exportOf("ana")).person).toBeNull();
  },
);

it.each(DIALECTS)(
  "a secret key in analytics is accepted from a server, which sends no origin (%s)",
  async (dialect) => {
    const world = await makeClaimsWorld();
    await world.send([alias("ana", "crm-7", WITH_SECRET_KEY)], dialect);
    const { person, events } = await world.exportOf("ana");
    expect(person?.distinctIds).toContainEqual(
      expect.objectContaining({ distinctId: "crm-7", via: "alias", claimedBy: "ana", isVerified: true }),
    );
    expect(events.analytics).toMatchObject([{ isVerified: true }]);
  },
);

it.each(DIALECTS)("a publishable key in analytics is accepted with a page's origin (%s)", async (dialect) => {
  const world = await makeClaimsWorld();
  const answer = await world.post([seen("ana")], dialect, { origin: "https://shop.example" });
  expect(answer.status).toBe(200);
});

it("a verified claim joins users: only the claimer's export has the events, properties, credits, usage and consents of both", async () => {
  const world = await makeClaimsWorld();
  const event = identify("old-ana", undefined, { set: { city: "Ghent" } });
  await world.send([event]);
  const holdings = [
    await world.grant("old-ana"),
    await world.use("old-ana"),
    await world.consent("old-ana", "user token"),
  ];
  await world.send([identify("ana", "old-ana", WITH_SECRET_KEY)], "v1");
  const { person, events, consentLog } = await world.exportOf("ana");
  expect(person?.properties).toEqual({ city: "Ghent" });
  expect(events.analytics.map(({ uuid }) => uuid)).toContain(event.uuid);
  expect([person?.credits.balances[0]?.balanceId, events.metering[0]?.eventId, consentLog[0]?.consentId]).toEqual(
    holdings,
  );
  expect(await world.idsOf("old-ana")).toEqual(["old-ana"]);
});

it("a verified claim makes both ids users, so that a publishable key cannot claim either of them", async () => {
  const world = await makeClaimsWorld();
  const [right, wrong, claimer] = [newDevice(), newDevice(), newDevice()];
  await world.send([
    alias("ana", right, WITH_SECRET_KEY),
    alias(wrong, "bob", WITH_SECRET_KEY),
    identify(claimer, "eve", WITH_SECRET_KEY),
  ]);
  await world.send([identify("mallory", right), identify("mallory", wrong), identify("mallory", claimer)]);
  expect(await world.idsOf("mallory")).toEqual(["mallory"]);
  // Nothing verified says that bob is a user, so the alias is taken as PostHog documents it.
  expect(await world.idsOf("bob")).toEqual(["bob"]);
  expect(await world.idsOf(wrong)).toEqual(["bob", wrong].sort());
  expect(await world.idsOf(claimer)).toEqual([claimer, "eve"].sort());
});

it("a verified claim still counts after the claimed id becomes a user, unlike a claim by a publishable key", async () => {
  const world = await makeClaimsWorld();
  const [verified, unverified] = [newDevice(), newDevice()];
  await world.send([alias("ana", verified, WITH_SECRET_KEY)]);
  await world.send([alias("ana", unverified)]);
  await world.grant(verified);
  await world.grant(unverified);
  expect(await world.idsOf("ana")).toEqual([verified, "ana"].sort());
});

it("a verified claim replaces a claim by a publishable key, and so repairs a device that a stranger claimed", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([seen(device), identify("mallory", device)]);
  await world.send([identify("ana", device, WITH_SECRET_KEY)]);
  expect(await world.idsOf("mallory")).toEqual(["mallory"]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  await world.send([identify("mallory", device), alias("mallory", device)]);
  expect(await world.idsOf("mallory")).toEqual(["mallory"]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
});

it("a verified claim verifies an unverified claim by the same claimer", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([alias("ana", device)]);
  await world.send([identify("ana", device, WITH_SECRET_KEY)]);
  await world.grant(device);
  expect((await world.exportOf("ana")).person?.distinctIds).toContainEqual(
    expect.objectContaining({ distinctId: device, via: "identify", claimedBy: "ana", isVerified: true }),
  );
});

it("a verified claim repairs a device that a stranger made unlinkable by identifying it", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  const visit = seen(device);
  await world.send([visit, identify(device), identify("ana", device)]);
  expect(await world.idsOf("ana")).toEqual(["ana"]);
  await world.send([identify("ana", device, WITH_SECRET_KEY)]);
  expect(await world.idsOf("ana")).toEqual([device, "ana"].sort());
  expect((await world.exportOf("ana")).events.analytics.map(({ uuid }) => uuid)).toContain(visit.uuid);
});

it("a verified claim is not replaced by another verified claim: the first keeps the id", async () => {
  const world = await makeClaimsWorld();
  await world.send([alias("ana", "crm-7", WITH_SECRET_KEY), alias("bob", "crm-7", WITH_SECRET_KEY)]);
  expect(await world.idsOf("ana")).toEqual(["ana", "crm-7"]);
  expect(await world.idsOf("bob")).toEqual(["bob"]);
});

it("a verified claim replaces an unverified claim in the opposite direction", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([identify("ana", device)]);
  await world.send([identify(device, "ana", WITH_SECRET_KEY)]);
  expect(await world.idsOf(device)).toEqual([device, "ana"].sort());
  expect(await world.idsOf("ana")).toEqual(["ana"]);
});

it("a verified claim is kept when a publishable key tries to close a circle of claims", async () => {
  const world = await makeClaimsWorld();
  const device = newDevice();
  await world.send([identify(device, "crm-7", WITH_SECRET_KEY)]);
  await world.send([alias("crm-7", device), identify("crm-7", device)]);
  expect(await world.idsOf(device)).toEqual([device, "crm-7"].sort());
  expect(await world.idsOf("crm-7")).toEqual(["crm-7"]);
});
