import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { DAY_MS, iso } from "../../../src/lib/time.ts";
import { auditOf, documentOf, linkTo, open, readDocument } from "../../support/exports.ts";
import { faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { send } from "../../support/people.ts";
import { describeRejections, expectError } from "../../support/rejections.ts";
import { seedAnalytics, seedBalances, seedConsents, seedPerson, seedUsage } from "../../support/seed-rows.ts";
import { type Client, Clock, makeApp, makeClient, makePack, type TestApp } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const PERSON = "/api/v1/export-person";

async function mint(call: Client, app: TestApp, distinctId: string): Promise<string> {
  const { status, body } = await call("POST", PERSON, { key: app.keys.sk_live, body: { distinctId } });
  expect(status).toBe(200);
  return body.downloadUrl;
}

describeRejections("POST /api/v1/export-person", {
  prepare: () => ({ method: "POST", path: PERSON, body: { distinctId: "ana" } }),
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body.format).toBe("json"),
});

it("creating a link returns a link on the request's origin, valid for 24 hours, and records the key", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const answer = await call("POST", `https://purser.example.com${PERSON}`, {
    key: app.keys.sk_live,
    body: { distinctId: "Zoë" },
  });
  const { downloadUrl, ...rest } = answer.body;
  expect(rest).toEqual({ expiresAt: iso(clock.ms + DAY_MS), format: "json" });
  expect(downloadUrl).toMatch(/^https:\/\/purser\.example\.com\/api\/v1\/export-download\?token=[\w-]+\.[\w-]{43}$/);
  const { results } = await env.DB.prepare("SELECT * FROM export_audit WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all();
  expect(results).toMatchObject([{ distinct_id: "Zoë", seq: 1, action: "minted", occurred_at_ms: clock.ms }]);
  expect(JSON.stringify(results)).not.toContain(downloadUrl.split("token=")[1]);
});

it("creating a link returns a link on the configured origin, whatever host the request names", async () => {
  const app = await makeApp();
  for (const PUBLIC_ORIGIN of ["https://credits.example.com", "https://credits.example.com/"]) {
    const call = makeClient(new Clock(), { PUBLIC_ORIGIN });
    const options = { key: app.keys.sk_live, body: { distinctId: "ana" }, headers: { host: "evil.example" } };
    const { body } = await call("POST", `https://evil.example${PERSON}`, options);
    expect(new URL(body.downloadUrl).origin).toBe("https://credits.example.com");
  }
});

it.each(["credits.example.com", "https://credits.example.com/purser", "ftp://example.com", "https://a@b.example"])(
  "creating a link fails closed if the configured origin is malformed: %s",
  async (PUBLIC_ORIGIN) => {
    const app = await makeApp();
    const call = makeClient(new Clock(), { PUBLIC_ORIGIN });
    expectError(
      await call("POST", PERSON, { key: app.keys.sk_live, body: { distinctId: "ana" } }),
      "export_unavailable",
    );
    expect(await auditOf(app, "ana")).toEqual([]);
  },
);

it("creating a link is rejected for an id that is empty, too long or malformed, and with a misspelt field", async () => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  const attempts = ["", "x".repeat(201), "🦊".repeat(201), "a\u0000b", "a\u007fb", "\ud800", 7, null, undefined];
  for (const distinctId of attempts) {
    expectError(
      await call("POST", PERSON, { key: keys.sk_live, body: { distinctId } }),
      "invalid_request",
      "distinctId",
    );
  }
  const body = { distinctId: "ana", distinctID: "ana" };
  expectError(await call("POST", PERSON, { key: keys.sk_live, body }), "invalid_request", "distinctID");
  expect((await call("POST", PERSON, { key: keys.sk_live, body: { distinctId: "🦊".repeat(200) } })).status).toBe(200);
});

it("creating a link fails without a secret of 16 characters, as a download does, while other calls work", async () => {
  const app = await makeApp();
  const link = await linkTo(app, "ana", new Clock());
  for (const secret of ["", "fifteen-charact", "🦊".repeat(15)]) {
    const call = makeClient(new Clock(), { ANALYTICS_EXPORT_SECRET: secret });
    const request = { key: app.keys.sk_live, body: { distinctId: "ana" } };
    expectError(await call("POST", PERSON, request), "export_unavailable");
    expectError(await call("GET", link), "export_unavailable");
    expectError(await call("GET", "/api/v1/export-download?token=nonsense"), "export_unavailable");
    expect((await call("GET", "/api/v1/credits?userId=ana", { key: request.key })).status).toBe(200);
  }
});

const HEADERS = {
  "cache-control": "no-store, private, no-transform",
  "referrer-policy": "no-referrer",
  "content-disposition": 'attachment; filename="person-export.json"',
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  "x-robots-tag": "noindex",
};

it("a link can be opened repeatedly until it expires, with headers that keep it private", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const link = await mint(call, app, "ana");
  clock.advance(DAY_MS);
  for (const headers of [{}, { origin: "https://evil.example", "x-d1-bookmark": "x" }] as Record<string, string>[]) {
    const answer = await call("GET", `${link}&utm_source=mail`, { headers });
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject(HEADERS);
    for (const name of ["access-control-allow-origin", "x-d1-bookmark", "set-cookie"]) {
      expect(answer.headers.has(name)).toBe(false);
    }
  }
  expect(await auditOf(app, "ana")).toEqual(["minted", "opened", "completed", "opened", "completed"]);
  clock.advance(1);
  expectError(await call("GET", link), "invalid_or_expired_token");
});

it("a link sends the exact content-length of a small document", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana"]);
  await seedAnalytics(app.environments.live, "ana", ['{"text":"Zoë 🦊"}']);
  const response = await open(await linkTo(app, "ana", clock), clock);
  const bytes = await response.arrayBuffer();
  expect(response.headers.get("content-length")).toBe(`${bytes.byteLength}`);
  expect(response.headers.get("content-type")).toBe("application/json");
  readDocument(new TextDecoder().decode(bytes));
});

it("a link with an invalid token of any kind gets the same 401, and nothing is recorded", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const link = await linkTo(app, "ana", clock);
  const stranger = await linkTo({ ...app, appId: "app_unknown" }, "ana", clock);
  const token = link.split("token=")[1] ?? "";
  const path = "/api/v1/export-download";
  const wrong = [
    path,
    `${path}?token=`,
    `${path}?token=${token.slice(0, -1)}`,
    `${path}?token=${token}%3D`,
    `${path}?token=%20${token}`,
    `${path}?token=+${token}`,
    `${path}?token=%E0%A4%A`,
    `${path}?token=${token}&token=${token}`,
    `${path}?token=&token=${token}`,
    `${path}?Token=${token}`,
    `${path}#token=${token}`,
    stranger,
  ];
  const bodies = new Set<string>();
  for (const url of wrong) {
    const answer = await call("GET", url);
    expectError(answer, "invalid_or_expired_token");
    expect(Object.fromEntries(answer.headers)).toMatchObject(HEADERS);
    bodies.add(JSON.stringify({ ...answer.body.error, requestId: "" }));
  }
  expect(bodies.size).toBe(1);
  expect(await auditOf(app, "ana")).toEqual([]);
});

it("a link can be verified by HEAD, which records nothing and reads nothing for an invalid token", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const link = await linkTo(app, "ana", clock);
  const response = await open(link, clock, env.DB, "HEAD");
  expect(response.status).toBe(200);
  expect(await response.text()).toBe("");
  expect(Object.fromEntries(response.headers)).toMatchObject(HEADERS);
  const unused = {} as D1Database;
  Object.assign(unused, { withSession: () => ({ prepare: null, batch: null, getBookmark: () => null }) });
  expect((await open(`${link}x`, clock, unused, "HEAD")).status).toBe(401);
  expect((await open(await linkTo({ ...app, appId: "app_unknown" }, "ana", clock), clock, env.DB, "HEAD")).status).toBe(
    401,
  );
  expect(await auditOf(app, "ana")).toEqual([]);
});

it("a link rejects other methods", async () => {
  const call = makeClient(new Clock());
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
    const answer = await call(method, "/api/v1/export-download?token=x");
    expectError(answer, "method_not_allowed");
    expect(answer.headers.get("allow")).toBe("GET, HEAD");
    expect(Object.fromEntries(answer.headers), method).toMatchObject(HEADERS);
  }
});

it("a link has its private headers in every response: without a secret, for a busy database, for a bug", async () => {
  for (const level of ["warn", "error"] as const) vi.spyOn(console, level).mockImplementation(() => {});
  const app = await makeApp();
  const link = await linkTo(app, "ana", new Clock());
  const busy = faultyD1(env.DB);
  busy.plan({ fault: "overloaded", at: 1, persists: true });
  const answers = [
    await makeClient(new Clock(), { ANALYTICS_EXPORT_SECRET: "" })("GET", link),
    await makeClient(new Clock(), { ANALYTICS_EXPORT_SECRET: "" })("HEAD", link),
    await makeClient(new Clock(), { DB: busy.d1 })("GET", link),
    await makeClient(new Clock(), { DB: {} as unknown as D1Database })("GET", link),
    await makeClient(new Clock())("HEAD", `${link}x`),
  ];
  vi.restoreAllMocks();
  expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 500, 401]);
  for (const { headers } of answers) expect(Object.fromEntries(headers)).toMatchObject(HEADERS);
});

it("a link signed with the previous secret still opens", async () => {
  const clock = new Clock();
  const call = makeClient(clock, {
    ANALYTICS_EXPORT_SECRET: "a-secret-that-came-later",
    ANALYTICS_EXPORT_SECRET_PREVIOUS: env.ANALYTICS_EXPORT_SECRET,
  });
  expect((await call("GET", await linkTo(await makeApp(), "ana", clock))).status).toBe(200);
});

it("the document has person: null and empty lists if there is no data but rows of the audit", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  await mint(call, app, "nobody");
  const nothing = {
    format: "json",
    exportedAt: iso(clock.ms),
    appId: app.appId,
    mode: "live",
    distinctId: "nobody",
    person: null,
    events: { analytics: [], metering: [] },
    consentLog: [],
  };
  expect(await documentOf(app, "nobody", clock)).toEqual(nothing);
  expect(await documentOf(app, "nobody", clock)).toEqual(nothing);
  // Anonymous events belong to nobody.
  await seedAnalytics(app.environments.live, "nobody", ['{"a":1}']);
  expect(await documentOf(app, "nobody", clock)).toEqual(nothing);
});

it("the document has a person without an id for somebody with only credits, usage or consents", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const { live } = app.environments;
  await seedBalances(live, "credits", 1);
  await seedUsage(live, "usage", 1);
  await seedConsents(live, "consents", 1);
  for (const id of ["credits", "usage", "consents"]) {
    const { person } = await documentOf(app, id, clock);
    expect(person, id).toMatchObject({ personId: null, distinctIds: [], properties: {}, isIdentified: false });
    expect(person?.exports).toMatchObject([{ action: "opened", distinctId: id, keyId: null }]);
  }
});

it("the document has everything that the endpoints received, of all ids of the person, and of no id that claims them", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const { sk_live: key } = app.keys;
  await makePack(app.appId, "Starter", [
    { amountMinor: 2_000_500, unit: "cents" },
    { amountMinor: 5_250, unit: "tokens", matches: [{ event: "chat.*" }] },
  ]);
  await send(call, key, [
    { event: "seen", distinct_id: "device", properties: { first: true } },
    { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "device", $set: { plan: "pro" } } },
  ]);
  const granting = { userId: "device", packId: "starter", externalRef: "order-1", notes: 'Hi "Ana"' };
  await call("POST", "/api/v1/credits/grant", { key, body: granting });
  clock.advance(1_234);
  const usage = {
    eventId: "e1",
    userId: "device",
    event: "chat.done",
    model: "m",
    quantities: { tokens: 2.5, cents: 1 },
  };
  const used = await call("POST", "/api/v1/usage/events", { key, body: { ...usage, properties: { room: 7 } } });
  expect(used.status).toBe(200);
  const partial = { eventId: "e2", userId: "ana", event: "mail", onShortage: "partial" };
  await call("POST", "/api/v1/usage/events", { key, body: partial });
  const consented = await call("POST", "/api/v1/consent", {
    key,
    body: {
      distinctId: "ana",
      purpose: "ads",
      decision: "denied",
      gpc: true,
      occurredAt: "2026-01-01T00:00:00+02:00",
    },
  });
  const listed = await call("GET", "/api/v1/credits?userId=device&includeExpired=true", { key });
  const history = await call("GET", "/api/v1/credits/history?userId=device", { key });

  const claimed = await documentOf(app, "device", clock);
  expect(claimed.person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual(["device"]);
  expect(claimed.events.analytics).toHaveLength(1);
  expect(claimed.events.metering).toHaveLength(1);
  expect(claimed.consentLog).toEqual([]);
  const { person, events, consentLog } = await documentOf(app, "ana", clock);
  expect(person?.credits).toEqual(claimed.person?.credits);
  expect(person).toMatchObject({ properties: { plan: "pro" }, isIdentified: true });
  expect(person?.distinctIds.map(({ distinctId, via }) => [distinctId, via])).toEqual([
    ["ana", null],
    ["device", "identify"],
  ]);
  const kept = { source: "purchase", externalRef: "order-1", notes: 'Hi "Ana"' };
  const issued: string[] = history.body.entries
    .toReversed()
    .flatMap((entry: { reason: string; balanceId: string }) => (entry.reason === "grant" ? [entry.balanceId] : []));
  const byIssue = (a: { balanceId: string }, b: { balanceId: string }) =>
    issued.indexOf(a.balanceId) - issued.indexOf(b.balanceId);
  expect(person?.credits.balances).toEqual(
    listed.body.credits.map((credit: { balanceId: string }) => ({ ...credit, ...kept })).sort(byIssue),
  );
  // The document does not name who wrote an entry.
  const written = history.body.entries.map(({ by: _, ...entry }: Record<string, unknown>) => entry);
  expect(person?.credits.ledger).toEqual(written.toReversed());
  expect(events.analytics.map(({ event, distinctId }) => [event, distinctId])).toEqual([
    ["$identify", "ana"],
    ["seen", "device"],
  ]);
  const at = iso(clock.ms);
  expect(events.metering).toEqual([
    {
      ...{ role: "payer", memberId: null },
      ...{ eventId: "e2", userId: "ana", event: "mail", model: null, quantities: { count: 1 }, properties: null },
      ...{ occurredAt: at, receivedAt: at, debits: [], uncovered: { count: 1 }, meters: null, priceVersion: null },
      ...{ role: "payer", memberId: null },
    },
    {
      ...{ role: "payer", memberId: null },
      ...usage,
      quantities: { count: 1, ...usage.quantities },
      ...{ properties: { room: 7 }, occurredAt: at, receivedAt: at, meters: null, priceVersion: null },
      ...{ role: "payer", memberId: null },
      ...{ debits: used.body.debits, uncovered: used.body.uncovered },
    },
  ]);
  expect(consentLog).toEqual([consented.body]);
});

it("the document has no rows of the other mode or of another application with the same ids", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const other = await makeApp();
  const environments = [app.environments.live, app.environments.test, other.environments.live];
  for (const [index, environment] of environments.entries()) {
    await seedPerson(environment, { properties: `{"twin":${index}}` }, ["ana", `device-${index}`]);
    for (const id of ["ana", `device-${index}`]) {
      await seedAnalytics(
        environment,
        id,
        Array.from({ length: 3 }, () => `{"twin":${index}}`),
      );
      await seedUsage(environment, id, 3);
      await seedConsents(environment, id, 3);
      await seedBalances(environment, id, 3);
    }
  }
  for (const key of [app.keys.sk_test, other.keys.sk_live]) {
    await call("POST", PERSON, { key, body: { distinctId: "ana" } });
  }
  const { person, events, consentLog } = await documentOf(app, "ana", clock);
  expect(person?.properties).toEqual({ twin: 0 });
  expect(person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual(["ana", "device-0"]);
  expect(events.analytics.map(({ properties }) => properties.twin)).toEqual([0, 0, 0, 0, 0, 0]);
  const lists = [events.metering, consentLog, person?.credits.balances, person?.credits.ledger];
  expect(lists.map((list) => list?.length)).toEqual([6, 6, 6, 6]);
  expect(person?.exports).toHaveLength(1);
  const ids = JSON.stringify([events, consentLog, person?.credits]);
  for (const [index, environment] of environments.entries()) {
    const { results } = await env.DB.prepare(
      `SELECT b.id FROM credit_balances AS b JOIN accounts AS a ON a.id = b.account_id WHERE a.environment_id = ?1
         UNION ALL SELECT id FROM consent_log WHERE environment_id = ?1
         UNION ALL SELECT event_id FROM usage_events WHERE environment_id = ?1
         UNION ALL SELECT uuid FROM analytics_events WHERE environment_id = ?1`,
    )
      .bind(environment.id)
      .all<{ id: string }>();
    expect(results.filter(({ id }) => ids.includes(`"${id}"`))).toHaveLength(index === 0 ? results.length : 0);
  }
});

it("the document has a published JSON Schema", async () => {
  const { status, body } = await makeClient(new Clock())("GET", "/api/v1/export-document.schema.json");
  expect(status).toBe(200);
  expect(body.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
  expect(body.required).toEqual(
    expect.arrayContaining(["format", "exportedAt", "appId", "mode", "distinctId", "person", "events", "consentLog"]),
  );
});
