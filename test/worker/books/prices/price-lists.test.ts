import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { expectError } from "../../../support/rejections.ts";
import { Clock, inTurn, makeApp, makeClient } from "../../../support/world.ts";

const WARNING = "purser-warning";
const flat = <More extends object>(perEvent: number, more = {} as More) => ({ unit: "cents", perEvent, ...more });

/** An application whose prices an administrator changes through several isolates. */
async function pricesWorld() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, {}, undefined, inTurn(3));
  const path = `/api/v1/admin/apps/${app.appId}/prices`;
  const send = (method: string, url: string, body?: object) =>
    call(method, url, { key: env.ADMIN_TOKEN, ...(body === undefined ? {} : { body }) });
  const set = (fields: object) => send("PUT", path, { mode: "live", ...fields });
  const list = (query = "") => send("GET", `${path}?mode=live${query}`);
  const get = (version: number | string, mode = "live") => send("GET", `${path}/${version}?mode=${mode}`);
  const remove = (version: number) => send("DELETE", `${path}/${version}?mode=live`);
  const in_ = (ms: number) => new Date(clock.now() + ms).toISOString();
  const stored = () =>
    env.DB.prepare(
      `SELECT (SELECT count(*) FROM price_lists WHERE environment_id = ?1) AS lists,
         (SELECT count(*) FROM admin_audit WHERE app_id = ?2 AND action GLOB 'prices.*') AS acts,
         (SELECT json_remove(settings_snapshot -> '$.prices', '$.latest') FROM environments WHERE id = ?1) AS settingsSnapshot`,
    )
      .bind(app.environments.live.id, app.appId)
      .first();
  return { clock, app, call, path, send, set, list, get, remove, in: in_, stored };
}

it("a price list is made in whole versions, which are listed newest first and never change", async () => {
  const { set, list, get, stored } = await pricesWorld();
  expect((await list()).body).toEqual({ inForce: null, versions: [], nextCursor: null });
  const rules = [{ model: "gpt-*", ...flat(2), per: { output: 0.5, input: { units: 1_000, amount: 3 } } }];
  const first = await set({ rules, note: "first", ifVersion: 0 });
  expect(first.status, JSON.stringify(first.body)).toBe(200);
  expect(first.body).toEqual({
    ...{ version: 1, mode: "live", rules, costs: [], note: "first" },
    ...{ effectiveAt: "2026-01-15T12:00:00.000Z", createdAt: "2026-01-15T12:00:00.000Z" },
  });
  const second = (await set({ rules: [flat(3)], costs: [{ perEvent: 1 }] })).body;
  expect(second).toMatchObject({ version: 2, costs: [{ perEvent: 1 }], note: null });
  expect((await get(1)).body).toEqual(first.body);
  expect((await get(2)).body).toEqual(second);
  const { body } = await list("&limit=1");
  expect(body).toEqual({
    inForce: 2,
    versions: [{ version: 2, effectiveAt: second.effectiveAt, createdAt: second.createdAt, note: null, rules: 1 }],
    nextCursor: expect.any(String),
  });
  const rest = (await list(`&limit=1&cursor=${body.nextCursor}`)).body;
  expect(rest).toMatchObject({ versions: [{ version: 1, note: "first" }], nextCursor: null });
  expectError(await list("&cursor=x"), "invalid_request", "cursor");
  expect(await stored()).toEqual({ lists: 2, acts: 2, settingsSnapshot: '{"made":2,"deleted":0}' });
});

it("a version that does not exist cannot be deleted, and that writes nothing", async () => {
  const { remove, stored } = await pricesWorld();
  expectError(await remove(1), "not_found", "version");
  expect(await stored()).toEqual({ lists: 0, acts: 0, settingsSnapshot: null });
});

it("a price list is answered as the newest version if it says the same, whatever the order of its fields", async () => {
  const { clock, set, stored, in: at } = await pricesWorld();
  const rules = [{ unit: "cents", event: "a", per: { output: 1, input: { amount: 1, units: 2 } } }];
  const { body } = await set({ rules });
  const same = [{ per: { input: { units: 2, amount: 1 }, output: 1 }, event: "a", unit: "cents" }];
  expect((await set({ rules: same, costs: null, note: null })).body).toEqual(body);
  expect((await set({ rules, effectiveAt: body.effectiveAt })).body).toEqual(body);
  expect((await stored())?.lists).toBe(1);
  expect((await set({ rules, effectiveAt: at(1_000) })).body).toMatchObject({ version: 2 });
  expect((await set({ rules, effectiveAt: at(1_000) })).body).toMatchObject({ version: 2 });
  // The newest is not in force, so the same list makes a version that is.
  expect((await set({ rules })).body).toMatchObject({ version: 3 });
  expect((await set({ rules, note: "other" })).body).toMatchObject({ version: 4 });
  // A repeat may come after the moment.
  const scheduled = { rules, note: "later", effectiveAt: at(1_000) };
  const { body: later } = await set(scheduled);
  clock.advance(2_000);
  expect((await set(scheduled)).body).toEqual(later);
  expectError(await set({ ...scheduled, note: "changed" }), "invalid_request", "effectiveAt");
  expect((await stored())?.lists).toBe(5);
});

it("a price list takes force at its moment: the latest that has come, of equal moments the newest", async () => {
  const { clock, set, list, in: at } = await pricesWorld();
  const inForce = async () => (await list()).body.inForce;
  await set({ rules: [flat(1)], effectiveAt: at(2_000) });
  expect(await inForce()).toBeNull();
  await set({ rules: [flat(2)], effectiveAt: at(1_000) });
  await set({ rules: [flat(3)], effectiveAt: at(2_000) });
  clock.advance(1_000);
  expect(await inForce()).toBe(2);
  clock.advance(999);
  expect(await inForce()).toBe(2);
  clock.advance(1);
  expect(await inForce()).toBe(3);
  const late = await set({ rules: [flat(4)] });
  expect(late.headers.get(WARNING)).toBeNull();
  expect(await inForce()).toBe(4);
});

it("a price list warns of a version that a scheduled one replaces, and of a rule that no event reaches", async () => {
  const { set, in: at } = await pricesWorld();
  await set({ rules: [flat(1)], effectiveAt: at(1_000) });
  expect((await set({ rules: [flat(2)] })).headers.get(WARNING)).toMatch(/scheduled/);
  const covered = await set({
    rules: [
      { model: "m*", ...flat(1) },
      { model: "m1", ...flat(2) },
    ],
    effectiveAt: at(1),
  });
  expect(covered.headers.get(WARNING)).toMatch(/can never apply/);
});

it("a price list is not replaced by who read an older version", async () => {
  const { set, stored, remove, in: at } = await pricesWorld();
  await set({ rules: [flat(1)] });
  const stale = await set({ rules: [flat(2)], ifVersion: 0 });
  expectError(stale, "changed_meanwhile", "ifVersion");
  expect(stale.body.error.details).toEqual({ version: 1 });
  // It is judged before the list is found to be equal, and a deleted version does not count.
  expectError(await set({ rules: [flat(1)], ifVersion: 2 }), "changed_meanwhile", "ifVersion");
  await set({ rules: [flat(2)], effectiveAt: at(1_000) });
  await remove(2);
  expect((await set({ rules: [flat(3)], ifVersion: 1 })).body).toMatchObject({ version: 3 });
  expect((await stored())?.lists).toBe(3);
});

it("a price list gives racing writers a version each, and with ifVersion lets one of them win", async () => {
  const { set, list, stored } = await pricesWorld();
  const many = await Promise.all(Array.from({ length: 20 }, (_, n) => set({ rules: [flat(n)] })));
  expect(many.map(({ body }) => body.version).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
  const racing = await Promise.all(
    Array.from({ length: 20 }, (_, n) => set({ rules: [flat(n, { model: "x" })], ifVersion: 20 })),
  );
  expect(racing.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(racing.filter(({ status }) => status === 409)).toHaveLength(19);
  expect((await list()).body.inForce).toBe(21);
  expect(await stored()).toMatchObject({ lists: 21, acts: 21 });
});

it("a price list is deleted before it takes force, once, and its number is not used again", async () => {
  const { clock, set, get, list, remove, stored, in: at } = await pricesWorld();
  await set({ rules: [flat(1)] });
  const { body } = await set({ rules: [flat(2)], effectiveAt: at(1_000) });
  expect((await remove(2)).body).toEqual(body);
  expectError(await remove(2), "not_found", "version");
  expectError(await get(2), "not_found", "version");
  expectError(await remove(3), "not_found", "version");
  expectError(await remove(1), "invalid_request", "version");
  expect((await list()).body.versions.map(({ version }: { version: number }) => version)).toEqual([1]);
  await set({ rules: [flat(3)], effectiveAt: at(1_000) });
  clock.advance(1_000);
  expectError(await remove(3), "invalid_request", "version");
  expect(await stored()).toEqual({ lists: 3, acts: 4, settingsSnapshot: '{"made":3,"deleted":1}' });
});

it("a price list belongs to one mode of one application", async () => {
  const { app, call, set, get, list, stored } = await pricesWorld();
  await set({ rules: [flat(1)] });
  expectError(await get(1, "test"), "not_found", "version");
  expect((await list("&mode=live")).status).toBe(400);
  const other = await makeApp();
  const foreign = await call("GET", `/api/v1/admin/apps/${other.appId}/prices/1?mode=live`, { key: env.ADMIN_TOKEN });
  expectError(foreign, "not_found", "version");
  for (const key of [app.keys.sk_live, app.keys.pk_live]) {
    const answer = await call("PUT", `/api/v1/admin/apps/${app.appId}/prices`, {
      key,
      body: { mode: "live", rules: [] },
    });
    expect(answer.status).toBe(401);
  }
  expect((await stored())?.lists).toBe(1);
});

it.each<[string, object, string]>([
  ["without a price", { rules: [{ unit: "cents" }] }, "rules[0]"],
  ["without a unit", { rules: [{ perEvent: 1 }] }, "rules[0].unit"],
  ["of an unknown unit", { rules: [{ unit: "euro", perEvent: 1 }] }, "rules[0].unit"],
  ["with an unknown field", { rules: [flat(1, { tier: 1 })] }, "rules[0].tier"],
  ["with a negative price", { rules: [flat(1), flat(-1)] }, "rules[1].perEvent"],
  ["with 13 decimals", { rules: [flat(1, { per: { input: 1e-13 } })] }, "rules[0].per.input"],
  [
    "with 16 digits",
    { rules: [flat(1, { per: { input: { amount: 1234567890123456, units: 1 } } })] },
    "rules[0].per.input.amount",
  ],
  ["with a price as text", { rules: [flat(1, { per: { input: "1" } })] }, "rules[0].per.input"],
  [
    "with a part of a unit",
    { rules: [flat(1, { per: { input: { amount: 1, units: 0.5 } } })] },
    "rules[0].per.input.units",
  ],
  ["with no meter", { rules: [{ unit: "cents", per: {} }] }, "rules[0].per"],
  ["with a meter's name that is none", { rules: [flat(1, { per: { "In put": 1 } })] }, "rules[0].per.In put"],
  ["with a condition of no meter", { rules: [flat(1, { when: { meters: [], above: 1 } })] }, "rules[0].when.meters"],
  ["with a meter twice", { rules: [flat(1, { when: { meters: ["a", "a"], above: 1 } })] }, "rules[0].when.meters"],
  ["with a condition below 0", { rules: [flat(1, { when: { meters: ["a"], above: -1 } })] }, "rules[0].when.above"],
  [
    "with a malformed price of a later rule",
    { rules: [flat(1), flat(2), flat(3), flat(4, { per: { output: 1, input: { amount: -1, units: 1 } } })] },
    "rules[3].per.input.amount",
  ],
  [
    "with an amount that is no number",
    { rules: [flat(1), flat(2), flat(3), flat(4, { per: { input: null } })] },
    "rules[3].per.input",
  ],
  ["with an amount of no units", { rules: [flat(1, { per: { input: { amount: 1 } } })] }, "rules[0].per.input.units"],
  ["of 0 units", { rules: [flat(1, { per: { input: { amount: 1, units: 0 } } })] }, "rules[0].per.input.units"],
  [
    "of more units than a double has",
    { rules: [flat(1, { per: { input: { amount: 1, units: 2 ** 53 } } })] },
    "rules[0].per.input.units",
  ],
  [
    "with an unknown field of an amount",
    { rules: [flat(1, { per: { input: { amount: 1, units: 1, currency: "usd" } } })] },
    "rules[0].per.input.currency",
  ],
  ["with prices as a list", { rules: [flat(1, { per: [1] })] }, "rules[0].per"],
  ["with a price of an event as text", { rules: [{ unit: "cents", perEvent: "1" }] }, "rules[0].perEvent"],
  ["with a condition without a number", { rules: [flat(1, { when: { meters: ["a"] } })] }, "rules[0].when.above"],
  ["with a condition without meters", { rules: [flat(1, { when: { above: 1 } })] }, "rules[0].when.meters"],
  [
    "with a condition of a name that is none",
    { rules: [flat(1, { when: { meters: ["a", "B"], above: 1 } })] },
    "rules[0].when.meters[1]",
  ],
  [
    "with an unknown field of a condition",
    { rules: [flat(1, { when: { meters: ["a"], above: 1, below: 2 } })] },
    "rules[0].when.below",
  ],
  ["with a model of control characters", { rules: [flat(1, { model: "a\u0000" })] }, "rules[0].model"],
  ["with a rule that is none", { rules: [flat(1), null] }, "rules[1]"],
  ["with rules as an object", { rules: {} }, "rules"],
  ["of costs without a price", { rules: [], costs: [{ perEvent: 1 }, { model: "m" }] }, "costs[1]"],
  ["of a malformed cost", { rules: [], costs: [{ per: { input: 1e-13 } }] }, "costs[0].per.input"],
  ["of 2,001 costs", { rules: [], costs: Array.from({ length: 2_001 }, () => ({ perEvent: 1 })) }, "costs"],
  ["of no time", { rules: [], effectiveAt: "tomorrow" }, "effectiveAt"],
  ["with an unknown field of its own", { rules: [], currency: "usd" }, "currency"],
  ["with an empty event", { rules: [flat(1, { event: "" })] }, "rules[0].event"],
  ["with a unit of costs", { rules: [], costs: [{ unit: "cents", perEvent: 1 }] }, "costs[0].unit"],
  ["of 2,001 rules", { rules: Array.from({ length: 2_001 }, () => flat(1)) }, "rules"],
  [
    "of more than 512 KiB",
    { rules: Array.from({ length: 1_500 }, () => flat(1, { model: "m".repeat(200), event: "e".repeat(200) })) },
    "rules",
  ],
  ["of the past", { rules: [], effectiveAt: "2026-01-15T11:59:59.999Z" }, "effectiveAt"],
  ["without rules", {}, "rules"],
  ["of a version that is none", { rules: [], ifVersion: -1 }, "ifVersion"],
])("a price list is rejected %s, and nothing is written", async (_, fields, param) => {
  const { set, stored } = await pricesWorld();
  const answer = await set(fields);
  expectError(answer, "invalid_request", param);
  expect(await stored()).toEqual({ lists: 0, acts: 0, settingsSnapshot: null });
});

it("a price list takes 2,000 rules and as many costs", async () => {
  const { set, get } = await pricesWorld();
  const rules = Array.from({ length: 2_000 }, (_, n) => flat(n, { model: `model-${n}` }));
  const costs = rules.map(({ perEvent, model }) => ({ model, perEvent }));
  expect((await set({ rules, costs })).status).toBe(200);
  expect((await get(1)).body).toMatchObject({ rules, costs });
});
