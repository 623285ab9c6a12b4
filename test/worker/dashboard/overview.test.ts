import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import { makeStatements } from "../../../src/books/statements/make-statements.ts";
import { walkBusiness } from "../../../src/dashboard/figures/business.ts";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { EVIL, openDashboard } from "../../support/browse.ts";
import { forgetWalks, runPart } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { makeEndpoint } from "../../support/webhooks.ts";
import { bound, Clock, makeAdminCtx, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

// An isolate keeps a limited number of notes for the figures. This stores those of other test files.
beforeEach(() => flushActivity(bound()));
afterAll(expectLedgerInvariants);

async function world(given?: { readonly clock: Clock; readonly app: Awaited<ReturnType<typeof makeApp>> }) {
  const { clock, app } = given ?? { clock: new Clock(), app: await makeApp() };
  const { browser, at, read } = await openDashboard(app, clock);
  const call = makeClient(clock);
  return {
    app,
    browser,
    call,
    clock,
    post: (path: string, body: unknown) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body }),
    read: async (path: string) => {
      const { status, text } = await read(path);
      expect(status, path).toBe(200);
      expect(text, path).not.toContain(EVIL);
      return text;
    },
    at,
  };
}

it("the overview links shortages to their users and events, and rejected grants to their reasons", async () => {
  const { app, post, read, at } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const userId = `ana ${EVIL}`;
  await post("credits/grant", { userId, packId, quantity: 10 });
  const usage = { eventId: "e1", userId, event: `chat ${EVIL}`, quantities: { count: 0, tokens: 1_510 } };
  for (let n = 0; n < 3; n++) expect((await post("usage/events", usage)).status).toBe(402);
  expect((await post("credits/grant", { userId, packId: `none ${EVIL}` })).status).toBe(404);
  expect((await post("credits/grant", { userId: "bob", packId })).status).toBe(400);
  await flushActivity(bound());

  const overview = await read("overview");
  expect(overview).toContain(`<a href="${at}/rejections?kind=shortage">Insufficient credits (402)</a> <b>3</b>`);
  expect(overview).toContain(`<a href="${at}/rejections?kind=failed_grant">Rejected grants</a> <b>2</b>`);
  const short = await read("rejections?kind=shortage");
  expect(short).toContain(`users?userId=ana+%22%3E`);
  for (const part of ["chat &quot;&gt;&lt;img", "1,500 tokens", `<span class="num">3</span>`, "Approximate"]) {
    expect(short).toContain(part);
  }
  const refused = await read("rejections?kind=failed_grant");
  for (const part of [
    "none &quot;&gt;&lt;img",
    "there is no such pack",
    "the quantity is missing",
    "users?userId=bob",
  ]) {
    expect(refused).toContain(part);
  }
});

it("the overview counts usage that a limit rejected, and links it", async () => {
  const { app, call, post, read, at } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const limit = { mode: "live", name: "A day", unit: "count", amount: 1, every: "day" };
  const path = `/api/v1/admin/apps/${app.appId}/usage-limits`;
  expect((await call("POST", path, { key: env.ADMIN_TOKEN, body: limit })).status).toBe(200);
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  const usage = { userId: "ana", event: "chat", quantities: { count: 1, tokens: 1 } };
  const statuses = [];
  for (const eventId of ["e1", "e2", "e3"]) statuses.push((await post("usage/events", { ...usage, eventId })).status);
  expect(statuses).toEqual([200, 429, 429]);
  await flushActivity(bound());
  expect(await read("overview")).toContain(
    `<a href="${at}/rejections?kind=usage_limit">Usage limit reached (429)</a> <b>2</b>`,
  );
  expect(await read("rejections?kind=usage_limit")).toContain("limit A day");
});

/** The terms of one line of the equation, by unit. */
function lineOf(text: string, label: string): string[] {
  const [, row = ""] = new RegExp(`<th scope="row">${label}[^<]*</th>(.*?)</tr>`, "s").exec(text) ?? [];
  return [...row.matchAll(/<td class="end">(?:<[^>]*>)?([^<]*)</g)].map(([, term = ""]) => term);
}

it("the overview shows first steps while the environment is empty, each with its page, and no longer afterwards", async () => {
  const { app, post, read, at } = await world();
  const empty = await read("overview");
  expect(empty).toContain("First steps");
  for (const page of ["packs/new", "keys", "users/grant"]) {
    expect(empty).toContain(`href="${at}/${page}"`);
    await read(page);
  }
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  await flushActivity(bound());
  expect(await read("overview")).not.toContain("First steps");
});

it("the overview shows granted, spent and outstanding credits by pack, and links the packs", async () => {
  const { app, browser, clock, post, read, at } = await world();
  const [calls, words] = [
    await makeOpenAmountPack(app.appId, `Calls ${EVIL}`, "count"),
    await makeOpenAmountPack(app.appId, "Words", "tokens"),
  ];
  await post("credits/grant", { userId: "ana", packId: calls, quantity: 1_500 });
  await post("credits/grant", { userId: "ana", packId: words, quantity: 70 });
  await post("usage/events", { eventId: "e", userId: "ana", event: "x", quantities: { count: 20.5 } });
  await flushActivity(bound());
  await forgetWalks();
  for (let n = 0; n < 3; n++) expect(await runPart(walkBusiness, makeAdminCtx(clock))).toEqual([]);
  const text = await read("overview?days=7");
  const rows = text.slice(text.indexOf(`id="packs"`)).split("<tr>");
  const rowOf = (name: string) => rows.find((row) => row.includes(name)) ?? "";
  expect(rowOf("Calls &quot;&gt;&lt;img")).toContain(`href="${at}/packs/${calls}"`);
  expect([...rowOf("Calls").matchAll(/class="num">(?:<a [^>]*>)?([^<]*)</g)].map(([, cell]) => cell)).toEqual([
    "1,500 count",
    "20.5 count",
    "1,479.5 count",
  ]);
  expect(rowOf("Words")).toContain("70 tokens");
  expect(lineOf(text, "Granted")).toEqual(["+1,500", "+70"]);
  expect(lineOf(text, "Spent")).toEqual(["−20.5", "0"]);
  expect(lineOf(text, "Outstanding now")).toEqual(["1,479.5", "70"]);
  expect(text).toMatch(/Outstanding: updated \d\d:\d\d UTC, every hour\./);

  // In a later week nothing was granted or spent.
  clock.advance(8 * DAY_MS);
  await browser.signIn();
  const later = await read("overview?days=7");
  expect(later.slice(later.indexOf(`id="packs"`))).toContain(`href="${at}/packs/${words}">Words</a>`);
});

it("the overview says so if it does not add up all amounts granted and spent of very many packs", async () => {
  const { app, clock, read } = await world();
  const insert = `INSERT INTO daily_activity WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20200)
    SELECT CAST(?1 AS INTEGER), 'spent_of', CAST(?2 AS INTEGER) - i / 1000, 'tokens cpk_' || (i % 1000), 1500 FROM n`;
  const today = Math.floor(clock.ms / DAY_MS);
  await env.DB.prepare(insert).bind(app.environments.live.id, today).run();
  const note = "More was granted and spent than is added up here";
  expect(await read("overview?days=7")).not.toContain(note);
  expect(await read("overview?days=30")).toContain(note);
});

it("the overview shows 0, not -0, where the sums of decimals differ by less than the smallest amount", async () => {
  const { app, post, read } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  await post("credits/grant", { userId: "ana", packId, quantity: 100, externalRef: "order" });
  const usage = { eventId: "e", userId: "ana", event: "x", quantities: { count: 0, tokens: 0.1 } };
  expect((await post("usage/events", usage)).status).toBe(200);
  const refund = { userId: "ana", externalRef: "order", refundRef: "r", share: { part: 1, of: 1_000 } };
  expect((await post("credits/refund", refund)).status).toBe(200);
  await flushActivity(bound());
  const text = await read("overview");
  expect(lineOf(text, "Returned")).toEqual(["−0.1"]);
  expect(lineOf(text, "Outstanding at the start")).toEqual(["0"]);
});

it("the overview counts refunds and Stripe's refunds as returned, and its equation equals the API's sums", async () => {
  const w = await paymentsWorld();
  const { read, browser, at } = await world(w);
  await w.post("credits/grant", { userId: "ana", packId: "wallet", quantity: 100, externalRef: "order" });
  await w.post("credits/refund", { userId: "ana", externalRef: "order", refundRef: "r", share: { part: 1, of: 4 } });
  const fields = { client_reference_id: "bob", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)))).toBe("granted");
  const refunded = eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300));
  expect(await w.deliver(refunded)).toBe("taken");
  expect(await w.deliver(refunded)).toBe("ignored");
  // Stripe's refund becomes smaller: 100 are restored, and what was taken stays counted.
  const less = { ...charge("ch_1", "pi_1", 200) };
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 2, less))).toBe("restored");
  await flushActivity(bound());
  const text = await read("overview");
  expect(lineOf(text, "Returned")).toEqual(["−325"]);
  expect(lineOf(text, "Granted")).toEqual(["+1,100"]);
  expect(lineOf(text, "Restored to payments")).toEqual(["+100"]);
  expect(lineOf(text, "Outstanding at the start")).toEqual(["0"]);
  expect(lineOf(text, "Outstanding now")).toEqual(["875"]);
  // The API gives the same sums.
  const key = { key: w.app.keys.sk_live };
  const of = async (path: string) =>
    (
      await Promise.all(["ana", "bob"].map(async (id) => (await w.call("GET", `${path}?userId=${id}`, key)).body))
    ).flatMap(({ credits, entries }) => credits ?? entries);
  const entries = await of("/api/v1/credits/history");
  const sumOf = (amounts: readonly number[]) => amounts.reduce((sum, amount) => sum + amount, 0);
  const deltasOf = (...causes: readonly string[]) =>
    sumOf(entries.filter(({ cause, reason }) => causes.includes(cause ?? reason)).map(({ delta }) => delta));
  expect(deltasOf("grant", "payment")).toBe(1_100);
  expect([deltasOf("refund", "payment_taken"), deltasOf("payment_restored")]).toEqual([-325, 100]);
  expect(sumOf((await of("/api/v1/credits")).map(({ remaining }) => remaining))).toBe(875);
  for (const id of ["pi_1", "cs_1"]) {
    expect((await browser.get(`${at}/users?q=${id}`)).headers.get("location")).toBe(`${at}/payments/${id}`);
  }
  expect((await read("payments/pi_1")).match(/users\?userId=bob/g)).not.toBeNull();
  expect(await read("users?userId=bob")).toContain("800");
});

it("the overview's equation includes what expired since the last hourly figures, and before the first", async () => {
  const { app, clock, post, read, browser } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const expiresAt = new Date(clock.ms + 2 * DAY_MS).toISOString();
  for (const [quantity, more] of [
    [100, {}],
    [40, { expiresAt }],
  ] as const) {
    await post("credits/grant", { userId: "ana", packId, quantity, ...more });
  }
  await flushActivity(bound());
  clock.advance(2 * DAY_MS);
  await browser.signIn();
  await forgetWalks();
  const before = await read("overview");
  expect(lineOf(before, "Expired")).toEqual(["−40"]);
  expect(lineOf(before, "Outstanding at the start")).toEqual(["0"]);
  const soon = new Date(clock.ms + 60_000).toISOString();
  await post("credits/grant", { userId: "ana", packId, quantity: 5, expiresAt: soon });
  for (let n = 0; n < 3; n++) await runPart(walkBusiness, makeAdminCtx(clock));
  await flushActivity(bound());
  clock.advance(60_000);
  const text = await read("overview");
  expect(lineOf(text, "Expired")).toEqual(["−45"]);
  expect(lineOf(text, "Outstanding at the start")).toEqual(["0"]);
  expect(lineOf(text, "Outstanding now")).toEqual(["100"]);
});

it("the overview includes adjusted, revoked and erased credits, which have no line before their first use", async () => {
  const { app, post, read, browser, at } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const grant = async (userId: string, quantity: number) =>
    (await post("credits/grant", { userId, packId, quantity })).body.balanceId;
  const [ana, bob] = [await grant("ana", 100), await grant("bob", 40)];
  await grant("cem", 7.5);
  await flushActivity(bound());
  const before = await read("overview");
  for (const label of ["Adjusted", "Revoked", "Erased"]) expect(lineOf(before, label)).toEqual([]);
  const _form = await browser.formToken();
  const adjusted = await browser.post(`${at}/users/adjust`, {
    ...{ _form, userId: "ana", balanceId: ana, delta: "-12.5", note: "by hand", adjustmentId: "a1" },
  });
  expect(adjusted.status).toBe(303);
  expect((await post("credits/revoke", { balanceId: bob })).status).toBe(200);
  expect((await post("erase-person", { distinctId: "cem" })).status).toBe(200);
  await flushActivity(bound());
  const text = await read("overview");
  expect(lineOf(text, "Adjusted")).toEqual(["−12.5"]);
  expect(lineOf(text, "Revoked")).toEqual(["−40"]);
  expect(lineOf(text, "Erased")).toEqual(["−7.5"]);
  expect(lineOf(text, "Outstanding at the start")).toEqual(["0"]);
  expect(lineOf(text, "Outstanding now")).toEqual(["87.5"]);
});

it("the overview shows the newest statement by unit, or offers to make the last month's", async () => {
  const { app, clock, post, read, browser, at } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  await post("credits/grant", { userId: "ana", packId, quantity: 100, source: "purchase" });
  await post("usage/events", { eventId: "e", userId: "ana", event: "x", quantities: { count: 0, tokens: 30 } });
  clock.ms = Date.UTC(2026, 1, 1, 0, 59);
  await browser.signIn();
  expect(await read("overview")).not.toContain("Make the statement");
  clock.ms = Date.UTC(2026, 1, 1, 1);
  expect(await read("overview")).toContain("Make the statement of 2026-01");
  const _form = await browser.formToken();
  expect((await browser.post(`${at}/statements`, { _form, month: "2026-01" })).status).toBe(303);
  await runPart(makeStatements, makeAdminCtx(clock));
  const text = await read("overview");
  expect(text).not.toContain("Make the statement of");
  const closed = text.slice(text.indexOf(`id="closed-month"`));
  expect(closed).toContain("Month 2026-01");
  for (const [label, term] of [
    ["Opening", "0"],
    ["Purchases", "+100"],
    ["Spent", "−30"],
    ["Closing", "70"],
  ] as const) {
    expect(lineOf(closed, label), label).toEqual([term]);
  }
  expect(closed).toContain("figures?figure=spent&unit=tokens&from=2026-01-01&to=2026-01-31");
});

it("the overview counts the tasks of the cron that failed", async () => {
  const { app, clock, read } = await world();
  const { id } = app.environments.live;
  const insert = env.DB.prepare(
    "INSERT INTO cron_faults VALUES ('holds_not_returned', ?, CAST(? AS INTEGER), 'unknown', 1, 0, CAST(? AS INTEGER))",
  );
  await env.DB.batch([1, 2].map((n) => insert.bind(`overview ${n}`, id, clock.ms)));
  expect(await read("overview")).toContain("2 tasks of the cron failed.");
});

it("the overview shows delayed messages to endpoints, and nothing about a healthy endpoint", async () => {
  const { app, clock, post, read, at } = await world();
  const webhookId = await makeEndpoint(app.environments.live);
  expect(await read("overview")).toContain("Nothing needs your attention.");
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  clock.advance(60_000);
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  clock.advance(16 * 60_000);
  const text = await read("overview");
  expect(text).toContain(`href="${at}/webhooks/${webhookId}"`);
  expect(text).toContain("2 waiting, the oldest for 17 minutes");
});

it("the overview links only to pages that show something, even after an erasure", async () => {
  const w = await paymentsWorld();
  const { read, browser, at } = await world(w);
  await makeEndpoint(w.app.environments.live);
  await w.post("credits/grant", { userId: "ana", packId: "wallet", quantity: 100, externalRef: "order" });
  await w.post("credits/grant", { userId: "cem", packId: "wallet", quantity: 30 });
  await w.post("usage/events", { eventId: "e", userId: "ana", event: "x", quantities: { count: 0, cents: 20 } });
  await w.post("usage/events", { eventId: "f", userId: "ana", event: "x", quantities: { count: 0, cents: 900 } });
  await w.post("credits/refund", { userId: "ana", externalRef: "order", refundRef: "r", share: { part: 1, of: 4 } });
  const fields = { client_reference_id: "bob", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)))).toBe("granted");
  expect((await w.post("erase-person", { distinctId: "cem" })).status).toBe(200);
  await flushActivity(bound());
  await forgetWalks();
  for (let n = 0; n < 3; n++) expect(await runPart(walkBusiness, makeAdminCtx(w.clock))).toEqual([]);
  const main = (text: string) => text.slice(text.indexOf("<main"), text.indexOf("</main>"));
  const overview = main(await read("overview"));
  const links = new Set([...overview.matchAll(/href="([^"#]+)/g)].map(([, href = ""]) => href));
  // The link to the statements belongs to the button that makes the last month's statement; nobody is at a limit.
  const followed = [...links].filter(
    (href) => !/\/(overview|docs|statements$|usage-limits\/reached$)|^https?:|\/webhooks\/new/.test(href),
  );
  expect(followed.length).toBeGreaterThan(8);
  for (const href of followed) {
    const answer = await browser.get(href.startsWith("/") ? href : `${at}/${href}`);
    expect(answer.status, href).toBe(200);
    const page = main(await answer.text());
    const rows = page.match(/<tr>|<dt>|class="value|<fieldset/g) ?? [];
    expect(rows.length, href).toBeGreaterThan(0);
    if (/[?&]figure=/.test(href)) expect(page, href).not.toMatch(/class="empty"/);
  }
});

it("the overview compares revenue and credits with the days before, in the same unit", async () => {
  const w = await paymentsWorld();
  const { read, browser } = await world(w);
  const pay = async (n: number, amount: number) => {
    const fields = { client_reference_id: "bob", metadata: { pack: "wallet" }, payment_intent: `pi_${n}` };
    const paid = session(`cs_${n}`, { ...fields, amount_subtotal: amount, amount_total: amount });
    expect(await w.deliver(eventOf("checkout.session.completed", w.clock.ms / 1_000, paid))).toBe("granted");
  };
  await pay(1, 1_250);
  w.clock.advance(8 * DAY_MS);
  await browser.signIn();
  await pay(2, 1_500);
  await flushActivity(bound());
  const text = await read("overview?days=7");
  // The revenue, and the granted credits.
  expect(text.match(/title="\$12\.50 in the 7 days before"/g)).toHaveLength(2);
});

it("the overview counts users without erased ones, and its figures of spent credits and revenue equal the API's sums", async () => {
  const w = await paymentsWorld();
  const { read } = await world(w);
  for (const userId of ["ana", "bob", "cem"])
    await w.post("credits/grant", { userId, packId: "wallet", quantity: 100, source: "grant" });
  for (const [userId, cents] of [
    ["ana", 20],
    ["bob", 12.5],
  ] as const) {
    const usage = { eventId: userId, userId, event: "x", quantities: { count: 0, cents } };
    expect((await w.post("usage/events", usage)).status).toBe(200);
  }
  for (const [index, amount] of [1000, 1550].entries()) {
    const fields = { client_reference_id: "bob", metadata: { pack: "wallet" }, payment_intent: `pi_${index}` };
    const paid = session(`cs_${index}`, { ...fields, amount_subtotal: amount, amount_total: amount });
    expect(await w.deliver(eventOf("checkout.session.completed", w.nowS + index, paid))).toBe("granted");
  }
  await flushActivity(bound());
  const figure = async (title: string) => {
    const overview = await read("overview");
    const text = overview.slice(overview.indexOf('aria-label="Key figures"'));
    const card = text.slice(text.search(new RegExp(`>${title}`)) + 1).split('class="figure"')[0] ?? "";
    return card.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  };
  expect(await figure("Users")).toMatch(/^Users 3 users/);
  // Two payments bought 2,550 of the 2,850 granted cents.
  expect(await figure("Granted, \\d+ days")).toMatch(/^Granted, \d+ days \$28\.50.* \$25\.50 sold /);
  const histories = await Promise.all(["ana", "bob"].map((userId) => w.history(userId)));
  const spent = histories
    .flat()
    .filter(({ reason }) => reason === "event_committed")
    .reduce((sum: number, { delta }) => sum - delta, 0);
  expect(spent).toBe(32.5);
  expect(await figure("Spent, \\d+ days")).toMatch(/^Spent, \d+ days \$0\.32/);
  const paid = (await w.payments()).reduce((sum: number, { captured }: { captured: number }) => sum + captured, 0);
  expect(paid).toBe(2_550);
  expect(await figure("Revenue, \\d+ days")).toMatch(/^Revenue, \d+ days \$25\.50/);
  expect((await w.post("erase-person", { distinctId: "cem" })).status).toBe(200);
  expect(await figure("Users")).toMatch(/^Users 2 users/);
});
