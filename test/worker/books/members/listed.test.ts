import { afterAll, expect, it } from "vitest";
import { sumDaysOf } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { makeAdminCtx } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** A payer "u" with usage of two members and of nobody, an hour apart. */
async function teamWorld() {
  const world = await limitsWorld({ limits: [] });
  const { use } = world;
  const at = (hour: number) => `2026-01-15T0${hour}:00:00.000Z`;
  await use(1, { eventId: "1", memberId: "ada", occurredAt: at(1) });
  await use(2, { eventId: "2", memberId: "bob", occurredAt: at(2) });
  await use(4, { eventId: "3", occurredAt: at(3) });
  await use(8, { eventId: "4", memberId: "ada", event: "image", occurredAt: at(4) });
  return { ...world, from: "2026-01-15T00:00:00.000Z", to: "2026-01-16T00:00:00.000Z" };
}

it("a payer's usage is narrowed to a member in lists and totals, also across pages", async () => {
  const { callOk, from } = await teamWorld();
  const idsOf = ({ events }: { events: { eventId: string }[] }) => events.map(({ eventId }) => eventId);
  expect(idsOf(await callOk("GET", "/usage/events?userId=u&memberId=ada"))).toEqual(["4", "1"]);
  expect(idsOf(await callOk("GET", "/usage/events?userId=u&memberId=nobody"))).toEqual([]);
  expect(idsOf(await callOk("GET", "/usage/events?userId=ada&memberId=ada"))).toEqual([]);
  const first = await callOk("GET", "/usage/events?userId=u&memberId=ada&limit=1");
  expect(idsOf(first)).toEqual(["4"]);
  expect(idsOf(await callOk("GET", `/usage/events?userId=u&memberId=ada&cursor=${first.nextCursor}`))).toEqual(["1"]);
  expect((await callOk("GET", "/usage?userId=u&memberId=ada")).totals).toEqual([
    { event: "chat", unit: "count", amount: 1 },
    { event: "image", unit: "count", amount: 8 },
  ]);
  const { totals } = await callOk("GET", `/usage?userId=u&groupBy=member,event&from=${from}`);
  expect(totals.map((total: Record<string, unknown>) => [total.memberId, total.event, total.quantities])).toEqual([
    [null, "chat", { count: 4 }],
    ["ada", "chat", { count: 1 }],
    ["bob", "chat", { count: 2 }],
    ["ada", "image", { count: 8 }],
  ]);
});

it("a payer's usage is listed by member, in the order of their ids, page by page", async () => {
  const { callOk, ask, from, to } = await teamWorld();
  const path = `/usage/members?userId=u&from=${from}&to=${to}`;
  const ada = {
    ...{ memberId: "ada", events: 2, quantities: { count: 9 }, debited: { count: 9 } },
    lastUsedAt: "2026-01-15T04:00:00.000Z",
  };
  const bob = {
    ...{ memberId: "bob", events: 1, quantities: { count: 2 }, debited: { count: 2 } },
    lastUsedAt: "2026-01-15T02:00:00.000Z",
  };
  expect(await callOk("GET", path)).toEqual({ members: [ada, bob], nextCursor: null });
  const first = await callOk("GET", `${path}&limit=1`);
  expect(first.members).toEqual([ada]);
  expect(await callOk("GET", `${path}&cursor=${first.nextCursor}`)).toEqual({ members: [bob], nextCursor: null });
  expect((await ask("GET", `${path}&cursor=altered`)).status).toBe(400);
  expect((await ask("GET", `/usage/members?userId=v&from=${from}&to=${to}&cursor=${first.nextCursor}`)).status).toBe(
    400,
  );
  expect((await ask("GET", "/usage/members?userId=u")).status).toBe(400);
  expect(await callOk("GET", path.replace("userId=u", "userId=stranger"))).toEqual({ members: [], nextCursor: null });
});

it("a payer's usage has one order of ids, that of their code points, in lists and in totals", async () => {
  const { callOk, use } = await limitsWorld({ limits: [] });
  // The code units of "😀" are less than that of "ｚ", although its code point is greater.
  const memberIds = ["a", "aa", "ｚ", "ｚa", "😀"];
  for (const memberId of memberIds.toReversed()) await use(1, { eventId: memberId, memberId, event: memberId });
  const span = "userId=u&from=2000-01-01T00:00Z&to=2100-01-01T00:00Z";
  const { members } = await callOk("GET", `/usage/members?${span}`);
  expect(members.map((member: { memberId: string }) => member.memberId)).toEqual(memberIds);
  for (const group of ["member", "event"]) {
    const { totals } = await callOk("GET", `/usage?${span}&groupBy=${group}`);
    const ids = totals.map((total: Record<string, unknown>) => total[group === "member" ? "memberId" : group]);
    expect(ids).toEqual(memberIds);
  }
});

it("a payer's usage is summed by day for each pair of payer and member, for an operator who may see people", async () => {
  const { admin, app, clock, from, to } = await teamWorld();
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  const { body } = await admin("GET", `/usage?mode=live&from=${from}&to=${to}&groupBy=member`);
  expect(body.totals.map((total: Record<string, unknown>) => [total.userId, total.memberId, total.quantities])).toEqual(
    [
      ["u", "ada", { count: 9 }],
      ["u", "bob", { count: 2 }],
    ],
  );
  const byUser = await admin("GET", `/usage?mode=live&from=${from}&to=${to}&groupBy=user`);
  expect(byUser.body.totals[0]).toMatchObject({ userId: "u", events: 4, quantities: { count: 15 } });
  expect(app.appId).toBeDefined();
});

it("a payer's usage tells a publishable key no member, and refuses it what only a secret key may ask", async () => {
  const { call, app, from, to } = await teamWorld();
  for (const path of [
    "/usage/events?userId=u&memberId=ada",
    "/usage?userId=u&memberId=ada",
    `/usage/members?userId=u&from=${from}&to=${to}`,
  ]) {
    const answer = await call("GET", `/api/v1${path}`, { key: app.keys.pk_live });
    expect([path, answer.status, answer.body.error.code]).toEqual([path, 403, "requires_secret_key"]);
  }
});
