import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { isAdminKey, writeAdminKey } from "../../../src/db/key-form.ts";
import { sha256 } from "../../../src/lib/encoding.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { firstDb, makeAdminKey } from "../../support/admin-keys.ts";
import { browse, openDashboard } from "../../support/browse.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { ADMIN } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, home, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

const key = env.ADMIN_TOKEN;
const call = makeClient(new Clock());
const create = (body: object) => call("POST", `${ADMIN}/keys`, { key, body });

it("a new administration key is shown once and stored as its hash in DB, with an entry in the audit that holds no secret", async () => {
  const { appId } = await makeApp();
  const rights = { scopes: ["read", "people"], apps: [appId], modes: ["live"] };
  const answer = await create({ name: "Support", ...rights });
  expect(answer.status).toBe(200);
  expect(isAdminKey(answer.body.key)).toBe(true);
  const { key: text, ...shown } = answer.body;
  const row = await firstDb().prepare("SELECT * FROM admin_keys WHERE id = ?").bind(shown.adminKeyId).first();
  expect(row).toMatchObject({ hash: await sha256(text), hint: `ak_…${text.slice(-4)}`, name: "Support" });
  expect(JSON.stringify(row)).not.toContain(text);
  const { keys } = (await call("GET", `${ADMIN}/keys`, { key })).body;
  const listed = keys.find(({ adminKeyId }: { adminKeyId: string }) => adminKeyId === shown.adminKeyId);
  expect(listed).toEqual({ ...shown, revokedAt: null });
  const { entries } = (await call("GET", `${ADMIN}/audit?limit=1`, { key })).body;
  expect(entries).toEqual([
    {
      ...{ at: shown.createdAt, by: "api", action: "admin_key.created", target: shown.adminKeyId, userId: null },
      details: rights,
    },
  ]);
});

it("a new administration key is rejected without scopes, with an unknown scope, mode or application, with an empty list, a bad name or an unknown field", async () => {
  const named = { name: "X", scopes: ["read"] };
  expectError(await create({ name: "X", scopes: [] }), "invalid_request", "scopes");
  expectError(await create({ name: "X", scopes: ["all"] }), "invalid_request", "scopes[0]");
  expectError(await create({ name: " X", scopes: ["read"] }), "invalid_request", "name");
  expectError(await create({ ...named, apps: [] }), "invalid_request", "apps");
  expectError(await create({ ...named, modes: [] }), "invalid_request", "modes");
  expectError(await create({ ...named, modes: ["prod"] }), "invalid_request", "modes[0]");
  expectError(await create({ ...named, apps: ["app_none"] }), "not_found", "appId");
  expectError(await create({ ...named, scope: "read" }), "invalid_request", "scope");
  const answer = await create({ ...named, scopes: ["read", "read"], modes: ["live", "test"] });
  expect(answer.body).toMatchObject({ scopes: ["read"], apps: null, modes: ["live", "test"] });
});

it("a new administration key for both modes may use routes that belong to no mode", async () => {
  const { key: both } = await makeAdminKey(call, { scopes: ["read"], modes: ["live", "test"] });
  expect((await call("GET", `${ADMIN}/apps`, { key: both })).status).toBe(200);
});

it("a revoked administration key is invalid at once, stays listed, and has one entry in the audit even if it is revoked twice", async () => {
  const { key: text, adminKeyId } = await makeAdminKey(call, { scopes: ["read"] });
  expect((await call("GET", `${ADMIN}/apps`, { key: text })).status).toBe(200);
  const revoke = () => call("DELETE", `${ADMIN}/keys/${adminKeyId}`, { key });
  const [first, again] = [await revoke(), await revoke()];
  expect(first.body).toMatchObject({ adminKeyId, revokedAt: "2026-01-15T12:00:00.000Z" });
  expect([again.status, again.body]).toEqual([200, first.body]);
  expectError(await call("GET", `${ADMIN}/apps`, { key: text }), "invalid_key");
  const acts = firstDb().prepare(
    "SELECT count(*) AS n FROM admin_audit WHERE app_id = '' AND target = ? AND action = ?",
  );
  expect(await acts.bind(adminKeyId, "admin_key.revoked").first("n")).toBe(1);
});

it("a revoked administration key is not_found if it does not exist, and nothing is written", async () => {
  expectError(await call("DELETE", `${ADMIN}/keys/adk_none`, { key }), "not_found", "adminKeyId");
  const acts = firstDb().prepare("SELECT count(*) AS n FROM admin_audit WHERE target = 'adk_none'");
  expect(await acts.first("n")).toBe(0);
});

it("an administration key that is unknown, mistyped, or sent to an application's route is invalid_key", async () => {
  const { key: text } = await makeAdminKey(call, { scopes: ["read"] });
  const wrong = [writeAdminKey(randomId("")), `${text.slice(0, -1)}${text.endsWith("0") ? "1" : "0"}`, `${text}0`];
  for (const each of wrong) expectError(await call("GET", `${ADMIN}/apps`, { key: each }), "invalid_key");
  const answer = await call("GET", "/api/v1/credits?userId=u", { key: text });
  expectError(answer, "invalid_key");
  expect(answer.body.error.message).toContain("administration key");
});

it("an administration key is checked with its scope before the body's shape, and against the arguments' mode and kind afterwards", async () => {
  const { appId } = await makeApp();
  const { key: reads } = await makeAdminKey(call, { scopes: ["read"], modes: ["live"] });
  const send = (path: string, body: string) => call("POST", `${ADMIN}/apps/${appId}/${path}`, { key: reads, body });
  expectError(await send("alerts", "{"), "forbidden");
  expectError(await send("keys", "{"), "invalid_request", "body");
  expectError(await send("keys", '{"kind":"secret","mode":"live"}'), "forbidden");
  expectError(await call("GET", `${ADMIN}/apps/${appId}/alerts?mode=x`, { key: reads }), "invalid_request", "mode");
  expectError(await call("GET", `${ADMIN}/apps/${appId}/alerts?mode=test`, { key: reads }), "forbidden");
  expectError(await call("DELETE", `${ADMIN}/apps/${appId}/keys/key_none`, { key: reads }), "not_found", "keyId");
  const unknown = writeAdminKey(randomId(""));
  expectError(await call("POST", `${ADMIN}/apps`, { key: unknown, body: "{" }), "invalid_key");
});

it("an administration key has the same rights for HEAD as for GET", async () => {
  const { key: reads } = await makeAdminKey(call, { scopes: ["read"] });
  const { key: writes } = await makeAdminKey(call, { scopes: ["write"] });
  const statuses = [reads, writes].map(async (sent) => (await call("HEAD", `${ADMIN}/apps`, { key: sent })).status);
  expect(await Promise.all(statuses)).toEqual([200, 403]);
});

it("an administration key does not work in a page, or if the deployment has no admin token", async () => {
  const { key: text } = await makeAdminKey(call, { scopes: ["read"] });
  const headers = { origin: "https://shop.example", "sec-fetch-site": "cross-site" };
  expectError(await call("GET", `${ADMIN}/apps`, { key: text, headers }), "forbidden");
  const unset = makeClient(new Clock(), { ADMIN_TOKEN: "" });
  expectError(await unset("GET", `${ADMIN}/apps`, { key: text }), "not_found");
});

it("an administration key is named by `ak:` and its id in the audit, and by `admin` in the ledger", async () => {
  const app = await makeApp();
  const packId = await makeOpenAmountPack(app.appId, "Pack", "tokens");
  const { key: grants, adminKeyId } = await makeAdminKey(call, { scopes: ["grants"], apps: [app.appId] });
  const sk = app.keys.sk_live;
  const granted = await call("POST", "/api/v1/credits/grant", {
    key: sk,
    body: { userId: "u", packId, quantity: 5 },
  });
  const { balanceId } = granted.body.balances[0];
  const body = { delta: 1, note: "Sorry" };
  expect((await call("POST", `${ADMIN}/balances/${balanceId}/adjust`, { key: grants, body })).status).toBe(200);
  const history = await call("GET", "/api/v1/credits/history?userId=u", { key: sk });
  expect(history.body.entries[0]).toMatchObject({ cause: "adjustment", by: "admin" });
  const audit = (sent: string) => call("GET", `${ADMIN}/apps/${app.appId}/audit?limit=1`, { key: sent });
  expect((await audit(key)).body.entries[0]).toMatchObject({ by: `ak:${adminKeyId}`, userId: "u" });
  const browser = browse(new Clock());
  await browser.signIn();
  const { keys } = (await call("GET", `${ADMIN}/keys`, { key })).body;
  const { name } = keys.find((each: { adminKeyId: string }) => each.adminKeyId === adminKeyId);
  for (const page of ["audit", `users/balance?balanceId=${balanceId}`, "users?userId=u"]) {
    const text = await (await browser.get(`/admin/apps/${app.appId}/live/${page}`)).text();
    expect([page, text.includes(`${name} (ak:${adminKeyId})`)]).toEqual([page, true]);
  }
});

it("an administration key without `people` sees no user in the audit, and only the origin of an endpoint's URL", async () => {
  const app = await makeApp();
  const packId = await makeOpenAmountPack(app.appId, "Pack", "tokens");
  const body = { userId: "u", packId, quantity: 5 };
  const granted = await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  const { balanceId } = granted.body.balances[0];
  await call("POST", `${ADMIN}/balances/${balanceId}/adjust`, { key, body: { delta: 1, note: "Sorry" } });
  const url = "https://user:word@hooks.example.com:8443/in/secret-path?token=1";
  const hook = { mode: "live", url: url.replace("user:word@", ""), types: ["**"] };
  const created = await call("POST", `${ADMIN}/apps/${app.appId}/webhooks`, { key, body: hook });
  expect(created.status).toBe(200);
  for (const [scopes, userId, shown] of [
    [["read"], null, "https://hooks.example.com:8443"],
    [["read", "people"], "u", hook.url],
  ] as const) {
    const { key: reads } = await makeAdminKey(call, { scopes });
    const { entries } = (await call("GET", `${ADMIN}/apps/${app.appId}/audit`, { key: reads })).body;
    const acts = entries.filter(({ action }: { action: string }) => action === "credits.adjusted");
    expect(acts.map((act: { userId: string | null }) => act.userId)).toEqual([userId]);
    const listed = await call("GET", `${ADMIN}/apps/${app.appId}/webhooks?mode=live`, { key: reads });
    expect(listed.body.webhooks.map((webhook: { url: string }) => webhook.url)).toEqual([shown]);
  }
});

it("an administration key without `people` sees no id in the audit that a caller chose", async () => {
  const app = await makeApp();
  const packId = await makeOpenAmountPack(app.appId, "Pack", "tokens");
  const recurringId = "rec_ann@example.com";
  const body = { userId: "u", packId, quantity: 5, every: "month", recurringId };
  const created = await call("POST", "/api/v1/credits/recurring", { key: app.keys.sk_live, body });
  expect(created.status).toBe(200);
  const { send } = await openDashboard(app);
  const fields = { userId: "u", recurringId, at: "now", reason: "Asked" };
  expect((await send("users/recurring/cancel", fields)).status).toBe(303);
  for (const [scopes, target] of [
    [["read"], null],
    [["read", "people"], recurringId],
  ] as const) {
    const { key: reads } = await makeAdminKey(call, { scopes });
    const { entries } = (await call("GET", `${ADMIN}/apps/${app.appId}/audit`, { key: reads })).body;
    expect(entries[0]).toMatchObject({ action: "recurring.cancelled", target });
  }
});

it("an administration key of one mode lists only the application's keys of that mode", async () => {
  const app = await makeApp();
  const { key: reads } = await makeAdminKey(call, { scopes: ["read"], modes: ["test"] });
  const { keys } = (await call("GET", `${ADMIN}/apps/${app.appId}/keys`, { key: reads })).body;
  expect(keys.map(({ mode }: { mode: string }) => mode)).toEqual(["test", "test"]);
});

describe.each(FAULTS)("when a trip to the database fails (%s),", (fault) => {
  const faulty = faultyD1(firstDb());
  const failing = makeClient(new Clock(), home() === 0 ? { DB: faulty.d1 } : { SPARE: faulty.d1 });
  const count = async (text: string, value: string) => firstDb().prepare(text).bind(value).first<number>("n");

  it("an administration key and its entry in the audit are stored together, at most once", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    for (const persists of [false, true]) {
      const name = `Fault ${fault} ${persists}`;
      faulty.plan({ fault, at: 1, persists });
      const answer = await failing("POST", `${ADMIN}/keys`, { key, body: { name, scopes: ["read"] } });
      faulty.plan(null);
      expect([200, 503]).toContain(answer.status);
      const keys = await count("SELECT count(*) AS n FROM admin_keys WHERE name = ?", name);
      const target =
        "SELECT count(*) AS n FROM admin_audit WHERE app_id = '' AND target IN (SELECT id FROM admin_keys WHERE name = ?)";
      expect(await count(target, name)).toBe(keys);
      if (answer.status === 200) expect(keys).toBe(1);
      if (fault === "before" || fault === "amid") expect(keys).toBe(answer.status === 200 ? 1 : 0);
    }
    vi.restoreAllMocks();
  });

  it("a revocation leaves one entry in the audit, and a key whose check failed is served again", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    const { key: text, adminKeyId } = await makeAdminKey(call, { scopes: ["read"] });
    faulty.plan({ fault, at: 1, persists: true });
    const answer = await failing("GET", `${ADMIN}/apps`, { key: text });
    expect(answer.status).toBe(503);
    faulty.plan(null);
    expect((await failing("GET", `${ADMIN}/apps`, { key: text })).status).toBe(200);
    faulty.plan({ fault, at: 1 });
    await failing("DELETE", `${ADMIN}/keys/${adminKeyId}`, { key });
    faulty.plan(null);
    expect((await failing("DELETE", `${ADMIN}/keys/${adminKeyId}`, { key })).status).toBe(200);
    const acts = "SELECT count(*) AS n FROM admin_audit WHERE action = 'admin_key.revoked' AND target = ?";
    expect(await count(acts, adminKeyId)).toBe(1);
    expectError(await failing("GET", `${ADMIN}/apps`, { key: text }), "invalid_key");
    vi.restoreAllMocks();
  });
});

it("a request with an administration key takes one trip and reads at most two rows more than one with the admin token", async () => {
  const { key: text } = await makeAdminKey(call, { scopes: ["read", "write"] });
  const [home, spare] = [countingD1(env.DB), countingD1(env.SPARE)];
  const counted = makeClient(new Clock(), { DB: home.d1, SPARE: spare.d1 });
  const costsOf = async (sent: string) => {
    const { appId } = await makeApp();
    const costs: number[][] = [];
    for (const [method, path, body] of [
      ["GET", "packs", undefined],
      ["POST", "alerts", { mode: "live", name: "Low", unit: "tokens", below: { amount: 1 } }],
    ] as const) {
      const options = { key: sent, ...(body === undefined ? {} : { body }) };
      expect((await counted(method, `${ADMIN}/apps/${appId}/${path}`, options)).status).toBe(200);
      const [a, b] = [home.spent(), spare.spent()];
      costs.push([a.roundTrips + b.roundTrips, a.rowsRead + b.rowsRead, a.rowsWritten + b.rowsWritten]);
    }
    return costs;
  };
  const byKey = await costsOf(text);
  for (const [index, [trips = 0, read = 0, written = 0]] of (await costsOf(key)).entries()) {
    const [keyTrips = 0, keyRead = 0, keyWritten = 0] = byKey[index] ?? [];
    expect([keyTrips, keyWritten]).toEqual([trips + 1, written]);
    expect(keyRead - read).toBeGreaterThan(0);
    expect(keyRead - read).toBeLessThanOrEqual(2);
  }
});

it("a request with an administration key counts for its address if the key is unknown, is then rejected without a query for a minute, and does not count as a wrong admin token", async () => {
  const clock = new Clock();
  const [home, spare] = [countingD1(env.DB), countingD1(env.SPARE)];
  let requests = 0;
  let tries = 0;
  const PUBLIC_REQUESTS: RateLimit = { limit: async () => ({ success: ++requests <= 1_200 }) };
  const ADMIN_TRIES: RateLimit = { limit: async () => ({ success: ++tries <= 10 }) };
  const counted = makeClient(clock, { DB: home.d1, SPARE: spare.d1, PUBLIC_REQUESTS, ADMIN_TRIES });
  const unknown = writeAdminKey(randomId(""));
  const trips = () => home.spent().roundTrips + spare.spent().roundTrips;
  for (const expected of [1, 0, 0]) {
    expectError(await counted("GET", `${ADMIN}/apps`, { key: unknown }), "invalid_key");
    expect(trips()).toBe(expected);
  }
  expect([requests, tries]).toEqual([3, 0]);
  clock.advance(60_000);
  expectError(await counted("GET", `${ADMIN}/apps`, { key: unknown }), "invalid_key");
  expect(trips()).toBe(1);
  const { key: text } = await makeAdminKey(call, { scopes: ["read"] });
  requests = 0;
  expect((await counted("GET", `${ADMIN}/apps`, { key: text })).status).toBe(200);
  expect([requests, tries]).toEqual([0, 0]);
});

it("a request with an administration key is served above its address's limit, after the usual check, if the key was valid in the last minute", async () => {
  const headers = { "cf-connecting-ip": "192.0.2.77" };
  let isFull = false;
  const PUBLIC_REQUESTS: RateLimit = { limit: async () => ({ success: !isFull }) };
  const NEW_KEY_REQUESTS: RateLimit = { limit: async () => ({ success: false }) };
  const limited = makeClient(new Clock(), { PUBLIC_REQUESTS, NEW_KEY_REQUESTS });
  const { key: text, adminKeyId } = await makeAdminKey(call, { scopes: ["read"] });
  const { key: fresh } = await makeAdminKey(call, { scopes: ["read"] });
  const ask = (sent: string) => limited("GET", `${ADMIN}/apps`, { key: sent, headers });
  expect((await ask(text)).status).toBe(200);
  isFull = true;
  expectError(await ask("made-up"), "rate_limited");
  expect((await ask(text)).status).toBe(200);
  expectError(await ask(fresh), "rate_limited");
  await call("DELETE", `${ADMIN}/keys/${adminKeyId}`, { key });
  expectError(await ask(text), "rate_limited");
});
