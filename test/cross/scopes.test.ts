import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { createWorkerApp } from "../../src/app.ts";
import { SCOPES } from "../../src/auth/scopes.ts";
import type { Mode, Scope } from "../../src/runtime.ts";
import { makeAdminKey } from "../support/admin-keys.ts";
import { ADMIN } from "../support/paths.ts";
import { expectError } from "../support/rejections.ts";
import { type Answer, Clock, makeApp, makeClient, makeOpenAmountPack, type TestApp } from "../support/world.ts";

// Calls every administration route with every scope, in its own application and mode and in another.

const clock = new Clock();
const call = makeClient(clock);
const all = Object.keys(SCOPES) as Scope[];
const other: Readonly<Record<Mode, Mode>> = { live: "test", test: "live" };

let app: TestApp;
let strange: TestApp;
let packId = "";
const keys = new Map<string, string>();

/** A key with these scopes. Each key is created once. */
async function keyOf(scopes: readonly Scope[], apps?: readonly string[], modes?: readonly Mode[]): Promise<string> {
  const name = JSON.stringify([scopes, apps, modes]);
  const limits = { ...(apps === undefined ? {} : { apps }), ...(modes === undefined ? {} : { modes }) };
  const key = keys.get(name) ?? (await makeAdminKey(call, { scopes, ...limits })).key;
  keys.set(name, key);
  return key;
}

beforeAll(async () => {
  app = await makeApp();
  strange = await makeApp();
  packId = await makeOpenAmountPack(app.appId, "Pack", "tokens");
});

const byToken = async (method: string, path: string, body?: object): Promise<Answer> => {
  const answer = await call(method, ADMIN + path, { key: env.ADMIN_TOKEN, ...(body === undefined ? {} : { body }) });
  expect(answer.status).toBe(200);
  return answer;
};

/** Creates a row that a path names, in a mode. */
const rows: Readonly<Record<string, (mode: Mode) => Promise<string>>> = {
  keyId: async (mode) => (await byToken("POST", `/apps/${app.appId}/keys`, { kind: "secret", mode })).body.keyId,
  publishableKeyId: async (mode) =>
    (await byToken("POST", `/apps/${app.appId}/keys`, { kind: "publishable", mode })).body.keyId,
  webhookId: async (mode) => {
    const listed = await byToken("GET", `/apps/${app.appId}/webhooks?mode=${mode}`);
    const [first] = listed.body.webhooks;
    if (first !== undefined) return first.webhookId;
    const body = { mode, url: "https://example.com/hooks?secret=1", types: ["**"] };
    return (await byToken("POST", `/apps/${app.appId}/webhooks`, body)).body.webhookId;
  },
  alertId: async (mode) => {
    const body = { mode, name: "Low", unit: "tokens", below: { amount: 1 } };
    return (await byToken("POST", `/apps/${app.appId}/alerts`, body)).body.alertId;
  },
  version: async (mode) => {
    const body = {
      mode,
      rules: [],
      effectiveAt: new Date(clock.now() + 1_000).toISOString(),
      note: crypto.randomUUID(),
    };
    return (await byToken("PUT", `/apps/${app.appId}/prices`, body)).body.version;
  },
  limitId: async (mode) => {
    const body = {
      mode,
      name: crypto.randomUUID(),
      unit: "tokens",
      matches: [{ event: "*" }],
      amount: 1,
      every: "day",
    };
    return (await byToken("POST", `/apps/${app.appId}/usage-limits`, body)).body.limitId;
  },
  statementId: async (mode) =>
    (await byToken("POST", `/apps/${app.appId}/statements`, { mode, month: "2025-11" })).body.statementId,
  balanceId: async (mode) => {
    const key = app.keys[`sk_${mode}`];
    const body = { userId: "u", packId, quantity: 10 };
    const granted = await call("POST", "/api/v1/credits/grant", { key, body });
    expect(granted.status).toBe(200);
    return granted.body.balances[0].balanceId;
  },
};

interface Row {
  readonly route: string;
  readonly scope: Scope;
  /** Where the request's mode comes from. `both`: the route needs a key without modes. */
  readonly mode: "argument" | "row" | "test" | "both" | "any";
  readonly body?: object;
  readonly query?: string;
  /** The entry of `rows` for `:keyId`. */
  readonly keyId?: string;
  /** The status with all rights. Default 200. */
  readonly status?: number;
}

const route = (scope: Scope, mode: Row["mode"], route: string, body?: object, more: Partial<Row> = {}): Row => ({
  ...{ route, scope, mode, ...more },
  ...(body === undefined ? {} : { body }),
});
const WEBHOOK = "/apps/:appId/webhooks/:webhookId";
const low = { name: "Low", unit: "tokens", below: { amount: 1 } };

const SPAN = "from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z";

const ROWS: readonly Row[] = [
  route("read", "both", "GET /apps"),
  route("read", "any", "GET /apps/:appId/keys"),
  route("read", "any", "GET /apps/:appId/packs"),
  route("read", "both", "GET /apps/:appId/audit"),
  route("read", "argument", "GET /apps/:appId/limits"),
  route("read", "test", "GET /apps/:appId/clock"),
  route("read", "argument", "GET /apps/:appId/stripe"),
  route("read", "argument", "GET /apps/:appId/webhooks"),
  route("read", "argument", "GET /apps/:appId/alerts"),
  route("read", "argument", "GET /apps/:appId/expiry-notices"),
  route("read", "argument", "GET /apps/:appId/end-user-auth"),
  route("read", "argument", "GET /apps/:appId/usage-limits"),
  route("read", "argument", "GET /apps/:appId/prices"),
  route("read", "argument", "GET /apps/:appId/prices/:version"),
  route("read", "argument", "GET /apps/:appId/unit-names"),
  ...["day", "event", "model"].map((by) =>
    route("read", "argument", "GET /apps/:appId/usage", undefined, { query: `${SPAN}&groupBy=${by}` }),
  ),

  route("read", "argument", "GET /apps/:appId/statements"),
  route("read", "row", "GET /apps/:appId/statements/:statementId"),

  route("people", "argument", "GET /apps/:appId/usage", undefined, { query: `${SPAN}&groupBy=user` }),
  route("people", "both", "GET /apps/:appId/audit", undefined, { query: "mode=live&userId=u" }),
  route("people", "argument", "GET /apps/:appId/stripe/events"),
  route("people", "argument", "GET /apps/:appId/payments"),
  route("people", "argument", "POST /apps/:appId/verify", {}),
  route("people", "row", `GET ${WEBHOOK}/deliveries`),
  route("people", "row", "GET /apps/:appId/alerts/:alertId/users"),

  route("write", "both", "POST /apps/:appId/packs", { packName: "New", items: [], unit: "count" }),
  route("write", "both", "PATCH /apps/:appId/packs/:packId", { packName: "Pack" }),
  route("write", "both", "POST /apps/:appId/packs/:packId/archive"),
  route("write", "both", "POST /apps/:appId/packs/:packId/restore"),
  route("write", "argument", "POST /apps/:appId/alerts", low),
  route("write", "row", "PATCH /apps/:appId/alerts/:alertId", { name: "Lower" }),
  route("write", "row", "DELETE /apps/:appId/alerts/:alertId"),
  route("write", "argument", "PUT /apps/:appId/expiry-notices", { days: [7] }),
  route("write", "argument", "POST /apps/:appId/usage-limits", {
    ...{ name: "Cap", unit: "tokens", matches: [{ event: "*" }], amount: 5, every: "day" },
  }),
  route("write", "argument", "PUT /apps/:appId/prices", { rules: [{ unit: "cents", perEvent: 1 }] }),
  route("write", "argument", "DELETE /apps/:appId/prices/:version"),
  route("write", "argument", "PUT /apps/:appId/unit-names", { names: {} }),
  route("write", "argument", "POST /apps/:appId/statements", { month: "2025-12" }),
  route("write", "row", "PATCH /apps/:appId/usage-limits/:limitId", { amount: 7 }),
  route("write", "row", "DELETE /apps/:appId/usage-limits/:limitId"),

  route("grants", "row", "POST /balances/:balanceId/adjust", { delta: 1, note: "Sorry" }),
  route(
    "grants",
    "argument",
    "POST /apps/:appId/payments/pay_none/settle",
    { userId: "u", packId: "cpk_none" },
    { status: 404 },
  ),

  route(
    "grants",
    "argument",
    "POST /apps/:appId/payments/carry",
    { customer: "cus_none", currency: "usd", amount: 0 },
    { status: 404 },
  ),

  route("settings", "both", "POST /apps", { name: "Another" }),
  route("settings", "argument", "POST /apps/:appId/keys", { kind: "publishable" }),
  route("settings", "row", "DELETE /apps/:appId/keys/:keyId", undefined, { keyId: "publishableKeyId" }),
  route("settings", "argument", "PUT /apps/:appId/limits", { analytics: null }),
  route("settings", "test", "PUT /apps/:appId/clock", { now: "2026-03-01T00:00:00Z" }),
  route("settings", "test", "DELETE /apps/:appId/clock"),

  route("access", "argument", "POST /apps/:appId/keys", { kind: "secret" }),
  route("access", "argument", "POST /apps/:appId/keys", { kind: "relay" }),
  route("access", "row", "DELETE /apps/:appId/keys/:keyId"),
  route("access", "argument", "PUT /apps/:appId/end-user-auth", { setting: null }),
  route("access", "argument", "PUT /apps/:appId/stripe", { setting: null }),
  route("access", "argument", "POST /apps/:appId/webhooks", { url: "https://example.com/hooks", types: ["**"] }),
  route("access", "row", `PATCH ${WEBHOOK}`, { description: "Changed" }),
  route("access", "row", `POST ${WEBHOOK}/rotate`),
  route("access", "row", `POST ${WEBHOOK}/test`),
  route("access", "row", `POST ${WEBHOOK}/replay`, { from: "2026-01-01T00:00:00Z" }),
  route("access", "row", `POST ${WEBHOOK}/deliveries/msg_none/resend`, undefined, { status: 404 }),
  route("access", "row", `DELETE ${WEBHOOK}`),
];

/** Prepares a call of a route in a mode, with new rows for the names in its path. */
async function prepare({ route, mode: modeOf, body, query = "", keyId = "keyId" }: Row, mode: Mode) {
  const [method = "", pattern = ""] = route.split(" ");
  let path = pattern.replace(":appId", app.appId).replace(":packId", packId);
  for (const [, name = ""] of pattern.matchAll(/:(\w+)/g)) {
    const make = rows[name === "keyId" ? keyId : name];
    if (make !== undefined) path = path.replace(`:${name}`, await make(mode));
  }
  const queries = [query, modeOf === "argument" && body === undefined ? `mode=${mode}` : ""].filter(
    (text) => text !== "",
  );
  const sent = body === undefined ? undefined : { ...body, ...(modeOf === "argument" ? { mode } : {}) };
  return (key: string) =>
    call(method, `${ADMIN}${path}${queries.length === 0 ? "" : `?${queries.join("&")}`}`, {
      key,
      ...(sent === undefined ? {} : { body: sent }),
    });
}

const forbids = (answer: Answer, details: object) => {
  expectError(answer, "forbidden");
  expect(answer.body.error.details).toEqual(details);
};

describe.each(ROWS)("$route by $scope", (row) => {
  const mode: Mode = row.mode === "test" ? "test" : "live";

  it("rejects every other scope, alone and all together, and names the missing one", async () => {
    const send = await prepare(row, mode);
    const others = all.filter((scope) => scope !== row.scope);
    for (const scopes of [...others.map((scope) => [scope]), others]) {
      forbids(await send(await keyOf(scopes)), { scope: row.scope });
    }
  });

  it("rejects a key of another application or another mode, or shows only the key's own data", async () => {
    const send = await prepare(row, mode);
    const elsewhere = await send(await keyOf(all, [strange.appId]));
    if (row.route === "GET /apps") {
      expect(elsewhere.body.apps.map((each: { appId: string }) => each.appId)).toEqual([strange.appId]);
    } else if (row.route.includes("/balances/")) expectError(elsewhere, "credit_balance_not_found");
    else forbids(elsewhere, { appId: row.route === "POST /apps" ? null : app.appId });
    const wrong = await send(await keyOf(all, undefined, [other[mode]]));
    if (row.mode === "any") expect(wrong.status).toBe(200);
    else forbids(wrong, { mode });
  });

  it("accepts a key that has only its scope, application and mode", async () => {
    const apps = row.route === "POST /apps" ? undefined : [app.appId];
    const modes = row.mode === "both" ? undefined : [mode];
    const send = await prepare(row, mode);
    const answer = await send(await keyOf([row.scope], apps, modes));
    expect([answer.status, answer.body?.error?.code]).toEqual([row.status ?? 200, answer.body?.error?.code]);
    expect(answer.body?.error?.code).not.toBe("forbidden");
  });
});

/** The Worker's administration routes. */
const routes = createWorkerApp()
  .routes.filter(({ method, path }) => method !== "ALL" && path.startsWith(`${ADMIN}/`))
  .map(({ method, path }) => `${method} ${path.slice(ADMIN.length)}`);
const ADMIN_TOKEN_ROUTES = [
  "POST /keys",
  "GET /keys",
  "DELETE /keys/:adminKeyId",
  "GET /audit",
  "POST /apps/:appId/tombstones/forget",
];

it("the table of scopes has every administration route, each tested above", () => {
  const tried = ROWS.map((row) => row.route.replace("pay_none", ":paymentKey").replace("msg_none", ":messageId"));
  expect([...new Set([...tried, ...ADMIN_TOKEN_ROUTES])].toSorted()).toEqual([...new Set(routes)].toSorted());
});

it("the table of scopes reserves administration keys, the deployment's audit and lost tombstones for the admin token", async () => {
  const key = await keyOf(all);
  const body = { name: "More", scopes: all };
  forbids(await call("POST", `${ADMIN}/keys`, { key, body }), {});
  forbids(await call("GET", `${ADMIN}/keys`, { key }), {});
  forbids(await call("DELETE", `${ADMIN}/keys/adk_none`, { key }), {});
  forbids(await call("GET", `${ADMIN}/audit`, { key }), {});
  const lost = { mode: "live", fingerprint: "x" };
  forbids(await call("POST", `${ADMIN}/apps/${app.appId}/tombstones/forget`, { key, body: lost }), {});
});
