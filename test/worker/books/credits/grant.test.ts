import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { Unit } from "../../../../src/books/amounts/amount.ts";
import { nameKey } from "../../../../src/catalog/pack.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { consume, creditsWorld, storedBalances, storedLedger } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const items = [
  { amountMinor: 2_500_000, unit: "cents" },
  { amountMinor: 5_000, unit: "tokens", matches: [{ event: "chat.*" }], priority: 50 },
  { amountMinor: 1, unit: "seconds" },
] as const;

const archive = (packId: string) =>
  env.DB.prepare("UPDATE credit_packs SET archived_at_ms = 1, version = version + 1 WHERE id = ?").bind(packId).run();
const rename = (packId: string, name: string) =>
  env.DB.prepare("UPDATE credit_packs SET name = ?, name_key = ?, version = version + 1 WHERE id = ?")
    .bind(name, nameKey(name), packId)
    .run();
const setDefaultExpiry = (packId: string, days: number) =>
  env.DB.prepare("UPDATE credit_packs SET default_expiry_days = CAST(? AS INTEGER), version = version + 1 WHERE id = ?")
    .bind(days, packId)
    .run();

it("a grant of a pack with items issues one balance per item, in the pack's order, each with a ledger row of reason grant", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const answer = await w.grant({ userId: "u", packId });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("idempotent-replayed")).toBeNull();
  const { balances, ...first } = answer.body;
  expect(balances).toEqual([
    {
      balanceId: expect.stringMatching(/^crb_/),
      packItemId: expect.stringMatching(/^cpi_/),
      remaining: 2.5,
      expiresAt: null,
    },
    {
      balanceId: expect.stringMatching(/^crb_/),
      packItemId: expect.stringMatching(/^cpi_/),
      remaining: 5,
      expiresAt: null,
    },
    {
      balanceId: expect.stringMatching(/^crb_/),
      packItemId: expect.stringMatching(/^cpi_/),
      remaining: 0.001,
      expiresAt: null,
    },
  ]);
  const [{ balanceId, remaining, expiresAt }] = balances;
  expect(first).toEqual({ balanceId, remaining, expiresAt });
  expect(new Set(balances.map((balance: { packItemId: string }) => balance.packItemId)).size).toBe(3);
  const ids = balances.map((balance: { balanceId: string }) => balance.balanceId);
  expect(await storedLedger(w.app, "u")).toEqual([
    [ids[0], 2_500_000, "grant", null],
    [ids[1], 5_000, "grant", null],
    [ids[2], 1, "grant", null],
  ]);
});

it.each(["-5", "0", "1e999", "-1e999", "0.0000001", "9007199254740993", "null", "7"])(
  "a grant of a pack with items disregards the quantity %s",
  async (quantity) => {
    const w = await creditsWorld();
    await makePack(w.app.appId, "Starter", items);
    const { status, body } = await w.grant(`{"userId":"u","packId":"starter","quantity":${quantity}}`);
    expect(status).toBe(200);
    expect(body.balances.map((balance: { remaining: number }) => balance.remaining)).toEqual([2.5, 5, 0.001]);
  },
);

it.each([['"5"'], ["true"], ["[5]"], ["{}"]])(
  "a grant of a pack with items rejects the quantity %s, which is not a number",
  async (quantity) => {
    const w = await creditsWorld();
    const packId = await makePack(w.app.appId, "Starter", items);
    await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
    for (const pack of [packId, "legacy"]) {
      const answer = await w.grant(`{"userId":"u","packId":"${pack}","quantity":${quantity}}`);
      expectError(answer, "invalid_request", "quantity");
    }
    expect(await storedBalances(w.app, "u")).toEqual([]);
  },
);

it("a grant of a pack with items changes no issued balance when the pack is edited later", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  await w.grant({ userId: "u", packId });
  const before = (await w.list({ userId: "u" })).body;
  await rename(packId, "Renamed");
  await env.DB.prepare(
    `UPDATE credit_pack_items SET unit = 'count', priority = 1, matches = '[{"event":"x"}]', amount_minor = 9 WHERE pack_id = ?`,
  )
    .bind(packId)
    .run();
  expect((await w.list({ userId: "u" })).body).toEqual(before);
  const again = await w.grant({ userId: "u", packId });
  expect(again.body.balances.map((balance: { remaining: number }) => balance.remaining)).toEqual([0.009, 0.009, 0.009]);
});

it.each<[Unit, number, number]>([
  ["count", 1, 1_000],
  ["tokens", 0.001, 1],
  ["seconds", 90.5, 90_500],
  ["cents", 0.000001, 1],
  ["cents", 8_589_934_592, 8_589_934_592_000_000],
  ["tokens", 8_796_093_022_208, 8_796_093_022_208_000],
])("a grant of an open-amount pack issues one balance in its unit: %s, %d", async (unit, quantity, minor) => {
  const w = await creditsWorld();
  const packId = await makeOpenAmountPack(w.app.appId, "Legacy", unit, [{ event: "chat" }]);
  const { status, body } = await w.grant({ userId: "u", packId, quantity });
  expect(status).toBe(200);
  expect(body.balances).toEqual([
    { balanceId: body.balanceId, packItemId: null, remaining: quantity, expiresAt: null },
  ]);
  expect(body).toMatchObject({ remaining: quantity, expiresAt: null });
  expect(await storedBalances(w.app, "u")).toMatchObject([{ id: body.balanceId, remaining_minor: minor }]);
  expect((await w.list({ userId: "u" })).body.credits).toMatchObject([
    { packItemId: null, unit, initial: quantity, kind: "per_type", matches: [{ event: "chat" }], priority: 100 },
  ]);
});

it.each([
  "0",
  "-0",
  "-1",
  "-0.001",
  "1e999",
  "-1e999",
  "0.0001",
  "1e-7",
  "8796093022208.001",
  "1e21",
  "null",
  "absent",
])("a grant of an open-amount pack refuses the quantity %s as invalid_quantity", async (quantity) => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
  const sent = quantity === "absent" ? "" : `,"quantity":${quantity}`;
  expectError(await w.grant(`{"userId":"u","packId":"Legacy"${sent}}`), "invalid_quantity", "quantity");
  expect(await storedBalances(w.app, "u")).toEqual([]);
});

it("a grant of an open-amount pack accepts six decimals for cents, and rejects a seventh", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "cents");
  expect((await w.grant({ userId: "u", packId: "legacy", quantity: 0.123456 })).body.remaining).toBe(0.123456);
  expectError(await w.grant({ userId: "u", packId: "legacy", quantity: 0.1234567 }), "invalid_quantity");
  expectError(await w.grant({ userId: "u", packId: "legacy", quantity: 8_589_934_592.01 }), "invalid_quantity");
});

it.each([
  ["Gold Pack", ["Gold Pack", "gold pack", "GOLD PACK", "Ｇｏｌｄ Pack"]],
  ["Ärger", ["ärger", "ÄRGER", "A\u0308RGER"]],
  ["straße", ["STRAßE", "Straße"]],
])("the pack of a grant named %s is found by its name in any case", async (name, spellings) => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, name, items);
  for (const spelling of spellings) expect((await w.grant({ userId: "u", packId: spelling })).status).toBe(200);
  const { credits } = (await w.list({ userId: "u" })).body;
  for (const credit of credits) expect(credit).toMatchObject({ packId, packName: name });
});

it("the pack of a grant is credit_pack_not_found if it is unknown, archived, of another application, or has only a similar name", async () => {
  const w = await creditsWorld();
  const other = await creditsWorld();
  const archived = await makePack(w.app.appId, "Old", items);
  await archive(archived);
  const foreign = await makePack(other.app.appId, "Foreign", items);
  await makePack(w.app.appId, "straße", items);
  for (const packId of ["cpk_unknown", "nobody", archived, "old", foreign, "Foreign", "STRASSE", "straße "]) {
    expectError(await w.grant({ userId: "u", packId }), "credit_pack_not_found", "packId");
  }
  expect(await storedBalances(w.app, "u")).toEqual([]);
});

it("the pack of a grant is credit_pack_not_found before its quantity or expiry is checked", async () => {
  const w = await creditsWorld();
  const body = { userId: "u", packId: "nobody", quantity: -1, expiresAt: "2001-01-01T00:00Z" };
  expectError(await w.grant(body), "credit_pack_not_found");
});

it("the pack of a grant is found by id first, even if another pack has this id as its name", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "First", items.slice(0, 1));
  await makePack(w.app.appId, packId, items);
  expect((await w.grant({ userId: "u", packId })).body.balances).toHaveLength(1);
  // In another case it is not an id, and is looked up as a name.
  expect((await w.grant({ userId: "u", packId: packId.toUpperCase() })).body.balances).toHaveLength(3);
});

it("the pack of a grant is the active pack of that name, even if archived packs had it too", async () => {
  const w = await creditsWorld();
  for (let count = 0; count < 3; count++) await archive(await makePack(w.app.appId, "Gold", items));
  const packId = await makePack(w.app.appId, "Gold", items);
  await w.grant({ userId: "u", packId: "gold" });
  expect((await w.list({ userId: "u" })).body.credits[0].packId).toBe(packId);
});

it("the pack of a grant serves both modes, with separate balances", async () => {
  const w = await creditsWorld("live");
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "order-1" };
  await w.grant(body);
  const inTest = await w.call("POST", "/api/v1/credits/grant", { key: w.app.keys.sk_test, body });
  expect(inTest.headers.get("idempotent-replayed")).toBeNull();
  expect((await storedBalances(w.app, "u")).map((row) => row.environment_id)).toEqual([
    ...Array(3).fill(w.app.environments.live.id),
    ...Array(3).fill(w.app.environments.test.id),
  ]);
});

it("the expiry of a grant is the pack's default if omitted, never if null, and otherwise the given time", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  await setDefaultExpiry(packId, 30);
  const expiry = async (given: object) => (await w.grant({ userId: "u", packId, ...given })).body.expiresAt;
  expect(await expiry({})).toBe(new Date(w.clock.ms + 30 * DAY_MS).toISOString());
  expect(await expiry({ expiresAt: null })).toBeNull();
  expect(await expiry({ expiresAt: "2030-01-02T03:04:05.678Z" })).toBe("2030-01-02T03:04:05.678Z");
  expect(await expiry({ expiresAt: "2030-01-02T05:04+02:00" })).toBe("2030-01-02T03:04:00.000Z");
  expect(await expiry({ expiresAt: "9999-12-31T23:59:59.999Z" })).toBe("9999-12-31T23:59:59.999Z");
});

it("the expiry of a grant is never if the pack has no default and none is given", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  expect((await w.grant({ userId: "u", packId })).body.expiresAt).toBeNull();
});

it("the expiry of a grant is the same for every balance of the grant", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const { balances } = (await w.grant({ userId: "u", packId, expiresAt: "2030-01-01T00:00Z" })).body;
  expect(balances.map((balance: { expiresAt: string }) => balance.expiresAt)).toEqual(
    Array(3).fill("2030-01-01T00:00:00.000Z"),
  );
});

it("the expiry of a grant is rejected in the past and at this millisecond, and accepted one millisecond ahead", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const at = (ms: number) => w.grant({ userId: "u", packId, expiresAt: new Date(w.clock.ms + ms).toISOString() });
  expectError(await at(-DAY_MS), "invalid_request", "expiresAt");
  expectError(await at(-1), "invalid_request", "expiresAt");
  expectError(await at(0), "invalid_request", "expiresAt");
  expect(await storedBalances(w.app, "u")).toEqual([]);
  expect((await at(1)).status).toBe(200);
});

it.each([
  "2030-01-01",
  "tomorrow",
  "",
  "2030-02-30T00:00:00Z",
  "2030-01-01T00:00:00",
  "9999-12-31T23:59:59-00:01",
  1_893_456_000_000,
  true,
])("the expiry of a grant is refused if it is not a timestamp: %j", async (expiresAt) => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  expectError(await w.grant({ userId: "u", packId, expiresAt }), "invalid_request", "expiresAt");
});

it("source and notes of a grant are stored, and the source is purchase by default", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  const body = { userId: "u", packId: "legacy", quantity: 1 };
  for (const source of [{}, { source: "purchase" }, { source: "grant" }, { source: "refund" }, { source: "manual" }]) {
    expect((await w.grant({ ...body, ...source })).status).toBe(200);
  }
  await w.grant({ ...body, notes: 'VIP\nfrom "sales" – 😀' });
  await w.grant({ ...body, notes: "" });
  const rows = await storedBalances(w.app, "u");
  expect(rows.map((row) => row.source)).toEqual([
    "purchase",
    "purchase",
    "grant",
    "refund",
    "manual",
    "purchase",
    "purchase",
  ]);
  expect(rows.map((row) => row.notes)).toEqual([null, null, null, null, null, 'VIP\nfrom "sales" – 😀', ""]);
  expect((await storedLedger(w.app, "u")).map((row) => row[3])).toEqual(rows.map((row) => row.notes));
});

it("source and notes of a grant are rejected if they are invalid", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  for (const source of ["gift", "", "Purchase", null, 1]) {
    expectError(await w.grant({ userId: "u", packId, source }), "invalid_request", "source");
  }
  for (const notes of [null, 5, "a\u0000b", "x".repeat(2_001), "\ud800"]) {
    expectError(await w.grant({ userId: "u", packId, notes }), "invalid_request", "notes");
  }
});

it.each([
  ["userId", undefined],
  ["userId", ""],
  ["userId", null],
  ["userId", 5],
  ["userId", "a\nb"],
  ["userId", "a\u0085b"],
  ["userId", "a\ud800"],
  ["userId", "x".repeat(201)],
  ["packId", undefined],
  ["packId", ""],
  ["packId", 5],
  ["externalRef", ""],
  ["externalRef", null],
  ["externalRef", 5],
  ["externalRef", "a\u0000"],
  ["externalref", "order-1"],
  ["external_ref", "order-1"],
  ["__proto__", "x"],
  ["constructor", "x"],
])("the arguments of a grant are refused by name when malformed or unknown: %s = %j", async (name, value) => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const fields = new Map<string, unknown>([
    ["userId", "u"],
    ["packId", packId],
  ]).set(name, value);
  const text = [...fields]
    .filter(([, one]) => one !== undefined)
    .map(([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one)}`);
  expectError(await w.grant(`{${text.join(",")}}`), "invalid_request", name);
  expect(await storedBalances(w.app, "u")).toEqual([]);
});

it.each(["", "{", "null", "[]", '"text"', "5", '{"userId":"u"} x'])(
  "the arguments of a grant must be a JSON object: %j",
  async (body) => {
    const w = await creditsWorld();
    expectError(await w.grant(body), "invalid_request", "body");
  },
);

it("the arguments of a grant distinguish users that differ in case, spaces, normal form or the last code point", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  const users = [
    "u",
    "U",
    " u",
    "u ",
    "é",
    "e\u0301",
    "ﬁ",
    "fi",
    "😀".repeat(200),
    `${"😀".repeat(199)}x`,
    "u'--",
    "%",
    "0",
    "00",
  ];
  for (const [index, userId] of users.entries()) {
    expect((await w.grant({ userId, packId: "legacy", quantity: index + 1 })).status).toBe(200);
  }
  for (const [index, userId] of users.entries()) {
    const { credits } = (await w.list({ userId })).body;
    expect(credits.map((credit: { initial: number }) => credit.initial)).toEqual([index + 1]);
  }
});

it("an externalRef makes a repeat return the same balances with idempotent-replayed, and creates none", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "order-1", notes: "first", source: "manual" };
  const first = await w.grant(body);
  w.clock.advance(DAY_MS);
  for (const repeat of [
    body,
    { userId: "u", packId: "STARTER", externalRef: "order-1" },
    { ...body, quantity: -1, expiresAt: "2040-01-01T00:00Z", notes: "other", source: "refund" },
    { ...body, expiresAt: new Date(w.clock.ms - 1).toISOString() },
    { ...body, expiresAt: null },
  ]) {
    const again = await w.grant(repeat);
    expect(again.status).toBe(200);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toEqual(first.body);
  }
  expect(await storedBalances(w.app, "u")).toMatchObject(Array(3).fill({ notes: "first", source: "manual" }));
  expect(await storedLedger(w.app, "u")).toHaveLength(3);
});

it("an externalRef replays a legacy grant for any quantity of the repeat, even none or an invalid one", async () => {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
  const body = { userId: "u", packId: "legacy", externalRef: "order-1" };
  const first = await w.grant({ ...body, quantity: 5 });
  for (const quantity of [5, 6, 0, -1, 0.0001, undefined]) {
    const again = await w.grant({ ...body, quantity });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.body).toEqual(first.body);
  }
});

it("an externalRef replays with the current remaining amounts, even of consumed, revoked and expired balances", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "order-1", expiresAt: "2026-02-01T00:00Z" };
  const { balances } = (await w.grant(body)).body;
  await consume(balances[0].balanceId, 500_000);
  await w.revoke({ balanceId: balances[1].balanceId });
  w.clock.advance(60 * DAY_MS);
  const again = (await w.grant(body)).body;
  expect(again.balances.map((balance: { remaining: number }) => balance.remaining)).toEqual([2, 0, 0.001]);
  expect(again).toMatchObject({ remaining: 2, expiresAt: "2026-02-01T00:00:00.000Z" });
});

it("an externalRef replays after the pack gained or lost an item, was renamed and was archived", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const byId = { userId: "u", packId, externalRef: "order-1" };
  const byName = { ...byId, packId: "starter" };
  const first = (await w.grant(byId)).body;
  const expectReplays = async () => {
    for (const body of [byId, byName]) {
      const again = await w.grant(body);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      expect(again.body).toEqual(first);
    }
  };
  await env.DB.prepare(
    "INSERT INTO credit_pack_items (app_id, pack_id, position, item_number, amount_minor, unit) VALUES (?, ?, 3, 9, 7, 'count')",
  )
    .bind(w.app.appId, packId)
    .run();
  await expectReplays();
  await env.DB.prepare("DELETE FROM credit_pack_items WHERE pack_id = ? AND position = 0").bind(packId).run();
  await expectReplays();
  await rename(packId, "Renamed");
  await expectReplays();
  expect((await w.grant({ ...byId, packId: "renamed" })).body).toEqual(first);
  await archive(packId);
  await expectReplays();
  expectError(await w.grant({ ...byId, externalRef: "order-2" }), "credit_pack_not_found");
  expect(await storedBalances(w.app, "u")).toHaveLength(3);
});

it("an externalRef replays by name after the pack was archived and another pack took its name", async () => {
  const w = await creditsWorld();
  const old = await makePack(w.app.appId, "Gold", items.slice(0, 1));
  const body = { userId: "u", packId: "gold", externalRef: "order-1" };
  const first = (await w.grant(body)).body;
  await archive(old);
  const successor = await makePack(w.app.appId, "Gold", items);
  expect((await w.grant(body)).body).toEqual(first);
  // By its id the successor is another pack, so this is another grant.
  const second = await w.grant({ ...body, packId: successor });
  expect(second.headers.get("idempotent-replayed")).toBeNull();
  expect(second.body.balances).toHaveLength(3);
  expect((await w.grant({ ...body, packId: old })).body).toEqual(first);
});

it("an externalRef is independent for another user, pack, application or mode, and is compared exactly", async () => {
  const w = await creditsWorld();
  const other = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items.slice(0, 1));
  const silver = await makePack(w.app.appId, "Silver", items.slice(0, 1));
  await makePack(other.app.appId, "Starter", items.slice(0, 1));
  const body = { userId: "u", packId, externalRef: "order-1" };
  const grants = [
    await w.grant(body),
    await w.grant({ ...body, userId: "U" }),
    await w.grant({ ...body, packId: silver }),
    await w.grant({ ...body, externalRef: "Order-1" }),
    await w.grant({ ...body, externalRef: "order-1 " }),
    await other.grant({ ...body, packId: "Starter" }),
    await w.call("POST", "/api/v1/credits/grant", { key: w.app.keys.sk_test, body }),
  ];
  for (const answer of grants) {
    expect(answer.status).toBe(200);
    expect(answer.headers.get("idempotent-replayed")).toBeNull();
  }
  expect(new Set(grants.map((answer) => answer.body.balanceId)).size).toBe(grants.length);
});

it("an externalRef is required for idempotency: every call without one creates new balances", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const ids = [
    (await w.grant({ userId: "u", packId })).body.balanceId,
    (await w.grant({ userId: "u", packId })).body.balanceId,
  ];
  expect(new Set(ids).size).toBe(2);
  expect(await storedBalances(w.app, "u")).toHaveLength(6);
});

it("an externalRef may have 500 code points of any script", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "😀".repeat(500) };
  const first = await w.grant(body);
  expect((await w.grant(body)).body).toEqual(first.body);
  expectError(await w.grant({ ...body, externalRef: "😀".repeat(501) }), "invalid_request", "externalRef");
});

it("racing grants create one set of rows if all 50 are identical, and get 50 equal answers, 49 of them replays", async () => {
  const w = await creditsWorld("test");
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "order-1" };
  const answers = await Promise.all(Array.from({ length: 50 }, () => w.grant(body)));
  for (const answer of answers) {
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual(answers[0]?.body);
  }
  expect(answers.filter((answer) => answer.headers.get("idempotent-replayed") === "true")).toHaveLength(49);
  expect(await storedBalances(w.app, "u")).toHaveLength(3);
  expect(await storedLedger(w.app, "u")).toHaveLength(3);
  const counter = await env.DB.prepare("SELECT test_balance_count AS count FROM environments WHERE id = ?")
    .bind(w.app.environments.test.id)
    .first();
  expect(counter).toEqual({ count: 3 });
});

it("racing grants are all stored if they have no externalRef, and the ledger has no gaps", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", items);
  const answers = await Promise.all(Array.from({ length: 20 }, () => w.grant({ userId: "u", packId })));
  expect(new Set(answers.map((answer) => answer.body.balanceId)).size).toBe(20);
  expect(await storedLedger(w.app, "u")).toHaveLength(60);
  await expectLedgerInvariants();
});

it("the test quota lets one of two grants pass that race for the last room, and stores none of the other's balances", async () => {
  for (let round = 0; round < 5; round++) {
    const w = await creditsWorld("test", { TEST_BALANCE_QUOTA: "5" });
    const packId = await makePack(w.app.appId, "Starter", items);
    const answers = await Promise.all(["a", "b"].map((userId) => w.grant({ userId, packId })));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 429]);
    for (const answer of answers) if (answer.status === 429) expectError(answer, "test_quota_exceeded");
    expect([...(await storedBalances(w.app, "a")), ...(await storedBalances(w.app, "b"))]).toHaveLength(3);
  }
});

it("the test quota counts for the whole application and all of its users, and never grants in part", async () => {
  const w = await creditsWorld("test", { TEST_BALANCE_QUOTA: "4" });
  const packId = await makePack(w.app.appId, "Starter", items);
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  expect((await w.grant({ userId: "a", packId })).status).toBe(200);
  expectError(await w.grant({ userId: "b", packId }), "test_quota_exceeded");
  expect(await storedBalances(w.app, "b")).toEqual([]);
  expect((await w.grant({ userId: "b", packId: "legacy", quantity: 1 })).status).toBe(200);
  expectError(await w.grant({ userId: "c", packId: "legacy", quantity: 1 }), "test_quota_exceeded");
  const other = await creditsWorld("test", { TEST_BALANCE_QUOTA: "4" });
  await makePack(other.app.appId, "Starter", items);
  expect((await other.grant({ userId: "a", packId: "starter" })).status).toBe(200);
});

it("the test quota allows a replay when it is full, and is not freed by a revoke", async () => {
  const w = await creditsWorld("test", { TEST_BALANCE_QUOTA: "3" });
  const packId = await makePack(w.app.appId, "Starter", items);
  const body = { userId: "u", packId, externalRef: "order-1" };
  const first = await w.grant(body);
  expect((await w.grant(body)).body).toEqual(first.body);
  await w.revoke({ balanceId: first.body.balanceId });
  expectError(await w.grant({ ...body, externalRef: "order-2" }), "test_quota_exceeded");
});

it("the test quota is 1,000 by default, and follows the setting", async () => {
  const w = await creditsWorld("test");
  const packId = await makePack(w.app.appId, "Starter", items);
  await env.DB.prepare("UPDATE environments SET test_balance_count = 998, test_balance_quota = 998 WHERE id = ?")
    .bind(w.app.environments.test.id)
    .run();
  expectError(await w.grant({ userId: "u", packId }), "test_quota_exceeded");
  await makeOpenAmountPack(w.app.appId, "Legacy", "count");
  for (const status of [200, 200, 429]) {
    expect((await w.grant({ userId: "u", packId: "legacy", quantity: 1 })).status).toBe(status);
  }
});

it("the test quota does not apply in live mode", async () => {
  const w = await creditsWorld("live", { TEST_BALANCE_QUOTA: "0" });
  const packId = await makePack(w.app.appId, "Starter", items);
  expect((await w.grant({ userId: "u", packId })).status).toBe(200);
});
