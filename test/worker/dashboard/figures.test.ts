import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import {
  type EntriesOf,
  EXAMINED_ENTRIES_MAX,
  EXAMINED_EXPIRIES_MAX,
  EXAMINED_USERS_MAX,
  findEntries,
  listExpiries,
} from "../../../src/books/credits/find-entries.ts";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { findLinks, SEARCHED_LINKS_MAX } from "../../../src/exports/export-audit.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { EVIL, openDashboard } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { bound, Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack } from "../../support/world.ts";

// An isolate keeps a limited number of notes for the figures. This stores those of other test files.
beforeEach(() => flushActivity(bound()));
afterAll(expectLedgerInvariants);

const ADA = `ada ${EVIL}`;
const dateOf = (atMs: number) => new Date(atMs).toISOString().slice(0, 10);

async function world(given?: { readonly clock: Clock; readonly app: Awaited<ReturnType<typeof makeApp>> }) {
  const { clock, app } = given ?? { clock: new Clock(), app: await makeApp() };
  const { browser, at, ...dashboard } = await openDashboard(app, clock);
  const call = makeClient(clock);
  const read = async (path: string, expected = 200) => {
    const { status, text } = await dashboard.read(path);
    expect(status, path).toBe(expected);
    expect(text, path).not.toContain(EVIL);
    return text;
  };
  return {
    ...{ app, browser, clock, at, read },
    today: () => dateOf(clock.now()),
    post: async (path: string, body: unknown) => {
      const answer = await call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      return answer.body;
    },
    /** The rows of a figure's list, the cells of each as text. */
    list: async (fields: Record<string, string>) => rowsOf(await read(`figures?${new URLSearchParams(fields)}`)),
  };
}

const rowsOf = (text: string): string[][] =>
  [...text.matchAll(/<tr>(.*?)<\/tr>/gs)].slice(1).map(([, row = ""]) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = ""]) =>
      cell
        .replaceAll(/<[^>]*>/g, "")
        .replaceAll(/\s+/g, " ")
        .trim(),
    ),
  );
const SHOWN_EVIL = "ada &quot;&gt;&lt;img src=x onerror=alert(1)&gt;";

it("the list behind a figure of the overview has the granted or spent entries of a day, a unit or a pack, with links to their users", async () => {
  const { app, browser, clock, post, read, list, at, today } = await world();
  const words = await makeOpenAmountPack(app.appId, `Words ${EVIL}`, "tokens");
  const calls = await makeOpenAmountPack(app.appId, "Calls", "count");
  await post("credits/grant", { userId: ADA, packId: words, quantity: 1_500, notes: EVIL });
  const first = today();
  clock.advance(DAY_MS);
  await browser.signIn();
  await post("credits/grant", { userId: "bob", packId: words, quantity: 70 });
  await post("credits/grant", { userId: "bob", packId: calls, quantity: 9 });
  const usage = { userId: ADA, event: "chat", quantities: { count: 0, tokens: 12.5 } };
  await post("usage/events", { eventId: `e ${EVIL}`, ...usage });
  await post("usage/reservations", { reservationId: "res_f", ...usage });
  await post("usage/reservations/res_f/commit", { eventId: "e2", quantities: { count: 0, tokens: 4 } });
  await flushActivity(bound());

  const overview = await read("overview?days=7");
  const range = `from=${dateOf(clock.now() - 6 * DAY_MS)}&to=${today()}`;
  for (const figure of ["granted", "spent"]) {
    expect(overview).toContain(`href="${at}/figures?figure=${figure}&unit=tokens&${range}"`);
    expect(overview).toContain(`href="${at}/figures?figure=${figure}&unit=tokens&from=${today()}&to=${today()}"`);
    expect(overview).toContain(`href="${at}/figures?figure=${figure}&unit=tokens&packId=${words}&${range}"`);
  }
  const day = (from: string, to = from) => ({ from, to });
  const granted = await list({ figure: "granted", ...day(first) });
  expect(granted.map((row) => row.slice(1, 4))).toEqual([
    [SHOWN_EVIL, "+1,500 tokens", expect.stringContaining("Words")],
  ]);
  const ofBoth = await list({ figure: "granted", unit: "tokens", ...day(first, today()) });
  expect(ofBoth.map(([, , change]) => change).sort()).toEqual(["+1,500 tokens", "+70 tokens"]);
  expect((await list({ figure: "granted", packId: calls })).map(([, user, change]) => [user, change])).toEqual([
    ["bob", "+9 count"],
  ]);
  expect(await list({ figure: "granted", ...day(dateOf(clock.now() + DAY_MS)) })).toEqual([]);
  // A hold is not usage. A commit is.
  const spent = await list({ figure: "spent", ...day(today()) });
  expect(spent.map(([, user, change]) => [user, change])).toEqual([
    [SHOWN_EVIL, "-12.5 tokens"],
    [SHOWN_EVIL, "-4 tokens"],
  ]);
  expect(await list({ figure: "spent", ...day(first) })).toEqual([]);
  // Each entry links to its user, balance, pack and event, and to its place in the ledger.
  const text = await read(`figures?figure=spent&from=${today()}&to=${today()}`);
  for (const link of text.matchAll(/<td>.*?href="([^"]+)"/gs)) await read(link[1] ?? "");
  expect(text).toContain(`users?userId=ada+%22%3E`);
  expect(text).toContain(`users/reservation?reservationId=res_f`);
  const [, ledger = ""] = /<td><a class="num" href="([^"]+)"/.exec(text) ?? [];
  expect(await read(ledger)).toContain("-12.5 tokens");
});

it("the list behind a figure of the overview has refunds and Stripe's refunds if the figure is of refunded credits, but no adjustments, revokes or restored amounts", async () => {
  const w = await paymentsWorld();
  const { list, today } = await world(w);
  const call = makeClient(w.clock);
  const admin = (path: string, body: unknown) =>
    call("POST", `/api/v1/admin/balances/${path}`, { key: env.ADMIN_TOKEN, body });
  const grant = { userId: "ana", packId: "wallet", quantity: 100 };
  const { balanceId } = (await w.post("credits/grant", { ...grant, externalRef: "order" })).body;
  await w.post("credits/refund", { userId: "ana", externalRef: "order", refundRef: "r", share: { part: 1, of: 4 } });
  expect((await admin(`${balanceId}/adjust`, { delta: -5, note: "Stripe, by hand" })).status).toBe(200);
  await w.post("credits/revoke", { balanceId });
  const fields = { client_reference_id: "bob", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300)))).toBe("taken");
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 2, charge("ch_1", "pi_1", 200)))).toBe("restored");
  await flushActivity(bound());
  const refunded = await list({ figure: "refunded", from: today(), to: today() });
  expect(refunded.map(([, user, change]) => [user, change]).sort()).toEqual([
    ["ana", "-$0.25"],
    ["bob", "-$3.00"],
  ]);
  expect(await list({ figure: "refunded", from: today(), to: today(), unit: "tokens" })).toEqual([]);
});

it("the list behind a figure of the overview has expired balances with a rest, or all balances granted to expire in the span", async () => {
  const { app, clock, post, list, today } = await world();
  const packId = await makeOpenAmountPack(app.appId, `Words ${EVIL}`, "tokens");
  const expiresAt = new Date(clock.now() + 60_000).toISOString();
  await post("credits/grant", { userId: ADA, packId, quantity: 10, expiresAt });
  await post("credits/grant", { userId: "bob", packId, quantity: 4, expiresAt });
  await post("usage/events", { eventId: "all", userId: "bob", event: "x", quantities: { count: 0, tokens: 4 } });
  const filters = { from: today(), to: today(), unit: "tokens", packId };
  const of = async (figure: string) =>
    (await list({ figure, ...filters })).map(([, user, remaining, , , status]) => [user, remaining, status]);
  expect(await of("expired")).toEqual([]);
  expect(await of("expiring")).toEqual([
    [SHOWN_EVIL, "10 of 10 tokens", "active"],
    ["bob", "0 of 4 tokens", "depleted"],
  ]);
  clock.advance(120_000);
  expect(await of("expired")).toEqual([[SHOWN_EVIL, "10 of 10 tokens", "expired"]]);
  expect(await list({ figure: "expired", ...filters, unit: "count" })).toEqual([]);
  expect(
    await list({ figure: "expiring", from: dateOf(clock.now() + DAY_MS), to: dateOf(clock.now() + DAY_MS) }),
  ).toEqual([]);
});

it("the list behind a figure of the overview has the export links that were created or opened", async () => {
  const { app, browser, post, list, read, today } = await world();
  const { downloadUrl } = await post("export-person", { distinctId: ADA });
  await post("export-person", { distinctId: "bob" });
  const { pathname, search } = new URL(downloadUrl);
  expect((await browser.get(pathname + search)).status).toBe(200);
  const filters = { from: today(), to: today() };
  const links = await list({ figure: "minted", ...filters });
  expect(links.map(([, who]) => who).sort()).toEqual([SHOWN_EVIL, "bob"]);
  expect(links.every(([, , , by = ""]) => by.startsWith("key_"))).toBe(true);
  expect((await list({ figure: "opened", ...filters })).map(([, who]) => who)).toEqual([SHOWN_EVIL]);
  expect(await list({ figure: "minted", from: "2020-01-01", to: "2020-01-02" })).toEqual([]);
  expect(await read("figures?figure=minted")).toContain(`/admin/apps/${app.appId}/live/people?distinctId=ada`);
});

it("the list behind a figure of the overview is rejected with an invalid date, a last day before the first, or a made-up cursor", async () => {
  const { read } = await world();
  expect(await read("figures?figure=granted&from=2026-13-77", 400)).toContain("must be a date");
  expect(await read("figures?figure=granted&from=2026-02-02&to=2026-02-01", 400)).toContain("must not be before");
  for (const figure of ["granted", "expired", "minted"]) {
    expect(await read(`figures?figure=${figure}&cursor=MTIzNDU2NzhbMF0`, 400)).toContain("cursor");
  }
  expect(await read("figures?figure=none")).toContain("<h1>Granted</h1>");
});

const all = async <Page extends { readonly nextCursor: string | null }>(read: (cursor?: string) => Promise<Page>) => {
  const pages: Page[] = [];
  let cursor: string | undefined;
  do {
    const page: Page = await read(cursor);
    pages.push(page);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return pages;
};
const UNTIL = "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2) SELECT i FROM n)";
const grants = (id: string, userSql: string, seq: string, atMs: string, expiresAtMs: string) => `
    INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor,
      remaining_minor, has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq)
    SELECT a.id, 'crb_${id}_' || ?1 || '_' || i, 'cpk_p', 'P', 1, 0, 'tokens', '[]', 100, 1000, 1000, 1, 0, ${atMs},
      ${expiresAtMs}, ${seq}, ${seq}
    FROM ${UNTIL} AS n CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = ${userSql} ORDER BY i`;

it("a list in pages has every entry of the span once, of many users and of one with many entries", async () => {
  const app = await makeApp();
  const { id } = app.environments.live;
  const users = 2 * EXAMINED_USERS_MAX + 7;
  const many = 2 * EXAMINED_ENTRIES_MAX + 13;
  const run = (sql: string, count: number) => env.DB.prepare(sql).bind(id, count).run();
  await run(
    `INSERT INTO accounts (environment_id, user_id, last_active_day) SELECT CAST(?1 AS INTEGER), 'u' || i, 100 + i % 3 FROM ${UNTIL}`,
    users,
  );
  await env.DB.prepare("INSERT INTO accounts (environment_id, user_id, last_active_day) VALUES (?, 'whale', 101)")
    .bind(id)
    .run();
  await run(grants("few", "'u' || n.i", "1", `${100 * DAY_MS} + i % 3`, `${200 * DAY_MS} + i`), users);
  // Ten entries before the span, and ten after it.
  const at = `iif(i < 10, ${99 * DAY_MS}, iif(i < ?2 - 10, ${100 * DAY_MS}, ${101 * DAY_MS}))`;
  await run(grants("many", "'whale'", "i + 1", at, `${200 * DAY_MS}`), many);
  const ctx = makeCtx(app.environments.live, new Clock());
  const entryIds = async (kind: EntriesOf, fromMs: number, toMs: number) => {
    const pages = await all((cursor) => findEntries(ctx, kind, { fromMs, toMs }, cursor));
    for (const { entries } of pages) {
      expect(entries.length).toBeLessThanOrEqual(EXAMINED_ENTRIES_MAX);
      expect(new Set(entries.map(({ userId }) => userId)).size).toBeLessThanOrEqual(EXAMINED_USERS_MAX);
    }
    const ids = pages.flatMap(({ entries }) => entries.map(({ balanceId }) => balanceId));
    expect(new Set(ids).size).toBe(ids.length);
    return ids.length;
  };
  expect(await entryIds("granted", 100 * DAY_MS, 101 * DAY_MS)).toBe(users + many - 20);
  expect(await entryIds("granted", 99 * DAY_MS, 102 * DAY_MS)).toBe(users + many);
  expect(await entryIds("granted", 99 * DAY_MS, 100 * DAY_MS)).toBe(10);
  expect(await entryIds("granted", 100 * DAY_MS + 1, 100 * DAY_MS + 2)).toBe(Math.floor((users + 1) / 3));
  expect(await entryIds("spent", 99 * DAY_MS, 102 * DAY_MS)).toBe(0);

  const filters = { fromMs: 200 * DAY_MS, toMs: 201 * DAY_MS, includeSpent: true };
  const expiries = await all((cursor) => listExpiries(ctx, filters, cursor));
  expect(expiries.length).toBe(Math.ceil((users + many) / EXAMINED_EXPIRIES_MAX));
  const ids = expiries.flatMap(({ balances }) => balances.map(({ balanceId }) => balanceId));
  expect([ids.length, new Set(ids).size]).toEqual([users + many, users + many]);
});

it("a list in pages has every link of the span once", async () => {
  const app = await makeApp();
  const { id } = app.environments.live;
  const count = SEARCHED_LINKS_MAX + 20;
  await env.DB.prepare(
    `INSERT INTO export_audit (environment_id, distinct_id, seq, id, action, token_hash, occurred_at_ms)
       SELECT CAST(?1 AS INTEGER), 'p' || (i / 7), 1 + i % 7, 'x' || i, iif(i % 2, 'minted', 'opened'), 'h' || i, i FROM ${UNTIL}`,
  )
    .bind(id, count)
    .run();
  const ctx = makeCtx(app.environments.live, new Clock());
  const pages = await all((cursor) => findLinks(ctx, { action: "minted", fromMs: 100, toMs: count }, cursor));
  const hashes = pages.flatMap(({ links }) => links.map(({ tokenHash }) => tokenHash));
  expect([pages.length, hashes.length, new Set(hashes).size]).toEqual([2, (count - 100) / 2, (count - 100) / 2]);
});
