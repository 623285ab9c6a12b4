import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Answer, Clock, makeApp, makeClient, type TestApp } from "../../../support/world.ts";

const key = env.ADMIN_TOKEN;

interface Shop {
  readonly app: TestApp;
  readonly clock: Clock;
  readonly create: (body: unknown) => Promise<Answer>;
  readonly patch: (packId: string, body: unknown) => Promise<Answer>;
  readonly archive: (packId: string) => Promise<Answer>;
  readonly restore: (packId: string) => Promise<Answer>;
  readonly list: () => Promise<Answer>;
  readonly grant: (body: object) => Promise<Answer>;
}

async function openShop(bindings: Partial<Env> = {}): Promise<Shop> {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings);
  const packs = `/api/v1/admin/apps/${app.appId}/packs`;
  return {
    app,
    clock,
    create: (body) => call("POST", packs, { key, body }),
    patch: (packId, body) => call("PATCH", `${packs}/${packId}`, { key, body }),
    archive: (packId) => call("POST", `${packs}/${packId}/archive`, { key }),
    restore: (packId) => call("POST", `${packs}/${packId}/restore`, { key }),
    list: () => call("GET", packs, { key }),
    grant: (body) => call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "u1", ...body } }),
  };
}

const tokensItem = { amount: 400, unit: "tokens", matches: [{ event: "chat.*", model: "large-*" }], priority: 5 };
const centsItem = { amount: 0.000001, unit: "cents" };

it("a new pack has its items in order, each with an id, and can be granted at once, in both modes", async () => {
  const shop = await openShop();
  const answer = await shop.create({ packName: "Starter", defaultExpiryDays: 30, items: [tokensItem, centsItem] });
  expect(answer.body).toEqual({
    packId: expect.stringMatching(/^cpk_[0-9A-Za-z]{22}$/),
    packName: "Starter",
    defaultExpiryDays: 30,
    items: [
      { packItemId: expect.stringMatching(/^cpi_[0-9A-Za-z]{22}$/), ...tokensItem },
      { packItemId: expect.stringMatching(/^cpi_/), ...centsItem, matches: [], priority: 100 },
    ],
    unit: null,
    matches: null,
    priority: null,
    createdAt: "2026-01-15T12:00:00.000Z",
    archivedAt: null,
    version: 1,
  });
  const granted = await shop.grant({ packId: "STARTER" });
  expect(granted.body.balances).toMatchObject([
    { packItemId: answer.body.items[0].packItemId, remaining: 400, expiresAt: "2026-02-14T12:00:00.000Z" },
    { packItemId: answer.body.items[1].packItemId, remaining: 0.000001 },
  ]);
  expect((await shop.list()).body).toEqual({ packs: [answer.body] });
});

it("a new pack without items is an open-amount pack, with its own unit, rules and priority", async () => {
  const shop = await openShop();
  const matches = [{ event: "call" }];
  const answer = await shop.create({ packName: "Seconds", items: [], unit: "seconds", matches, priority: -3 });
  expect(answer.body).toMatchObject({ items: [], unit: "seconds", matches, priority: -3, defaultExpiryDays: null });
  const plain = await shop.create({ packName: "Plain", items: [], unit: "count" });
  expect(plain.body).toMatchObject({ items: [], unit: "count", matches: [], priority: 100 });
  const granted = await shop.grant({ packId: plain.body.packId, quantity: 2.5 });
  expect(granted.body).toMatchObject({ remaining: 2.5, expiresAt: null });
});

it("a new pack is rejected with the name of the malformed argument", async () => {
  const shop = await openShop();
  const pack = { packName: "P", items: [tokensItem] };
  const many = (count: number, value: unknown) => Array.from({ length: count }, () => value);
  const wrong: readonly (readonly [unknown, string])[] = [
    [{ items: [tokensItem] }, "packName"],
    [{ ...pack, packName: "" }, "packName"],
    [{ ...pack, packName: "x".repeat(201) }, "packName"],
    [{ ...pack, packName: "a\nb" }, "packName"],
    [{ ...pack, packName: " " }, "packName"],
    [{ ...pack, packName: "\u3000" }, "packName"],
    [{ ...pack, packName: " Starter" }, "packName"],
    [{ ...pack, packName: "Starter\u00a0" }, "packName"],
    [{ packName: "P" }, "items"],
    [{ ...pack, defaultExpiryDays: 0 }, "defaultExpiryDays"],
    [{ ...pack, defaultExpiryDays: 36_501 }, "defaultExpiryDays"],
    [{ ...pack, defaultExpiryDays: 1.5 }, "defaultExpiryDays"],
    [{ ...pack, unit: "count" }, "unit"],
    [{ ...pack, matches: [] }, "matches"],
    [{ ...pack, priority: 1 }, "priority"],
    [{ packName: "P", items: [] }, "unit"],
    [{ packName: "P", items: [], unit: "litres" }, "unit"],
    [{ packName: "P", items: [{ ...tokensItem, amount: 0 }] }, "items[0].amount"],
    [{ packName: "P", items: [{ ...tokensItem, amount: -1 }] }, "items[0].amount"],
    [{ packName: "P", items: [tokensItem, { ...tokensItem, amount: 0.0001 }] }, "items[1].amount"],
    [{ packName: "P", items: [{ ...centsItem, amount: 8_589_934_593 }] }, "items[0].amount"],
    [{ packName: "P", items: [{ ...tokensItem, amount: "1" }] }, "items[0].amount"],
    [{ packName: "P", items: [{ ...tokensItem, priority: 0.5 }] }, "items[0].priority"],
    [{ packName: "P", items: [{ ...tokensItem, priority: 1e9 }] }, "items[0].priority"],
    [{ packName: "P", items: [{ ...tokensItem, matches: [{}] }] }, "items[0].matches[0]"],
    [{ packName: "P", items: [{ ...tokensItem, matches: [{ event: "" }] }] }, "items[0].matches[0].event"],
    [{ packName: "P", items: [{ ...tokensItem, packItemId: "cpi_x" }] }, "items[0].packItemId"],
    [{ packName: "P", items: many(101, tokensItem) }, "items"],
  ];
  for (const [body, param] of wrong) expectError(await shop.create(body), "invalid_request", param);
  expect((await shop.list()).body).toEqual({ packs: [] });
  const withoutItems = await shop.create({ packName: "Wallet", unit: "cents" });
  expect(withoutItems.body.error.message).toBe("items is required: `[]` for a pack without items.");
  expectError(await shop.create({ packName: "P", item: [tokensItem] }), "invalid_request", "item");
});

it("a new pack may have the largest amounts of a unit and 100 items, which are all granted", async () => {
  const shop = await openShop();
  const items = [
    { amount: 8_589_934_592, unit: "cents" },
    { amount: 8_796_093_022_208, unit: "tokens" },
    ...Array.from({ length: 98 }, () => tokensItem),
  ];
  expect((await shop.create({ packName: "Large", items })).status).toBe(200);
  const granted = await shop.grant({ packId: "large" });
  expect(granted.body.balances).toHaveLength(100);
  expect(granted.body.balances[1].remaining).toBe(8_796_093_022_208);
});

it("a pack's name is taken in any case while its pack is not archived, and free afterwards", async () => {
  const shop = await openShop();
  const first = (await shop.create({ packName: "Straße", items: [tokensItem] })).body;
  expectError(await shop.create({ packName: "STRAßE", items: [centsItem] }), "pack_name_taken", "packName");
  expect((await shop.create({ packName: "STRASSE", items: [centsItem] })).status).toBe(200);
  expectError(await shop.patch(first.packId, { packName: "Strasse" }), "pack_name_taken", "packName");

  const archived = await shop.archive(first.packId);
  expect(archived.body).toEqual({ ...first, archivedAt: "2026-01-15T12:00:00.000Z", version: 2 });
  expect((await shop.create({ packName: "straße", items: [centsItem] })).status).toBe(200);
  expectError(await shop.grant({ packId: first.packId }), "credit_pack_not_found");
});

it("a pack's name goes to one of twenty racing packs", async () => {
  const shop = await openShop();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => shop.create({ packName: i % 2 === 0 ? "Race" : "RACE", items: [tokensItem] })),
  );
  expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
  for (const answer of answers) if (answer.status !== 200) expectError(answer, "pack_name_taken");
  expect((await shop.list()).body.packs).toHaveLength(1);
});

it("a pack's name may be changed to another case", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  expect((await shop.patch(packId, { packName: "STARTER" })).body.packName).toBe("STARTER");
});

it("a change of a pack affects the given fields, and keeps the others", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", defaultExpiryDays: 30, items: [tokensItem, centsItem] })).body;
  expect((await shop.patch(pack.packId, {})).body).toEqual(pack);
  const renamed = { ...pack, packName: "Begin", version: 2 };
  expect((await shop.patch(pack.packId, { packName: "Begin" })).body).toEqual(renamed);
  const never = (await shop.patch(pack.packId, { defaultExpiryDays: null })).body;
  expect(never).toEqual({ ...renamed, defaultExpiryDays: null, version: 3 });
});

it("a change of a pack keeps the ids of items that it names, and gives the others new ids", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", items: [tokensItem, centsItem] })).body;
  const [first, second] = pack.items;
  const items = [
    { ...tokensItem, amount: 7 },
    { ...second, amount: 2 },
  ];
  const changed = (await shop.patch(pack.packId, { items })).body;
  expect(changed.items).toMatchObject([{ amount: 7 }, { packItemId: second.packItemId, amount: 2 }]);
  expect([first.packItemId, second.packItemId]).not.toContain(changed.items[0].packItemId);
});

it("a new item of a pack never gets the id of an item that was removed", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", items: [tokensItem, centsItem] })).body;
  const ids = pack.items.map((item: { packItemId: string }) => item.packItemId);
  const [first] = pack.items;
  for (const items of [[first], [first, tokensItem], [first, centsItem], [tokensItem, first]]) {
    const changed = (await shop.patch(pack.packId, { items })).body;
    const added = changed.items.filter((item: { packItemId: string }) => item.packItemId !== first.packItemId);
    for (const { packItemId } of added) {
      expect(packItemId).toMatch(/^cpi_[0-9A-Za-z]{22}$/);
      expect(ids).not.toContain(packItemId);
      ids.push(packItemId);
    }
  }
  expect(new Set(ids).size).toBe(5);
});

it("items of two packs with the same place have two ids, and two packs of an application two numbers", async () => {
  const shop = await openShop();
  const packs = await Promise.all(
    ["A", "B", "C"].map(async (packName) => (await shop.create({ packName, items: [tokensItem] })).body),
  );
  expect(new Set(packs.map(({ items: [item] }) => item.packItemId)).size).toBe(3);
  const { results } = await env.DB.prepare(
    "SELECT pack_number AS number FROM credit_packs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY pack_number",
  )
    .bind(JSON.stringify(packs.map(({ packId }) => packId)))
    .all();
  expect(results).toEqual([{ number: 1 }, { number: 2 }, { number: 3 }]);
});

it("a change of a pack is rejected with an item of another pack, a removed item, or an item that is named twice", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", items: [tokensItem, centsItem] })).body;
  const other = (await shop.create({ packName: "Other", items: [tokensItem] })).body;
  const [first, second] = pack.items;
  for (const items of [[other.items[0]], [{ ...tokensItem, packItemId: "cpi_none" }]]) {
    expectError(await shop.patch(pack.packId, { items }), "invalid_request", "items[0].packItemId");
  }
  expectError(await shop.patch(pack.packId, { items: [first, first] }), "invalid_request", "items[1].packItemId");
  await shop.patch(pack.packId, { items: [first] });
  expectError(await shop.patch(pack.packId, { items: [first, second] }), "invalid_request", "items[1].packItemId");
});

it("a change of a pack turns it into an open-amount pack by `items: []` and a unit, and back into a pack with items", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  expectError(await shop.patch(packId, { items: [] }), "invalid_request", "unit");
  expectError(await shop.patch(packId, { unit: "count" }), "invalid_request", "unit");
  expectError(await shop.patch(packId, { items: [centsItem], priority: 1 }), "invalid_request", "priority");

  const legacy = (await shop.patch(packId, { items: [], unit: "count", matches: [{ event: "a" }] })).body;
  expect(legacy).toMatchObject({ items: [], unit: "count", matches: [{ event: "a" }], priority: 100 });
  const patched = (await shop.patch(packId, { items: [], priority: 4 })).body;
  expect(patched).toMatchObject({ items: [], unit: "count", matches: [{ event: "a" }], priority: 4 });
  expect((await shop.grant({ packId, quantity: 3 })).body.remaining).toBe(3);

  const again = (await shop.patch(packId, { items: [centsItem] })).body;
  expect(again).toMatchObject({ unit: null, matches: null, priority: null, items: [{ unit: "cents" }] });
  expectError(await shop.patch(packId, { items: [] }), "invalid_request", "unit");
});

it("a change of a pack changes no issued balance", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  await shop.grant({ packId });
  const balances = () => env.DB.prepare("SELECT * FROM credit_balances WHERE pack_id = ?").bind(packId).all();
  const before = (await balances()).results;
  await shop.patch(packId, { packName: "Other", items: [{ ...centsItem, priority: 1 }], defaultExpiryDays: 1 });
  await shop.archive(packId);
  expect((await balances()).results).toEqual(before);
});

it("a change of a pack keeps the fields of three racing changes", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  const changes = [{ packName: "Raced" }, { defaultExpiryDays: 9 }, { items: [centsItem, centsItem] }];
  const answers = await Promise.all(changes.map((change) => shop.patch(packId, change)));
  expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200]);
  const [pack] = (await shop.list()).body.packs;
  expect(pack).toMatchObject({ packName: "Raced", defaultExpiryDays: 9 });
  expect(pack.items).toHaveLength(2);
});

it("a change of a pack by archiving takes effect once, and a repeat gets the same response", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  const first = (await shop.archive(packId)).body;
  shop.clock.advance(1_000);
  expect((await shop.archive(packId)).body).toEqual(first);
});

it("a pack's version grows by one with each change, archiving and restoring, and stays without a change", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", items: [tokensItem, centsItem] })).body;
  const { packId } = pack;
  const steps: readonly (readonly [() => Promise<Answer>, number])[] = [
    [() => shop.patch(packId, {}), 1],
    [() => shop.patch(packId, { packName: "Starter", defaultExpiryDays: null, items: pack.items }), 1],
    [() => shop.patch(packId, { packName: "starter" }), 2],
    [() => shop.patch(packId, { items: [pack.items[1], pack.items[0]] }), 3],
    [() => shop.patch(packId, { items: [tokensItem] }), 4],
    [() => shop.restore(packId), 4],
    [() => shop.archive(packId), 5],
    [() => shop.archive(packId), 5],
    [() => shop.patch(packId, { defaultExpiryDays: 3 }), 6],
    [() => shop.restore(packId), 7],
  ];
  for (const [step, version] of steps) expect((await step()).body.version).toBe(version);
});

it("a pack's version that is outdated is rejected, with the current one in the error", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  expect((await shop.patch(packId, { version: 1, defaultExpiryDays: 1 })).body.version).toBe(2);
  for (const version of [1, 3]) {
    const refused = await shop.patch(packId, { version, defaultExpiryDays: 2 });
    expectError(refused, "changed_meanwhile", "version");
    expect(refused.body.error.details).toEqual({ version: 2 });
  }
  expect((await shop.patch(packId, { version: 2, defaultExpiryDays: 2 })).body.version).toBe(3);
  for (const version of [0, -1, 1.5, "3", null]) {
    expectError(await shop.patch(packId, { version }), "invalid_request", "version");
  }
});

it("a pack's version lets one of ten racing changes with the same version pass, and rejects the others", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, i) => shop.patch(packId, { version: 1, defaultExpiryDays: i + 1 })),
  );
  const [passed, ...others] = answers.filter((answer) => answer.status === 200);
  expect(others).toEqual([]);
  for (const answer of answers) if (answer !== passed) expectError(answer, "changed_meanwhile");
  expect((await shop.list()).body.packs).toEqual([passed?.body]);
});

it("a pack's version counts each of twenty racing changes", async () => {
  const shop = await openShop();
  const { packId } = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => shop.patch(packId, { defaultExpiryDays: i + 1 })),
  );
  expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(200));
  const versions = answers.map((answer) => answer.body.version).sort((a, b) => a - b);
  expect(versions).toEqual(Array.from({ length: 20 }, (_, i) => i + 2));
});

it("a restored pack is as it was before archiving, and can be granted by its name again", async () => {
  const shop = await openShop();
  const pack = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  await shop.archive(pack.packId);
  expectError(await shop.grant({ packId: "starter" }), "credit_pack_not_found");
  expect((await shop.restore(pack.packId)).body).toEqual({ ...pack, version: 3 });
  expect((await shop.grant({ packId: "starter" })).status).toBe(200);
});

it("a restored pack stays archived while another pack has its name", async () => {
  const shop = await openShop();
  const first = (await shop.create({ packName: "Starter", items: [tokensItem] })).body;
  await shop.archive(first.packId);
  const second = (await shop.create({ packName: "STARTER", items: [centsItem] })).body;
  expectError(await shop.restore(first.packId), "pack_name_taken", "packName");
  await shop.archive(second.packId);
  expect((await shop.restore(first.packId)).body.archivedAt).toBeNull();
});

it("a write of a pack whose response is lost takes effect once: creation, change, archiving and restoring", async () => {
  const faulty = faultyD1(env.DB);
  const shop = await openShop({ DB: faulty.d1 });
  const lose = (at: number) => faulty.plan({ fault: "after", at });

  lose(2);
  const creation = await shop.create({ packName: "Starter", items: [tokensItem, centsItem] });
  expect(creation.body.items).toHaveLength(2);
  lose(2);
  const changed = await shop.patch(creation.body.packId, {
    packName: "Begin",
    items: [tokensItem, creation.body.items[1]],
  });
  expect(changed.body.items[1]).toEqual(creation.body.items[1]);
  lose(2);
  const archived = { ...changed.body, archivedAt: "2026-01-15T12:00:00.000Z", version: 3 };
  expect((await shop.archive(creation.body.packId)).body).toEqual(archived);
  lose(2);
  expect((await shop.restore(creation.body.packId)).body).toEqual({ ...changed.body, version: 4 });
  faulty.plan(null);
  expect((await shop.list()).body.packs).toEqual([{ ...changed.body, version: 4 }]);
});
