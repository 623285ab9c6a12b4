import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { requireAlert } from "../../../../src/books/alerts/alerts.ts";
import { changeAlert } from "../../../../src/books/alerts/update-alert.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { expectError } from "../../../support/rejections.ts";
import { Clock, makeAdminCtx, makeApp, makeClient } from "../../../support/world.ts";

async function world() {
  const clock = new Clock();
  const { appId, environments } = await makeApp();
  const call = makeClient(clock);
  const send = (method: string, path: string, body?: object) =>
    call(method, `/api/v1/admin/apps/${appId}${path}`, {
      key: env.ADMIN_TOKEN,
      ...(body === undefined ? {} : { body }),
    });
  const alerts = async (mode = "live") => (await send("GET", `/alerts?mode=${mode}`)).body.alerts;
  const count = async (table: string) =>
    (await env.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE environment_id IN (?, ?)`)
      .bind(environments.live.id, environments.test.id)
      .first("n")) as number;
  return { appId, clock, environments, send, alerts, count };
}

const low = { mode: "live", name: "Low", unit: "tokens", below: { amount: 0.5 } };

it("alerts are created, listed oldest first for their mode, and deleted", async () => {
  const { send, alerts, clock } = await world();
  const first = await send("POST", "/alerts", low);
  const createdAt = "2026-01-15T12:00:00.000Z";
  const alert = { alertId: expect.stringMatching(/^alr_[0-9A-Za-z]{22}$/), ...low, event: null, createdAt };
  expect([first.status, first.body]).toEqual([200, alert]);
  clock.advance(1);
  const percent = { mode: "live", name: "Half 🪫", unit: "cents", event: "chat.*", below: { percent: 12.345 } };
  const second = (await send("POST", "/alerts", percent)).body;
  expect(second).toMatchObject(percent);
  const other = (await send("POST", "/alerts", { ...low, mode: "test" })).body;
  expect(await alerts()).toEqual([first.body, second]);
  expect(await alerts("test")).toEqual([other]);
  const path = `/alerts/${first.body.alertId}`;
  expect((await send("DELETE", path)).body).toEqual(first.body);
  expectError(await send("DELETE", path), "not_found", "alertId");
  expect(await alerts()).toEqual([second]);
});

it("alerts keep each other field when two changes race", async () => {
  const { appId, clock, send, alerts } = await world();
  const { alertId } = (await send("POST", "/alerts", { ...low, event: "chat.*" })).body;
  const admin = makeAdminCtx(clock);
  const row = await requireAlert(admin, appId, alertId);
  await changeAlert(admin, row, { below: { percent: 5 } });
  await changeAlert(admin, row, { event: null });
  const last = await changeAlert(admin, row, { name: "Lower" });
  expect(await alerts()).toEqual([last]);
  expect(last).toMatchObject({ name: "Lower", event: null, below: { percent: 5 } });
});

it("alerts list the users for whom they fired, change only the given fields, and then forget those users", async () => {
  const { send, count, environments } = await world();
  const { alertId } = (await send("POST", "/alerts", { ...low, event: "chat.*" })).body;
  const path = `/alerts/${alertId}`;
  const fire = async (userId: string) => {
    const account = "INSERT INTO accounts (environment_id, user_id) VALUES (?, ?) RETURNING id";
    const id = await env.DB.prepare(account).bind(environments.live.id, userId).first("id");
    await env.DB.prepare("INSERT INTO alert_states VALUES (?, ?, ?)").bind(environments.live.id, alertId, id).run();
  };
  for (const userId of ["ana", "bob", "cem"]) await fire(userId);
  const first = (await send("GET", `${path}/users?limit=2`)).body;
  expect(first.users).toEqual([{ userId: "ana" }, { userId: "bob" }]);
  const rest = (await send("GET", `${path}/users?limit=2&cursor=${first.nextCursor}`)).body;
  expect(rest).toEqual({ users: [{ userId: "cem" }], nextCursor: null });
  expectError(await send("GET", `${path}/users?cursor=made-up`), "invalid_request", "cursor");

  // A PATCH with the same values changes nothing.
  expect((await send("PATCH", path, { name: "Low", below: { amount: 0.5 } })).body).toMatchObject(low);
  expect(await count("alert_states")).toBe(3);
  const changed = await send("PATCH", path, { below: { percent: 20 }, event: null });
  expect([changed.status, changed.body]).toEqual([
    200,
    expect.objectContaining({ alertId, name: "Low", unit: "tokens", event: null, below: { percent: 20 } }),
  ]);
  expect(await count("alert_states")).toBe(0);
  expect((await send("PATCH", path, { name: "Lower" })).body).toMatchObject({
    name: "Lower",
    below: { percent: 20 },
  });
  const { entries } = (await send("GET", "/audit")).body;
  const acts = entries.map(({ action, details }: { action: string; details: object }) => [action, details]);
  expect(acts.slice(0, 3)).toEqual([
    ["alert.changed", { mode: "live", changed: ["name"] }],
    ["alert.changed", { mode: "live", changed: ["event", "below"] }],
    ["alert.created", { mode: "live" }],
  ]);
  for (const [below, param] of [
    [{ amount: 0 }, "below.amount"],
    [{ amount: 0.0001 }, "below.amount"],
    [{ percent: 101 }, "below.percent"],
    [{}, "below"],
  ] as const) {
    expectError(await send("PATCH", path, { below }), "invalid_request", param);
  }
  expectError(await send("PATCH", path, { unit: "cents" }), "invalid_request", "unit");
  expectError(await send("PATCH", "/alerts/alr_none", { name: "x" }), "not_found", "alertId");
  expectError(await send("GET", "/alerts/alr_none/users"), "not_found", "alertId");
});

it("alerts of another application are not found", async () => {
  const mine = await world();
  const { alertId } = (await mine.send("POST", "/alerts", low)).body;
  const other = await world();
  expectError(await other.send("DELETE", `/alerts/${alertId}`), "not_found", "alertId");
  expect(await mine.alerts()).toHaveLength(1);
});

it.each([
  ["an invalid unit", { unit: "dollars" }, "unit"],
  ["no unit", { unit: undefined }, "unit"],
  ["an amount of 0", { below: { amount: 0 } }, "below.amount"],
  ["an amount below 0", { below: { amount: -1 } }, "below.amount"],
  ["an amount with more decimals than its unit", { below: { amount: 0.0001 } }, "below.amount"],
  ["an amount above the maximum of its unit", { below: { amount: 1e300 } }, "below.amount"],
  ["an amount that is a text", { below: { amount: "5" } }, "below.amount"],
  ["a percentage of 0", { below: { percent: 0 } }, "below.percent"],
  ["a percentage below 0", { below: { percent: -20 } }, "below.percent"],
  ["a percentage above 100", { below: { percent: 100.001 } }, "below.percent"],
  ["a percentage with four decimals", { below: { percent: 0.0001 } }, "below.percent"],
  ["both an amount and a percentage", { below: { amount: 1, percent: 1 } }, "below"],
  ["neither an amount nor a percentage", { below: {} }, "below"],
  ["another measure", { below: { share: 1 } }, "below.share"],
  ["no threshold", { below: undefined }, "below"],
  ["an empty event", { event: "" }, "event"],
  ["an event of more than 200 characters", { event: "x".repeat(201) }, "event"],
  ["no name", { name: "" }, "name"],
  ["another mode", { mode: "both" }, "mode"],
])("alerts refuse %s, and nothing is written", async (_, fields, param) => {
  const { send, count } = await world();
  expectError(await send("POST", "/alerts", { ...low, ...fields }), "invalid_request", param);
  expect(await count("alerts")).toBe(0);
});

it("alerts accept amounts from one step to the maximum of the unit, and 0.001 to 100 percent", async () => {
  const { send } = await world();
  for (const below of [{ amount: 0.001 }, { amount: 8_796_093_022_208 }, { percent: 0.001 }, { percent: 100 }]) {
    expect((await send("POST", "/alerts", { ...low, below })).body.below).toEqual(below);
  }
});

it("alerts are deleted in steps even if they fired for 25,000 users", async () => {
  const clock = new Clock();
  const { appId, environments } = await makeApp();
  const call = makeClient(clock);
  const at = `/api/v1/admin/apps/${appId}/alerts`;
  const body = { mode: "live", name: "Low", unit: "cents", below: { amount: 1 } };
  const { alertId } = (await call("POST", at, { key: env.ADMIN_TOKEN, body })).body;
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
       INSERT INTO alert_states (environment_id, alert_id, account_id) SELECT ?1, ?2, -i FROM n`,
  )
    .bind(environments.live.id, alertId)
    .run();
  const left = () =>
    env.DB.prepare("SELECT count(*) AS n FROM alert_states WHERE alert_id = ?").bind(alertId).first("n");
  const { d1, spent } = countingD1(env.DB);
  const counted = makeClient(clock, { DB: d1 });
  spent();
  expect((await counted("DELETE", `${at}/${alertId}`, { key: env.ADMIN_TOKEN })).status).toBe(200);
  expect(await left()).toBe(0);
  expect(spent().roundTrips).toBeGreaterThanOrEqual(5);
});

it("alerts are at most 20 an environment, even with thirty concurrent requests, and a deleted one makes room", async () => {
  const { send, alerts, count } = await world();
  const answers = await Promise.all(Array.from({ length: 30 }, () => send("POST", "/alerts", low)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  const refused = await send("POST", "/alerts", low);
  expectError(refused, "invalid_request");
  expect(refused.body.error.details).toEqual({ limit: 20 });
  expect(await count("alerts")).toBe(20);
  expect((await send("POST", "/alerts", { ...low, mode: "test" })).status).toBe(200);
  await send("DELETE", `/alerts/${(await alerts())[7].alertId}`);
  expect((await send("POST", "/alerts", low)).status).toBe(200);
});

it("notices of expiry are empty until they are set, are sorted by days in descending order, and are separate for each mode", async () => {
  const { appId, send } = await world();
  const read = async (mode: string) => (await send("GET", `/expiry-notices?mode=${mode}`)).body;
  expect(await read("live")).toEqual({ appId, mode: "live", days: [] });
  const set = await send("PUT", "/expiry-notices", { mode: "live", days: [7, 365, 1] });
  expect([set.status, set.body]).toEqual([200, { appId, mode: "live", days: [365, 7, 1] }]);
  expect(await read("live")).toEqual(set.body);
  expect(await read("test")).toEqual({ appId, mode: "test", days: [] });
  expect((await send("PUT", "/expiry-notices", { mode: "live", days: [] })).body.days).toEqual([]);
  expect((await read("live")).days).toEqual([]);
});

it("notices of expiry keep the start of a number that stays, and start a new number at the present time", async () => {
  const { appId, clock, send } = await world();
  await send("PUT", "/expiry-notices", { mode: "live", days: [7, 1] });
  clock.advance(1_000);
  await send("PUT", "/expiry-notices", { mode: "live", days: [30, 7] });
  const { results } = await env.DB.prepare(
    `SELECT n.days, n.since_ms FROM environments AS e CROSS JOIN expiry_notices AS n ON n.environment_id = e.id
       WHERE e.app_id = ? ORDER BY n.days`,
  )
    .bind(appId)
    .raw()
    .then((rows) => ({ results: rows }));
  expect(results).toEqual([
    [7, clock.ms - 1_000],
    [30, clock.ms],
  ]);
});

it.each([
  ["a number that is not whole", [1.5], "days[0]"],
  ["0", [0], "days[0]"],
  ["a number above 365", [7, 366], "days[1]"],
  ["a text", ["7"], "days[0]"],
  ["a number twice", [7, 7], "days"],
  ["eleven numbers", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], "days"],
  ["a number instead of a list", 7, "days"],
])("notices of expiry refuse %s, and nothing is written", async (_, days, param) => {
  const { send, count } = await world();
  expectError(await send("PUT", "/expiry-notices", { mode: "live", days }), "invalid_request", param);
  expect(await count("expiry_notices")).toBe(0);
});
