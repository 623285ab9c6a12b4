import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { sha256 } from "../../../../src/lib/encoding.ts";
import { END_USER_SECRET, jwksSetting } from "../../../support/end-user-setting.ts";
import { ADMIN } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Client, Clock, home, makeApp, makeClient } from "../../../support/world.ts";

const FIREBASE = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com";
const key = env.ADMIN_TOKEN;

interface Route {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

const lowAlert = { mode: "live", name: "Low", unit: "tokens" };

/** One call of each route. The ids in it do not exist. */
const ROUTES: readonly Route[] = [
  { method: "POST", path: "/apps", body: { name: "Desk" } },
  { method: "GET", path: "/apps" },
  { method: "POST", path: "/apps/app_none/keys", body: { kind: "secret", mode: "live" } },
  { method: "GET", path: "/apps/app_none/keys" },
  { method: "DELETE", path: "/apps/app_none/keys/key_none" },
  { method: "PUT", path: "/apps/app_none/end-user-auth", body: { mode: "live", setting: null } },
  { method: "PUT", path: "/apps/app_none/limits", body: { mode: "live", analytics: null } },
  { method: "GET", path: "/apps/app_none/limits?mode=live" },
  { method: "POST", path: "/apps/app_none/alerts", body: { ...lowAlert, below: { amount: 1 } } },
  { method: "GET", path: "/apps/app_none/alerts?mode=live" },
  { method: "DELETE", path: "/apps/app_none/alerts/alr_none" },
  { method: "PUT", path: "/apps/app_none/expiry-notices", body: { mode: "live", days: [] } },
  { method: "GET", path: "/apps/app_none/expiry-notices?mode=live" },
  { method: "POST", path: "/apps/app_none/packs", body: { packName: "P", items: [], unit: "count" } },
  { method: "GET", path: "/apps/app_none/packs" },
  { method: "PATCH", path: "/apps/app_none/packs/cpk_none", body: {} },
  { method: "POST", path: "/apps/app_none/packs/cpk_none/archive" },
  { method: "POST", path: "/apps/app_none/packs/cpk_none/restore" },
  { method: "GET", path: "/apps/app_none/audit" },
  { method: "POST", path: "/balances/crb_none/adjust", body: { delta: 1, note: "why" } },
];

async function madeApp(call: Client): Promise<string> {
  return (await call("POST", `${ADMIN}/apps`, { key, body: { name: "Desk" } })).body.appId;
}

describe.each(ROUTES)("$method $path", ({ method, path, body }) => {
  const send = (bindings: Partial<Env>, sent?: string) =>
    makeClient(new Clock(), bindings)(method, ADMIN + path, {
      ...(sent === undefined ? {} : { key: sent }),
      ...(body === undefined ? {} : { body }),
    });

  it("rejects a request without a token, with a wrong one, or with an application's secret key", async () => {
    const { keys } = await makeApp();
    for (const wrong of [undefined, `${key}x`, key.slice(0, -1), keys.sk_live]) {
      expectError(await send({}, wrong), "invalid_key");
    }
  });

  it("returns 404 to any caller if the deployment has no admin token of 32 characters", async () => {
    const short = "x".repeat(31);
    expectError(await send({ ADMIN_TOKEN: "" }, ""), "not_found");
    expectError(await send({ ADMIN_TOKEN: short }, short), "not_found");
    // A binding that was never set is undefined, although its type is a string.
    expectError(await send({ ADMIN_TOKEN: undefined as unknown as string }, key), "not_found");
  });

  it("checks the token before the shape, and the shape before existence", async () => {
    if (body === undefined) return;
    const call = makeClient(new Clock());
    expectError(await call(method, ADMIN + path, { key: `${key}x`, body: "{" }), "invalid_key");
    expectError(await call(method, ADMIN + path, { key, body: "{" }), "invalid_request", "body");
    expectError(await call(method, ADMIN + path, { key, body: { ...body, odd: 1 } }), "invalid_request", "odd");
  });

  it("returns not_found, or credit_balance_not_found, for an unknown object", async () => {
    if (path === "/apps") return;
    expectError(await send({}, key), path.startsWith("/balances") ? "credit_balance_not_found" : "not_found");
  });
});

it("applications are created with both modes and listed oldest first", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const first = await call("POST", `${ADMIN}/apps`, { key, body: { name: "Desk 🪑" } });
  expect(first.body).toEqual({
    appId: expect.stringMatching(/^app_[0-9A-Za-z]{22}[0-9]$/),
    database: home() === 0 ? "DB" : "DB_1",
    name: "Desk 🪑",
    createdAt: "2026-01-15T12:00:00.000Z",
  });
  clock.advance(1);
  const second = await madeApp(call);
  const { apps } = (await call("GET", `${ADMIN}/apps`, { key })).body;
  // The database may hold applications of other test files.
  const listedIds = apps
    .map((app: { appId: string }) => app.appId)
    .filter((id: string) => [first.body.appId, second].includes(id));
  expect(listedIds).toEqual([first.body.appId, second]);
  const modes = await env.DB.prepare("SELECT mode FROM environments WHERE app_id = ?").bind(second).all();
  expect(modes.results).toEqual([{ mode: "live" }, { mode: "test" }]);
});

it("applications have a name of 1 to 200 code points, well-formed and without control characters", async () => {
  const call = makeClient(new Clock());
  for (const name of ["", " ", "Desk ", "\u2003Desk", "x".repeat(201), "a\u0000b", "\ud800", 7, null]) {
    expectError(await call("POST", `${ADMIN}/apps`, { key, body: { name } }), "invalid_request", "name");
  }
  expect((await call("POST", `${ADMIN}/apps`, { key, body: { name: "🪑".repeat(200) } })).status).toBe(200);
});

it("keys are shown once, work at once, and are stored only as their hash", async () => {
  const call = makeClient(new Clock());
  const appId = await madeApp(call);
  for (const kind of ["secret", "publishable"] as const) {
    for (const mode of ["live", "test"] as const) {
      const prefix = `${kind === "secret" ? "sk" : "pk"}_${mode}_`;
      const answer = await call("POST", `${ADMIN}/apps/${appId}/keys`, { key, body: { kind, mode, name: "n" } });
      expect(answer.body).toEqual({
        keyId: expect.stringMatching(/^key_[\w-]{22}$/),
        key: expect.stringMatching(new RegExp(`^${prefix}[0-9A-Za-z]{52,59}$`)),
        hint: `${prefix}…${answer.body.key.slice(-4)}`,
        kind,
        mode,
        createdAt: "2026-01-15T12:00:00.000Z",
      });
      const used = await call("GET", "/api/v1/credits?userId=u", { key: answer.body.key });
      expect(used.status).toBe(kind === "secret" ? 200 : 403);
      const row = await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(answer.body.keyId).first();
      expect(row?.hash).toBe(await sha256(answer.body.key));
      expect(JSON.stringify(row)).not.toContain(answer.body.key);
    }
  }
  const listed = await call("GET", `${ADMIN}/apps/${appId}/keys`, { key });
  expect(listed.body.keys).toHaveLength(4);
  expect(listed.body.keys[0]).toEqual({
    keyId: expect.any(String),
    name: "n",
    hint: expect.any(String),
    kind: expect.any(String),
    mode: expect.any(String),
    createdAt: "2026-01-15T12:00:00.000Z",
    revokedAt: null,
    lastUsedOn: null,
  });
});

it("keys are listed oldest first, a hundred at a time by default, each once", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const appId = await madeApp(call);
  const path = `${ADMIN}/apps/${appId}/keys`;
  const { results } = await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 102)
       INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
       SELECT ?1 || i, 'key_' || ?1 || i, e.id, 'publishable', 'pk', CAST(?2 AS INTEGER) + i / 10
       FROM n CROSS JOIN environments AS e ON e.app_id = ?1 AND e.mode = iif(i % 3 = 0, 'live', 'test') RETURNING id`,
  )
    .bind(appId, clock.ms)
    .all<{ id: string }>();
  const keyIds = results.map(({ id }) => id);
  const ids = (page: { keys: { keyId: string }[] }) => page.keys.map((each) => each.keyId);
  const first = (await call("GET", path, { key })).body;
  expect(first.keys).toHaveLength(100);
  const times = first.keys.map((each: { createdAt: string }) => each.createdAt);
  expect(times).toEqual(times.toSorted());

  const shown: string[] = [];
  let cursor = "";
  do {
    const page = (await call("GET", `${path}?limit=7${cursor === "" ? "" : `&cursor=${cursor}`}`, { key })).body;
    shown.push(...ids(page));
    cursor = page.nextCursor ?? "";
  } while (cursor !== "");
  expect(shown.slice(0, 100)).toEqual(ids(first));
  expect(shown.toSorted()).toEqual(keyIds.toSorted());

  const other = `${ADMIN}/apps/${await madeApp(call)}/keys?cursor=${first.nextCursor}`;
  expectError(await call("GET", other, { key }), "invalid_request", "cursor");
  expectError(await call("GET", `${path}?cursor=x${first.nextCursor}`, { key }), "invalid_request", "cursor");
  for (const limit of ["0", "501", "x"]) {
    expectError(await call("GET", `${path}?limit=${limit}`, { key }), "invalid_request", "limit");
  }
});

it("keys need a known kind and mode", async () => {
  const call = makeClient(new Clock());
  const path = `${ADMIN}/apps/${await madeApp(call)}/keys`;
  expectError(await call("POST", path, { key, body: { kind: "root", mode: "live" } }), "invalid_request", "kind");
  expectError(await call("POST", path, { key, body: { kind: "secret" } }), "invalid_request", "mode");
  expectError(
    await call("POST", path, { key, body: { kind: "secret", mode: "live", name: "" } }),
    "invalid_request",
    "name",
  );
});

it("keys stop working at once when revoked, and a second revocation gets the first response", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const appId = await madeApp(call);
  const created = (await call("POST", `${ADMIN}/apps/${appId}/keys`, { key, body: { kind: "secret", mode: "test" } }))
    .body;
  const use = () => call("GET", "/api/v1/credits?userId=u", { key: created.key });
  expect((await use()).status).toBe(200);

  const path = `${ADMIN}/apps/${appId}/keys/${created.keyId}`;
  const revoked = await call("DELETE", path, { key });
  expect(revoked.body).toMatchObject({ keyId: created.keyId, revokedAt: "2026-01-15T12:00:00.000Z" });
  expectError(await use(), "invalid_key");

  clock.advance(5_000);
  expect((await call("DELETE", path, { key })).body).toEqual(revoked.body);
});

it("keys that were revoked elsewhere are rejected at once by an isolate that has just served them", async () => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  const use = () => call("GET", "/api/v1/credits?userId=u", { key: keys.sk_live });
  expect((await use()).status).toBe(200);
  await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE hash = ?")
    .bind(await sha256(keys.sk_live))
    .run();
  expectError(await use(), "invalid_key");
});

it("keys of one application cannot be revoked through another", async () => {
  const call = makeClient(new Clock());
  const [mine, theirs] = [await madeApp(call), await madeApp(call)];
  const created = (await call("POST", `${ADMIN}/apps/${mine}/keys`, { key, body: { kind: "secret", mode: "live" } }))
    .body;
  expectError(await call("DELETE", `${ADMIN}/apps/${theirs}/keys/${created.keyId}`, { key }), "not_found", "keyId");
  expect((await call("GET", "/api/v1/credits?userId=u", { key: created.key })).status).toBe(200);
});

const secret = END_USER_SECRET;

it("the end-user token setting is set for one mode, takes effect at once, is shown without its secret, and is removed by null", async () => {
  const call = makeClient(new Clock());
  const { appId, keys } = await makeApp();
  const read = (mode: "live" | "test") => call("GET", "/api/v1/credits?userId=u", { key: keys[`pk_${mode}`] });
  const set = (setting: unknown) =>
    call("PUT", `${ADMIN}/apps/${appId}/end-user-auth`, { key, body: { mode: "live", setting } });
  expectError(await read("live"), "forbidden");

  const answer = await set({ type: "hs256", secret, claim: "uid" });
  expect(answer.body).toEqual({ appId, mode: "live", setting: { type: "hs256", claim: "uid" } });
  expectError(await read("live"), "invalid_user_token");
  expectError(await read("test"), "forbidden");

  expect((await set(null)).body).toEqual({ appId, mode: "live", setting: null });
  expectError(await read("live"), "forbidden");
});

it("the end-user token setting is rejected if it is malformed or unsafe, with the name of the field", async () => {
  const call = makeClient(new Clock());
  const path = `${ADMIN}/apps/${await madeApp(call)}/end-user-auth`;
  const wrong: readonly (readonly [unknown, string])[] = [
    [undefined, "setting"],
    [{ type: "hs256" }, "setting.secret"],
    [{ type: "hs256", secret: "x".repeat(31) }, "setting.secret"],
    [{ type: "hs256", secret, odd: 1 }, "setting.odd"],
    [{ type: "jwks", url: "http://keys.example.com/jwks" }, "setting.url"],
    [{ type: "jwks", url: "http://127.0.0.1.example.com/" }, "setting.url"],
    [{ type: "jwks", url: "file:///etc/passwd" }, "setting.url"],
    [{ type: "jwks", url: "not a url" }, "setting.url"],
    [{ type: "jwks", url: "https://me:secret@keys.example.com/" }, "setting.url"],
    [{ type: "jwks", url: "https://localhost/jwks" }, "setting.url"],
    [{ type: "jwks", url: "https://169.254.169.254/jwks" }, "setting.url"],
    [{ type: "jwks", url: "https://[64:ff9b::10.0.0.1]/jwks" }, "setting.url"],
    [{ type: "jwks", url: "https://239.0.0.1/jwks" }, "setting.url"],
    [{ type: "none" }, "setting.type"],
    [{ type: "jwks", url: FIREBASE }, "setting.issuer"],
    [{ type: "jwks", url: FIREBASE, issuer: "https://securetoken.google.com/desk" }, "setting.audience"],
    [{ type: "jwks", url: "https://WWW.googleapis.com./oauth2/v3/certs", audience: "desk" }, "setting.issuer"],
    [{ type: "jwks", url: "https://login.microsoftonline.com/common/discovery/v2.0/keys" }, "setting.issuer"],
    [{ type: "jwks", url: "https://keys.example.com/jwks", audience: "desk" }, "setting.issuer"],
    [{ type: "jwks", url: "https://keys.example.com/jwks", issuer: null, audience: "desk" }, "setting.issuer"],
    [{ type: "jwks", url: "https://keys.example.com/jwks", issuer: "https://example.com" }, "setting.audience"],
    [{ ...jwksSetting("https://keys.example.com/jwks"), audience: "" }, "setting.audience"],
    [{ ...jwksSetting("https://keys.example.com/jwks"), trustUnverified: "yes" }, "setting.trustUnverified"],
    [{ ...jwksSetting("https://keys.example.com/jwks"), trustUserWritten: 1 }, "setting.trustUserWritten"],
  ];
  for (const [setting, param] of wrong) {
    expectError(await call("PUT", path, { key, body: { mode: "live", setting } }), "invalid_request", param);
  }
  const ofFirebase = { type: "jwks", url: FIREBASE, issuer: "https://securetoken.google.com/desk", audience: "desk" };
  const firebase = await call("PUT", path, { key, body: { mode: "test", setting: ofFirebase } });
  expect(firebase.body.setting).toEqual(ofFirebase);
  for (const url of [
    "https://keys.example.com/jwks",
    "http://localhost:9/jwks",
    "http://[::1]:9/",
    "http://127.0.0.1/",
  ]) {
    const answer = await call("PUT", path, { key, body: { mode: "test", setting: jwksSetting(url) } });
    expect(answer.body.setting).toEqual(jwksSetting(url));
  }
});

it.each([
  "www.googleapis.com",
  "login.microsoftonline.com",
  "login.windows.net",
  "login.partner.microsoftonline.cn",
  "kauth.kakao.com",
  "identity.xero.com",
  "login.salesforce.com",
  "oidc.vercel.com",
  "facebook.com",
])(
  "the end-user token setting is refused without an audience for %s, whose keys sign for many applications",
  async (host) => {
    const call = makeClient(new Clock());
    const path = `${ADMIN}/apps/${await madeApp(call)}/end-user-auth`;
    const set = (setting: object) => call("PUT", path, { key, body: { mode: "live", setting } });
    const setting = jwksSetting(`https://${host}/keys`);
    expectError(await set(setting), "invalid_request", "setting.audience");
    expect((await set({ ...setting, audience: "desk" })).status).toBe(200);
  },
);

it("the end-user token setting is rejected with a claim that users write themselves, unless the setting trusts it", async () => {
  const call = makeClient(new Clock());
  const path = `${ADMIN}/apps/${await madeApp(call)}/end-user-auth`;
  const set = (setting: object) => call("PUT", path, { key, body: { mode: "live", setting } });
  for (const base of [{ type: "hs256", secret }, jwksSetting("https://keys.example.com/jwks")]) {
    for (const claim of [
      "user_metadata",
      "user_metadata.id",
      "https://example.com/user_metadata",
      "unsafe_metadata.id",
      "custom:user_id",
    ]) {
      expectError(await set({ ...base, claim }), "invalid_request", "setting.claim");
      expectError(await set({ ...base, claim, trustUserWritten: false }), "invalid_request", "setting.claim");
      const answer = await set({ ...base, claim, trustUserWritten: true });
      expect([answer.status, answer.body.setting?.trustUserWritten]).toEqual([200, true]);
    }
    for (const claim of ["app_metadata.id", "public_metadata.id", "customId"]) {
      expect((await set({ ...base, claim })).status).toBe(200);
    }
  }
});
