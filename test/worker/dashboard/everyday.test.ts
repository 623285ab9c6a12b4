import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { openDashboard, textOf } from "../../support/browse.ts";
import { END_USER_SECRET } from "../../support/end-user-setting.ts";
import { bound, Clock, makeApp, makeClient, makeOpenAmountPack, makePack } from "../../support/world.ts";

async function world() {
  const app = await makeApp();
  const { browser, at, ...dashboard } = await openDashboard(app);
  const read = async (path: string) => (await dashboard.read(path)).text;
  const send = async (path: string, fields: Record<string, string>) => {
    const answer = await dashboard.send(path, fields);
    return { status: answer.status, text: await textOf(answer) };
  };
  return { app, browser, at, read, send };
}

const countOf = (text: string, part: string | RegExp) => text.split(part).length - 1;

it("an error about one of many origins is shown once, beside the field, with the origin's number", async () => {
  const { send } = await world();
  const setting = { type: "hs256", secret: END_USER_SECRET, issuer: "", audience: "", claim: "" };
  const { status, text } = await send("end-user-auth", { ...setting, origins: "https://a.example nonsense" });
  expect(status).toBe(400);
  expect(countOf(text, "must be an origin as browsers send it")).toBe(1);
  expect(text).toContain("Pages that may use publishable keys (no. 2) must be an origin");
  expect(text).toMatch(/name="origins"[^>]*aria-invalid="true"[^>]*autofocus/);
  expect(text).not.toContain("setting.origins");
});

it("an error about one of Stripe's prices is shown beside the field of the prices", async () => {
  const { send } = await world();
  const { status, text } = await send("payments/stripe", {
    secret: "whsec_x_0123456789",
    prices: "price_1, nothing",
  });
  expect(status).toBe(404);
  expect(text).toMatch(/<textarea[^>]*name="prices"[^>]*aria-invalid="true"/);
  expect(text).not.toContain("setting.prices");
});

it("a line of Stripe's prices with more parts than it has fields is rejected, and never read as another price", async () => {
  const { app, send } = await world();
  await makeOpenAmountPack(app.appId, "Tokens", "tokens");
  for (const prices of [
    "price_1, Tokens, 1,000",
    "price_1, Tokens, 100, perod",
    "price_1, Tokens, 5, amount=10, amount=20",
  ]) {
    const { status, text } = await send("payments/stripe", { secret: "whsec_x_0123456789", prices });
    expect([status, prices]).toEqual([400, prices]);
    expect(text).toMatch(/<textarea[^>]*name="prices"[^>]*aria-invalid="true"/);
  }
});

it("an error about a rule or a pack's priority is shown beside its field", async () => {
  const { send } = await world();
  const pack = { packName: "Any", unit: "count", defaultExpiryDays: "" };
  const rule = await send("packs", { ...pack, kind: "open-amount", "rules.0.event": "a".repeat(600) });
  expect(rule.status).toBe(400);
  expect(rule.text).toMatch(/name="rules\.0\.event"[^>]*aria-invalid="true"/);
  const priority = await send("packs", { ...pack, kind: "open-amount", priority: "one" });
  expect(priority.text).toMatch(/name="priority"[^>]*aria-invalid="true"/);
});

it("an error about a pack of items that has none asks for an amount", async () => {
  const { send } = await world();
  const { status, text } = await send("packs", { packName: "Any", kind: "items", defaultExpiryDays: "" });
  expect(status).toBe(400);
  expect(text).toContain("An item needs an amount.");
  expect(text).toMatch(/name="items\.0\.amount"[^>]*aria-invalid="true"/);
});

it("an error about the token at the sign-in is shown beside its field, and the name is kept", async () => {
  const { browser } = await world();
  const answer = await browser.post("/admin/sign-in", { name: "Maya", token: "wrong" });
  const text = await answer.text();
  expect(answer.status).toBe(401);
  expect(countOf(text, "Wrong admin token.")).toBe(1);
  expect(text).toMatch(/name="token"[^>]*aria-invalid="true"[^>]*autofocus/);
  expect(text).toContain('value="Maya"');
});

it("an error about a whole page names its argument once, and links back to the section", async () => {
  const { at, read } = await world();
  const text = await read("people/erase");
  expect(text).toContain("<code>distinctId</code> is required.");
  expect(text).not.toContain("distinctId distinctId");
  expect(text).toContain(`href="${at}/people" aria-current="page"`);
  expect(text).toContain(">Back to people</a>");
});

it("a dead end links to the next step at a grant without packs", async () => {
  const { at, read } = await world();
  const text = await read("users/grant");
  expect(text).toContain(`<a href="${at}/packs/new">Create a pack</a>`);
  expect(text).not.toContain("<select");
});

it("a dead end links to the next step at the page of an id without records", async () => {
  const { app, at, read, send } = await world();
  const unknown = await read("users?userId=ada+");
  expect(unknown).toContain("No user has this id in live mode");
  expect(unknown).toContain("Grant to a new user?");
  expect(unknown).toContain(`${at.replace(/live$/, "test")}/users?userId=ada+"`);
  expect(unknown).toContain(`${at}/users?userId=ada"`);
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  expect(
    (await send("users/grant", { userId: "ada", packId, quantity: "1", notes: "x", source: "manual" })).status,
  ).toBe(303);
  expect(await read("users?userId=ada")).not.toContain("No user has this id");
});

it("a dead end links to the next step at a search for an unknown id, even with spaces around it", async () => {
  const { browser, at, read } = await world();
  const answer = await browser.get(`${at}/users?q=+ada+`);
  expect(answer.headers.get("location")).toBe(`${at}/users?userId=ada`);
  const person = await browser.get(`${at}/people?q=+ada+`);
  expect(person.headers.get("location")).toBe(`${at}/people?distinctId=ada`);
  expect(await read("users?q=+")).toContain("No users yet.");
});

it("the page that revokes a key shows which key it is and when it was last used, and can be reloaded", async () => {
  const { app, read, send } = await world();
  const [key] = (
    await env.DB.prepare(
      `SELECT k.id, k.hint FROM api_keys AS k JOIN environments AS e ON e.id = k.environment_id
     WHERE e.app_id = ? AND e.mode = 'live' AND k.kind = 'secret'`,
    )
      .bind(app.appId)
      .all<{ id: string; hint: string }>()
  ).results;
  if (key === undefined) throw new Error("the application has no key");
  await env.DB.prepare("UPDATE api_keys SET name = 'Backend', last_used_day = 20000 WHERE id = ?").bind(key.id).run();
  const text = await read(`keys/revoke?keyId=${key.id}`);
  for (const part of [key.hint, "Backend", "secret", "2024-10-04"]) expect(text).toContain(part);
  expect((await send("keys/revoke", { keyId: key.id })).status).toBe(303);
  expect(await read(`keys/revoke?keyId=${key.id}`)).toContain("This key is already revoked.");
});

it("a confirmation links back to its form with the values filled in", async () => {
  const { app, read } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const confirm = await read(`users/grant/confirm?userId=ada&packId=${packId}&quantity=5&notes=hello&source=manual`);
  const [, change = ""] =
    /href="[^"]*\/(users\/grant\?[^"]*)">Change</.exec(confirm.replace(/>\s+Change\s+</, ">Change<")) ?? [];
  const form = await read(change);
  expect(form).toMatch(/name="quantity"[^>]*value="5"/);
  expect(form).toContain(">hello</textarea>");
});

it("the audit links its objects in the mode of the act, and shows lists as words", async () => {
  const { app, at, read, send } = await world();
  const test = at.replace(/live$/, "test");
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  await send("alerts/notices", { days: "30, 7" });
  const grant = { userId: "ada", packId, quantity: "1", notes: "x", source: "manual" };
  await send("../test/users/grant", grant);
  const balanceId = await env.DB.prepare("SELECT id FROM credit_balances WHERE pack_id = ?").bind(packId).first("id");
  const text = await read("audit");
  expect(text).toContain(`<a href="${test}/users/balance?balanceId=${balanceId}"><code>${balanceId}</code></a>`);
  expect(text).toContain(`<a href="${at}/alerts"><code>${app.appId}</code></a>`);
  expect(text).toContain("30, 7");
  expect(text).not.toContain("[&quot;");
});

it("the page of payments asks before it deletes Stripe's setting, and names what is lost", async () => {
  const { read, send } = await world();
  expect(await read("payments")).not.toContain("Stop accepting events");
  await send("payments/stripe", { secret: "whsec_x_0123456789", prices: "" });
  expect(await read("payments")).toContain("/stripe-off");
  expect(await read("stripe-off")).toContain("The signing secrets and the prices are deleted");
  expect(await read("payments")).toContain("empty keeps whsec_");
});

it("the form of an alert accepts a percent sign after a percentage, and not after an amount", async () => {
  const { read, send } = await world();
  const alert = { name: "Low", unit: "tokens", below: "20 %" };
  expect((await send("alerts", { ...alert, of: "amount" })).status).toBe(400);
  expect((await send("alerts", { ...alert, of: "percent" })).status).toBe(303);
  expect(await read("alerts")).toContain("20 % of what was issued in tokens");
});

it("the overview shows outstanding credits, and hourly figures as not computed yet instead of zero", async () => {
  const { app, read } = await world();
  // Deletes the figures that other test files computed.
  await env.DB.prepare("DELETE FROM business_walks").run();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const body = { userId: "ana", packId, quantity: 10 };
  await makeClient(new Clock())("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  await flushActivity(bound());
  const text = await read("overview");
  expect(text).toContain(`title="10 tokens"`);
  expect(text).toContain("not computed yet");
});

it("a pack's form adds and removes items without JavaScript, by an extra row and by a checkbox", async () => {
  const { app, read, send } = await world();
  const packId = await makePack(app.appId, "Items", [{ amountMinor: 1_000, unit: "count" }]);
  const noscript = async () => ((await read(`packs/${packId}`)).match(/<noscript>.*?<\/noscript>/gs) ?? []).join("");
  expect(await noscript()).toContain('name="items.1.amount"');
  expect(await noscript()).toContain('name="items.0.remove"');
  // No <noscript> is inside another.
  expect(await noscript()).not.toMatch(/<noscript>(?:(?!<\/noscript>).)*<noscript>/s);
  const itemsOf = async () =>
    (
      await env.DB.prepare("SELECT id, unit FROM credit_pack_items WHERE pack_id = ? ORDER BY position")
        .bind(packId)
        .all<{ id: string; unit: string }>()
    ).results;
  const [first] = await itemsOf();
  const item = (index: number, fields: Record<string, string>) =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [`items.${index}.${name}`, value]));
  const pack = { kind: "items", packName: "Items", defaultExpiryDays: "" };
  const old = { packItemId: first?.id ?? "", amount: "1", unit: "count" };
  const added = { ...item(0, old), ...item(1, { packItemId: "", amount: "5", unit: "tokens" }) };
  expect((await send(`packs/${packId}`, { ...pack, version: "1", ...added })).status).toBe(303);
  const both = await itemsOf();
  expect(both.map(({ unit }) => unit)).toEqual(["count", "tokens"]);
  const second = { packItemId: both[1]?.id ?? "", amount: "5", unit: "tokens" };
  const removed = { ...item(0, { ...old, remove: "yes" }), ...item(1, second) };
  expect((await send(`packs/${packId}`, { ...pack, version: "2", ...removed })).status).toBe(303);
  expect((await itemsOf()).map(({ unit }) => unit)).toEqual(["tokens"]);
});

it("the page of a person with thirty events of 255,000 characters is small, and links to the full data", async () => {
  const { app, at, browser, read } = await world();
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
     INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
     SELECT ?1, 'ada', i, ?2 || i, 'seen', 0, i, '{"a":"' || replace(hex(zeroblob(127500)), '0', 'x') || '"}' FROM n`,
  )
    .bind(app.environments.live.id, app.appId)
    .run();
  await env.DB.prepare(
    `INSERT INTO distinct_ids (environment_id, distinct_id, first_seen_at_ms, last_seen_at_ms, event_count, event_bytes, is_device_form)
     VALUES (?, 'ada', 0, 0, 30, 0, 0)`,
  )
    .bind(app.environments.live.id)
    .run();
  const text = await read("people?distinctId=ada");
  expect(text.length).toBeLessThan(300_000);
  const [, path] = /href="([^"]+people\/properties[^"]+)"/.exec(text) ?? [];
  expect(path).toContain(`${at}/people/properties`);
  const whole = await browser.get(path ?? "");
  expect(whole.headers.get("content-type")).toContain("application/json");
  expect(((await whole.json()) as { a: string }).a).toHaveLength(255_000);
});

it("the page of limits shows the whole percent that was used of each", async () => {
  const { app, read, send } = await world();
  const _form = /name="_form" value="([^"]+)"/.exec(await read("limits"))?.[1] ?? "";
  expect((await send("limits", { _form, eventsADay: "100" })).status).toBe(303);
  await env.DB.prepare(
    `INSERT INTO analytics_days (environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents)
     VALUES (CAST(? AS INTEGER), ?, 29, 0, 0, 0, 0, 0, 0)`,
  )
    .bind(app.environments.live.id, Math.floor(new Clock().ms / 86_400_000))
    .run();
  expect(await read("limits")).toContain(">29 %</span>");
});
