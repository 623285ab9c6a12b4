import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { grantInput } from "../../../src/api/credits/grant-credits.ts";
import { beginSession } from "../../../src/auth/admin-session.ts";
import { grantPack } from "../../../src/books/credits/grant.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { HOUR_MS } from "../../../src/lib/time.ts";
import { ADMIN_TRIES, browse, HOST } from "../../support/browse.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { send } from "../../support/people.ts";
import { seedBalances, seedEntries } from "../../support/seed-rows.ts";
import { makeEndpoint } from "../../support/webhooks.ts";
import {
  bound,
  Clock,
  home,
  makeAdminCtx,
  makeApp,
  makeClient,
  makeCtx,
  makeOpenAmountPack,
  makePack,
  startIsolate,
  type TestApp,
} from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const isSignedOut = (answer: Response): boolean =>
  answer.status === 303 && (answer.headers.get("location") ?? "").startsWith("/admin/sign-in");

it("signing in returns 404 if the deployment has no admin token of 32 characters", async () => {
  const browser = browse(new Clock(), { ADMIN_TOKEN: "x".repeat(31) });
  for (const path of ["/admin/apps", "/admin/sign-in", "/admin/apps/app_1/live/overview"]) {
    expect((await browser.get(path)).status, path).toBe(404);
  }
  expect((await browser.signIn("x".repeat(31))).status).toBe(404);
});

it("signing in accepts only the admin token, and leads only to a page of the dashboard", async () => {
  const browser = browse();
  for (const wrong of ["", `${env.ADMIN_TOKEN}x`, env.ADMIN_TOKEN.slice(1), env.ADMIN_TOKEN.toUpperCase()]) {
    expect((await browser.signIn(wrong)).status).toBe(401);
    expect(browser.cookie()).toBe("");
  }
  for (const next of ["https://evil.example/", "//evil.example/admin/apps", "/admin/apps/..//evil?x", "/api/v1"]) {
    const answer = await browser.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name: "Ana", next });
    expect([answer.status, answer.headers.get("location")]).toEqual([303, "/admin/apps"]);
  }
  const answer = await browser.post("/admin/sign-in", {
    token: env.ADMIN_TOKEN,
    name: "Ana",
    next: "/admin/apps/app_1/live/keys",
  });
  expect(answer.headers.get("location")).toBe("/admin/apps/app_1/live/keys");
});

it("signing in sets a cookie that scripts and other sites cannot use, and that is secure on https", async () => {
  const plain = (await browse().signIn()).headers.get("set-cookie") ?? "";
  for (const part of ["HttpOnly", "SameSite=Strict", "Path=/admin", "Max-Age=28800"]) expect(plain).toContain(part);
  expect(plain).not.toContain("Secure");
  const app = startIsolate(new Clock());
  const init = { method: "POST", body: new URLSearchParams({ token: env.ADMIN_TOKEN, name: "Ana" }) };
  const answer = await app.request("https://purser.test/admin/sign-in", init, bound({ ADMIN_TRIES }));
  expect(answer.headers.get("set-cookie")).toContain("Secure");
});

it("signing in may fail ten times a minute from one address, and is then rejected even with the right token", async () => {
  const app = startIsolate(new Clock());
  const attempt = (token: string, address: string) =>
    app.request(
      `${HOST}/admin/sign-in`,
      { method: "POST", body: new URLSearchParams({ token, name: "Ana" }), headers: { "cf-connecting-ip": address } },
      bound(),
    );
  const statuses: number[] = [];
  for (let tries = 0; tries < 10; tries++) statuses.push((await attempt("wrong", "192.0.2.1")).status);
  expect(new Set(statuses)).toEqual(new Set([401]));
  const refused = await attempt(env.ADMIN_TOKEN, "192.0.2.1");
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
  expect((await attempt(env.ADMIN_TOKEN, "192.0.2.2")).status).toBe(303);
});

it("signing in is limited in each isolate if the platform's limiter is not bound", async () => {
  const clock = new Clock();
  const browser = browse(clock, { ADMIN_TRIES: undefined as unknown as RateLimit });
  const headers = { "cf-connecting-ip": "192.0.2.9" };
  for (let tries = 0; tries < 10; tries++) expect((await browser.signIn("wrong", headers)).status).toBe(401);
  expect((await browser.signIn(env.ADMIN_TOKEN, headers)).status).toBe(429);
  clock.advance(60_000);
  expect((await browser.signIn(env.ADMIN_TOKEN, headers)).status).toBe(303);
});

it("signing in is rejected for a form of another site", async () => {
  for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }, { origin: "null" }]) {
    const browser = browse();
    const answer = await browser.signIn(env.ADMIN_TOKEN, { host: "purser.test", ...headers });
    expect([answer.status, browser.cookie()]).toEqual([403, ""]);
  }
});

it("a session ends after eight hours, and when the admin token changes", async () => {
  const clock = new Clock();
  const browser = browse(clock);
  await browser.signIn();
  clock.advance(8 * HOUR_MS - 1);
  expect((await browser.get("/admin/apps")).status).toBe(200);
  clock.advance(1);
  expect(isSignedOut(await browser.get("/admin/apps"))).toBe(true);

  const other = browse();
  other.setCookie(
    `purser_session=${await beginSession(makeAdminCtx(clock), "another-token-of-32-characters-000", "ana")}`,
  );
  expect(isSignedOut(await other.get("/admin/apps"))).toBe(true);
});

it("a session is rejected if any character of its cookie is changed, removed or added", async () => {
  const browser = browse();
  await browser.signIn();
  const good = browser.cookie();
  for (let at = "purser_session=".length; at < good.length; at++) {
    browser.setCookie(`${good.slice(0, at)}${good[at] === "A" ? "B" : "A"}${good.slice(at + 1)}`);
    expect(isSignedOut(await browser.get("/admin/apps")), `character ${at}`).toBe(true);
  }
  for (const cookie of [good.slice(0, -1), `${good}A`, `${good}.`, `${good}=`, "purser_session=", "purser_session=."]) {
    browser.setCookie(cookie);
    expect(isSignedOut(await browser.get("/admin/apps")), cookie.slice(-4)).toBe(true);
  }
  browser.setCookie(good);
  expect((await browser.get("/admin/apps")).status).toBe(200);
});

it("a session accepts no form without its own form token, from another session, or from another site", async () => {
  const [mine, other] = [browse(), browse()];
  await mine.signIn();
  await other.signIn();
  const token = await mine.formToken();
  const make = (_form: string, headers: Record<string, string> = {}) =>
    mine.post("/admin/apps", { _form, name: "Made" }, { host: "purser.test", ...headers });
  const before = await env.DB.prepare("SELECT count(*) AS n FROM apps").first();
  for (const wrongToken of ["", `${token}A`, await other.formToken(), mine.cookie().replace("purser_session=", "")]) {
    expect((await make(wrongToken)).status).toBe(403);
  }
  for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "same-site" }, { origin: "null" }]) {
    expect((await make(token, headers)).status).toBe(403);
  }
  expect(await env.DB.prepare("SELECT count(*) AS n FROM apps").first()).toEqual(before);
  expect((await make(token, { origin: HOST })).status).toBe(303);
  expect((await make(token, { origin: HOST, "sec-fetch-site": "same-origin" })).status).toBe(303);
});

it("a session ends in this browser on signing out", async () => {
  const browser = browse();
  await browser.signIn();
  const answer = await browser.post("/admin/sign-out", { _form: await browser.formToken() });
  expect(answer.headers.get("set-cookie")).toContain("Max-Age=0");
  expect(isSignedOut(await browser.get("/admin/apps"))).toBe(true);
});

it("a session ends on signing out even for a copy of its cookie, and other sessions go on", async () => {
  const clock = new Clock();
  const [mine, other, thief] = [browse(clock), browse(clock), browse(clock)];
  await mine.signIn();
  await other.signIn();
  thief.setCookie(mine.cookie());
  expect((await thief.get("/admin/apps")).status).toBe(200);
  await mine.post("/admin/sign-out", { _form: await mine.formToken() });
  expect(isSignedOut(await thief.get("/admin/apps"))).toBe(true);
  expect(await (await thief.post("/admin/apps", { _form: "x", name: "Made" })).text()).toContain("Sign in");
  expect((await other.get("/admin/apps")).status).toBe(200);
});

it("a session is deleted from the database after its end", async () => {
  const clock = new Clock();
  // Later than in any other test, so that all other sessions have ended.
  clock.advance(100 * 24 * HOUR_MS);
  const sessionsDb = home() === 0 ? env.DB : env.SPARE;
  const count = () => sessionsDb.prepare("SELECT count(*) AS n FROM dashboard_sessions").first("n");
  await browse(clock).signIn();
  expect(await count()).toBe(1);
  clock.advance(8 * HOUR_MS);
  const browser = browse(clock);
  await browser.signIn();
  expect(await count()).toBe(1);
  await browser.post("/admin/sign-out", { _form: await browser.formToken() });
  expect(await count()).toBe(0);
});

it("a session is named in the audit by the name from its sign-in, which rejects an unusable name", async () => {
  const browser = browse();
  const names: unknown[] = [];
  for (const name of ["Ana López", "dashboard"]) {
    await browser.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name });
    const answer = await browser.post("/admin/apps", { _form: await browser.formToken(), name: "Made" });
    const appId = /app_\w+/.exec(answer.headers.get("location") ?? "")?.[0] ?? "";
    names.push(await env.DB.prepare("SELECT actor FROM admin_audit WHERE app_id = ?").bind(appId).first("actor"));
  }
  expect(names).toEqual(["Ana López", "dashboard"]);
  const fresh = browse();
  for (const name of ["", " x", "API", "ana@example.com", "ak:adk_1"]) {
    const refused = await fresh.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name });
    expect([refused.status, fresh.cookie()]).toEqual([400, ""]);
  }
});

it("every response of the dashboard allows only its own scripts and styles, no frames and no caching, for any caller and any result", async () => {
  const browser = browse();
  const { appId } = await makeApp();
  const paths = ["/admin", "/admin/sign-in", "/admin/apps", "/admin/apps/app_none/live/overview", "/admin/assets/none"];
  const check = async () => {
    for (const path of [...paths, `/admin/apps/${appId}/live/keys`]) {
      const { headers } = await browser.get(path);
      const policy = headers.get("content-security-policy") ?? "";
      for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
        expect(policy, path).toContain(part);
      }
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    }
  };
  await check();
  await browser.signIn();
  await check();
});

it("every response of the dashboard contains no inline script or style", async () => {
  const browser = browse();
  await browser.signIn();
  const { appId } = await makeApp();
  for (const page of [
    "overview",
    "packs",
    "packs/new",
    "users?userId=u1",
    "people?distinctId=u1",
    "keys",
    "alerts",
    "webhooks",
    "limits",
    "audit",
  ]) {
    const text = await (await browser.get(`/admin/apps/${appId}/live/${page}`)).text();
    expect(text).not.toMatch(/<script(?![^>]*\ssrc="\/admin\/assets\/)|<style|\sstyle="|\son\w+="|javascript:/);
    expect(text.match(/(?:src|href|action)="(?!\/admin\/|\/docs"|#)[^"]*"/g)).toBeNull();
  }
  const asset = await browser.get("/admin/assets/dashboard.js");
  expect(asset.headers.get("cache-control")).toContain("immutable");
  expect(asset.headers.get("content-type")).toContain("text/javascript");
});

it("every response of the dashboard has the status of the error for an unknown application, pack or balance, and for a malformed id", async () => {
  const browser = browse();
  await browser.signIn();
  const { appId } = await makeApp();
  const cases: readonly (readonly [string, number])[] = [
    ["/admin/apps/app_none/live/overview", 404],
    [`/admin/apps/${appId}/live/packs/cpk_none`, 404],
    [`/admin/apps/${appId}/live/users?userId=u1&balanceId=crb_none`, 404],
    [`/admin/apps/${appId}/live/users?userId=${"x".repeat(201)}`, 400],
    [`/admin/apps/${appId}/live/users?userId=u1&cursor=made-up`, 400],
    [`/admin/apps/${appId}/live/people?distinctId=${"x".repeat(201)}`, 400],
    [`/admin/apps/${appId}/other/overview`, 404],
  ];
  for (const [path, status] of cases) expect((await browser.get(path)).status, path).toBe(status);
});

it("the page of alerts creates an alert once even if its form is sent twice, changes it, deletes it after a confirmation, and sets the notices", async () => {
  const browser = browse();
  await browser.signIn();
  const { appId } = await makeApp();
  const at = `/admin/apps/${appId}/live/alerts`;
  const post = async (path: string, fields: Record<string, string>) =>
    browser.post(`${at}${path}`, { _form: await browser.formToken(), ...fields });
  const form = { nonce: "n", name: "Nearly used up", unit: "tokens", event: "chat.*", below: "12.5", of: "percent" };
  for (let i = 0; i < 2; i++) {
    const answer = await post("", form);
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${at}?notice=created`]);
  }
  const text = await (await browser.get(at)).text();
  expect(text.match(/>Nearly used up<\/a>/g)).toHaveLength(1);
  expect(text).toContain("12.5 % of what was issued in tokens");
  const refused = await post("", { ...form, nonce: "m", below: "101" });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("Below must be above 0 and at most 100.");
  const [alertPath = ""] = /\/alr_\w+/.exec(text) ?? [];
  expect(await (await browser.get(at + alertPath)).text()).toContain('value="12.5"');
  const edited = { name: "Used up", event: "", below: "20", of: "percent" };
  expect((await post(alertPath, edited)).headers.get("location")).toBe(`${at}${alertPath}?notice=changed`);
  const changed = await (await browser.get(at)).text();
  for (const part of [">Used up</a>", "20 % of what was issued in tokens"]) expect(changed).toContain(part);
  const below = await post(alertPath, { ...edited, below: "0" });
  expect([below.status, (await below.text()).includes("field-error")]).toEqual([400, true]);
  expect((await browser.get(`${at.replace("/live/", "/test/")}${alertPath}`)).status).toBe(404);
  expect(await (await browser.get(`${at}${alertPath}/delete`)).text()).toContain("This cannot be undone.");
  expect((await post(`${alertPath}/delete`, {})).headers.get("location")).toBe(`${at}?notice=deleted`);
  expect((await post(`${alertPath}/delete`, {})).status).toBe(404);
  expect((await post("/notices", { days: "30, 7 1" })).headers.get("location")).toBe(`${at}?notice=days`);
  expect(await (await browser.get(at)).text()).toContain('value="30, 7, 1"');
  expect((await post("/notices", { days: "soon" })).status).toBe(400);
  expect((await post("/notices", { days: "" })).status).toBe(303);
});

it("the page of limits shows the use of each limit and which were reached, and sets them", async () => {
  const clock = new Clock();
  const browser = browse(clock);
  await browser.signIn();
  const app = await makeApp();
  const at = `/admin/apps/${app.appId}/live/limits`;
  const set = async (fields: Record<string, string>) =>
    browser.post(at, { _form: await browser.formToken(), ...fields });
  const saved = await set({ eventsADay: "4", bytesADay: "" });
  expect([saved.status, saved.headers.get("location")]).toEqual([303, `${at}?notice=set`]);
  const call = makeClient(clock);
  const capture = (count: number) =>
    call("POST", "/batch/", {
      body: { api_key: app.keys.pk_live, batch: Array(count).fill({ event: "seen", distinct_id: "u" }) },
    });
  await capture(3);
  const page = await (await browser.get(at)).text();
  expect(page).toContain('aria-label="75 %"');
  expect(page).toContain("None.");
  expect((await capture(2)).body.quota_limited).toEqual(["events"]);
  expect(await (await browser.get(at)).text()).toContain("Events a day: 2026-01-15 12:00:00");
  const refused = await set({ eventsADay: "-1" });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("Events a day must be at least 0.");
  expect(await (await browser.get(at)).text()).toContain('aria-label="75 %"');
});

it("the form that adjusts a balance adjusts only a balance of the page's own application and mode, once", async () => {
  const clock = new Clock();
  const browser = browse(clock);
  await browser.signIn();
  const _form = await browser.formToken();
  const [app, other] = [await makeApp(), await makeApp()];
  const minor = async (balanceId: string) =>
    (
      await env.DB.prepare("SELECT remaining_minor AS minor FROM credit_balances WHERE id = ?")
        .bind(balanceId)
        .first<{ minor: number }>()
    )?.minor;
  const [ownId = "", ...others] = [
    ...(await seedBalances(app.environments.live, "u1", 1)),
    ...(await seedBalances(app.environments.test, "u1", 1)),
    ...(await seedBalances(other.environments.live, "u1", 1)),
  ];
  const send = (balanceId: string, adjustmentId: string) =>
    browser.post(`/admin/apps/${app.appId}/live/users/adjust`, {
      _form,
      userId: "u1",
      balanceId,
      delta: "-0.5",
      note: "by hand",
      adjustmentId,
    });
  for (const balanceId of others) {
    const page = await send(balanceId, `adj_${balanceId}`);
    expect([page.status, await minor(balanceId)]).toEqual([404, 1_000_000]);
  }
  // The same form sent twice adjusts once.
  for (const _ of [1, 2]) expect((await send(ownId, "adj_own")).headers.get("location")).toContain("notice=adjusted");
  expect(await minor(ownId)).toBe(500_000);
});

it("the page of a person shows which ids it claims, which id claims it, and which claims do not count and why, with links", async () => {
  const clock = new Clock();
  const browser = browse(clock);
  await browser.signIn();
  const app = await makeApp();
  const call = makeClient(clock);
  const [device, user, buyer] = [1, 2, 3].map((n) => `0194685f-8a3c-7d11-9f2b-00000000000${n}`);
  const identify = (other: string | undefined) => ({
    event: "$identify",
    distinct_id: "ana",
    properties: { $anon_distinct_id: other },
  });
  await send(call, app.keys.pk_live, [identify(device), identify(user), identify(buyer)]);
  await send(call, app.keys.pk_live, [{ event: "$identify", distinct_id: user, properties: {} }]);
  await seedBalances(app.environments.live, buyer ?? "", 1);
  await send(call, app.keys.sk_live, [
    { event: "$create_alias", distinct_id: "ana", properties: { alias: "crm-7" } },
    { event: "seen", distinct_id: device },
  ]);
  const linked = async (distinctId: string) => {
    const path = `/admin/apps/${app.appId}/live/people?distinctId=${encodeURIComponent(distinctId)}`;
    const html = await (await browser.get(path)).text();
    const section = html.slice(html.indexOf('id="claims"'), html.indexOf('id="export"'));
    return { section, rows: section.split("<tr>").map((row) => row.replace(/<[^>]+>/g, " ")) };
  };
  const page = await linked("ana");
  const rowOf = (id: string | undefined) => page.rows.find((row) => row.includes(` ${id} `));
  expect(rowOf(device)).toMatch(/ counted /);
  expect(rowOf(user)).toMatch(/not counted .*it is an identified user/);
  expect(rowOf(buyer)).toMatch(/not counted .*it has credits/);
  expect(rowOf("crm-7")).toMatch(/alias.* verified /);
  for (const id of [device, user, buyer, "crm-7"]) expect(page.section).toContain(`people?distinctId=${id}"`);
  expect(page.section).not.toMatch(/This id is linked to <(a|span)/);
  for (const [id, standing] of [
    [device, "counted"],
    [user, "it is an identified user"],
    ["crm-7", "verified"],
  ]) {
    const { section } = await linked(id ?? "");
    expect(section).toMatch(/This id is linked to <span class="id name"><a href="[^"]*people\?distinctId=ana"/);
    expect(section).toContain(standing);
  }
});

it("the audit has one entry for each grant, adjustment and revoke by a form, even if each form is sent twice", async () => {
  const browser = browse(new Clock());
  await browser.signIn();
  const _form = await browser.formToken();
  const { appId, environments } = await makeApp();
  const packId = await makePack(appId, "Pack", [{ amountMinor: 1_000_000, unit: "cents" }]);
  const [balanceId = ""] = await seedBalances(environments.live, "u-1", 1);
  const reason = "Because u-1 wrote to us";
  const forms = [
    ["grant", { packId, expiry: "default", source: "manual", notes: reason, ref: "dashboard:1" }],
    ["adjust", { balanceId, delta: "-0.5", note: reason, adjustmentId: "adj_1" }],
    ["revoke", { balanceId, reason }],
  ] as const;
  for (const [path, fields] of [...forms, ...forms]) {
    const answer = await browser.post(`/admin/apps/${appId}/live/users/${path}`, { _form, userId: "u-1", ...fields });
    expect(answer.status, path).toBe(303);
  }
  const { results } = await env.DB.prepare(
    `SELECT actor AS "by", action, target, details FROM admin_audit WHERE app_id = ? ORDER BY seq`,
  )
    .bind(appId)
    .all();
  expect(results).toMatchObject([
    { by: "dashboard", action: "credits.granted", target: packId },
    { by: "dashboard", action: "credits.adjusted", target: balanceId },
    { by: "dashboard", action: "credits.revoked", target: balanceId },
  ]);
  for (const word of ["u-1", reason, "adj_1"]) expect(JSON.stringify(results)).not.toContain(word);
});

it("a page for which the database is too busy is a 503, and the reason is logged once", async () => {
  const log = vi.spyOn(console, "warn").mockImplementation(() => {});
  const busy = faultyD1(env.DB);
  const browser = browse(new Clock(), { DB: busy.d1 });
  await browser.signIn();
  const { appId } = await makeApp();
  busy.plan({ fault: "overloaded", at: 1, persists: true });
  const answer = await browser.get(`/admin/apps/${appId}/live/overview`);
  const requestId = answer.headers.get("x-request-id");
  const line = { level: "warn", code: "temporarily_unavailable", fault: "database_overloaded", requestId };
  expect([answer.status, log.mock.calls]).toEqual([503, [[JSON.stringify(line)]]]);
  log.mockRestore();
});

/** Reads a page. Returns what `pattern` finds, the address of the link with the text `link`, and the page's text. */
async function read(browser: ReturnType<typeof browse>, path: string, pattern: RegExp, link: string) {
  const text = (await (await browser.get(path)).text()).replaceAll("&amp;", "&");
  const next = new RegExp(`href="([^"#]*)[^"]*">${link}<`).exec(text)?.[1];
  return { found: [...text.matchAll(pattern)].map(([, found = ""]) => found), next, text };
}

it("a list of the dashboard finds every entry of a reason, page by page, however far apart they are", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const { live } = app.environments;
  const packId = await makeOpenAmountPack(app.appId, "Pack", "count");
  const ctx = makeCtx(live, clock);
  const give = async (times: number, name: string) => {
    for (let n = 0; n < times; n++) {
      await grantPack(ctx, grantInput.parse({ userId: "u1", packId, quantity: 1, notes: `${name}-${n}.` }));
    }
  };
  await give(3, "old");
  const [balanceId = ""] = await seedBalances(live, "u1", 1);
  await seedEntries(live, "u1", balanceId, 2_300);
  await give(70, "new");
  const counting = countingD1(env.DB);
  const browser = browse(clock, { DB: counting.d1 });
  await browser.signIn();
  const notes: string[] = [];
  let path: string | undefined = `/admin/apps/${app.appId}/live/users?userId=u1&reason=grant`;
  const counts: number[] = [];
  while (path !== undefined && counts.length < 10) {
    counting.spent();
    const page = await read(browser, path, /<td>((?:old|new)-\d+\.)</g, "Older");
    // The forecast reads up to 2,000 entries too.
    expect(counting.spent().rowsRead).toBeLessThan(4_300);
    notes.push(...page.found);
    counts.push(page.found.length);
    path = page.next;
  }
  expect(notes).toEqual([
    ...Array.from({ length: 70 }, (_, n) => `new-${69 - n}.`),
    ...Array.from({ length: 3 }, (_, n) => `old-${2 - n}.`),
  ]);
  expect(counts).toEqual([50, 20, 0, 3]);
  const ofBalance = `/admin/apps/${app.appId}/live/users?userId=u1&reason=grant&balanceId=${balanceId}`;
  let next: string | undefined = ofBalance;
  let grants = 0;
  for (let pages = 0; next !== undefined && pages < 10; pages++) {
    const page = await read(browser, next, /<td>(grant)<\/td>/g, "Older");
    grants += page.found.length;
    next = page.next;
  }
  expect(grants).toBe(1);
  const wrong = await browser.get(`/admin/apps/${app.appId}/live/users?userId=u1&reason=theft`);
  expect(wrong.status).toBe(400);
});

it("a list of the dashboard shows every key of its mode, page by page, and reads a bounded number of rows", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
       INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
       SELECT ?1 || i, 'key_' || ?1 || i, CAST(?2 AS INTEGER), 'secret', 'hint-' || i || '.', i FROM n`,
  )
    .bind(app.appId, app.environments.live.id)
    .run();
  const counting = countingD1(env.DB);
  const browser = browse(clock, { DB: counting.d1 });
  await browser.signIn();
  const hints: string[] = [];
  let path: string | undefined = `/admin/apps/${app.appId}/live/keys`;
  for (let pages = 0; path !== undefined && pages < 20; pages++) {
    counting.spent();
    const page = await read(browser, path, /<code>(hint-\d+\.)</g, "More keys");
    expect(counting.spent().rowsRead).toBeLessThan(450);
    hints.push(...page.found);
    path = page.next;
  }
  expect(new Set(hints)).toEqual(new Set(Array.from({ length: 600 }, (_, n) => `hint-${n + 1}.`)));
  expect(hints).toHaveLength(600);
});

it("the audit has an entry for a key that the dashboard made, and none for a rejected one", async () => {
  const app = await makeApp();
  const browser = browse();
  await browser.signIn();
  const _form = await browser.formToken();
  const keys = `/admin/apps/${app.appId}/test/keys`;
  expect((await browser.post(keys, { _form, kind: "secret" })).status).toBe(303);
  expect((await browser.post(keys, { _form, kind: "root" })).status).toBe(400);
  const { results } = await env.DB.prepare("SELECT actor, action, details FROM admin_audit WHERE app_id = ?")
    .bind(app.appId)
    .all();
  const details = JSON.stringify({ kind: "secret", mode: "test" });
  expect(results).toEqual([{ actor: "dashboard", action: "key.created", details }]);
});

async function readsOf(app: TestApp, clock: Clock, page: string): Promise<number> {
  const counting = countingD1(env.DB);
  const browser = browse(clock, { DB: counting.d1 });
  await browser.signIn();
  counting.spent();
  expect((await browser.get(`/admin/apps/${app.appId}/live/${page}`)).status).toBe(200);
  return counting.spent().rowsRead;
}

it("a page's cost is bounded, however many balances and events there are", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const environmentId = app.environments.live.id;
  await makeOpenAmountPack(app.appId, "Pack", "count");
  await seedBalances(app.environments.live, "u1", 600);
  await env.DB.batch([
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms,
           last_seen_at_ms, event_count, claimed_by, claimed_via, claimed_at_ms, claim_is_verified)
         SELECT CAST(? AS INTEGER), 'id' || i, 0, 1, i, i, 2, iif(i = 1, NULL, iif(i < 50, 'id1', 'id2')),
           iif(i = 1, NULL, 'alias'), iif(i = 1, NULL, i), i > 1 FROM n`,
    ).bind(environmentId),
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3999)
         INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
         SELECT CAST(? AS INTEGER), 'id' || (i / 2 + 1), i % 2 + 1, 'uuid' || i, 'e', i, i, '{}' FROM n`,
    ).bind(environmentId),
  ]);
  // The forecast reads up to 2,000 entries. The totals read two rows for each balance that can pay.
  expect(await readsOf(app, clock, "users?userId=u1")).toBeLessThan(2_700);
  for (const id of ["id1", "id2", "id7"]) {
    expect(await readsOf(app, clock, `people?distinctId=${id}`), id).toBeLessThan(1_500);
  }
  // The overview reads two rows for each outstanding balance, 600 balances at most.
  expect(await readsOf(app, clock, "overview")).toBeLessThan(1_300);
  const endpointId = await makeEndpoint(app.environments.live);
  await env.DB.batch([
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO webhook_messages (id, environment_id, type, at_ms, data)
         SELECT 'msg_cost' || printf('%06d', i), ?1, 'purser.test', 1, '{}' FROM n`,
    ).bind(environmentId),
    env.DB.prepare(
      `INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms)
         SELECT ?1, id, 'delivered', 1, 1 FROM webhook_messages WHERE environment_id = ?2`,
    ).bind(endpointId, environmentId),
  ]);
  // An endpoint is judged by its 50 newest messages, and its page lists 50.
  expect(await readsOf(app, clock, `webhooks/${endpointId}`)).toBeLessThan(400);
  expect(await readsOf(app, clock, "webhooks")).toBeLessThan(300);
  expect(await readsOf(app, clock, "alerts")).toBeLessThan(100);
});

it("several databases are shown for each application, can be chosen for a new one, and all work in the dashboard", async () => {
  const browser = browse();
  await browser.signIn();
  for (const database of ["DB", "DB_1"]) {
    const name = randomId("Desk ");
    const answer = await browser.post("/admin/apps", { _form: await browser.formToken(), name, database });
    const home = answer.headers.get("location") ?? "";
    const appId = /app_\w+/.exec(home)?.[0] ?? "";
    expect(appId.at(-1)).toBe(database === "DB" ? "0" : "1");
    const page = await (await browser.get("/admin/apps")).text();
    // Other tests made more applications than the page shows, so any application of this database will do.
    expect(page).toMatch(new RegExp(`app_[0-9A-Za-z]{22}${appId.at(-1)}</code></td><td[^>]*><code>${database}</code>`));
    for (const section of ["overview", "keys", "packs", "users"]) {
      const answer = await browser.get(`/admin/apps/${appId}/live/${section}`);
      expect([answer.status, (await answer.text()).includes(name)], section).toEqual([200, true]);
    }
  }
  const wrong = await browser.post("/admin/apps", { _form: await browser.formToken(), name: "X", database: "DB_7" });
  expect(wrong.status).toBe(400);
});

it("several databases that cannot be reached are reported, and the page of applications still opens", async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  // The sessions are in the other database.
  const faulty = faultyD1(home() === 0 ? env.SPARE : env.DB);
  const browser = browse(new Clock(), home() === 0 ? { SPARE: faulty.d1 } : { DB: faulty.d1 });
  await browser.signIn();
  faulty.plan({ fault: "before", at: 1, persists: true });
  const answer = await browser.get("/admin/apps");
  expect(answer.status).toBe(200);
  expect(await answer.text()).toContain("Their applications are not in this list");
});
