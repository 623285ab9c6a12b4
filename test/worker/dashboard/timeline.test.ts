import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { grantPack } from "../../../src/books/credits/grant.ts";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { browse, tableRows } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { bound, makeCtx, makeOpenAmountPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const w = await paymentsWorld();
  const { app, clock, post } = w;
  const browser = browse(clock);
  const read = async (userId: string, before = "") => {
    await flushActivity(bound());
    await browser.signIn();
    const path = `/admin/apps/${app.appId}/live/users?${new URLSearchParams({ userId, before })}`;
    const answer = await browser.get(path);
    expect(answer.status).toBe(200);
    const text = await answer.text();
    const [, older = null] = /before=(\d+)#timeline">Further back/.exec(text) ?? [];
    return { text, older, rows: tableRows(text, "Timeline").map((row) => row.replace(/ ?Copy \S+/g, "")) };
  };
  return {
    ...w,
    read,
    does: async (path: string, body: object, status = 200) => {
      clock.advance(1_000);
      const answer = await post(path, body);
      expect(answer.status, JSON.stringify(answer.body)).toBe(status);
      return answer.body;
    },
    byOperator: () => ({ ...makeCtx(app.environments.live, clock), caller: { kind: "admin", by: "eva" } as const }),
  };
}

it("the timeline of a user shows in one order what was granted, used, rejected, held, paid, taken back and expired, and who did it", async () => {
  const w = await world();
  const { clock, packs, does, read } = w;
  const usage = { userId: "ada", event: "chat", model: "big", quantities: { count: 0, tokens: 30 } };
  await does("usage/events", { eventId: "e0", ...usage }, 402);
  const { balanceId } = await does("credits/grant", {
    ...{ userId: "ada", packId: packs.tokens, quantity: 100, notes: "welcome" },
    expiresAt: new Date(clock.ms + DAY_MS).toISOString(),
  });
  await does("usage/events", { eventId: "e1", ...usage });
  await does("usage/reservations", { reservationId: "res_1", ...usage, event: "stream" });
  await does("usage/reservations/res_1/release", {});
  await does("usage/events", { eventId: "e2", ...usage, quantities: { count: 0, tokens: 100 }, onShortage: "partial" });
  await does("credits/grant", { userId: "ada", packId: packs.tokens, quantity: 7, externalRef: "order-1" });
  await does("credits/refund", { userId: "ada", externalRef: "order-1", refundRef: "r1", reason: "kind" });
  clock.advance(1_000);
  await grantPack(w.byOperator(), { userId: "ada", packId: packs.tokens, quantity: 5, source: "manual" });
  const paid = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  const unknown = { client_reference_id: "ada", metadata: { pack: "gone" }, payment_intent: "pi_2" };
  const later = () => w.nowS + Math.floor((clock.ms - w.nowS * 1_000) / 1_000);
  clock.advance(1_000);
  await w.deliver(eventOf("checkout.session.completed", later(), session("cs_1", paid)));
  clock.advance(1_000);
  await w.deliver(eventOf("charge.refunded", later(), charge("ch_1", "pi_1", 250)));
  clock.advance(1_000);
  await w.deliver(eventOf("checkout.session.completed", later(), session("cs_2", unknown)));
  const recurring = { recurringId: "rec_1", userId: "ada", packId: packs.tokens, quantity: 3, every: "month" };
  await does("credits/recurring", recurring);
  await does("credits/grant", {
    userId: "ada",
    packId: packs.tokens,
    quantity: 2,
    expiresAt: new Date(clock.ms + DAY_MS).toISOString(),
  });
  clock.advance(2 * DAY_MS);

  const { rows, text, older } = await read("ada");
  expect(older).toBeNull();
  const key = "key_\\S+";
  const expected = [
    /Expired, not spent: Tokens -2 tokens$/,
    new RegExp(`Granted: Tokens \\+2 tokens ${key}$`),
    /Recurring grant created: Tokens, every month$|Granted for a period: Tokens \+3 tokens/,
    /Recurring grant created: Tokens, every month$|Granted for a period: Tokens \+3 tokens/,
    /Nothing granted yet: No such pack , payment pi_2 of \$10\.00/,
    /Taken back: Wallet , payment pi_1 of \$10\.00, of which \$2\.50 refunded “.*” -\$2\.50 stripe$/,
    /Granted: Wallet , payment pi_1 of \$10\.00.* \+\$10\.00 stripe$/,
    /Granted: Tokens \+5 tokens eva$/,
    new RegExp(`Refunded: Tokens “kind” -7 tokens ${key}$`),
    new RegExp(`Granted: Tokens \\+7 tokens ${key}$`),
    new RegExp(`chat · big: 100 tokens, not covered: 30 tokens e2 -70 tokens ${key}$`),
    new RegExp(`Hold returned: Tokens for stream · big res_1 \\+30 tokens ${key}$`),
    new RegExp(`Held: Tokens for stream · big res_1 -30 tokens ${key}$`),
    new RegExp(`chat · big: 30 tokens e1 -30 tokens ${key}$`),
    new RegExp(`Granted: Tokens “welcome” \\+100 tokens ${key}$`),
    /Rejected \(402\) : chat · big, 30 tokens missing \(the user had no balance to spend\)$/,
  ];
  expect(rows.length, rows.join("\n")).toBe(expected.length);
  for (const [index, pattern] of expected.entries()) expect(rows[index], rows.join("\n")).toMatch(pattern);
  expect(text).toContain(`users/balance?balanceId=${balanceId}`);
});

it("the timeline has everything once, page by page, even if more happens in one moment than a page shows", async () => {
  const { clock, does, packs, read } = await world();
  await does("credits/grant", { userId: "bob", packId: packs.tokens, quantity: 1_000 });
  for (let list = 0; list < 3; list++) {
    clock.advance(1_000);
    const events = Array.from({ length: 20 }, (_, n) => ({
      ...{ eventId: `e-${list}-${n}`, userId: "bob", event: "chat", quantities: { count: 0, tokens: 1 } },
    }));
    await does("usage/events", events);
    await does("credits/grant", { userId: "bob", packId: packs.tokens, quantity: 1 + list });
  }
  const pages: string[][] = [];
  for (let before: string | null = ""; before !== null; ) {
    const page = await read("bob", before);
    pages.push(page.rows);
    before = page.older;
    expect(pages.length).toBeLessThan(10);
  }
  const all = pages.flat();
  expect(all.filter((row) => row.includes("Granted"))).toHaveLength(4);
  const ids = all.flatMap((row) => /e-\d-\d+/.exec(row)?.[0] ?? []);
  expect([ids.length, new Set(ids).size]).toEqual([60, 60]);
  expect(pages.length).toBeGreaterThan(2);
});

it("the page of a user shows above the timeline what the credits can pay for, and the timeline names the keys", async () => {
  const { app, does, read } = await world();
  const rules = [{ event: "chat", model: "small-*" }];
  const [some, any] = [
    await makeOpenAmountPack(app.appId, "Some", "tokens", rules),
    await makeOpenAmountPack(app.appId, "Any", "tokens"),
  ];
  for (const quantity of [5, 7]) await does("credits/grant", { userId: "cem", packId: some, quantity });
  await does("credits/grant", { userId: "cem", packId: any, quantity: 1.5 });
  await env.DB.prepare("UPDATE api_keys SET name = 'Backend' WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .run();
  const { text, rows } = await read("cem");
  const total = text.slice(text.indexOf('id="totals"'), text.indexOf('id="timeline"')).replaceAll(/<[^>]*>/g, "");
  expect(total.replaceAll(/\s+/g, " ")).toMatch(/13\.5 can be spent now.*12 for chat · small-\*.*1\.5 for all events/);
  expect(rows.map((row) => row.split(" ").at(-1))).toEqual(["Backend", "Backend", "Backend"]);
});

it("the timeline rejects a malformed moment", async () => {
  const { app, clock } = await world();
  const browser = browse(clock);
  await browser.signIn();
  const answer = await browser.get(`/admin/apps/${app.appId}/live/users?userId=bob&before=x`);
  expect(answer.status).toBe(400);
});
