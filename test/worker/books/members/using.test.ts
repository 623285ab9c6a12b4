import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { makeEndpoint } from "../../../support/webhooks.ts";
import { inTurn } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

type World = Awaited<ReturnType<typeof limitsWorld>>;

const noLimits = () => limitsWorld({ limits: [] });

const membersOf = async ({ app }: World) =>
  (
    await env.DB.prepare(
      "SELECT member_number AS number, member_id FROM members WHERE environment_id = ? ORDER BY member_id, member_number",
    )
      .bind(app.environments.live.id)
      .all<{ number: number; member_id: string }>()
  ).results;

const shownEvent = async ({ callOk }: World, eventId: string) =>
  callOk("GET", `/usage/events?eventId=${encodeURIComponent(eventId)}`);

it("memberId stands in the answers of events, plans and reservations, and a commit has its hold's", async () => {
  const world = await noLimits();
  const { use, holdOk, commit, callOk } = world;
  await use(1, { eventId: "by ada", memberId: "ada" });
  expect(await shownEvent(world, "by ada")).toMatchObject({ userId: "u", memberId: "ada" });
  await use(1, { eventId: "by nobody", memberId: null });
  expect(await shownEvent(world, "by nobody")).toMatchObject({ memberId: null });
  const plan = await callOk("POST", "/credits/plan", { userId: "u", memberId: "ada", event: "chat" });
  expect(plan.memberId).toBe("ada");
  const hold = await holdOk(5, { memberId: "bob" });
  expect((await callOk("GET", `/usage/reservations/${hold}`)).memberId).toBe("bob");
  expect((await commit(hold, 2, { eventId: "committed" })).status).toBe(200);
  expect(await shownEvent(world, "committed")).toMatchObject({ memberId: "bob" });
  const listed = (await callOk("GET", "/usage/reservations?userId=u")).reservations;
  expect(listed.map(({ memberId }: { memberId: string }) => memberId)).toEqual(["bob"]);
  expect(await membersOf(world)).toEqual([
    { number: 1, member_id: "ada" },
    { number: 2, member_id: "bob" },
  ]);
});

it("memberId is part of the request that a repeat is compared with", async () => {
  const { use, event, hold } = await noLimits();
  await use(1, { eventId: "once", memberId: "ada" });
  expect((await event(1, { eventId: "once", memberId: "ada" })).headers.get("idempotent-replayed")).toBe("true");
  for (const memberId of ["bob", null]) {
    const other = await event(1, { eventId: "once", memberId });
    expect(other).toMatchObject({ status: 409, body: { error: { details: { differs: ["memberId"] } } } });
  }
  const reservationId = "res_once";
  expect((await hold(1, { reservationId, memberId: "ada" })).status).toBe(200);
  expect((await hold(1, { reservationId, memberId: "ada" })).headers.get("idempotent-replayed")).toBe("true");
  expect(await hold(1, { reservationId })).toMatchObject({
    status: 409,
    body: { error: { details: { differs: ["memberId"] } } },
  });
});

it("memberId names a member of its own for each payer, and equal to the payer it is a member like others", async () => {
  const world = await noLimits();
  await world.grant("v");
  for (const userId of ["u", "v"]) await world.use(1, { userId, memberId: "ada" });
  await world.use(1, { memberId: "u" });
  expect(await membersOf(world)).toEqual([
    { number: 1, member_id: "ada" },
    { number: 1, member_id: "ada" },
    { number: 2, member_id: "u" },
  ]);
});

it("memberId is refused where it is no id, and holds no credits", async () => {
  const { event, callOk } = await noLimits();
  for (const memberId of ["", "a\u0000b", "x".repeat(201), 7]) {
    expect(await event(1, { memberId })).toMatchObject({ status: 400, body: { error: { param: "memberId" } } });
  }
  expect((await event(1, { memberId: "ada" })).status).toBe(200);
  expect((await callOk("GET", "/credits?userId=ada")).credits).toEqual([]);
  expect((await event(1, { userId: "ada" })).status).toBe(402);
});

it("memberId comes in lists, each element with its own, and in the data of CloudEvents", async () => {
  const world = await noLimits();
  const { callOk, call, key } = world;
  const events = ["ada", "bob", undefined, "ada"].map((memberId, n) => ({
    ...{ eventId: `l${n}`, userId: "u", event: "chat" },
    ...(memberId === undefined ? {} : { memberId }),
  }));
  const { results } = await callOk("POST", "/usage/events/batch", events as unknown as object);
  expect(results.map(({ error }: { error?: object }) => error)).toEqual([undefined, undefined, undefined, undefined]);
  const cloudEvent = await call("POST", "/api/v1/usage/events", {
    key,
    body: {
      ...{ specversion: "1.0", id: "c1", source: "/chat", type: "chat", subject: "u" },
      data: { memberId: "bob", quantities: { count: 1 } },
    },
    headers: { "content-type": "application/cloudevents+json" },
  });
  expect(cloudEvent.status, JSON.stringify(cloudEvent.body)).toBe(200);
  const shown = await Promise.all(["l0", "l1", "l2", "l3", "/chat#c1"].map((id) => shownEvent(world, id)));
  expect(shown.map(({ memberId }) => memberId)).toEqual(["ada", "bob", null, "ada", "bob"]);
});

it("memberId is created once by racing first events, in whatever isolate", async () => {
  const world = await limitsWorld({ limits: [], pick: inTurn(3) });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => world.event(1, { memberId: `m${n % 2}` })));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect((await membersOf(world)).map(({ member_id }) => member_id)).toEqual(["m0", "m1"]);
});

it("memberId of a charge is its hold's, also in messages; the message of a returned hold has it", async () => {
  const world = await noLimits();
  const { holdOk, clock, callOk, app, use } = world;
  const endpoint = await makeEndpoint(app.environments.live);
  const reservationId = await holdOk(3, { memberId: "ada", onExpiry: "charge" });
  await holdOk(3, { memberId: "bob" });
  clock.advance(61_000);
  await use(1, { eventId: "later" });
  expect((await callOk("GET", `/usage/events?eventId=${reservationId}`)).memberId).toBe("ada");
  const sent = await env.DB.prepare(
    "SELECT type, data FROM webhook_messages WHERE environment_id = ? ORDER BY type, id",
  )
    .bind(app.environments.live.id)
    .all<{ type: string; data: string }>();
  expect(endpoint).toBeDefined();
  const members = sent.results
    .map(({ type, data }) => [type, JSON.parse(data).eventId ?? "", JSON.parse(data).memberId])
    .filter(([type]) => type === "usage.recorded" || type === "reservation.expired");
  expect(members.toSorted()).toEqual(
    [
      ["reservation.expired", "", "bob"],
      ["usage.recorded", "later", null],
      ["usage.recorded", reservationId, "ada"],
    ].toSorted(),
  );
});

it("costs are one row read and one written more for a member, and none without one", async () => {
  const counting = countingD1(env.DB);
  const { event, clock } = await limitsWorld({ limits: [], bindings: { DB: counting.d1 } });
  const cost = async (fields: object) => {
    counting.spent();
    expect((await event(1, fields)).status).toBe(200);
    return counting.spent();
  };
  await cost({});
  clock.advance(2_000);
  const first = await cost({ memberId: "ada" });
  const without = await cost({});
  const withMember = await cost({ memberId: "ada" });
  expect(withMember.roundTrips).toBe(without.roundTrips);
  expect(withMember.rowsWritten - without.rowsWritten).toBe(1);
  expect(withMember.rowsRead - without.rowsRead).toBeLessThanOrEqual(1);
  expect(first.rowsWritten - without.rowsWritten).toBe(3);
});
