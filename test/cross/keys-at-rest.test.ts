import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { randomId } from "../../src/lib/ids.ts";
import { runPart } from "../support/cron.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import type { Operation, Scene } from "../support/operation.ts";
import { operations } from "../support/operations.ts";
import { signatureOf } from "../support/payments.ts";
import { takeStripe } from "../support/send-stripe.ts";
import { AT_S, eventOf, session } from "../support/stripe-events.ts";
import { type Answer, bound, Clock, makeApp, makeClient, makePack, type TestApp } from "../support/world.ts";

// L1: no key and no signing secret is stored, whatever text of whatever request has it.

afterAll(expectLedgerInvariants);
vi.setConfig({ testTimeout: 120_000 });

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type JsonSchema = {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
};

interface ApiDocument {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { requestBody?: { content: Record<string, { schema: JsonSchema }> } }>>>
  >;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

let app: TestApp;
let document: ApiDocument;
/** A live secret key with an administration key, and a publishable key with a webhook's signing secret. */
let secretTexts: readonly string[] = [];
/** The characters by which a key is found, without its prefix. */
let traces: readonly string[] = [];

/** A request that an operation of the tests sent. */
interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body: Json;
}

function enter(): { scene: Scene; sent: Sent[] } {
  const clock = new Clock();
  const call = makeClient(clock, { TEST_BALANCE_QUOTA: "100000" });
  const sent: Sent[] = [];
  const scene: Scene = {
    userId: randomId("u_"),
    clock,
    send: (method, path, body, key = app.keys.sk_test, headers = {}) => {
      sent.push({ method, path, body: JSON.parse(JSON.stringify(body ?? null)) });
      return call(method, path, { key, headers, ...(body === undefined ? {} : { body }) });
    },
    appId: app.appId,
    publishableKey: app.keys.pk_test,
    cron: async ({ work }) => {
      await runPart(work, systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId }));
    },
  };
  return { scene, sent };
}

beforeAll(async () => {
  app = await makeApp();
  await makePack(app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  const call = makeClient(new Clock());
  document = (await call("GET", "/api/v1/openapi.json")).body;
  const admin = (path: string, body: object) => call("POST", `/api/v1/admin/${path}`, { key: env.ADMIN_TOKEN, body });
  const { key } = (await admin("keys", { name: "ops", scopes: ["read"] })).body;
  // An endpoint makes messages of what others do.
  const endpoint = { mode: "test", url: "https://example.com/hook", types: ["**"] };
  const { secret } = (await admin(`apps/${app.appId}/webhooks`, endpoint)).body;
  secretTexts = [`${app.keys.sk_live} ${key}`, `${app.keys.pk_live} ${secret}`];
  traces = [app.keys.sk_live, app.keys.pk_live, key, secret].map((text) => text.slice(text.lastIndexOf("_") + 1, -4));
});

const templateOf = ({ method, path }: Sent): string | undefined =>
  Object.keys(document.paths).find((template) => {
    const pattern = new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}/?$`);
    return pattern.test(path.split("?")[0] ?? "") && document.paths[template]?.[method.toLowerCase()] !== undefined;
  });

const isText = ({ type, format, enum: values, const: only }: JsonSchema): boolean =>
  [type].flat().includes("string") && format === undefined && values === undefined && only === undefined;

interface Change {
  readonly place: string;
  readonly body: (text: string) => Json;
}

const alternatives = (schema: JsonSchema): JsonSchema[] => {
  const { $ref, anyOf = [], oneOf = [] } = schema;
  if ($ref !== undefined) return alternatives(document.components.schemas[$ref.split("/").at(-1) ?? ""] ?? {});
  const parts = [...anyOf, ...oneOf];
  return parts.length === 0 ? [schema] : parts.flatMap(alternatives);
};

/** Returns each change of a body that puts a text where the schema takes one, also into optional fields that the body lacks. */
function changesOf(schema: JsonSchema, value: Json | undefined, place: string): Change[] {
  return alternatives(schema).flatMap((each): Change[] => {
    if (isText(each)) {
      return [{ place, body: (text) => (typeof value === "string" ? `${value} ${text}`.trim() : text) }];
    }
    if (each.items !== undefined) {
      const [first, ...others] = Array.isArray(value) ? value : [];
      return changesOf(each.items, first, `${place}[]`).map(({ place, body }) => ({
        place,
        body: (text) => [body(text), ...others],
      }));
    }
    if (each.type !== "object") return [];
    const fields: Readonly<Record<string, Json>> =
      typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, Json>) : {};
    if (each.properties === undefined) {
      // Any object. Keys stand in names and values, alone and in longer texts, and as escapes.
      return [{ place, body: (text) => ({ ...fields, [text]: [`a ${text}b`], deep: { x: [text] } }) }];
    }
    return Object.entries(each.properties).flatMap(([name, property]) =>
      changesOf(property, fields[name], `${place}.${name}`).map(({ place, body }) => ({
        place,
        body: (text) => ({ ...fields, [name]: body(text) }),
      })),
    );
  });
}

const schemaOf = (template: string, method: string): JsonSchema | undefined => {
  const content = document.paths[template]?.[method.toLowerCase()]?.requestBody?.content ?? {};
  return Object.entries(content).find(([type]) => type === "application/json")?.[1].schema;
};

/** The tables and columns where one of the keys is stored, without the rows of earlier applications. */
async function findKeys(): Promise<string[]> {
  // The ids of environments and accounts rise.
  const since = `environment_id >= ${app.environments.live.id}`;
  const scopes = {
    environment_id: since,
    account_id: `account_id >= (SELECT min(id) FROM accounts WHERE ${since})`,
    app_id: `app_id IN (SELECT app_id FROM environments WHERE id >= ${app.environments.live.id})`,
  };
  const { results } = await env.DB.prepare(
    `SELECT m.name AS name, c.name AS field FROM sqlite_schema AS m CROSS JOIN pragma_table_info(m.name) AS c
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE '_cf_%' AND m.name NOT LIKE 'd1_%'`,
  ).all<{ name: string; field: string }>();
  const tables = Map.groupBy(results, ({ name }) => name);
  const statements = [...tables].map(([name, columns]) => {
    const any = (field: string) => traces.map((_, n) => `instr("${field}", ?${n + 1}) > 0`).join(" OR ");
    const sums = columns.map(({ field }) => `coalesce(sum(${any(field)}), 0) AS "${field}"`);
    const [, scope = "1"] = Object.entries(scopes).find(([key]) => columns.some(({ field }) => field === key)) ?? [];
    return env.DB.prepare(`SELECT '${name}' AS "of", ${sums.join()} FROM "${name}" WHERE ${scope}`).bind(...traces);
  });
  return (await env.DB.batch<Record<string, number | string>>(statements)).flatMap(({ results: [row = {}] }) =>
    Object.entries(row).flatMap(([field, count]) => (Number(count) > 0 ? [`${row.of}.${field}`] : [])),
  );
}

/** Runs an operation again with a changed body in its last request. Its other requests are sent as they are. */
async function runChanged(operation: Operation, change: (sent: Sent) => Json): Promise<Answer | null> {
  const { scene } = enter();
  let isLast = false;
  let answer: Answer | null = null;
  const changed: Scene = {
    ...scene,
    send: async (method, path, body, ...rest) => {
      if (!isLast || body === undefined) return scene.send(method, path, body, ...rest);
      answer = await scene.send(
        method,
        path,
        change({ method, path, body: JSON.parse(JSON.stringify(body)) }),
        ...rest,
      );
      return answer;
    },
  };
  const run = await operation.prepare(changed);
  isLast = true;
  await run().catch(() => null);
  return answer;
}

interface OtherRequest {
  readonly method?: "PUT" | "PATCH";
  readonly path: string;
  readonly body: object;
  /** Default: the administrator's token. */
  readonly key?: "sk" | "pk" | "body";
}

/** The requests with a body that `operations` has not. */
async function otherRequests(): Promise<OtherRequest[]> {
  const { scene } = enter();
  const admin = async (path: string, body: object) => {
    const { status, body: made } = await scene.send("POST", `/api/v1/admin/${path}`, body, env.ADMIN_TOKEN);
    expect(status, JSON.stringify(made)).toBe(200);
    return made;
  };
  const apps = `/api/v1/admin/apps/${app.appId}`;
  const ofApp = `apps/${app.appId}`;
  const mode = "test";
  const limit = { mode, name: "Cap", unit: "tokens", matches: [{ event: "*" }], amount: 5, every: "day" };
  const alert = { mode, name: "Low", unit: "tokens", below: { amount: 1 } };
  const endpoint = { mode, url: "https://example.com/other" };
  const { limitId } = await admin(`${ofApp}/usage-limits`, limit);
  const { alertId } = await admin(`${ofApp}/alerts`, alert);
  const { webhookId } = await admin(`${ofApp}/webhooks`, endpoint);
  const event = { uuid: crypto.randomUUID(), event: "seen", distinct_id: "u", properties: {} };
  const v1 = { ...event, timestamp: "2026-01-15T12:00:00Z" };
  const usage = { eventId: "e", userId: "u", event: "seen", quantities: { count: 0 } };
  return [
    { path: `${apps}/usage-limits`, body: { ...limit, name: "Another" } },
    { method: "PATCH", path: `${apps}/usage-limits/${limitId}`, body: { name: "Renamed" } },
    { path: `${apps}/alerts`, body: alert },
    { method: "PATCH", path: `${apps}/alerts/${alertId}`, body: { name: "Lower" } },
    { path: `${apps}/webhooks`, body: endpoint },
    { method: "PATCH", path: `${apps}/webhooks/${webhookId}`, body: { description: "ours" } },
    {
      method: "PUT",
      path: `${apps}/prices`,
      body: { mode, rules: [{ event: "chat", model: "m", unit: "cents", perEvent: 1 }], note: "n" },
    },
    {
      method: "PUT",
      path: `${apps}/unit-names`,
      body: { mode, names: { count: { one: "credit", other: "credits" } } },
    },
    { path: `${apps}/packs`, body: { packName: randomId("p"), items: [], unit: "count" } },
    { path: `${apps}/tombstones/forget`, body: { mode, fingerprint: "unknown" } },
    { path: `${apps}/payments/carry`, body: { mode, customer: "cus_1", currency: "usd", amount: "0" } },
    { path: `${apps}/statements`, body: { mode, month: "2025-11" } },
    { path: `${apps}/verify`, body: { mode } },
    { path: "/api/v1/admin/keys", body: { name: "ops", scopes: ["read"], apps: [app.appId] } },
    { path: "/api/v1/erase-person", body: { distinctId: "u", dryRun: true }, key: "sk" },
    { path: "/api/v1/export-person/revoke", body: { distinctId: "u" }, key: "sk" },
    { path: "/api/v1/usage/events/batch", body: [usage], key: "sk" },
    { path: "/api/v1/usage/price", body: { event: "chat", model: "large", meters: { input: 1 } }, key: "sk" },
    { path: "/i/v1/analytics/events", body: { batch: [v1] }, key: "pk" },
    ...["/batch", "/e", "/i/v0/e", "/capture", "/track", "/engage"].map((path): OtherRequest => {
      return { path: `${path}/`, body: { api_key: app.keys.pk_test, ...event }, key: "body" };
    }),
    ...["/flags", "/decide"].map((path): OtherRequest => {
      return { path: `${path}/`, body: { token: app.keys.pk_test, distinct_id: "u" }, key: "body" };
    }),
  ];
}

it("stores no key and no signing secret, whichever text of whichever operation has it", async () => {
  /** The statuses by the place of the text. */
  const tried = new Map<string, string>();
  const noteStatuses = (place: string, statuses: readonly number[]) =>
    tried.set(place, [...new Set(statuses)].sort().join());
  const placesOf = (sent: Sent) => {
    const template = templateOf(sent);
    const schema = template === undefined ? undefined : schemaOf(template, sent.method);
    const changes = schema === undefined ? [] : changesOf(schema, sent.body, `${sent.method} ${template} `);
    return changes.map(({ place, body }, index) => ({ place, body, index, schema }));
  };
  for (const operation of operations) {
    const { scene, sent } = enter();
    const run = await operation.prepare(scene);
    sent.length = 0;
    await run().catch(() => null);
    const last = sent.find(({ body }) => body !== null);
    if (last === undefined) continue;
    for (const { place, index, schema } of placesOf(last)) {
      if (tried.has(place) || schema === undefined) continue;
      const statuses: number[] = [];
      for (const text of secretTexts) {
        const change = (now: Sent) => changesOf(schema, now.body, place)[index]?.body(text) ?? null;
        const answer = await runChanged(operation, change);
        if (answer !== null) statuses.push(answer.status);
      }
      noteStatuses(place, statuses);
    }
  }
  const { scene } = enter();
  for (const { method = "POST", path, body, key } of await otherRequests()) {
    const keys = { sk: app.keys.sk_test, pk: app.keys.pk_test, body: "" };
    const send = (sent: Json) => scene.send(method, path, sent, key === undefined ? env.ADMIN_TOKEN : keys[key]);
    for (const { place, body: changed } of placesOf({ method, path, body: JSON.parse(JSON.stringify(body)) })) {
      if (tried.has(place)) continue;
      const answers = await Promise.all(secretTexts.map((text) => send(changed(text))));
      noteStatuses(
        place,
        answers.map(({ status }) => status),
      );
    }
  }
  const all = Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.keys(methods).flatMap((method) => {
      const schema = schemaOf(template, method);
      return schema === undefined ? [] : changesOf(schema, undefined, `${method.toUpperCase()} ${template} `);
    }),
  );
  expect(all.map(({ place }) => place).filter((place) => !tried.has(place))).toEqual([]);
  expect(await findKeys()).toEqual([]);

  // Everything else is an id or a name, which is rejected: without its key it would be another one.
  const taken = [...tried].flatMap(([place, statuses]) => (statuses === "200" ? [place] : []));
  expect(taken.filter((place) => place.includes(" /api/") && !place.includes("/batch")).sort()).toEqual([
    "PATCH /api/v1/admin/apps/{appId}/webhooks/{webhookId} .description",
    "POST /api/v1/admin/apps/{appId}/webhooks .description",
    "POST /api/v1/admin/balances/{balanceId}/adjust .note",
    ...["method", "noticeVersion", "source"].map((name) => `POST /api/v1/consent .${name}`),
    "POST /api/v1/credits/grant .notes",
    "POST /api/v1/credits/plan .properties",
    "POST /api/v1/credits/recurring/{recurringId}/cancel .reason",
    "POST /api/v1/credits/refund .reason",
    "POST /api/v1/credits/revoke .reason",
    "POST /api/v1/usage/events .properties",
    "POST /api/v1/usage/reservations/{reservationId}/commit .properties",
    // It is sealed before it is stored.
    "PUT /api/v1/admin/apps/{appId}/end-user-auth .setting.secret",
    "PUT /api/v1/admin/apps/{appId}/prices .note",
  ]);
});

const [hintedSecret, hintedPublic] = ["sk_live_…", "pk_live_…"];

it("answers the entry of a consent as it is stored, with the hint in place of a key", async () => {
  const { scene } = enter();
  const source = `https://shop.example.com/?key=${app.keys.pk_live}&page=2`;
  const body = { distinctId: scene.userId, purpose: "ads", decision: "denied", source };
  const answer = await scene.send("POST", "/api/v1/consent", body);
  const expected = `https://shop.example.com/?key=${hintedPublic}${app.keys.pk_live.slice(-4)}&page=2`;
  expect([answer.status, answer.body.source]).toEqual([200, expected]);
  const { results } = await env.DB.prepare("SELECT source FROM consent_log WHERE distinct_id = ?")
    .bind(scene.userId)
    .all();
  expect(results).toEqual([{ source: expected }]);
});

it("names the argument when an id has a key, and repeats nothing of it", async () => {
  const { scene } = enter();
  const body = { userId: scene.userId, packId: "Two", externalRef: `order ${app.keys.sk_live}` };
  const { status, body: answer } = await scene.send("POST", "/api/v1/credits/grant", body);
  expect([status, answer.error.code, answer.error.param]).toEqual([400, "invalid_request", "externalRef"]);
  expect(JSON.stringify(answer)).not.toContain(app.keys.sk_live.slice(-10));
});

it("replaces keys in the names and values of usage properties, at any depth and size, also in messages and lists", async () => {
  const { scene } = enter();
  const [secret = "", publishable = ""] = secretTexts;
  const properties = {
    url: `https://example.com/?key=${app.keys.sk_live}&b=1`,
    [secret]: { list: [1, [publishable, { [publishable]: null }]] },
    long: `${"x".repeat(9_000)}${app.keys.sk_live}${"y".repeat(9_000)}`,
  };
  const eventId = randomId("e_");
  const event = { eventId, userId: scene.userId, event: "chat.done", quantities: { count: 0 }, properties };
  const recorded = await scene.send("POST", "/api/v1/usage/events", event);
  expect(recorded.status).toBe(200);
  // The same bytes again are the same request.
  const again = await scene.send("POST", "/api/v1/usage/events", event);
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
  const [listed] = (await scene.send("GET", `/api/v1/usage/events?userId=${scene.userId}`)).body.events;
  const hint = `${hintedSecret}${app.keys.sk_live.slice(-4)}`;
  expect(listed.properties.url).toBe(`https://example.com/?key=${hint}&b=1`);
  expect(listed.properties.long).toBe(`${"x".repeat(9_000)}${hint}${"y".repeat(9_000)}`);
  for (const trace of traces) expect(JSON.stringify(listed)).not.toContain(trace);
  const { results } = await env.DB.prepare("SELECT data FROM webhook_messages WHERE subject = ?")
    .bind(scene.userId)
    .all<{ data: string }>();
  expect(results.map(({ data }) => JSON.parse(data).eventId)).toContain(eventId);
  for (const trace of traces) expect(JSON.stringify(results)).not.toContain(trace);
  expect(await findKeys()).toEqual([]);
});

it("stores no key that a checkout's metadata or its reference has, and grants nothing to an id with a key", async () => {
  const { scene } = enter();
  const call = makeClient(scene.clock);
  await takeStripe(call, app.appId);
  for (const [index, text] of secretTexts.entries()) {
    const metadata = { pack: `Two ${text}`, quantity: `5 ${text}` };
    for (const [name, fields] of Object.entries({
      pack: { client_reference_id: scene.userId, metadata },
      user: { client_reference_id: text, metadata: { pack: "Two" } },
    })) {
      const event = eventOf("checkout.session.completed", AT_S, session(`cs_${name}_${index}`, fields));
      const body = JSON.stringify(event);
      const headers = { "stripe-signature": await signatureOf(body, scene.clock) };
      const answer = await call("POST", `/api/v1/stripe/${app.appId}/live`, { body, headers });
      expect([answer.status, answer.body.outcome]).toEqual([200, "unmatched"]);
    }
  }
  expect(await findKeys()).toEqual([]);
  const { results } = await env.DB.prepare(
    "SELECT count(*) AS accounts FROM accounts WHERE environment_id = ? AND user_id LIKE '%_live_%'",
  )
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ accounts: 0 }]);
});
