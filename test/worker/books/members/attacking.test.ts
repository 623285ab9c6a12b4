import { env } from "cloudflare:workers";
import { SignJWT } from "jose";
import { afterAll, expect, it } from "vitest";
import { END_USER_SECRET, END_USER_SETTING } from "../../../support/end-user-setting.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { APPS } from "../../../support/paths.ts";
import { send } from "../../../support/people.ts";

afterAll(expectLedgerInvariants);

const DAY_SECONDS = 86_400;
const SETTING = { ...END_USER_SETTING, payerClaim: "org_id" };

/** Two teams with credits and a limit per member. "ada" is a member of team 1, "bob" of team 2. */
async function teams() {
  const world = await limitsWorld({ limits: [{ name: "Each", per: "member", amount: 5 }] });
  const { app, call, clock, grant, use, callOk } = world;
  for (const mode of ["live", "test"] as const) {
    const body = { mode, setting: SETTING };
    expect((await call("PUT", `${APPS}/${app.appId}/end-user-auth`, { key: env.ADMIN_TOKEN, body })).status).toBe(200);
  }
  for (const [team, memberId] of [
    ["team1", "ada"],
    ["team2", "bob"],
  ] as const) {
    await grant(team);
    await use(3, { eventId: `e-${team}`, userId: team, memberId, properties: { text: `of ${memberId}` } });
  }
  const seconds = Math.floor(clock.ms / 1_000);
  /** Asks with a token of somebody. */
  const askAs = async (
    claims: { sub: string; org_id?: unknown; iat?: number },
    path: string,
    key = app.keys.pk_live,
  ) => {
    const token = await new SignJWT({ iat: seconds, exp: seconds + 2 * DAY_SECONDS, ...claims })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode(END_USER_SECRET));
    const { status, body } = await call("GET", `/api/v1${path}`, { key, headers: { "x-user-token": token } });
    return { status, code: body.error?.code, body };
  };
  const exported = async (distinctId: string) => {
    const { downloadUrl } = await callOk("POST", "/export-person", { distinctId });
    const { pathname, search } = new URL(downloadUrl);
    return (await call("GET", `${pathname}${search}`)).body;
  };
  return { ...world, seconds, askAs, exported };
}

/** All that a page can ask of a user, and what only a server may. */
const OF_USER = ["/credits", "/usage/limits", "/usage/events", "/usage", "/credits/recurring"];
const OF_SERVER = ["/credits/history", "/usage/members", "/usage/reservations", "/credits/verify"];
const SPAN = "from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z";

it("a member reads two lists of its own payer, nothing of another, and nothing that a server reads", async () => {
  const { askAs } = await teams();
  const ada = { sub: "ada", org_id: "team1" };
  const read: string[] = [];
  for (const path of [...OF_USER, ...OF_SERVER]) {
    const own = await askAs(ada, `${path}?userId=team1&${SPAN}`);
    if (own.status === 200) read.push(path);
    expect([path, (await askAs(ada, `${path}?userId=team2&${SPAN}`)).status]).toEqual([path, 403]);
  }
  expect(read).toEqual(["/credits", "/usage/limits"]);
});

it("a member reads no other member's use: neither by memberId, nor in totals or events of its own", async () => {
  const { askAs, use } = await teams();
  await use(1, { userId: "team1", memberId: "bob" });
  const ada = { sub: "ada", org_id: "team1" };
  for (const memberId of ["bob", "team1", ""]) {
    const { status, body } = await askAs(ada, `/usage/limits?userId=team1&memberId=${memberId}`);
    expect([memberId, status === 200, JSON.stringify(body).includes('"used"')]).toEqual([memberId, false, false]);
  }
  const { body } = await askAs(ada, "/usage/limits?userId=team1");
  expect(body.limits).toMatchObject([{ memberId: "ada", used: 3 }]);
  for (const path of ["/usage/events?userId=ada", `/usage?userId=ada&${SPAN}&groupBy=member`])
    expect(JSON.stringify((await askAs(ada, path)).body)).not.toMatch(/team1|bob/);
});

it("a member is found under its own id alone, whatever other texts its token has", async () => {
  const { askAs } = await teams();
  const claims = { sub: "ada", org_id: ["team1", "bob", "team2"], name: "bob", nested: { id: "bob" } };
  const { body } = await askAs(claims, "/usage/limits?userId=team2");
  expect(body.limits).toMatchObject([{ memberId: "ada", used: 0 }]);
});

it("a former member reads its payer for a day after its last token at most, and nothing by a token without the team", async () => {
  const { askAs, seconds, clock } = await teams();
  const old = { sub: "ada", org_id: "team1", iat: seconds };
  expect((await askAs(old, "/credits?userId=team1")).status).toBe(200);
  expect((await askAs({ sub: "ada" }, "/credits?userId=team1")).code).toBe("forbidden");
  expect((await askAs({ sub: "ada", org_id: "team2" }, "/credits?userId=team1")).code).toBe("forbidden");
  clock.advance((DAY_SECONDS + 1) * 1_000);
  for (const path of OF_USER) expect((await askAs(old, `${path}?userId=team1&${SPAN}`)).code).toBe("forbidden");
  expect((await askAs(old, "/credits?userId=ada")).status).toBe(200);
});

it("a former member who was erased leaves no name with the payer, and its id in a page of the payer says that it used nothing", async () => {
  const { callOk, exported, askAs } = await teams();
  await callOk("POST", "/erase-person", { distinctId: "ada" });
  for (const path of [`/usage/members?userId=team1&${SPAN}`, "/usage/events?userId=team1"])
    expect(JSON.stringify(await callOk("GET", path))).not.toMatch(/\bada\b/);
  expect(JSON.stringify(await exported("team1"))).not.toMatch(/"ada"|of ada/);
  const { body } = await askAs({ sub: "ada", org_id: "team1" }, "/usage/limits?userId=team1");
  expect(body.limits).toMatchObject([{ memberId: "ada", used: 0 }]);
});

it("a payer reads its events by its own token without members and properties, and exports no member's texts", async () => {
  const { askAs, exported } = await teams();
  const { status, body } = await askAs({ sub: "team1" }, "/usage/events?userId=team1");
  expect([status, JSON.stringify(body)]).toEqual([200, expect.not.stringContaining("ada")]);
  expect((await askAs({ sub: "team1" }, `/usage?userId=team1&${SPAN}&groupBy=member`)).status).not.toBe(200);
  expect((await askAs({ sub: "team1" }, "/usage/limits?userId=team1&memberId=ada")).code).toBe("forbidden");
  expect(JSON.stringify(await exported("team1"))).not.toMatch(/\bada\b/);
});

it("a payer who claims a member's device exports its use without texts, and an export of the device alone has not the payer's", async () => {
  const { app, call, use, exported } = await teams();
  await use(1, { eventId: "e-device", userId: "team1", memberId: "device", properties: { text: "device's" } });
  await use(1, { eventId: "e-payer", userId: "team1", properties: { text: "payer's" } });
  await send(call, app.keys.sk_live, [
    { event: "$identify", distinct_id: "ada", properties: { $anon_distinct_id: "device" } },
  ]);
  const device = await exported("device");
  // The claimed id is a person of its own, never its claimer (P3): it has its own use alone.
  expect(device.events.metering).toMatchObject([
    {
      role: "member",
      eventId: null,
      userId: null,
      memberId: "device",
      debits: null,
      properties: { text: "device's" },
    },
  ]);
  expect(JSON.stringify(device)).not.toMatch(/team1|ada|payer's/);
  const ada = await exported("ada");
  const texts = ada.events.metering.map(({ role, properties }: Record<string, unknown>) => [role, properties]);
  expect(texts).toEqual([
    ["member", { text: "of ada" }],
    ["member", { text: "device's" }],
  ]);
  expect(JSON.stringify(ada)).not.toMatch(/team1|payer's/);
});

it("a stranger reads nothing of a team: without a token, by another secret, another mode's key, or as a member of an equal name elsewhere", async () => {
  const { app, call, askAs } = await teams();
  const limits = "/api/v1/usage/limits?userId=team1&memberId=ada";
  expect((await call("GET", limits, { key: app.keys.pk_live })).status).toBe(401);
  const forged = await new SignJWT({ sub: "ada", org_id: "team1", iat: 1, exp: 9_999_999_999 })
    .setProtectedHeader({ alg: "HS256" })
    .sign(new TextEncoder().encode("a secret that only a stranger knows"));
  const answer = await call("GET", limits, { key: app.keys.pk_live, headers: { "x-user-token": forged } });
  expect([answer.status, JSON.stringify(answer.body)]).toEqual([401, expect.not.stringContaining("used")]);
  const inTest = await askAs({ sub: "ada", org_id: "team1" }, "/usage/limits?userId=team1", app.keys.pk_test);
  expect(inTest.body).toEqual({ limits: [] });
  const other = await teams();
  const { limits: ofOther } = await other.callOk("GET", "/usage/limits?userId=team1&memberId=bob");
  expect(ofOther).toMatchObject([{ memberId: "bob", used: 0 }]);
});

it("a stranger's token is rejected as such, however deep its claims are nested", async () => {
  const { app, call } = await teams();
  const part = (text: string) => btoa(text).replaceAll("=", "");
  const claims = `${'{"a":'.repeat(5_000)}"ada"${"}".repeat(5_000)}`;
  const token = [part('{"alg":"HS256"}'), part(claims), part("nobody")].join(".");
  const headers = { "x-user-token": token };
  const answer = await call("GET", "/api/v1/usage/limits?userId=team1", { key: app.keys.pk_live, headers });
  expect([answer.status, answer.body.error]).toMatchObject([401, { details: { reason: "signature" } }]);
});

it("a stranger of another application or mode finds, changes and erases no member by its id", async () => {
  const { app, call, callOk, limitIds } = await teams();
  const other = await limitsWorld({ limits: [{ per: "member", amount: 5 }] });
  const span = `/usage/members?userId=team1&${SPAN}`;
  for (const key of [other.app.keys.sk_live, app.keys.sk_test]) {
    const ask = (method: string, path: string, body?: object) =>
      call(method, `/api/v1${path}`, { key, ...(body === undefined ? {} : { body }) });
    expect((await ask("GET", span)).body.members).toEqual([]);
    expect((await ask("GET", "/usage/events?userId=team1&memberId=ada")).body.events).toEqual([]);
    const own = { userId: "team1", memberId: "ada", amount: 0 };
    expect((await ask("PUT", `/usage/limits/${limitIds[0]}/amount`, own)).status).toBe(404);
    expect((await ask("POST", "/erase-person", { distinctId: "ada" })).status).toBe(200);
  }
  expect((await callOk("GET", span)).members).toMatchObject([{ memberId: "ada", events: 1 }]);
  const { limits } = await callOk("GET", "/usage/limits?userId=team1&memberId=ada");
  expect(limits).toMatchObject([{ amount: 5, used: 3 }]);
});
