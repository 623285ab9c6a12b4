import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { limitsWorld } from "../../../support/limits.ts";
import { send } from "../../../support/people.ts";

it("an export names nobody but its person: the payer's copy has no member, the member's no payer, id or debits", async () => {
  const { grant, use, callOk, call } = await limitsWorld({ limits: [{ per: "member", amount: 9 }] });
  await grant("ada");
  await use(1, { eventId: "e-team", memberId: "ada", properties: { text: "private" } });
  await use(2, { eventId: "e-own", userId: "ada", memberId: "ada", properties: { text: "own" } });
  const exported = async (distinctId: string) => {
    const { downloadUrl } = await callOk("POST", "/export-person", { distinctId });
    const { pathname, search } = new URL(downloadUrl);
    const answer = await call("GET", `${pathname}${search}`);
    expect([answer.status, env.DB !== undefined]).toEqual([200, true]);
    return answer.body;
  };
  const payer = await exported("u");
  expect(payer.events.metering).toMatchObject([
    { role: "payer", eventId: "e-team", userId: "u", memberId: null, properties: null },
  ]);
  expect(JSON.stringify(payer)).not.toMatch(/\bada\b/);
  const member = await exported("ada");
  expect(member.events.metering).toMatchObject([
    { role: "payer", eventId: "e-own", userId: "ada", memberId: "ada", properties: { text: "own" } },
    {
      role: "member",
      eventId: null,
      userId: null,
      memberId: "ada",
      debits: null,
      uncovered: null,
      properties: { text: "private" },
    },
  ]);
  expect(JSON.stringify(member)).not.toContain("e-team");
  expect(member.person.usageLimits.map(({ used }: { used: number }) => used).toSorted()).toEqual([1, 2]);
});

it("an export has the usage of one person who pays by an id and uses by another once, as the payer, with all of it", async () => {
  const { app, call, grant, use, callOk } = await limitsWorld({ limits: [{ per: "member", amount: 9 }] });
  await grant("team");
  await use(1, { eventId: "e-other", memberId: "bob", properties: { text: "bob's" } });
  await use(2, { eventId: "e-own", memberId: "phone", properties: { text: "own" } });
  await use(4, { eventId: "e-large", memberId: "phone", properties: { text: "own".repeat(500) } });
  await send(call, app.keys.sk_live, [
    { event: "$identify", distinct_id: "u", properties: { $anon_distinct_id: "phone" } },
  ]);
  const { downloadUrl } = await callOk("POST", "/export-person", { distinctId: "u" });
  const { pathname, search } = new URL(downloadUrl);
  const { body } = await call("GET", `${pathname}${search}`);
  const { metering } = body.events;
  expect(metering.map((event: Record<string, unknown>) => [event.role, event.eventId, event.memberId])).toEqual([
    ["payer", "e-other", null],
    ["payer", "e-own", "phone"],
    ["payer", "e-large", "phone"],
  ]);
  expect(metering.map(({ properties }: { properties: unknown }) => properties)).toEqual([
    null,
    { text: "own" },
    { text: "own".repeat(500) },
  ]);
});

it("an export has the limits of all ids of the person, as a payer and as a member", async () => {
  const { app, call, grant, use, callOk } = await limitsWorld({
    limits: [{ amount: 50 }, { per: "member", amount: 9 }],
  });
  await Promise.all(["u", "phone", "team"].map(grant));
  await use(1, { eventId: "e-u", memberId: "bob" });
  await use(2, { eventId: "e-phone", userId: "phone" });
  await use(3, { eventId: "e-team", userId: "team", memberId: "phone" });
  await use(4, { eventId: "e-both", memberId: "phone" });
  await send(call, app.keys.sk_live, [
    { event: "$identify", distinct_id: "u", properties: { $anon_distinct_id: "phone" } },
  ]);
  const limitsOf = async (distinctId: string) => {
    const { downloadUrl } = await callOk("POST", "/export-person", { distinctId });
    const { pathname, search } = new URL(downloadUrl);
    const { body } = await call("GET", `${pathname}${search}`);
    return body.person.usageLimits.map(({ amount, used }: Record<string, unknown>) => [amount, used]).toSorted();
  };
  expect(await limitsOf("u")).toEqual([
    [50, 2],
    [50, 5],
    [9, 3],
    [9, 4],
  ]);
  expect(await limitsOf("phone")).toEqual([
    [50, 2],
    [9, 3],
    [9, 4],
  ]);
});
