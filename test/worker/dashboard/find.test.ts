import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import { grantInput } from "../../../src/api/credits/grant-credits.ts";
import { grantPack } from "../../../src/books/credits/grant.ts";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { ENTRY_KINDS } from "../../../src/db/schema.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { EVIL, openDashboard, queryOf } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { liveBalancesSql } from "../../support/seed.ts";
import { bound, Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack, makePack } from "../../support/world.ts";

// An isolate keeps a limited number of notes for the figures. This stores those of other test files.
beforeEach(() => flushActivity(bound()));
afterAll(expectLedgerInvariants);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const { browser, at, ...dashboard } = await openDashboard(app, clock);
  const read = async (path: string) => {
    const { status, headers, text } = await dashboard.read(path);
    expect(status, path).toBeLessThan(500);
    expect(text).not.toContain(EVIL);
    return { status, location: headers.get("location"), text };
  };
  const ctx = makeCtx(app.environments.live, clock);
  const grant = (userId: string, packId: string, more: object = {}) =>
    grantPack(ctx, grantInput.parse({ userId, packId, quantity: 10, ...more }));
  return { app, browser, at, read, clock, grant, call: makeClient(clock) };
}

const rowsIn = (text: string) => text.split("<tr>").length - 2;

it("the list of users has every user, page by page, and finds users by the beginning of an id", async () => {
  const { app, read, grant } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  for (let n = 10; n < 65; n++) await grant(`user-${n}`, packId);
  await grant(`eve ${EVIL}`, packId);
  const first = await read("users");
  expect(first.text).toContain("eve &quot;&gt;&lt;img");
  expect(rowsIn(first.text)).toBe(50);
  const next = /href="([^"]*cursor=[^"]*)">More users/.exec(first.text)?.[1] ?? "";
  expect(rowsIn((await read(next)).text)).toBe(6);
  expect(rowsIn((await read("users?q=user-3")).text)).toBe(10);
  expect((await read("users?q=user-3")).text).toContain("10 count");
  expect((await read("users?q=user-31")).location).toContain("users?userId=user-31");
  expect((await read("users?q=nobody")).location).toContain("users?userId=nobody");
  expect((await read("users?cursor=made-up")).status).toBe(400);
  expect((await read("users?q=%25")).location).toContain("userId=%25");
});

it("the search finds a part of an id as it is typed, whatever its letters", async () => {
  const { app, read, call } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const body = { userId: "acct-ÖMER-Ada", packId, quantity: 5 };
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  await flushActivity(bound());
  for (const part of ["ÖMER", "ÖMER-ada", "Ada"])
    expect((await read(`search?q=${encodeURIComponent(part)}`)).text).toContain("acct-ÖMER-Ada");
});

it("the search for objects opens a balance, a reservation and an event by their ids, each linked to the others and to its user", async () => {
  const { app, browser, read, grant, call } = await world();
  const packId = await makePack(app.appId, "Two", [
    { amountMinor: 10_000, unit: "count" },
    // This balance pays first.
    { amountMinor: 500_000, unit: "tokens", priority: 1 },
  ]);
  const { output } = await grant("ana", packId, { externalRef: `ref ${EVIL}` });
  const [balanceId = "", sibling = ""] = output.balances.map((each) => each.balanceId);
  const keys = { key: app.keys.sk_live };
  await call("POST", "/api/v1/usage/events", {
    ...keys,
    body: { eventId: "evt-1", userId: "ana", event: "chat.done", model: "gpt-x", quantities: { tokens: 100 } },
  });
  const reservation = await call("POST", "/api/v1/usage/reservations", {
    ...keys,
    body: { reservationId: "res_one", userId: "ana", event: "chat.done", quantities: { tokens: 50 } },
  });
  expect(reservation.status).toBe(200);
  expect((await read(`users?q=${balanceId}`)).location).toContain(`users/balance?balanceId=${balanceId}`);
  const balance = (await read(`users/balance?balanceId=${balanceId}`)).text;
  for (const part of [sibling, "users?userId=ana", "ref &quot;&gt;", `packs/${packId}`])
    expect(balance).toContain(part);
  const user = (await read("users?userId=ana")).text;
  for (const part of ["chat.done · gpt-x: 1 count, 100 tokens", "users/event?eventId=evt-1", "res_one"]) {
    expect(user).toContain(part);
  }
  expect(user).toMatch(/<dt>tokens<\/dt><dd><b class="num">350<\/b> can be spent now, and 50 more are held/);
  expect((await read("users?q=evt-1")).text).toContain("users/event?eventId=evt-1");
  const event = (await read("users/event?eventId=evt-1")).text;
  for (const part of ["gpt-x", "1 count, 100 tokens", "users?userId=ana", "users/balance?balanceId=crb_"])
    expect(event).toContain(part);
  expect((await read("users?q=res_one")).location).toContain("reservationId=res_one");
  expect((await read("users/reservation?reservationId=res_one")).text).toContain("Release reservation");
  const form = { _form: await browser.formToken(), reservationId: "res_one", userId: "ana" };
  const path = `/admin/apps/${app.appId}/live/users/reservation/release`;
  for (let n = 0; n < 2; n++) expect((await browser.post(path, form)).headers.get("location")).toContain("released");
  const released = await read("users/reservation?reservationId=res_one");
  expect(released.text).not.toContain("Release reservation");
  const audit = (await read("audit?action=reservation.released")).text;
  expect([rowsIn(audit), audit.includes("res_one"), audit.includes(sibling)]).toEqual([1, false, true]);
  for (const page of ["users/event?eventId=x", "users/reservation?reservationId=x", "users/balance?balanceId=x"]) {
    expect((await read(page)).status, page).toBe(404);
  }
});

it("the balances of a user can all be reached, and filtered by status, pack and the beginning of a reference", async () => {
  const { app, read, grant } = await world();
  const [one, other] = [
    await makeOpenAmountPack(app.appId, "One", "count"),
    await makeOpenAmountPack(app.appId, "Other", "tokens"),
  ];
  for (let n = 0; n < 55; n++) await grant("ana", n < 50 ? one : other, { externalRef: `order-${n % 10}-${n}` });
  const of = (filters: Record<string, string>) => read(`users/balances${queryOf({ userId: "ana", ...filters })}`);
  const first = await of({});
  expect(rowsIn(first.text)).toBe(50);
  const next = /href="([^"]*cursor=[^"]*)">Older/.exec(first.text)?.[1] ?? "";
  const second = await read(next);
  expect([rowsIn(second.text), second.text.includes(">Older<")]).toEqual([5, false]);
  expect(rowsIn((await of({ packId: other })).text)).toBe(5);
  expect(rowsIn((await of({ reference: "order-3" })).text)).toBe(6);
  expect(rowsIn((await of({ status: "active" })).text)).toBe(50);
  expect((await of({ status: "revoked" })).text).toContain("No balances here.");
  const page = (await read("users?userId=ana")).text;
  expect(page).toContain("49 more balances");
  expect(page).toContain("<dt>count</dt>");
});

it("the ledger by date shows the entries of the given days, however many followed, and the balances at a moment", async () => {
  const { app, browser, read, clock, grant } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const days: string[] = [];
  for (let n = 0; n < 5; n++) {
    days.push(new Date(clock.ms).toISOString().slice(0, 10));
    for (let each = 0; each <= n; each++) await grant("ana", packId, { notes: `day-${n}.` });
    clock.advance(DAY_MS);
  }
  // The session has ended by now.
  await browser.signIn();
  const notes = async (filters: Record<string, string>) => {
    const { text } = await read(`users${queryOf({ userId: "ana", ...filters })}`);
    return [...text.matchAll(/<td>(day-\d)\.</g)].map(([, note]) => note);
  };
  expect(await notes({ from: days[1] ?? "", to: days[1] ?? "" })).toEqual(["day-1", "day-1"]);
  expect(await notes({ to: days[1] ?? "" })).toEqual(["day-1", "day-1", "day-0"]);
  expect(await notes({ from: days[4] ?? "" })).toHaveLength(5);
  expect(await notes({ to: "2001-01-01" })).toEqual([]);
  expect((await read("users?userId=ana&from=nonsense")).status).toBe(400);
  const then = await read(`users/as-of${queryOf({ userId: "ana", asOf: `${days[1]}T23:00` })}`);
  expect(rowsIn(then.text)).toBe(3);
  expect(then.text.match(/10 of 10 count/g)).toHaveLength(3);
  expect((await read("users/as-of?userId=ana&asOf=2100-01-01T00:00")).text).toContain("At must not be in the future.");
});

it("the balances at a moment are shown page by page, and those with too many later entries are marked as not known", async () => {
  const { app, read, clock, grant, at } = await world();
  const fifty = Array.from({ length: 50 }, () => ({ amountMinor: 10_000, unit: "count" }) as const);
  await grant("ana", await makePack(app.appId, "Fifty", fifty));
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  for (let n = 0; n < 3; n++) await grant("ana", packId);
  const moment = new Date(clock.ms).toISOString();
  clock.advance(1_000);
  const { output } = await grant("ana", packId);
  const { results } = await env.DB.prepare(
    "SELECT b.id, b.account_id AS account, (SELECT max(seq) FROM credit_ledger AS l WHERE l.account_id = b.account_id) AS seq FROM credit_balances AS b JOIN accounts AS a ON a.id = b.account_id WHERE a.environment_id = ? AND b.id <> ? ORDER BY grant_seq DESC LIMIT 1",
  )
    .bind(app.environments.live.id, output.balanceId)
    .all<{ id: string; account: number; seq: number }>();
  const [{ id, account, seq }] = results as [(typeof results)[number]];
  // The newest balance gets more later entries than a page reads.
  const entries = Array.from({ length: 20_100 }, (_, n) => n);
  const insert = env.DB.prepare(
    `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, occurred_at_ms)
     SELECT CAST(?1 AS INTEGER), CAST(?2 AS INTEGER) + 1 + value, (SELECT grant_seq FROM credit_balances WHERE id = ?3), 0, 10000,
       iif(value = 0, (SELECT last_seq FROM credit_balances WHERE id = ?3), CAST(?2 AS INTEGER) + value), ${ENTRY_KINDS.adjustment}, 1, CAST(?4 AS INTEGER)
     FROM json_each(?5) ORDER BY value`,
  );
  await insert.bind(account, seq, id, clock.ms, JSON.stringify(entries)).run();
  const first = await read(`users/as-of${queryOf({ userId: "ana", asOf: moment.slice(0, -1) })}`);
  expect([rowsIn(first.text), first.text.match(/10 of 10 count/g)?.length]).toEqual([50, 49]);
  expect(first.text).toContain("not known");
  const next = /href="([^"]*cursor=[^"]*)">Older balances/.exec(first.text)?.[1] ?? "";
  const second = await read(next);
  expect([rowsIn(second.text), second.text.includes("not known"), second.text.includes(">Older balances<")]).toEqual([
    3,
    false,
    false,
  ]);
  expect(next.startsWith(at)).toBe(true);
  expect((await read(`users/as-of${queryOf({ userId: "ana", asOf: moment.slice(0, -1), cursor: "x" })}`)).status).toBe(
    400,
  );
});

it("a preview of a debit is rejected for 10,000 balances, and names the API call instead", async () => {
  const { app, read } = await world();
  const account = { environmentId: app.environments.live.id, userId: "whale" };
  for (const sql of liveBalancesSql(account, 10_000)) await env.DB.prepare(sql).run();
  const { status, text } = await read(`users${queryOf({ userId: "whale", event: "chat.x", tokens: "5" })}`);
  expect(status).toBe(400);
  expect(text).toContain("10,000 balances or more. POST /api/v1/credits/plan does it.");
  expect(text).toContain("The real totals may be larger: only 10,000 balances");
});

it("the pages of verification verify one user or all users, and show the result", async () => {
  const { app, read, grant } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  await grant("ana", packId);
  await grant("bob", packId);
  for (const page of ["users/verify?userId=ana", "verify"]) {
    const { status, text } = await read(page);
    expect([status, text.includes("✓ Sound"), text.includes("There is nothing more to verify.")], page).toEqual([
      200,
      true,
      true,
    ]);
  }
  expect(rowsIn((await read("verify")).text)).toBe(2);
  expect((await read("verify?cursor=x")).status).toBe(400);
});

it("the search for users finds their balances by a reference or its beginning, and no unknown payment", async () => {
  const { app, read, grant, clock } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const other = await makeApp();
  const ref = `ord-${app.appId}`;
  for (const [userId, externalRef] of [
    ["ana", ref],
    ["bob", `${ref}-2`],
    [`cyd ${EVIL}`, `${ref}-2 ${EVIL}`],
    ["dan", "another"],
  ] as const) {
    await grant(userId, packId, { externalRef });
  }
  const elsewhere = makeCtx(other.environments.live, clock);
  const otherPackId = await makeOpenAmountPack(other.appId, "Any", "count");
  await grantPack(elsewhere, grantInput.parse({ userId: "eve", packId: otherPackId, quantity: 1, externalRef: ref }));
  const users = async (q: string) =>
    [...(await read(`users${queryOf({ q })}`)).text.matchAll(/users\?userId=(ana|bob|cyd|dan|eve)/g)].map(
      ([, id]) => id,
    );
  expect(await users(ref)).toEqual(["ana", "bob", "cyd"]);
  expect(await users(`${ref}-2`)).toEqual(["bob", "cyd"]);
  expect((await read(`users${queryOf({ q: `${ref}x` })}`)).location).toContain("users?userId=");
  expect((await read("users?q=pi_unknown")).location).toContain("users?userId=pi_unknown");
});

it("the list of people is ordered by the latest activity, without devices that were never identified", async () => {
  const { app, read, call, clock, browser } = await world();
  const device = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f";
  const known = "0194685f-1b2c-7d3e-8f40-000000000001";
  const send = (batch: readonly object[]) => call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch } });
  const seen = (distinct_id: string) => ({ event: "seen", distinct_id });
  const ids = async (path: string) =>
    [...(await read(path)).text.matchAll(/people\?distinctId=([^"]*)"><code /g)].map(([, id]) => id);
  await send([
    seen("zoe"),
    seen(`ana ${EVIL}`),
    seen(device),
    { event: "$identify", distinct_id: known, properties: {} },
  ]);
  await send([{ event: "quiet", distinct_id: "anon", properties: { $process_person_profile: false } }]);
  await flushActivity(bound());
  expect(await ids("people")).toEqual(["zoe", "ana+%22%3E%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E", known]);
  clock.advance(DAY_MS);
  await browser.signIn();
  await send(Array.from({ length: 49 }, (_, n) => seen(`new-${n}`)));
  await send([seen(known), seen(known)]);
  await flushActivity(bound());
  const first = await read("people");
  expect(rowsIn(first.text)).toBe(50);
  expect((await ids("people"))[49]).toBe(known);
  const next = /href="([^"]*cursor=[^"]*)">More ids/.exec(first.text)?.[1] ?? "";
  expect((await ids(next)).map((id) => id?.slice(0, 3))).toEqual(["zoe", "ana"]);
  expect(await ids("people?by=id")).toContain(device);
  expect((await read("people?cursor=made-up")).status).toBe(400);
});

it("the search of the application finds users and people by a part of an id, people by e-mail, balances by reference, and packs", async () => {
  const { app, read, call } = await world();
  const packId = await makeOpenAmountPack(app.appId, `Wallet ${EVIL}`, "count");
  const grant = { userId: `team-7/ana ${EVIL}`, packId, quantity: 5, externalRef: "invoice-77" };
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: grant });
  const $set = { email: "Zoe@Example.com" };
  const batch = [{ event: "seen", distinct_id: "visitor-zoe", properties: { $set } }];
  await call("POST", "/batch/", { key: app.keys.sk_live, body: { api_key: app.keys.sk_live, batch } });
  await flushActivity(bound());
  const search = async (q: string) => (await read(`search?${new URLSearchParams({ q })}`)).text;
  expect(await search("ANA")).toContain("users?userId=team-7%2Fana");
  expect(await search("tor-z")).toContain("people?distinctId=visitor-zoe");
  // The search by e-mail does not depend on the last activity.
  await env.DB.prepare("UPDATE distinct_ids SET last_active_day = NULL WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .run();
  for (const q of ["zoe@example.com", "ZOE@EXAMPLE.COM"]) {
    expect(await search(q)).toContain("people?distinctId=visitor-zoe");
  }
  expect(await search("oe@example.com")).not.toContain("people?distinctId=visitor-zoe");
  expect(await search("invoice-7")).toContain("users/balance?balanceId=crb_");
  expect(await search("wallet")).toContain(`packs/${packId}"`);
  expect(await search(EVIL)).not.toContain("<img");
  expect(await search("nobody at all")).toContain("Nothing found");
  expect(await search("")).toContain("Search this application");
  expect((await read(`search?q=${"x".repeat(501)}`)).status).toBe(400);
  // Other pages have the search field too.
  expect((await read("packs")).text).toContain(`action="/admin/apps/${app.appId}/live/search"`);
});

it("the search finds every person of the application by an e-mail address, even without recorded activity", async () => {
  const [{ app, call, read }, other] = [await world(), await world()];
  const set = async ({ keys }: { keys: { sk_live: string } }, person: string, email: unknown) => {
    const batch = [{ event: "seen", distinct_id: person, properties: { $set: { email } } }];
    const body = { api_key: keys.sk_live, batch };
    expect((await call("POST", "/batch/", { key: keys.sk_live, body })).status).toBe(200);
  };
  await set(app, "visitor-1", "Old@Example.com");
  await set(app, "visitor-2", "old@example.com");
  await set(app, "visitor-3", { work: "old@example.com" });
  await set(app, "visitor-4", "x".repeat(400));
  await set(other.app, "visitor-5", "old@example.com");
  // No activity of these people is recorded.
  await env.DB.prepare("UPDATE distinct_ids SET last_active_day = NULL WHERE distinct_id LIKE 'visitor-%'").run();
  const search = async () => {
    const { text } = await read(`search?q=${encodeURIComponent("OLD@example.com")}`);
    return [...text.matchAll(/people\?distinctId=(visitor-\d)/g)].map(([, id]) => id);
  };
  expect(new Set(await search())).toEqual(new Set(["visitor-1", "visitor-2"]));
  await set(app, "visitor-1", "new@example.com");
  expect(new Set(await search())).toEqual(new Set(["visitor-2"]));
});

it("the search skips properties that SQLite cannot read as JSON and very long addresses, and finds other addresses", async () => {
  const { app, read } = await world();
  const deep = `{"email":"deep@example.com","a":${"[".repeat(2_000)}${"]".repeat(2_000)}}`;
  const long = JSON.stringify({ email: "long@".padEnd(321, "x") });
  const store = (id: string, properties: string) =>
    env.DB.prepare(
      "INSERT INTO id_properties (environment_id, distinct_id, properties) VALUES (CAST(? AS INTEGER), ?, ?)",
    )
      .bind(app.environments.live.id, id, properties)
      .run();
  await store("person-deep", deep);
  await store("person-long", long);
  await store("found", JSON.stringify({ email: "long@".padEnd(320, "x") }));
  const search = async (email: string) => (await read(`search?${new URLSearchParams({ q: email })}`)).text;
  expect(await search("long@".padEnd(320, "x"))).toContain("people?distinctId=found");
  expect(await search("long@".padEnd(321, "x"))).not.toContain("people?distinctId=person-long");
  expect(await search("deep@example.com")).not.toContain("people?distinctId=person-deep");
});

it("the list of people can be narrowed by the beginning of an id", async () => {
  const { app, read, call } = await world();
  const batch = [`ana ${EVIL}`, "bob", "bobby"].map((distinct_id) => ({ event: "seen", distinct_id }));
  await call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch } });
  expect(rowsIn((await read("people")).text)).toBe(3);
  expect(rowsIn((await read("people?q=bob")).text)).toBe(2);
  expect((await read("people?q=bobby")).location).toContain("people?distinctId=bobby");
});
