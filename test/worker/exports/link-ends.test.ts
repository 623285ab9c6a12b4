import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { systemCtx } from "../../../src/auth/system-ctx.ts";
import { oldLinkEndsPart } from "../../../src/exports/end-links.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { runPart } from "../../support/cron.ts";
import { linkTo, open, readDocument } from "../../support/exports.ts";
import { describeRejections, expectError } from "../../support/rejections.ts";
import { seedAnalytics, seedPerson } from "../../support/seed-rows.ts";
import { bound, type Client, Clock, makeApp, makeClient, startIsolate, type TestApp } from "../../support/world.ts";

const PERSON = "/api/v1/export-person";
const REVOKE = `${PERSON}/revoke`;

async function mint(call: Client, key: string, distinctId: string): Promise<string> {
  const { status, body } = await call("POST", PERSON, { key, body: { distinctId } });
  expect(status).toBe(200);
  return body.downloadUrl;
}

async function revoke(call: Client, key: string, distinctId: string): Promise<number> {
  const { status, body } = await call("POST", REVOKE, { key, body: { distinctId } });
  expect(status).toBe(200);
  return body.revoked;
}

async function endsOf(app: TestApp): Promise<number> {
  const row = await env.DB.prepare("SELECT count(*) AS n FROM link_ends WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .first<{ n: number }>();
  return row?.n ?? 0;
}

describeRejections("POST /api/v1/export-person/revoke", {
  prepare: () => ({ method: "POST", path: REVOKE, body: { distinctId: "ana" } }),
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body.revoked).toBe(0),
});

it("ending the links of an id ends only the links of that id, mode and application, and counts the valid ones", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const [app, other] = [await makeApp(), await makeApp()];
  const { sk_live: key, sk_test: testKey } = app.keys;
  const expired = await mint(call, key, "ana");
  clock.advance(DAY_MS);
  const links = [await mint(call, key, "ana"), await mint(call, key, "ana")];
  const others = [
    await mint(call, key, "bob"),
    await mint(call, testKey, "ana"),
    await mint(call, other.keys.sk_live, "ana"),
  ];
  clock.advance(1);
  expectError(await call("GET", expired), "invalid_or_expired_token");
  expect(await revoke(call, key, "ana")).toBe(2);
  for (const link of links) {
    expectError(await call("GET", link), "invalid_or_expired_token");
    expect((await call("HEAD", link)).status).toBe(401);
  }
  for (const link of others) expect((await call("GET", link)).status).toBe(200);
  clock.advance(1);
  const later = await mint(call, key, "ana");
  expect((await call("GET", later)).status).toBe(200);
  expect(await revoke(call, key, "ana")).toBe(1);
  clock.advance(1);
  expect(await revoke(call, key, "ana")).toBe(0);
  expectError(await call("GET", later), "invalid_or_expired_token");
});

it("ending the links of an id makes links answer like invalid ones, and records no opening", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const link = await mint(call, app.keys.sk_live, "ana");
  await revoke(call, app.keys.sk_live, "ana");
  const { body: ended } = await call("GET", link);
  const { body: wrong } = await call("GET", `${link}x`);
  expect({ ...ended.error, requestId: "" }).toEqual({ ...wrong.error, requestId: "" });
  const { results } = await env.DB.prepare("SELECT action FROM export_audit WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ action: "minted" }]);
});

it("ending the links of an id lasts after the secret was changed", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const link = await linkTo(app, "ana", clock);
  await revoke(makeClient(clock), app.keys.sk_live, "ana");
  const call = makeClient(clock, {
    ANALYTICS_EXPORT_SECRET: "a-secret-that-came-later",
    ANALYTICS_EXPORT_SECRET_PREVIOUS: env.ANALYTICS_EXPORT_SECRET,
  });
  expectError(await call("GET", link), "invalid_or_expired_token");
});

it("ending the links of an id lasts after a change of the secret was undone", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const link = await linkTo(app, "ana", clock);
  const rotated = makeClient(clock, {
    ANALYTICS_EXPORT_SECRET: "a-secret-that-came-later",
    ANALYTICS_EXPORT_SECRET_PREVIOUS: env.ANALYTICS_EXPORT_SECRET,
  });
  await revoke(rotated, app.keys.sk_live, "ana");
  expectError(await makeClient(clock)("GET", link), "invalid_or_expired_token");
});

it("ending the links of an id lasts if the person is erased meanwhile, and counts links of an erased id", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const { sk_live: key } = app.keys;
  const link = await mint(call, key, "ana");
  await revoke(call, key, "ana");
  expect((await call("POST", "/api/v1/erase-person", { key, body: { distinctId: "ana" } })).status).toBe(200);
  expectError(await call("GET", link), "invalid_or_expired_token");
  clock.advance(1);
  const later = await mint(call, key, "ana");
  expect(await revoke(call, key, "ana")).toBe(1);
  expectError(await call("GET", later), "invalid_or_expired_token");
});

it("ending the links of an id lets a running download finish, and lets no link open afterwards, even in a race", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await seedAnalytics(app.environments.live, "ana", new Array(4_000).fill('{"a":"bcdefghijklmnop"}'));
  const link = await linkTo(app, "ana", clock);
  const running = await open(link, clock);
  const racing = Array.from({ length: 6 }, async (_, n) => {
    if (n === 3) return `${await revoke(call, app.keys.sk_live, "ana")}`;
    const response = await open(link, clock);
    const text = await response.text();
    if (response.status === 200) readDocument(text);
    return response.status;
  });
  const answers = await Promise.all(racing);
  expect(answers.filter((answer) => answer !== 200 && answer !== 401)).toEqual(["0"]);
  expect(readDocument(await running.text()).events.analytics).toHaveLength(4_000);
  expect((await open(link, clock)).status).toBe(401);
});

it("ending the links of an id is forgotten when the last of the links has expired, and not before", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const link = await linkTo(app, "ana", clock);
  await revoke(makeClient(clock), app.keys.sk_live, "ana");
  clock.advance(DAY_MS);
  await runPart(oldLinkEndsPart.work, systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId }));
  // One for each of the two secrets.
  expect(await endsOf(app)).toBe(2);
  expect((await open(link, clock)).status).toBe(401);
  clock.advance(1);
  await runPart(oldLinkEndsPart.work, systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId }));
  expect(await endsOf(app)).toBe(0);
  expect((await open(link, clock)).status).toBe(401);
});

it("ending the links of an id is rejected for an empty or too long id, with a misspelt field, and without a secret, and nothing is written", async () => {
  const call = makeClient(new Clock());
  const app = await makeApp();
  const { sk_live: key } = app.keys;
  for (const distinctId of ["", "x".repeat(201), 7, undefined]) {
    expectError(await call("POST", REVOKE, { key, body: { distinctId } }), "invalid_request", "distinctId");
  }
  expectError(await call("POST", REVOKE, { key, body: { distinctId: "a", link: "b" } }), "invalid_request", "link");
  const without = makeClient(new Clock(), { ANALYTICS_EXPORT_SECRET: "" });
  expectError(await without("POST", REVOKE, { key, body: { distinctId: "ana" } }), "export_unavailable");
  expect(await endsOf(app)).toBe(0);
});

it("an invalid link in a browser returns a short page that is always the same, with the rejection's status and other headers", async () => {
  const clock = new Clock();
  const path = "/api/v1/export-download?token=x";
  const get = (accept: string, method = "GET") => startIsolate(clock).request(path, { method, headers: { accept } });
  const { headers: plain } = await get("*/*");
  for (const accept of ["text/html,application/xhtml+xml,*/*;q=0.8", "application/json, text/html;q=0.5"]) {
    const answer = await get(accept);
    expect(answer.status).toBe(401);
    expect(await answer.text()).toContain("This link is not valid");
    expect(await (await get(accept, "HEAD")).text()).toBe("");
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(answer.headers.has("content-disposition")).toBe(false);
    for (const [name, value] of plain) {
      if (!/^content-(type|disposition|length)$|^x-request-id$/.test(name)) {
        expect(answer.headers.get(name), name).toBe(value);
      }
    }
  }
  for (const accept of ["application/json", "text/htmlx", ""]) {
    expect(await (await get(accept)).json()).toMatchObject({ error: { code: "invalid_or_expired_token" } });
  }
});
