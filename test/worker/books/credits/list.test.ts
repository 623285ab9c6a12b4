import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { MatchRule } from "../../../../src/books/amounts/match.ts";
import { listBalances } from "../../../../src/books/credits/list.ts";
import { consume, creditsWorld } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

interface Listed {
  readonly balanceId: string;
  readonly packName: string;
  readonly status: string;
  readonly initial: number;
}
const namesOf = (answer: { body: { credits: Listed[] } }) => answer.body.credits.map((credit) => credit.packName);

/** One open-amount pack per name, each with rules of its own, all granted to the user `u`. */
async function worldOfRules(rules: Readonly<Record<string, readonly MatchRule[]>>) {
  const w = await creditsWorld();
  for (const [name, matches] of Object.entries(rules)) {
    await makeOpenAmountPack(w.app.appId, name, "count", matches);
    await w.grant({ userId: "u", packId: name, quantity: 1 });
  }
  return { ...w, passing: async (event: string) => namesOf(await w.list({ userId: "u", event })).sort() };
}

it("a listed balance has exactly the API's fields", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", [
    {
      amountMinor: 2_500_000,
      unit: "cents",
      matches: [{ event: "chat.*", model: "gpt-*" }, { model: "m" }],
      priority: 7,
    },
    { amountMinor: 5_000, unit: "tokens" },
  ]);
  const expiresAt = "2026-03-01T00:00:00.000Z";
  const granted = (await w.grant({ userId: "u", packId, expiresAt, externalRef: "r", notes: "n" })).body;
  await consume(granted.balances[0].balanceId, 1);
  const answer = await w.list({ userId: "u" });
  expect(answer.status).toBe(200);
  const common = {
    packId,
    packName: "Starter",
    grantedAt: new Date(w.clock.ms).toISOString(),
    expiresAt,
    status: "active",
  };
  expect(answer.body).toEqual({
    credits: [
      {
        ...common,
        balanceId: granted.balances[0].balanceId,
        packItemId: granted.balances[0].packItemId,
        kind: "per_type",
        unit: "cents",
        remaining: 2.499999,
        initial: 2.5,
        matches: [{ event: "chat.*", model: "gpt-*" }, { model: "m" }],
        priority: 7,
      },
      {
        ...common,
        balanceId: granted.balances[1].balanceId,
        packItemId: granted.balances[1].packItemId,
        kind: "generic",
        unit: "tokens",
        remaining: 5,
        initial: 5,
        matches: [],
        priority: 100,
      },
    ],
  });
});

it("a listed balance is absent for an unknown user: the list is empty, and not an error", async () => {
  const w = await creditsWorld();
  const answer = await w.list({ userId: "nobody", includeExpired: "true", event: "x*" });
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ credits: [] });
});

it("the status becomes expired in the millisecond of expiresAt, and then only includeExpired shows it", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  const expiresAt = new Date(w.clock.ms + 1_000).toISOString();
  await w.grant({ userId: "u", packId: "legacy", quantity: 1, expiresAt });
  const statuses = async (includeExpired: string) =>
    (await w.list({ userId: "u", includeExpired })).body.credits.map((credit: Listed) => credit.status);
  w.clock.advance(999);
  expect([await statuses("false"), await statuses("true")]).toEqual([["active"], ["active"]]);
  w.clock.advance(1);
  expect([await statuses("false"), await statuses("true")]).toEqual([[], ["expired"]]);
});

it("the status uses one moment: a list of active balances never shows one that expired during the read", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  const expiresAt = new Date(w.clock.ms + 5).toISOString();
  await w.grant({ userId: "u", packId: "legacy", quantity: 1, expiresAt });
  const ctx = makeCtx(w.app.environments.live, w.clock);
  // Each read of this clock returns a time 10 ms later.
  const tick = () => {
    w.clock.advance(10);
    return w.clock.ms - 10;
  };
  const ticking = { ...ctx, now: tick };
  const { credits } = await listBalances(ticking, { userId: "u", includeExpired: false });
  expect(credits.map((credit) => credit.status)).toEqual(["active"]);
});

it("the status prefers revoked to expired, expired to depleted, and depleted to active", async () => {
  const w = await creditsWorld();
  const expiresAt = new Date(w.clock.ms + 1_000).toISOString();
  const make = async (name: string, more: object, after: (balanceId: string) => Promise<unknown>) => {
    await makeOpenAmountPack(w.app.appId, name, "count");
    const { balanceId } = (await w.grant({ userId: "u", packId: name, quantity: 1, ...more })).body;
    await after(balanceId);
  };
  const spend = (balanceId: string) => consume(balanceId, 1_000);
  await make("active", {}, async () => {});
  await make("depleted", {}, spend);
  await make("expired", { expiresAt }, async () => {});
  await make("expired, depleted", { expiresAt }, spend);
  await make("revoked", {}, (balanceId) => w.revoke({ balanceId }));
  await make("revoked, expired", { expiresAt }, (balanceId) => w.revoke({ balanceId }));
  await make("revoked, depleted", {}, async (balanceId) => {
    await spend(balanceId);
    await w.revoke({ balanceId });
  });
  w.clock.advance(1_000);
  const { credits } = (await w.list({ userId: "u", includeExpired: "true" })).body;
  expect(credits).toHaveLength(7);
  for (const credit of credits) expect(credit.status).toBe(credit.packName.split(",")[0]);
  expect(namesOf(await w.list({ userId: "u" }))).toEqual(["active"]);
  expect(namesOf(await w.list({ userId: "u", includeExpired: "false" }))).toEqual(["active"]);
});

it("the order of list is the order of spending: priority, rules before none, expiry with never last, age, id", async () => {
  const w = await creditsWorld();
  const rules = [{ event: "chat" }];
  const packs: Record<string, { priority: number; matches: readonly MatchRule[] }> = {
    first: { priority: 1, matches: [] },
    ruled: { priority: 100, matches: rules },
    plain: { priority: 100, matches: [] },
    last: { priority: 101, matches: rules },
  };
  for (const [name, { priority, matches }] of Object.entries(packs)) {
    await makePack(w.app.appId, name, [{ amountMinor: 1_000, unit: "count", priority, matches }]);
  }
  const grant = (packId: string, expiresAt: string | null) => w.grant({ userId: "u", packId, expiresAt });
  await grant("last", "2026-02-01T00:00Z");
  await grant("plain", "2026-02-01T00:00Z");
  await grant("ruled", null);
  w.clock.advance(1);
  await grant("ruled", "2026-02-02T00:00Z");
  await grant("ruled", "2026-02-01T00:00Z");
  await grant("ruled", null);
  await grant("first", null);
  const { credits } = (await w.list({ userId: "u" })).body;
  const order = credits.map((credit: { packName: string; expiresAt: string | null; grantedAt: string }) => [
    credit.packName,
    credit.expiresAt?.slice(8, 10) ?? null,
    Date.parse(credit.grantedAt) - w.clock.ms,
  ]);
  expect(order).toEqual([
    ["first", null, 0],
    ["ruled", "01", 0],
    ["ruled", "02", 0],
    ["ruled", null, -1],
    ["ruled", null, 0],
    ["plain", "01", -1],
    ["last", "01", -1],
  ]);
});

it("the order of list uses balanceId for balances that are otherwise equal", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  for (let count = 0; count < 10; count++) await w.grant({ userId: "u", packId: "legacy", quantity: 1 });
  const ids = (await w.list({ userId: "u" })).body.credits.map((credit: Listed) => credit.balanceId);
  expect(ids).toEqual(ids.toSorted((a: string, b: string) => (a < b ? -1 : 1)));
});

const rules = {
  any: [],
  chat: [{ event: "chat" }],
  chats: [{ event: "chat.*" }],
  done: [{ event: "*.done" }],
  either: [{ event: "image" }, { event: "audio.*", model: "whisper" }],
  model: [{ model: "gpt-*" }],
  star: [{ event: "*" }],
};

it.each([
  ["chat", ["any", "chat", "model", "star"]],
  ["Chat", ["any", "model", "star"]],
  ["chat.", ["any", "chats", "model", "star"]],
  ["chat.done", ["any", "chats", "done", "model", "star"]],
  ["image", ["any", "either", "model", "star"]],
  ["audio.x", ["any", "either", "model", "star"]],
  ["unheard of", ["any", "model", "star"]],
  ["chat*", ["any", "chat", "chats", "done", "model", "star"]],
  ["chat.*", ["any", "chats", "done", "model", "star"]],
  ["*.failed", ["any", "chats", "either", "model", "star"]],
  ["i*e", ["any", "done", "either", "model", "star"]],
  ["image*", ["any", "done", "either", "model", "star"]],
  ["*", ["any", "chat", "chats", "done", "either", "model", "star"]],
  ["**", ["any", "chat", "chats", "done", "either", "model", "star"]],
])("the event filter %s keeps the balances whose rules cover it: %j", async (event, names) => {
  const w = await worldOfRules(rules);
  expect(await w.passing(event)).toEqual(names);
});

it("the event filter also filters the balances that includeExpired adds", async () => {
  const w = await worldOfRules({ chat: [{ event: "chat" }], image: [{ event: "image" }] });
  const { credits } = (await w.list({ userId: "u" })).body;
  for (const { balanceId } of credits) await w.revoke({ balanceId });
  expect(namesOf(await w.list({ userId: "u", event: "chat", includeExpired: "true" }))).toEqual(["chat"]);
});

it("the event filter compares hostile globs of the maximum length", async () => {
  const w = await worldOfRules({ hostile: [{ event: `${"a*".repeat(99)}b` }], fits: [{ event: "*a".repeat(100) }] });
  expect(await w.passing("a".repeat(200))).toEqual(["fits"]);
  expect(await w.passing(`${"*a".repeat(99)}*c`)).toEqual([]);
  expectError(await w.list({ userId: "u", event: "a*".repeat(101) }), "invalid_request", "event");
});

it.each([
  ["", "userId"],
  ["userId=", "userId"],
  ["userId=u&userId=u", "userId"],
  ["userId=u&userId=v", "userId"],
  ["userId=a%0Ab", "userId"],
  [`userId=${"x".repeat(201)}`, "userId"],
  ["userId=%00", "userId"],
  ["userId=%", "query"],
  ["userId=%ff", "query"],
  ["userId=%ED%A0%80", "query"],
  ["userId=u&event=", "event"],
  ["userId=u&event=a&event=a", "event"],
  ["userId=u&includeExpired=", "includeExpired"],
  ["userId=u&includeExpired=1", "includeExpired"],
  ["userId=u&includeExpired=TRUE", "includeExpired"],
  ["userId=u&includeExpired=yes", "includeExpired"],
  ["userId=u&includeExpired=true&includeExpired=true", "includeExpired"],
])("the arguments of list are refused by name when malformed or given twice: %s", async (query, param) => {
  const w = await creditsWorld();
  expectError(await w.list(query), "invalid_request", param);
});

it("the arguments of list include a userId of 200 code points of any script", async () => {
  const w = await creditsWorld();
  expect((await w.list({ userId: "😀".repeat(200) })).status).toBe(200);
  expectError(await w.list({ userId: "😀".repeat(201) }), "invalid_request", "userId");
});

it("list shows only one user's balances, of one application and mode", async () => {
  const w = await creditsWorld();
  const other = await creditsWorld();
  for (const { app, grant } of [w, other]) {
    await makeOpenAmountPack(app.appId, "Legacy", "count");
    await grant({ userId: "u", packId: "legacy", quantity: 1 });
    await grant({ userId: "v", packId: "legacy", quantity: 2 });
  }
  await w.call("POST", "/api/v1/credits/grant", {
    key: w.app.keys.sk_test,
    body: { userId: "u", packId: "legacy", quantity: 3 },
  });
  const initials = (await w.list({ userId: "u", includeExpired: "true" })).body.credits.map(
    (credit: Listed) => credit.initial,
  );
  expect(initials).toEqual([1]);
  const count = await env.DB.prepare(
    "SELECT count(*) AS n FROM credit_balances WHERE account_id IN (SELECT id FROM accounts WHERE user_id = 'u')",
  ).first<{ n: number }>();
  expect(count?.n).toBeGreaterThanOrEqual(3);
});
