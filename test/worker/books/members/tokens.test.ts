import { env } from "cloudflare:workers";
import { SignJWT } from "jose";
import { expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { END_USER_SECRET, END_USER_SETTING } from "../../../support/end-user-setting.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { APPS } from "../../../support/paths.ts";
import type { Bindings } from "../../../support/world.ts";

type World = Awaited<ReturnType<typeof limitsWorld>>;

const SETTING = { ...END_USER_SETTING, payerClaim: "o.id", payerPrefix: "org:" };

const setSetting = ({ app, call }: World, setting: object) =>
  call("PUT", `${APPS}/${app.appId}/end-user-auth`, { key: env.ADMIN_TOKEN, body: { mode: "live", setting } });

/** A team "org:t1" with a balance, a limit for itself and one for each member, of which "ada" used 3. */
async function teamWorld(setting: object = SETTING, bindings: Bindings = {}) {
  const limits = [{ name: "Team" }, { name: "Each", per: "member", amount: 5 }];
  const world = await limitsWorld({ limits, bindings });
  expect((await setSetting(world, setting)).status).toBe(200);
  await world.grant("org:t1");
  await world.use(3, { userId: "org:t1", memberId: "ada" });
  const seconds = Math.floor(world.clock.ms / 1_000);
  const token = (claims: Readonly<Record<string, unknown>>) =>
    new SignJWT({ exp: seconds + 600, iat: seconds, ...claims, sub: `${claims.sub ?? "ada"}` })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode(END_USER_SECRET));
  const ask = async (path: string, claims: Readonly<Record<string, unknown>>) => {
    const headers = { "x-user-token": await token(claims) };
    return world.call("GET", `/api/v1${path}`, { key: world.app.keys.pk_live, headers });
  };
  return { ...world, ask, token, seconds };
}

it("a member's token reads the balances of a payer that it names, and the member's own limits", async () => {
  const { ask } = await teamWorld();
  const claims = { o: { id: "t1" } };
  const balances = await ask("/credits?userId=org:t1", claims);
  expect(balances.body.credits.map(({ remaining }: { remaining: number }) => remaining)).toEqual([999_997]);
  for (const path of ["/usage/limits?userId=org:t1", "/usage/limits?userId=org:t1&memberId=ada"]) {
    const { limits } = (await ask(path, claims)).body;
    expect(limits.map(({ name, memberId, used }: Record<string, unknown>) => [name, memberId, used])).toEqual([
      ["Each", "ada", 3],
    ]);
  }
  expect((await ask("/usage/limits?userId=org:t1&memberId=bob", claims)).body.error).toMatchObject({
    code: "forbidden",
    param: "memberId",
  });
  const own = (await ask("/usage/limits?userId=ada", claims)).body.limits;
  expect(own.map(({ name, used }: Record<string, unknown>) => [name, used])).toEqual([["Team", 0]]);
});

it("a member's token reads nothing else of the payer, and nothing of others", async () => {
  const { ask } = await teamWorld();
  const claims = { o: { id: "t1" } };
  for (const path of ["/usage/events?userId=org:t1", "/usage?userId=org:t1", "/credits/recurring?userId=org:t1"]) {
    expect([path, (await ask(path, claims)).status]).toEqual([path, 403]);
  }
  for (const userId of ["t1", "org:t2", "org:", "u", "bob"]) {
    expect([userId, (await ask(`/credits?userId=${userId}`, claims)).body.error?.code]).toEqual([userId, "forbidden"]);
  }
  expect((await ask("/credits?userId=org:t1&asOf=2026-01-15T12:00:00Z", claims)).status).toBe(403);
});

it("a member's token reads its limits in one trip, and no more than 30 rows, also for the first time in an isolate", async () => {
  const { d1, spent } = countingD1(env.DB);
  const { ask, use, call, app, token } = await teamWorld(SETTING, { DB: d1 });
  await use(1, { userId: "org:t1", memberId: "t1" });
  await use(1, { userId: "ada", onShortage: "partial" });
  for (const [userId, shown] of [
    ["org:t1", [["Each", "ada", 3]]],
    ["ada", [["Team", undefined, 1]]],
  ] as const) {
    for (let times = 0; times < 2; times++) {
      spent();
      const { limits } = (await ask(`/usage/limits?userId=${userId}`, { o: { id: "t1" } })).body;
      expect(limits.map(({ name, memberId, used }: Record<string, unknown>) => [name, memberId, used])).toEqual(shown);
      const { roundTrips, rowsRead } = spent();
      expect([userId, roundTrips]).toEqual([userId, 1]);
      expect(rowsRead).toBeLessThanOrEqual(30);
    }
  }
  const headers = { "x-user-token": await token({ o: { id: "t1" }, sub: "carl" }) };
  const limits = `/api/v1/usage/limits?userId=org:t1`;
  expect((await call("GET", limits, { key: app.keys.pk_live, headers })).body.limits).toMatchObject([
    { name: "Each", memberId: "carl", used: 0 },
  ]);
});

it("a member's token with more texts than are looked up beforehand reads the same limits in a second trip", async () => {
  const { d1, spent } = countingD1(env.DB);
  const { ask } = await teamWorld(SETTING, { DB: d1 });
  const askWith = async (textCount: number) => {
    const texts = Object.fromEntries(Array.from({ length: textCount }, (_, n) => [`claim${n}`, `text ${n}`]));
    spent();
    // `sub` comes last, so that the further texts are looked up instead of it.
    const { limits } = (await ask("/usage/limits?userId=org:t1", { ...texts, o: { id: "t1" }, sub: "ada" })).body;
    expect(limits).toMatchObject([{ name: "Each", memberId: "ada", used: 3 }]);
    return spent().roundTrips;
  };
  expect([await askWith(0), await askWith(60)]).toEqual([1, 2]);
});

it("a member's token names payers by a text or a list of at most 20, and in any other form none", async () => {
  const { ask } = await teamWorld();
  const statusOf = async (id: unknown) => (await ask("/credits?userId=org:t1", { o: { id } })).status;
  expect(await statusOf(["t2", "t1"])).toBe(200);
  const twenty = ["t1", ...Array.from({ length: 19 }, (_, n) => `x${n}`)];
  expect(await statusOf(twenty)).toBe(200);
  for (const id of [[...twenty, "x"], 7, null, "", {}, ["t1", 7], [["t1"]], undefined]) {
    expect([id, await statusOf(id)]).toEqual([id, 403]);
    expect((await ask("/credits?userId=ada", { o: { id } })).status).toBe(200);
  }
});

it("a member's token reads for a payer only if it was issued at most a day ago, and not ahead", async () => {
  const { ask, seconds } = await teamWorld();
  const statusOf = async (iat: unknown) => (await ask("/credits?userId=org:t1", { o: { id: "t1" }, iat })).status;
  expect(await statusOf(seconds - 86_400)).toBe(200);
  for (const iat of [seconds - 86_460, seconds + 3_600, undefined]) expect(await statusOf(iat)).toBe(403);
});

it("a member's token needs a setting with payerClaim, which names no claim that users write, and no prefix alone", async () => {
  const { ask } = await teamWorld(END_USER_SETTING);
  expect((await ask("/credits?userId=org:t1", { o: { id: "t1" } })).status).toBe(403);
  const world = await limitsWorld();
  for (const [part, param] of [
    [{ payerPrefix: "org:" }, "setting.payerPrefix"],
    [{ payerClaim: "user_metadata.org" }, "setting.payerClaim"],
    [{ payerClaim: "custom:org" }, "setting.payerClaim"],
  ] as const) {
    const answer = await setSetting(world, { ...END_USER_SETTING, ...part });
    expect([part, answer.status, answer.body.error?.param]).toEqual([part, 400, param]);
  }
});

it("limits per member count each member of each payer, together with the payer's own, and tell whose it was", async () => {
  const { event, use, callOk, grant, limitIds } = await limitsWorld({
    limits: [{ amount: 10 }, { per: "member", amount: 4 }],
  });
  await grant("v");
  await use(4, { memberId: "ada" });
  expect((await event(1, { memberId: "ada" })).body.error).toMatchObject({
    code: "usage_limit_reached",
    details: { limitId: limitIds[1], memberId: "ada", amount: 4, used: 4, asked: 1 },
  });
  await use(4, { memberId: "ada", userId: "v" });
  await use(4, { memberId: "bob" });
  await use(2);
  expect((await event(1, { memberId: "cy" })).body.error.details).toMatchObject({
    limitId: limitIds[0],
    memberId: null,
  });
  const plan = await callOk("POST", "/credits/plan", { userId: "u", memberId: "ada", event: "chat" });
  expect(plan.limits.map(({ memberId }: { memberId: string | null }) => memberId)).toEqual([null, "ada"]);
  expect((await callOk("GET", "/usage/limits?userId=u")).limits).toHaveLength(1);
  const { limits } = await callOk("GET", "/usage/limits?userId=u&memberId=bob");
  expect(limits.map(({ memberId, used }: Record<string, unknown>) => [memberId, used])).toEqual([
    [null, 10],
    ["bob", 4],
  ]);
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("limits per member count a member's holds, and are exact under races", async () => {
  const { hold, release, holdOk, event, callOk } = await limitsWorld({
    limits: [{ amount: 100 }, { per: "member", amount: 3 }],
  });
  const answers = await Promise.all([
    ...Array.from({ length: 6 }, () => event(1, { memberId: "ada" })),
    ...Array.from({ length: 4 }, () => event(1, { memberId: "bob" })),
  ]);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(6);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(4);
  const held = await holdOk(3, { memberId: "cy" });
  expect((await hold(1, { memberId: "cy" })).status).toBe(429);
  expect((await release(held)).status).toBe(200);
  expect((await hold(1, { memberId: "cy" })).status).toBe(200);
  const { limits } = await callOk("GET", "/usage/limits?userId=u&memberId=cy");
  expect(limits.map(({ used }: { used: number }) => used)).toEqual([7, 1]);
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("limits per member take a member's own amount, and refuse one without a member, and a member for other limits", async () => {
  const { ask, callOk, event, limitIds } = await limitsWorld({ limits: [{}, { per: "member", amount: 2 }] });
  const path = (index: number) => `/usage/limits/${limitIds[index]}/amount`;
  for (const [index, body] of [
    [0, { userId: "u", memberId: "ada", amount: 1 }],
    [1, { userId: "u", amount: 1 }],
  ] as const) {
    expect(await ask("PUT", path(index), body)).toMatchObject({
      status: 400,
      body: { error: { param: "memberId" } },
    });
  }
  expect((await ask("DELETE", `${path(1)}?userId=u`)).status).toBe(400);
  expect(await callOk("PUT", path(1), { userId: "u", memberId: "ada", amount: 5 })).toMatchObject({
    ...{ memberId: "ada", amount: 5, used: 0, remaining: 5 },
  });
  expect((await event(5, { memberId: "ada" })).status).toBe(200);
  expect((await event(3, { memberId: "bob" })).status).toBe(429);
  expect(await callOk("DELETE", `${path(1)}?userId=u&memberId=ada`)).toMatchObject({
    amount: 2,
    used: 5,
    remaining: 0,
  });
  expect((await event(1, { memberId: "ada" })).status).toBe(429);
});
