import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { readEndUserSecret } from "../../../src/catalog/apps.ts";
import { DAY_MS, HOUR_MS } from "../../../src/lib/time.ts";
import { browse, openDashboard, queryOf, tableRows } from "../../support/browse.ts";
import { END_USER_SECRET, END_USER_SETTING } from "../../support/end-user-setting.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { seedBalances } from "../../support/seed-rows.ts";
import {
  Clock,
  makeAdminCtx,
  makeApp,
  makeClient,
  makeOpenAmountPack,
  makePack,
  type TestApp,
} from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const HOURS_8_MS = 8 * HOUR_MS;

async function world(clock = new Clock()) {
  const app = await makeApp();
  return { app, clock, ...(await openDashboard(app, clock)) };
}

const hidden = (text: string, name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? "";
const countOf = async (table: string, app: TestApp) =>
  env.DB.prepare(
    `SELECT count(*) AS n FROM ${table} WHERE account_id IN (SELECT id FROM accounts WHERE environment_id = ?)`,
  )
    .bind(app.environments.live.id)
    .first("n");

it("the confirmation of a grant shows the effect, what is ignored and the resulting balance, and grants nothing", async () => {
  const { app, read } = await world();
  const packId = await makePack(app.appId, "Starter", [{ amountMinor: 1_234_567_000, unit: "tokens" }]);
  await seedBalances(app.environments.live, "u1", 1);
  const fields = { userId: "u1", packId, quantity: "5", notes: "hello", source: "manual", ref: "dashboard:x" };
  const { status, text } = await read(`users/grant/confirm${queryOf(fields)}`);
  expect(status).toBe(200);
  for (const part of ["Starter", "1,234,567 tokens", "0 → 1,234,567 tokens", "The quantity 5: this pack issues"]) {
    expect(text).toContain(part);
  }
  expect(await countOf("credit_balances", app)).toBe(1);
});

it("the confirmation of a grant shows the API's rejection once, beside its field, and grants nothing", async () => {
  const { app, read } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const cases: readonly (readonly [Record<string, string>, string])[] = [
    [{ quantity: "100,5" }, "Quantity must be a number such as"],
    [{ quantity: "" }, "Quantity is required for this pack"],
    [{ quantity: "-1" }, "Quantity must be more than 0."],
    [{ quantity: "1", packId: "cpk_none" }, "The application has no credit pack with this id."],
    [{ quantity: "1", notes: " " }, "A reason is required."],
    [{ quantity: "1", expiry: "at", expiresAt: "2020-01-01T00:00" }, "Time must be in the future."],
    [{ quantity: "1", expiresAt: "2027-01-01T00:00" }, "Time is given, and would be ignored"],
  ];
  for (const [fields, words] of cases) {
    const all = { userId: "u1", packId, notes: "x", source: "manual", ...fields };
    const { status, text } = await read(`users/grant/confirm${queryOf(all)}`);
    expect([status >= 400, text.split(words).length - 1], words).toEqual([true, 1]);
    expect(text, words).toContain("field-error");
  }
  expect(await countOf("credit_balances", app)).toBe(0);
});

it("the confirmation of a grant grants once even if it is submitted twice", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const form = await read("users/grant?userId=u1");
  const fields = {
    userId: "u1",
    packId,
    quantity: "1,000",
    notes: "x",
    source: "manual",
    ref: hidden(form.text, "ref"),
  };
  const confirm = await read(`users/grant/confirm${queryOf(fields)}`);
  expect(hidden(confirm.text, "ref")).toBe(fields.ref);
  const notices: (string | null)[] = [];
  for (let n = 0; n < 2; n++) notices.push((await send("users/grant", fields)).headers.get("location"));
  expect(notices.map((location) => /notice=([\w-]+)/.exec(location ?? "")?.[1])).toEqual(["granted", "granted-before"]);
  expect(await countOf("credit_balances", app)).toBe(1);
  expect((await read("users?userId=u1")).text).toContain("1,000 of 1,000 count");
});

it("the confirmation of a grant asks for a second confirmation of a large amount and of an id that ends with a space", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "cents");
  const fields = { userId: "u1 ", packId, quantity: "100000", notes: "x", source: "manual", ref: "dashboard:2" };
  const { text } = await read(`users/grant/confirm${queryOf(fields)}`);
  expect(text).toContain("This is a large amount: 100,000 cents.");
  expect(text).toContain("begins or ends with a space");
  expect(hidden(text, "asked")).toBe("yes");
  const refused = await send("users/grant", { ...fields, asked: "yes" });
  expect([refused.status, await countOf("credit_balances", app)]).toEqual([400, 0]);
  expect((await send("users/grant", { ...fields, asked: "yes", sure: "yes" })).status).toBe(303);
  expect(await countOf("credit_balances", app)).toBe(1);
});

it("a grant and a recurring grant ask before they make a new user, and make none unless the box is ticked", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "cents");
  await seedBalances(app.environments.live, "known", 1);
  const fields = { packId, quantity: "5", notes: "x", source: "manual", every: "month" };
  const acts = [
    ["users/grant", { ref: "dashboard:3" }],
    ["users/recurring", { recurringId: "rec_of_the_test" }],
  ] as const;
  for (const [path, own] of acts) {
    const of = (userId: string) => ({ ...fields, ...own, userId });
    const confirmation = await read(`${path}/confirm${queryOf(of("new"))}`);
    expect(confirmation.text, path).toContain("No user has this id yet. The grant creates a new user.");
    expect(hidden(confirmation.text, "asked")).toBe("yes");
    expect((await read(`${path}/confirm${queryOf(of("known"))}`)).text).not.toContain("No user has this id");
    expect((await send(path, { ...of("new"), asked: "yes" })).status).toBe(400);
    expect((await read("users?userId=new")).text).toContain("No user has this id");
  }
  expect(await countOf("credit_balances", app)).toBe(1);
});

it("the confirmation of an adjustment shows the resulting balance, or the API's rejection, and changes nothing", async () => {
  const { app, read } = await world();
  const [balanceId = ""] = await seedBalances(app.environments.live, "u1", 1);
  const at = (delta: string) => read(`users/adjust/confirm${queryOf({ balanceId, delta, note: "x" })}`);
  expect((await at("\u22120.25")).text).toMatch(/-0\.25\s+cents[\s\S]*1 → 0\.75\s+cents/);
  expect((await at("-1,000.5")).text).toContain("Amount to add would make the balance negative.");
  expect((await at("0")).text).toContain("Amount to add must not be 0.");
  expect((await at("0.0000001")).text).toContain("Amount to add must have at most 6 decimals");
  expect((await read("users/adjust?balanceId=crb_none")).status).toBe(404);
  expect(await countOf("credit_ledger", app)).toBe(1);
});

it("a new key is shown once, on a page that can be reloaded, and is made once even if its form is sent twice", async () => {
  const { app, read, send } = await world();
  const nonce = hidden((await read("keys")).text, "nonce");
  const answer = await send("keys", { kind: "secret", name: "Backend", nonce });
  expect(answer.status).toBe(303);
  const shown = /value="(sk_live_\w+)"/.exec((await read("keys")).text)?.[1];
  expect(shown).toBeDefined();
  expect((await read("keys")).text).not.toContain(shown);
  await send("keys", { kind: "secret", name: "Backend", nonce });
  expect((await read("keys")).text).toContain(shown);
  const named = "SELECT count(*) AS n FROM api_keys WHERE environment_id = ? AND name = 'Backend'";
  expect(await env.DB.prepare(named).bind(app.environments.live.id).first("n")).toBe(1);
  expect((await read("keys")).text).toMatch(/Backend/);
});

it("after the session ended, a form is kept through the sign-in, waits for a confirmation, and is rejected from another site", async () => {
  const { app, browser, at, clock } = await world();
  clock.advance(HOURS_8_MS);
  const fields = { _form: "old", kind: "secret", name: `Kept "><b>` };
  const foreign = await browser.post(`${at}/keys`, fields, { "sec-fetch-site": "cross-site" });
  expect(foreign.status).toBe(403);
  const signIn = await (await browser.post(`${at}/keys`, fields)).text();
  expect(signIn).toContain("the form is kept");
  const kept = hidden(signIn, "kept").replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">");
  const wrong = await (await browser.post("/admin/sign-in", { token: "wrong", kept })).text();
  expect(hidden(wrong, "kept")).toBe(hidden(signIn, "kept"));
  const other = { "sec-fetch-site": "cross-site" };
  const forged = await browser.post("/admin/sign-in", { token: "", name: "", kept }, other);
  expect([forged.status, hidden(await forged.text(), "kept")]).toEqual([403, ""]);
  const page = await (await browser.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name: "Ana", kept })).text();
  expect(page).toContain(`action="${at}/keys"`);
  expect(page).not.toContain("<b>Kept");
  const sent = { kind: "secret", name: fields.name, _form: hidden(page, "_form") };
  expect((await browser.post(`${at}/keys`, sent)).status).toBe(303);
  const named = "SELECT count(*) AS n FROM api_keys WHERE environment_id = ? AND name = ?";
  expect(await env.DB.prepare(named).bind(app.environments.live.id, fields.name).first("n")).toBe(1);
  const evil = await browser.post("/admin/sign-in", {
    token: env.ADMIN_TOKEN,
    name: "Ana",
    kept: JSON.stringify({ path: "https://evil.example/", fields: {} }),
  });
  expect(evil.headers.get("location")).toBe("/admin/apps");
});

it("after the session ended, a form is kept with the query of its path", async () => {
  const { browser, at, clock } = await world();
  clock.advance(HOURS_8_MS);
  const path = `${at}/users/limit${queryOf({ userId: "a/b c" })}`;
  const signIn = await (await browser.post(path, { _form: "old", userId: "a/b c", act: "lift" })).text();
  const kept = hidden(signIn, "kept").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  const page = await (await browser.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name: "Ana", kept })).text();
  expect(page).toContain(`action="${path}"`);
});

it("after the session ended, a form of more than 64 KiB is not read, and a sign-in with more than ten fields neither", async () => {
  const { app, browser, at, clock } = await world();
  clock.advance(HOURS_8_MS);
  const large = { kind: "secret", name: "Large", notes: "a".repeat(64 * 1024) };
  const refused = await browser.post(`${at}/keys`, large);
  expect(refused.status).toBe(413);
  const page = await refused.text();
  expect(page).toContain("a form of more than 64 KiB is not kept");
  expect(page).not.toContain('name="kept"');
  const named = "SELECT count(*) AS n FROM api_keys WHERE environment_id = ? AND name = 'Large'";
  expect(await env.DB.prepare(named).bind(app.environments.live.id).first("n")).toBe(0);
  const signIn = { token: env.ADMIN_TOKEN, name: "Ana" };
  const others = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, ""]));
  expect((await browser.post("/admin/sign-in", { ...signIn, ...others(9) })).status).toBe(413);
  expect((await browser.post("/admin/sign-in", { ...signIn, ...others(8) })).status).toBe(303);
});

it("after the session ended, the sign-in leads back to the page with its query", async () => {
  const { browser, at, clock } = await world();
  clock.advance(HOURS_8_MS);
  const away = await browser.get(`${at}/users?userId=a%20b`);
  const next = new URL(away.headers.get("location") ?? "", "http://purser.test").searchParams.get("next") ?? "";
  const back = await browser.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name: "Ana", next });
  expect(back.headers.get("location")).toBe(`${at}/users?userId=a%20b`);
});

const fields = { kind: "open-amount", packName: "Any", unit: "count", defaultExpiryDays: "" };

it("a pack's page shows both versions if it was changed meanwhile, and the earlier one in its history", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const version = hidden((await read(`packs/${packId}`)).text, "version");
  expect(version).toBe("1");
  const first = { ...fields, version, defaultExpiryDays: "30" };
  expect((await send(`packs/${packId}`, first)).status).toBe(303);
  const second = await send(`packs/${packId}`, { ...fields, version, defaultExpiryDays: "7" });
  const text = await second.text();
  expect(second.status).toBe(409);
  expect(text).toContain("As it is now: version 2");
  expect(text).toContain("30 days");
  expect([hidden(text, "defaultExpiryDays"), hidden(text, "version")]).toEqual(["", "2"]);
  expect(text).toMatch(/name="defaultExpiryDays" type="text" value="7"/);
  expect((await send(`packs/${packId}`, fields)).status).toBe(400);
  expect((await send(`packs/${packId}`, { ...fields, version: "2", defaultExpiryDays: "7" })).status).toBe(303);
  const page = (await read(`packs/${packId}`)).text;
  expect(page).toMatch(/pack\.changed[\s\S]*Before[\s\S]*&quot;defaultExpiryDays&quot;:30/);
});

it("a pack's page asks before it removes all items, and shows and undoes archiving", async () => {
  const { app, read, send } = await world();
  const packId = await makePack(app.appId, "Items", [{ amountMinor: 1_000, unit: "count" }]);
  const items = () =>
    env.DB.prepare("SELECT count(*) AS n FROM credit_pack_items WHERE pack_id = ?").bind(packId).first("n");
  const change = { ...fields, packName: "Items", version: "1" };
  const confirmation = await send(`packs/${packId}`, change);
  expect(await confirmation.text()).toContain("will have no items");
  expect(await items()).toBe(1);
  expect((await send(`packs/${packId}`, { ...change, asked: "yes", sure: "yes" })).status).toBe(303);
  expect(await items()).toBe(0);
  await send(`packs/${packId}/archive`, {});
  expect((await read(`packs/${packId}`)).text).toContain("Restore pack");
  expect((await send(`packs/${packId}/restore`, {})).status).toBe(303);
  expect((await read(`packs/${packId}`)).text).not.toContain("Restore pack");
});

it("an end-user setting keeps its secret if only other fields change", async () => {
  const { app, read, send } = await world();
  const secret = END_USER_SECRET;
  const set = { type: "hs256", secret, issuer: "", audience: "", claim: "", origins: "" };
  expect((await send("end-user-auth", set)).status).toBe(303);
  expect((await send("end-user-auth", { ...set, secret: "", issuer: "https://issuer.example" })).status).toBe(303);
  const page = (await read("keys")).text;
  expect(page).toContain("https://issuer.example");
  expect(page).not.toContain(secret);
  const stored = await env.DB.prepare("SELECT end_user_auth AS s FROM environments WHERE id = ?")
    .bind(app.environments.live.id)
    .first<string>("s");
  expect(JSON.parse(stored ?? "null")).toMatchObject({
    type: "hs256",
    issuer: "https://issuer.example",
    sealed: expect.any(String),
  });
  expect((await send("end-user-auth", { type: "jwks", url: "nonsense" })).status).toBe(400);
});

it("an end-user setting that keeps its secret never stores one that was rotated away while it was saved", async () => {
  const { app, send } = await world();
  const set = { type: "hs256", secret: END_USER_SECRET, issuer: "", audience: "", claim: "", origins: "" };
  const rotated = { ...set, secret: `rotated-${END_USER_SECRET}` };
  const secretNow = () => readEndUserSecret(makeAdminCtx(new Clock()), app.appId, "live");
  const statuses = [];
  for (let nth = 1; ; nth++) {
    await send("end-user-auth", set);
    let trips: number | null = null;
    const hooked = hookedD1(env.DB, async () => {
      if (trips !== null && ++trips === nth) await send("end-user-auth", rotated);
    });
    const browser = browse(new Clock(), { DB: hooked });
    await browser.signIn();
    const _form = await browser.formToken();
    trips = 0;
    const fields = { ...set, _form, secret: "", issuer: "https://issuer.example" };
    const { status } = await browser.post(`/admin/apps/${app.appId}/live/end-user-auth`, fields);
    if (trips < nth) break;
    statuses.push(status);
    expect(await secretNow(), `${nth}`).toBe(rotated.secret);
  }
  expect(new Set(statuses)).toEqual(new Set([303, 409]));
});

it("an end-user setting that stays off is rejected if the form says how to verify tokens", async () => {
  const { read, send } = await world();
  const off = { type: "none", secret: "", url: "", issuer: "", audience: "" };
  expect((await send("end-user-auth", off)).status).toBe(303);
  for (const typed of [{ secret: END_USER_SECRET }, { url: "https://keys.example.com/jwks" }]) {
    const rejected = await send("end-user-auth", { ...off, ...typed });
    expect([rejected.status, (await rejected.text()).includes("field-error")]).toEqual([400, true]);
  }
  // A stored setting fills the form, and is switched off as it is.
  const keys = { ...off, type: "jwks", url: "https://keys.example.com/jwks", issuer: "i", audience: "desk" };
  expect((await send("end-user-auth", keys)).status).toBe(303);
  expect((await send("end-user-auth", { ...keys, type: "none" })).status).toBe(303);
  expect((await read("keys")).text).toContain("Not set: publishable keys cannot read anything.");
});

it("the page of keys warns of a JWKS setting without an audience, and of no other setting", async () => {
  const { read, send } = await world();
  const warned = async () => (await read("keys")).text.includes("No audience is set");
  expect(await warned()).toBe(false);
  const keys = { type: "jwks", url: "https://keys.example.com/jwks", issuer: "https://issuer.example", claim: "" };
  expect((await send("end-user-auth", { ...keys, audience: "" })).status).toBe(400);
  expect((await send("end-user-auth", { ...keys, issuer: "", anyAudience: "yes" })).status).toBe(400);
  expect((await send("end-user-auth", { ...keys, audience: "", anyAudience: "yes" })).status).toBe(303);
  expect(await warned()).toBe(true);
  expect((await send("end-user-auth", { ...keys, audience: "desk" })).status).toBe(303);
  expect(await warned()).toBe(false);
  const shared = { ...keys, type: "hs256", secret: END_USER_SECRET, audience: "" };
  expect((await send("end-user-auth", shared)).status).toBe(303);
  expect(await warned()).toBe(false);
});

it("an end-user setting is stored as the form says, which shows what is stored", async () => {
  const { app, read, send } = await world();
  const keys = {
    type: "jwks",
    url: "https://keys.example.com/jwks",
    issuer: "https://issuer.example",
    audience: "desk",
  };
  const stored = async () =>
    JSON.parse(
      (await env.DB.prepare("SELECT end_user_auth AS s FROM environments WHERE id = ?")
        .bind(app.environments.live.id)
        .first<string>("s")) ?? "null",
    );
  const isChecked = async (name: string) => (await read("keys")).text.includes(`name="${name}" value="yes" checked`);
  for (const [claim, name] of [
    ["email", "trustUnverified"],
    ["user_metadata.id", "trustUserWritten"],
  ] as const) {
    expect((await send("end-user-auth", { ...keys, claim, [name]: "yes" })).status).toBe(303);
    expect(await stored()).toMatchObject({ ...keys, claim, [name]: true });
    expect(await isChecked(name)).toBe(true);
  }
  expect((await send("end-user-auth", { ...keys, claim: "user_metadata.id" })).status).toBe(400);
  expect((await send("end-user-auth", { ...keys, claim: "email" })).status).toBe(303);
  expect(Object.keys(await stored()).sort()).toEqual(["audience", "claim", "issuer", "type", "url", "version"]);
  expect(await isChecked("trustUnverified")).toBe(false);
});

it("the page of sessions lists sessions, and ends another one", async () => {
  const clock = new Clock();
  // Later than in any other test, so that all other sessions have ended.
  clock.advance(200 * DAY_MS);
  const { read, send } = await world(clock);
  const other = browse(clock);
  await other.post("/admin/sign-in", { token: env.ADMIN_TOKEN, name: "Ana <b>" });
  const { text } = await read("/admin/apps/sessions");
  expect(text).toContain("Ana &lt;b&gt;");
  const row = text.split("<tr>").find((part) => part.includes("Ana")) ?? "";
  expect((await send("/admin/apps/sessions/end", { sessionId: hidden(row, "sessionId") })).status).toBe(303);
  expect((await other.get("/admin/apps")).status).toBe(303);
  expect((await read("/admin/apps/sessions")).text).not.toContain("Ana");
});

it("an application is made once by a form sent twice", async () => {
  const { app, read, send } = await world();
  const name = `Twice ${app.appId}`;
  const fields = { nonce: hidden((await read("/admin/apps")).text, "nonce"), name };
  const [first, second] = [await send("/admin/apps", fields), await send("/admin/apps", fields)];
  expect(first.status).toBe(303);
  expect(second.headers.get("location")).toBe(first.headers.get("location"));
  const { body } = await makeClient(new Clock())("GET", "/api/v1/admin/apps", { key: env.ADMIN_TOKEN });
  expect(body.apps.filter((each: { name: string }) => each.name === name)).toHaveLength(1);
});

it("an administration key is made once by a form sent twice, shown once, listed, and revoked after a confirmation", async () => {
  const { app, browser, read, send } = await world();
  const { text: empty } = await read("/admin/apps/admin-keys");
  const name = `Desk ${app.appId} <b>`;
  const fields = { nonce: hidden(empty, "nonce"), name, apps: app.appId, mode: "live", "scope people": "yes" };
  expect((await send("/admin/apps/admin-keys", { ...fields, "scope people": "no" })).status).toBe(400);
  for (let times = 0; times < 2; times++) expect((await send("/admin/apps/admin-keys", fields)).status).toBe(303);
  const pages = [await read("/admin/apps/admin-keys"), await read("/admin/apps/admin-keys")];
  const [shown, again] = pages.map(({ text }) => /ak_[0-9A-Za-z]{28}/.exec(text)?.[0]);
  expect([typeof shown, again]).toEqual(["string", undefined]);
  const ofKey = pages[1]?.text.split("<tr>").filter((part) => part.includes(`Desk ${app.appId} &lt;b&gt;`)) ?? [];
  expect(ofKey).toHaveLength(1);
  expect(ofKey[0]).toContain("people");
  expect(ofKey[0]).toContain("dashboard");
  const call = makeClient(new Clock());
  const payments = () => call("GET", `/api/v1/admin/apps/${app.appId}/payments?mode=live`, { key: shown ?? "" });
  expect((await payments()).status).toBe(200);
  const [, adminKeyId = ""] = /revoke\?adminKeyId=([^"]+)/.exec(ofKey[0] ?? "") ?? [];
  const confirmation = await read(`/admin/apps/admin-keys/revoke?adminKeyId=${adminKeyId}`);
  expect(confirmation.text).toContain("This cannot be undone");
  expect((await payments()).status).toBe(200);
  expect((await send("/admin/apps/admin-keys/revoke", { adminKeyId })).status).toBe(303);
  expect((await payments()).status).toBe(401);
  const strange = await browser.post("/admin/apps/admin-keys", { ...fields, _form: "made-up" });
  expect(strange.status).toBe(403);
});

it("an order is refunded in part after a preview, once by a form sent twice, and then completely", async () => {
  const { app, read, send } = await world();
  const at = `/admin/apps/${app.appId}/live`;
  const call = makeClient(new Clock());
  const packId = await makeOpenAmountPack(app.appId, "Order <b>", "tokens");
  const grant = { userId: "ana", packId, quantity: 100, externalRef: "order-1" };
  const { balanceId } = (await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: grant })).body;
  const fields = { userId: "ana", externalRef: "order-1", refundRef: "ref_1", part: "1", of: "4", reason: "broken" };
  const { text: preview } = await read(`${at}/users/refund/confirm?${new URLSearchParams(fields)}`);
  for (const part of ["100 → 75 tokens", "1 of 4", "Order &lt;b&gt;"]) expect(preview).toContain(part);
  for (const notice of ["refunded", "refunded-before"]) {
    const answer = await send(`${at}/users/refund`, fields);
    expect([answer.status, answer.headers.get("location")?.split("notice=")[1]]).toEqual([303, notice]);
  }
  const tooMuch = await send(`${at}/users/refund`, { ...fields, refundRef: "ref_2", part: "4" });
  expect([tooMuch.status, (await tooMuch.text()).includes("would take back more than was granted")]).toEqual([
    400,
    true,
  ]);
  const rest = { ...fields, refundRef: "ref_3", part: "", of: "" };
  const { text: whole } = await read(`${at}/users/refund/confirm?${new URLSearchParams(rest)}`);
  expect(whole).toContain("75 → 0 tokens, revoked");
  expect((await send(`${at}/users/refund`, rest)).status).toBe(303);
  const acts = await call("GET", `/api/v1/admin/apps/${app.appId}/audit`, { key: env.ADMIN_TOKEN });
  const refunds = acts.body.entries.filter(({ action }: { action: string }) => action === "credits.refunded");
  expect(
    refunds.map(({ by, userId, details }: { by: string; userId: string; details: { amount: number } }) => [
      by,
      userId,
      details.amount,
    ]),
  ).toEqual([
    ["dashboard", "ana", -75],
    ["dashboard", "ana", -25],
  ]);
  expect(refunds.every(({ target }: { target: string }) => target === balanceId)).toBe(true);
});

it("the audit's page shows the user, the amount and the reason of an act, and after an erasure only the pseudonym and the amount", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const grant = { userId: "ana", packId, quantity: "7", notes: "wrote to us", source: "manual", ref: "dashboard:1" };
  expect((await send("users/grant", grant)).status).toBe(303);
  const body = {
    userId: "ana",
    externalRef: "dashboard:1",
    refundRef: "r1",
    part: "1",
    of: "7",
    reason: "by mistake",
  };
  expect((await send("users/refund", body)).status).toBe(303);
  const rows = async () => tableRows((await read("audit")).text, "Actions").slice(0, 2);
  expect(await rows()).toEqual([
    expect.stringMatching(/ dashboard Credits refunded crb_\S+ ana by mistake .* -1 /),
    expect.stringMatching(/ dashboard Credits granted cpk_\S+ ana wrote to us .* 7 /),
  ]);
  const erased = await makeClient(new Clock())("POST", "/api/v1/erase-person", {
    ...{ key: app.keys.sk_live, body: { distinctId: "ana" } },
  });
  expect(erased.status).toBe(200);
  const after = (await rows()).join(" ");
  expect(after).toMatch(/erased_\S+ .* -1 .*erased_\S+ .* 7 /);
  for (const word of [" ana ", "wrote to us", "by mistake"]) expect(after).not.toContain(word);
});

it("the audit's page filters by author, action and object, page by page, and each object shows its author", async () => {
  const { app, read, send } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  for (let n = 0; n < 3; n++) {
    const grant = { userId: `u${n}`, packId, quantity: "1", notes: "x", source: "manual", ref: `dashboard:${n}` };
    expect((await send("users/grant", grant)).status).toBe(303);
  }
  await send(`packs/${packId}/archive`, {});
  const rows = async (filters: Record<string, string>) =>
    (await read(`audit${queryOf(filters)}`)).text.split("<tr>").length - 2;
  expect(await rows({ action: "credits.granted" })).toBe(3);
  expect(await rows({ by: "dashboard" })).toBe(4);
  expect(await rows({ by: "nobody" })).toBe(-1);
  expect(await rows({ target: packId, action: "pack.archived" })).toBe(1);
  expect(await rows({ target: "' OR 1 --" })).toBe(-1);
  expect((await read("audit?cursor=made-up")).status).toBe(400);
});

it("an unknown path is a 404 page, and a page's title names the application and the mode", async () => {
  const { browser, at, read } = await world();
  for (const path of ["/admin/nowhere", "/admin/apps/nowhere/else", `${at}/nowhere`]) {
    const answer = await browser.get(path);
    expect([answer.status, answer.headers.get("content-type")], path).toEqual([404, "text/html; charset=UTF-8"]);
  }
  const { text } = await read("users?userId=a%26b");
  expect(text).toContain("<title>Users · Test (live) · Purser</title>");
  expect(text).toContain(`${at.replace(/live$/, "test")}/users?userId=a%26b"`);
  expect(text).toContain('href="/docs"');
});

it("a form rejects a blank or padded name beside its field, and keeps the typed name", async () => {
  const { read, send } = await world();
  const nonce = "n";
  const forms: readonly (readonly [path: string, field: string, more: Record<string, string>])[] = [
    ["/admin/apps", "name", {}],
    ["packs", "packName", { kind: "open-amount", unit: "count" }],
    ["keys", "name", { kind: "secret", nonce }],
    ["alerts", "name", { unit: "count", below: "5", of: "amount", nonce }],
  ];
  for (const [path, field, more] of forms) {
    for (const name of [" ", " padded", "padded "]) {
      const answer = await send(path, { ...more, [field]: name });
      const [status, text] = [answer.status, await answer.text()];
      expect([status, text.includes(`class="field-error"`)], `${path} “${name}”`).toEqual([400, true]);
      expect(text).toContain(`value="${name}"`);
    }
  }
  expect((await read("packs")).text).toContain("No packs yet");
  expect((await read("alerts")).text).toContain("No alerts yet");
});

it("the switch of modes keeps the user or the person, and every page links the reference", async () => {
  const { app, read } = await world();
  const [live, test] = [`/admin/apps/${app.appId}/live`, `/admin/apps/${app.appId}/test`];
  const userId = "ana & co";
  for (const [path, kept] of [
    [`users${queryOf({ userId })}`, `users${queryOf({ userId })}`],
    [`people${queryOf({ distinctId: userId })}`, `people${queryOf({ distinctId: userId })}`],
    [`users/grant${queryOf({ userId })}`, `users${queryOf({ userId })}`],
    ["packs", "packs"],
  ] as const) {
    const { text } = await read(path);
    for (const at of [live, test]) expect(text, path).toContain(`href="${at}/${kept}"`);
    expect(text).toContain(`href="/docs"`);
  }
});

it("the check of a token keeps the pasted token in its form, and does not show the secret", async () => {
  const { send } = await world();
  const setting = END_USER_SETTING;
  expect((await send("end-user-auth", setting)).status).toBe(303);
  const text = await (await send("test-token", { token: "not.a.token" })).text();
  expect(text).toContain(">not.a.token</textarea>");
  expect(text).toContain("Invalid token.");
  expect(text).toMatch(/action="[^"]*test-token#test-token"/);
  expect(text).not.toContain(setting.secret);
});
