import { expect, it } from "vitest";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { DEVICE, type ErasureWorld, erasureWorld, findInDatabase } from "../../support/erasure.ts";
import { claimsOf, eventsOf, exportOf, identify, personIds, seen, send } from "../../support/people.ts";
import { expectError } from "../../support/rejections.ts";
import { makeClient, makeCtx } from "../../support/world.ts";

// A secret key links VERIFIED to Ana. A publishable key links DEVICE, so it may be another person's.

const VERIFIED = "crm-ana";
const OTHER = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e10";

async function linkedWorld(): Promise<ErasureWorld> {
  const world = await erasureWorld();
  const { app, call } = world;
  await send(call, app.keys.pk_live, [seen(DEVICE, { page: "before" }), seen("ana"), identify("ana", DEVICE)]);
  await send(call, app.keys.sk_live, [{ ...seen("ana", { alias: VERIFIED }), event: "$create_alias" }, seen(VERIFIED)]);
  return world;
}

const erase = async ({ post }: ErasureWorld, more: object = {}) => post("erase-person", { distinctId: "ana", ...more });

const propertiesOf = async ({ app }: ErasureWorld, id: string): Promise<unknown[]> =>
  (await eventsOf(app, id)).map(({ properties }) => JSON.parse(properties));

it("an id that only claims by publishable keys reach may be left out of `distinctIds` and is then not erased, while an id that verified claims reach must be named", async () => {
  const world = await linkedWorld();
  const { app, call } = world;
  const dry = await erase(world, { dryRun: true });
  expect(dry.body.distinctIds.toSorted()).toEqual([DEVICE, "ana", VERIFIED].sort());
  expect(dry.body.notErased).toBeUndefined();
  const ids = { distinctIds: ["ana", VERIFIED] };
  const dryWithout = await erase(world, { dryRun: true, ...ids });
  expect(dryWithout.body).toMatchObject({ distinctIdCount: 2, notErased: [DEVICE], erased: { ids: 2 } });
  for (const distinctIds of [["ana"], ["ana", DEVICE], ["ana", VERIFIED, "bob"]]) {
    const refused = await erase(world, { distinctIds });
    expectError(refused, "changed_meanwhile");
    expect(refused.body.error.details.distinctIds.toSorted()).toEqual([DEVICE, "ana", VERIFIED].sort());
  }
  const { status, body } = await erase(world, ids);
  expect([status, body.status, body.notErased, body.distinctIdCount]).toEqual([200, "completed", [DEVICE], 2]);
  expect(await propertiesOf(world, DEVICE)).toEqual([{ page: "before" }]);
  expect(await claimsOf(app)).toEqual([]);
  expect(await personIds(call, app, DEVICE)).toEqual([DEVICE]);
  await send(call, app.keys.pk_live, [identify("bob", DEVICE)]);
  expect(await personIds(call, app, "bob")).toEqual(["bob", DEVICE]);
});

it("an id that only claims by publishable keys reach is erased, and can be used again by later events, while the others stay blocked", async () => {
  const world = await linkedWorld();
  const { app, call } = world;
  const isolate = makeClient(world.clock);
  for (let times = 0; times < 2; times++) await send(isolate, app.keys.pk_live, [seen(DEVICE, { $set: { a: 1 } })]);
  expect((await erase(world)).body.status).toBe("completed");
  expect(await findInDatabase([DEVICE], app.environments.live.id)).toEqual([]);
  await send(isolate, app.keys.pk_live, [seen(DEVICE, { $set: { a: 1 } }), seen("ana"), seen(VERIFIED)]);
  expect(await propertiesOf(world, DEVICE)).toEqual([{ $set: { a: 1 } }]);
  expect(await personIds(call, app, DEVICE)).toEqual([DEVICE]);
  expect([...(await propertiesOf(world, "ana")), ...(await propertiesOf(world, VERIFIED))]).toEqual([]);
  expectError(await world.post("consent", { distinctId: "ana", purpose: "x", decision: "denied" }), "person_erased");
});

it("an id that only claims by publishable keys reach is cut out of others' events until something is stored under it", async () => {
  const world = await linkedWorld();
  const { app, call } = world;
  await erase(world);
  const mention = { $device_id: DEVICE, $user_id: "ana", kept: 1 };
  await send(call, app.keys.pk_live, [seen(OTHER, mention), identify("bob", DEVICE)]);
  expect(await findInDatabase([DEVICE], app.environments.live.id)).toEqual([]);
  expect([await propertiesOf(world, OTHER), await propertiesOf(world, "bob")]).toEqual([[{ kept: 1 }], [{}]]);
  expect(await personIds(call, app, "bob")).toEqual(["bob"]);
  await send(call, app.keys.pk_live, [seen(DEVICE), identify("bob", DEVICE), seen(OTHER, mention)]);
  expect(await personIds(call, app, "bob")).toEqual(["bob", DEVICE]);
  expect((await propertiesOf(world, OTHER))[1]).toEqual({ $device_id: DEVICE, kept: 1 });
});

it.each([
  ["a grant", "credits/grant", { userId: DEVICE, packId: "Two" }],
  ["usage", "usage/events", { eventId: "e", userId: DEVICE, event: "x", quantities: { count: 0 } }],
  ["a consent", "consent", { distinctId: DEVICE, purpose: "ads", decision: "denied", isDevice: true }],
])(
  "an id that only claims by publishable keys reach is not cut out any more after %s for it",
  async (_, path, body) => {
    const world = await linkedWorld();
    await erase(world);
    expect((await world.post(path, body)).status).toBe(200);
    await send(world.call, world.app.keys.pk_live, [seen(OTHER, { $device_id: DEVICE })]);
    expect(await propertiesOf(world, OTHER)).toEqual([{ $device_id: DEVICE }]);
  },
);

it("an id that only claims by publishable keys reach belongs to a person again after a verified claim that names it", async () => {
  const world = await linkedWorld();
  const { app, call } = world;
  await erase(world);
  await send(call, app.keys.sk_live, [identify("bob", DEVICE)]);
  expect(await personIds(call, app, "bob")).toEqual(["bob", DEVICE]);
});

it("an id that only claims by publishable keys reach stays erased when a link is created for it, which is recorded under its hash", async () => {
  const world = await linkedWorld();
  await erase(world);
  expect((await world.post("export-person", { distinctId: DEVICE })).status).toBe(200);
  expect(await findInDatabase([DEVICE], world.app.environments.live.id)).toEqual([]);
});

it("an id that only claims by publishable keys reach is blocked like the others if `blockIds` names it, at once or in a repeat", async () => {
  for (const isLater of [false, true]) {
    const world = await linkedWorld();
    const { app, call } = world;
    expectError(await erase(world, { blockIds: [OTHER] }), "invalid_request");
    const first = await erase(world, isLater ? {} : { blockIds: [DEVICE] });
    if (isLater) {
      const again = await erase(world, { blockIds: [DEVICE, "ana"] });
      expect([again.body.erasureId, again.headers.get("idempotent-replayed")]).toEqual([first.body.erasureId, "true"]);
    }
    expectError(await erase(world, { blockIds: [OTHER] }), "invalid_request");
    await send(call, app.keys.pk_live, [seen(DEVICE), identify("bob", DEVICE)]);
    expect(await findInDatabase([DEVICE], app.environments.live.id)).toEqual([]);
  }
});

it("an id that only claims by publishable keys reach is blocked after its own erasure, which is not a repeat of the first one", async () => {
  const world = await linkedWorld();
  const first = await erase(world);
  const second = await world.post("erase-person", { distinctId: DEVICE });
  expect(second.body.erasureId).not.toBe(first.body.erasureId);
  const again = await world.post("erase-person", { distinctId: DEVICE });
  expect(again.body.erasureId).toBe(second.body.erasureId);
  await send(world.call, world.app.keys.pk_live, [seen(DEVICE)]);
  expect(await propertiesOf(world, DEVICE)).toEqual([]);
});

it("an id that only claims by publishable keys reach keeps what arrives for it during its erasure", async () => {
  const world = await linkedWorld();
  const { app, call, clock } = world;
  const ctx = makeCtx(app.environments.live, clock);
  const input = { distinctId: "ana", dryRun: false, keepConsent: false };
  const { output } = await erasePerson(ctx, input, { pages: 0, rows: 1 });
  expect(output.status).toBe("running");
  await Promise.all([
    send(call, app.keys.pk_live, [seen(DEVICE, { page: "after" })]),
    world.post("consent", { distinctId: DEVICE, purpose: "ads", decision: "denied", isDevice: true }),
    scheduler.wait(100).then(() => erase(world)),
  ]);
  expect(await propertiesOf(world, DEVICE)).toEqual([{ page: "after" }]);
  expect((await exportOf(call, app, DEVICE)).consentLog).toHaveLength(1);
});

it.each(["$device_id", "$user_id", "distinct_id", "$anon_distinct_id", "alias"])(
  "another person's event loses %s if that names an erased id, and keeps the rest as it was sent",
  async (property) => {
    const world = await linkedWorld();
    const { app, call } = world;
    await erase(world, { blockIds: [DEVICE] });
    for (const key of [app.keys.pk_live, app.keys.sk_live]) {
      await send(call, key, [seen("bob", { [property]: DEVICE, n: 1.5, b: "x" })]);
      await send(call, key, [seen("bob", { [property]: OTHER, n: 1.5 })]);
    }
    expect(await findInDatabase([DEVICE], app.environments.live.id)).toEqual([]);
    const texts = (await eventsOf(app, "bob")).map(({ properties }) => properties);
    expect(new Set(texts)).toEqual(new Set(['{"n":1.5,"b":"x"}', `{"${property}":"${OTHER}","n":1.5}`]));
  },
);

it.each(["$device_id", "$user_id", "distinct_id", "$anon_distinct_id", "alias"])(
  "another person's event keeps only the last of several values of %s, so that an erased id before it is not stored",
  async (property) => {
    const world = await linkedWorld();
    const { app, call } = world;
    await erase(world, { blockIds: [DEVICE] });
    const escaped = property.replace(/^./, (first) => `\\u00${first.charCodeAt(0).toString(16)}`);
    const event = (rest: string, beside = "") =>
      `{"event":"seen","distinct_id":"bob"${beside},"properties":{"a":1.50,"${property}":"${DEVICE}",${rest},"a":2}}`;
    const events = [
      event(`"${escaped}":"${OTHER}"`),
      event(`"${escaped}":null`),
      event(`"${property}":"${OTHER}","${property}":"${DEVICE}"`),
      event(`"${property}":null`, `,"$set":{"b":1}`),
    ];
    const body = `{"api_key":"${app.keys.pk_live}","batch":[${events.join()}]}`;
    expect((await call("POST", "/batch/", { body })).status).toBe(200);
    expect(await findInDatabase([DEVICE], app.environments.live.id)).toEqual([]);
    expect((await eventsOf(app, "bob")).map(({ properties }) => properties)).toEqual([
      `{"a":2,"${property}":"${OTHER}"}`,
      `{"a":2,"${property}":null}`,
      `{"a":2}`,
      `{"a":2,"${property}":null,"$set":{"b":1}}`,
    ]);
  },
);

it("another person's event gets the same response for an erased id, including warnings, as for a new id", async () => {
  const world = await linkedWorld();
  const { app, call } = world;
  await erase(world, { blockIds: [DEVICE] });
  const large = { $set: Object.fromEntries(Array.from({ length: 1_100 }, (_, n) => [`name-${n}`, n])) };
  const requests = (id: string, device: string, bob: string) => [
    [seen(id)],
    [identify(id)],
    [identify(id, `${device.slice(0, -4)}abcd`)],
    [identify(id, bob)],
    [identify(id, "anonymous")],
    [identify(bob, id)],
    [identify(bob, device), identify(bob, device)],
    [{ ...seen(id, { alias: bob }), event: "$create_alias" }],
    [{ ...seen(device, { alias: bob }), event: "$create_alias" }],
    [{ ...seen(device, { alias: id }), event: "$create_alias" }],
    [seen(id, large), seen(device, { $set: { a: 1 } })],
    [{ ...seen(id), event: "" }],
  ];
  for (const [kind, key] of [app.keys.pk_live, app.keys.sk_live].entries()) {
    for (const index of requests("", "", "").keys()) {
      const answers: unknown[] = [];
      for (const isErased of [true, false]) {
        const name = `${kind}-${index}-${isErased}`;
        const [id, device] = isErased ? ["ana", DEVICE] : [`eve-${name}`, crypto.randomUUID()];
        const batch = requests(id, device, `bob-${name}`)[index] ?? [];
        const events = batch.map((event) => ({ ...event, uuid: crypto.randomUUID() }));
        const v1 = await call("POST", "/i/v1/analytics/events", { key, body: { batch: events } });
        const v0 = await call("POST", "/batch/", { body: { api_key: key, batch } });
        answers.push([v1.status, Object.values(v1.body.results), v0.status, v0.body.refused, v0.body.error?.message]);
      }
      expect(answers[0], `request ${index} by ${key.slice(0, 2)}`).toEqual(answers[1]);
    }
  }
});
