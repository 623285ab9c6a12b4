import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { requireLimit } from "../../../../src/books/limits/limits.ts";
import { changeLimit, deleteLimit } from "../../../../src/books/limits/update-limit.ts";
import { END_USER_SETTING } from "../../../support/end-user-setting.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { userToken } from "../../../support/keyed-routes.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeAdminCtx, makeApp, makeClient } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const free = { mode: "live", name: "Free", unit: "count", amount: 50, every: "day" };

/** Counts the environment's limits, its counters, and the entries of the audit about limits. */
async function rowsOf({ app }: Awaited<ReturnType<typeof limitsWorld>>) {
  const { id } = app.environments.live;
  return env.DB.prepare(
    `SELECT (SELECT count(*) FROM usage_limits WHERE environment_id = ?1) AS limits,
       (SELECT count(*) FROM usage_counters WHERE environment_id = ?1) AS counters,
       (SELECT count(*) FROM admin_audit WHERE app_id = ?2 AND action GLOB 'usage_limit.*') AS acts`,
  )
    .bind(id, app.appId)
    .first();
}

it("usage limits are created, listed in the order of creation for their mode, changed and deleted, each with an entry in the audit", async () => {
  const world = await limitsWorld({ limits: [] });
  const { admin, app, use, used, event } = world;
  const first = await admin("POST", "/usage-limits", { ...free, matches: [{ event: "chat" }] });
  expect([first.status, first.body]).toEqual([
    200,
    {
      ...free,
      matches: [{ event: "chat" }],
      per: "user",
      timeZone: "UTC",
      limitId: expect.stringMatching(/^lim_[0-9A-Za-z]{22}$/),
      createdAt: "2026-01-15T12:00:00.000Z",
    },
  ]);
  const second = (await admin("POST", "/usage-limits", { ...free, name: "Ärger", amount: 0.5, every: "month" })).body;
  const test = (await admin("POST", "/usage-limits", { ...free, mode: "test" })).body;
  expect((await admin("GET", "/usage-limits?mode=live")).body).toEqual({ limits: [first.body, second] });
  expect((await admin("GET", "/usage-limits?mode=test")).body).toEqual({ limits: [test] });
  const path = `/usage-limits/${second.limitId}`;
  const changed = { ...second, name: "Other", amount: 7 };
  expect((await admin("PATCH", path, { name: "Other", amount: 7 })).body).toEqual(changed);
  expect((await admin("PATCH", path, {})).body).toEqual(changed);
  await use(7);
  expect((await event(1)).status).toBe(429);
  expect((await admin("PATCH", path, { amount: 8 })).status).toBe(200);
  await use(1);
  expect(await used()).toEqual([8, 8]);
  expect((await admin("DELETE", path)).body).toMatchObject({ name: "Other", amount: 8 });
  expectError(await admin("DELETE", path), "not_found", "limitId");
  await use(40);
  expect(await used()).toEqual([48]);
  expect(await rowsOf(world)).toEqual({ limits: 1, counters: 1, acts: 6 });
  const { body } = await world.call("GET", `/api/v1/admin/apps/${app.appId}/audit`, { key: env.ADMIN_TOKEN });
  expect(
    body.entries.slice(0, 3).map((entry: { action: string; details: object }) => [entry.action, entry.details]),
  ).toEqual([
    ["usage_limit.deleted", { mode: "live" }],
    ["usage_limit.changed", { mode: "live", changed: ["amount"] }],
    ["usage_limit.changed", { mode: "live", changed: ["name", "amount"] }],
  ]);
});

it("usage limits keep each other field when two changes race, and one that was deleted meanwhile is not changed", async () => {
  const { app, clock, admin, limitIds } = await limitsWorld();
  const root = makeAdminCtx(clock);
  const row = await requireLimit(root, app.appId, limitIds[0] ?? "");
  await changeLimit(root, row, { amount: 3 });
  const last = await changeLimit(root, row, { name: "Other" });
  expect(last).toMatchObject({ name: "Other", amount: 3 });
  expect((await admin("GET", "/usage-limits?mode=live")).body).toEqual({ limits: [last] });
  await deleteLimit(root, row);
  await expect(changeLimit(root, row, { amount: 4 })).rejects.toMatchObject({ code: "not_found", param: "limitId" });
});

it("usage limits stop counting when deleted, even if open holds counted in them, and a new one counts from its creation", async () => {
  const { admin, holdOk, release, use, used, limitIds, makeLimit } = await limitsWorld();
  const reservation = await holdOk(4);
  await admin("DELETE", `/usage-limits/${limitIds[0]}`);
  await makeLimit({ name: "Limit 0", amount: 5 });
  await release(reservation);
  expect(await used()).toEqual([0]);
  await use(5);
  expect(await used()).toEqual([5]);
});

it("usage limits that are deleted lose at most 10,000 counters in a step, however many of them are of one user's members", async () => {
  const { app, clock, limitIds } = await limitsWorld({ limits: [{ per: "member" }] });
  const row = await requireLimit(makeAdminCtx(clock), app.appId, limitIds[0] ?? "");
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
     INSERT INTO usage_counters (environment_id, limit_id, account_id, member_number)
     SELECT CAST(?1 AS INTEGER), ?2, (SELECT id FROM accounts WHERE environment_id = CAST(?1 AS INTEGER) AND user_id = 'u'), i FROM n`,
  )
    .bind(row.environmentId, row.id)
    .run();
  const left: number[] = [];
  const db = hookedD1(env.DB, async () => {
    const count = env.DB.prepare("SELECT count(*) AS left FROM usage_counters WHERE limit_id = ?").bind(row.id);
    left.push((await count.first<number>("left")) ?? 0);
  });
  await deleteLimit(makeAdminCtx(clock, db), row);
  // The first trip marks the limit as deleted, and the last deletes it.
  expect(left).toEqual([12_000, 12_000, 2_000, 0]);
});

it.each<[string, object, string]>([
  ["an invalid unit", { unit: "minutes" }, "unit"],
  ["an invalid window", { every: "year" }, "every"],
  ["an amount below 0", { amount: -1 }, "amount"],
  ["an amount in fractions of a step", { amount: 0.0001 }, "amount"],
  ["an amount above the maximum of its unit", { amount: 9e15 }, "amount"],
  ["a rule that matches nothing", { matches: [{}] }, "matches[0]"],
  ["a rule with an unknown field", { matches: [{ evnt: "chat" }] }, "matches[0].evnt"],
  [
    "rules of too many characters",
    { matches: Array.from({ length: 50 }, () => ({ event: "x".repeat(100) })) },
    "matches",
  ],
  ["an empty name", { name: "" }, "name"],
  ["an invalid mode", { mode: "staging" }, "mode"],
  ["an unknown field", { amounts: 3 }, "amounts"],
])("usage limits are refused with %s, and nothing is written", async (_, fields, param) => {
  const world = await limitsWorld({ limits: [] });
  expectError(await world.admin("POST", "/usage-limits", { ...free, ...fields }), "invalid_request", param);
  expect(await rowsOf(world)).toEqual({ limits: 0, counters: 0, acts: 0 });
});

it("usage limits are rejected above 20 in an environment, and with a name that differs only in case", async () => {
  const world = await limitsWorld({ limits: Array.from({ length: 20 }, () => ({})) });
  const { admin, limitIds } = world;
  const more = await admin("POST", "/usage-limits", free);
  expectError(more, "invalid_request");
  expect(more.body.error.details).toEqual({ limit: 20 });
  await admin("DELETE", `/usage-limits/${limitIds[0]}`);
  expectError(await admin("POST", "/usage-limits", { ...free, name: "LIMIT 5" }), "invalid_request", "name");
  expectError(await admin("PATCH", `/usage-limits/${limitIds[1]}`, { name: "limit 5" }), "invalid_request", "name");
  expectError(await admin("PATCH", `/usage-limits/${limitIds[1]}`, { amount: 0.0001 }), "invalid_request", "amount");
  expectError(await admin("PATCH", "/usage-limits/lim_none", { amount: 1 }), "not_found", "limitId");
  expect(await rowsOf(world)).toEqual({ limits: 19, counters: 0, acts: 21 });
  expect((await admin("POST", "/usage-limits", { ...free, name: "Limit 0" })).status).toBe(200);
});

it("a user's override is rejected for an unknown limit, for one of another mode or application, below 0, and in fractions of a step, and nothing is written", async () => {
  const world = await limitsWorld();
  const { ask, limitIds, makeLimit } = world;
  const other = await limitsWorld();
  const ofTest = await makeLimit({ mode: "test" });
  const put = (limitId: string | undefined, body: object) => ask("PUT", `/usage/limits/${limitId}/amount`, body);
  for (const limitId of [ofTest, other.limitIds[0], "lim_none"]) {
    expectError(await put(limitId, { userId: "u", amount: 1 }), "not_found", "limitId");
    expectError(await ask("DELETE", `/usage/limits/${limitId}/amount?userId=u`), "not_found", "limitId");
  }
  expectError(await put(limitIds[0], { userId: "u", amount: -1 }), "invalid_request", "amount");
  expectError(await put(limitIds[0], { userId: "u", amount: 0.0001 }), "invalid_request", "amount");
  expectError(await put(limitIds[0], { userId: "u" }), "invalid_request", "amount");
  expectError(await put(limitIds[0], { amount: 1 }), "invalid_request", "userId");
  expect((await rowsOf(world))?.counters).toBe(0);
});

it("a usage limit is shown to a publishable key only for the token's user", async () => {
  const app = await makeApp(END_USER_SETTING);
  const { clock } = await limitsWorld({ limits: [] });
  const call = makeClient(clock);
  const answer = await call("POST", `/api/v1/admin/apps/${app.appId}/usage-limits`, {
    key: env.ADMIN_TOKEN,
    body: free,
  });
  expect(answer.status).toBe(200);
  const headers = { "x-user-token": await userToken("u", clock) };
  const ask = (userId: string, more: object = { headers }) =>
    call("GET", `/api/v1/usage/limits?userId=${userId}`, { key: app.keys.pk_live, ...more });
  expect((await ask("u")).body.limits).toMatchObject([{ name: "Free", used: 0, remaining: 50 }]);
  expectError(await ask("v"), "forbidden", "userId");
  expectError(await ask("u", {}), "invalid_user_token");
});
