import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { readSettingsSnapshot } from "../../../src/db/settings-snapshot.ts";
import { requireEndpoint } from "../../../src/webhooks/endpoint.ts";
import { rotateSecret } from "../../../src/webhooks/endpoints.ts";
import { expectError } from "../../support/rejections.ts";
import { receiverWorld } from "../../support/webhooks.ts";
import { makeAdminCtx } from "../../support/world.ts";

const settingsSnapshot = async (environmentId: number) =>
  readSettingsSnapshot(
    await env.DB.prepare("SELECT settings_snapshot AS settingsSnapshot FROM environments WHERE id = ?")
      .bind(environmentId)
      .first("settingsSnapshot"),
  );
const createdAt = "2026-01-15T12:00:00.000Z";
const url = "https://example.com/hook?a=b";

it("endpoints are created with a secret that is shown once, listed for their mode, changed and deleted", async () => {
  const { app, admin } = await receiverWorld();
  const created = (await admin("POST", "/webhooks", { mode: "live", url, types: ["credits.*"], description: "Mine" }))
    .body;
  const { secret, ...endpoint } = created;
  expect(endpoint).toEqual({
    ...{ webhookId: expect.stringMatching(/^whk_[0-9A-Za-z]{22}$/), mode: "live", url, types: ["credits.*"] },
    ...{ description: "Mine", isEnabled: true, createdAt },
  });
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const stored = await env.DB.prepare("SELECT secret FROM webhook_endpoints WHERE id = ?").bind(endpoint.webhookId);
  expect(await stored.first("secret")).toMatch(/^v1\./);
  const { webhookId: other } = (await admin("POST", "/webhooks", { mode: "live", url: "http://127.0.0.1:80/" })).body;
  await admin("POST", "/webhooks", { mode: "test", url });
  const list = (await admin("GET", "/webhooks?mode=live")).body.webhooks;
  expect(list.map(({ webhookId }: { webhookId: string }) => webhookId)).toEqual(
    expect.arrayContaining([endpoint.webhookId, other]),
  );
  expect(list).toHaveLength(2);
  expect(list).toContainEqual(endpoint);
  const byId = (id: string, types: unknown, exports: 0 | 1) => ({ id, types, exports });
  const { id } = app.environments.live;
  expect((await settingsSnapshot(id)).webhooks).toEqual(
    expect.arrayContaining([byId(endpoint.webhookId, ["credits.*"], 0), byId(other, null, 1)]),
  );
  const path = `/webhooks/${endpoint.webhookId}`;
  const changed = { ...endpoint, types: null, isEnabled: false, description: null };
  expect((await admin("PATCH", path, { types: null, isEnabled: false, description: null })).body).toEqual(changed);
  expect((await settingsSnapshot(id)).webhooks).toEqual([byId(other, null, 1)]);
  expect((await admin("PATCH", path, {})).body).toEqual(changed);
  expect((await admin("DELETE", path)).body).toEqual(changed);
  expectError(await admin("DELETE", path), "not_found", "webhookId");
  await admin("DELETE", `/webhooks/${other}`);
  expect(await settingsSnapshot(id)).toEqual({});
  const audit = (await admin("GET", "/audit")).body.entries;
  expect(audit.map(({ action }: { action: string }) => action)).toEqual([
    ...[
      "webhook.deleted",
      "webhook.deleted",
      "webhook.changed",
      "webhook.created",
      "webhook.created",
      "webhook.created",
    ],
  ]);
  expect(JSON.stringify(audit)).not.toMatch(/example|whsec|Mine/);
});

it("endpoints that are deleted meanwhile get no new secret, and the audit tells of none", async () => {
  const { app, admin, clock, create } = await receiverWorld();
  const { webhookId } = await create();
  const ctx = makeAdminCtx(clock);
  const row = await requireEndpoint(ctx, app.appId, webhookId);
  await admin("DELETE", `/webhooks/${webhookId}`);
  await expect(rotateSecret(ctx, row)).rejects.toMatchObject({ code: "not_found", param: "webhookId" });
  const { entries } = (await admin("GET", "/audit")).body;
  expect(entries.map(({ action }: { action: string }) => action)).toEqual(["webhook.deleted", "webhook.created"]);
});

it("endpoints are at most ten in an environment, even with concurrent requests", async () => {
  const { admin, app } = await receiverWorld();
  const answers = await Promise.all(
    Array.from({ length: 14 }, () => admin("POST", "/webhooks", { mode: "live", url })),
  );
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused).toHaveLength(4);
  for (const answer of refused) {
    expectError(answer, "invalid_request");
    expect(answer.body.error.details).toEqual({ limit: 10 });
  }
  expect((await settingsSnapshot(app.environments.live.id)).webhooks).toHaveLength(10);
  expect((await admin("POST", "/webhooks", { mode: "test", url })).status).toBe(200);
});

it("endpoints of another application are not found", async () => {
  const mine = await receiverWorld();
  const { webhookId } = await mine.create();
  const other = await receiverWorld();
  const path = `/webhooks/${webhookId}`;
  for (const [method, rest, body] of [
    ["PATCH", "", {}],
    ["DELETE", ""],
    ["POST", "/rotate"],
    ["POST", "/test"],
    ["GET", "/deliveries"],
    ["POST", "/deliveries/msg_x/resend"],
    ["POST", "/replay", { from: createdAt }],
  ] as const) {
    expectError(await other.admin(method, path + rest, body), "not_found", "webhookId");
  }
  expect((await mine.admin("GET", "/webhooks?mode=live")).body.webhooks).toHaveLength(1);
});

it("endpoints need SETTINGS_SECRET, and nothing is written without it", async () => {
  const { admin } = await receiverWorld(() => 200, { SETTINGS_SECRET: "" });
  expectError(await admin("POST", "/webhooks", { mode: "live", url }), "secrets_unavailable");
  expect((await admin("GET", "/webhooks?mode=live")).body.webhooks).toEqual([]);
});

it.each([
  ["another scheme", "ftp://example.com/"],
  ["no scheme", "example.com/hook"],
  ["http", "http://example.com/"],
  ["no host", "https:///hook"],
  ["an invalid host", "https://exa mple.com/"],
  ["a host with an empty label", "https://a..example/"],
  ["a host of a hyphen", "https://-/"],
  ["a user", "https://me@example.com/"],
  ["a password", "https://me:secret@example.com/"],
  ["an empty user", "https://@example.com/"],
  ["a line break", "https://example.com/\n"],
  ["localhost", "https://localhost/"],
  ["localhost with a dot", "https://LOCALHOST./"],
  ["a subdomain of localhost", "https://a.localhost/"],
  ["loopback", "https://127.0.0.1/"],
  ["loopback in one number", "https://2130706433/"],
  ["loopback in hexadecimal", "https://0x7f.1/"],
  ["loopback in octal", "https://0177.0.0.1/"],
  ["loopback in full-width digits", "https://１２７.0.0.1/"],
  ["an unspecified address", "https://0.0.0.0/"],
  ["a private address", "https://10.1.2.3/"],
  ["a private address of 172", "https://172.31.0.1/"],
  ["a private address of 192", "https://192.168.0.1/"],
  ["a link-local address", "https://169.254.169.254/latest"],
  ["loopback of IPv6", "https://[::1]/"],
  ["an unspecified address of IPv6", "https://[::]/"],
  ["a unique local address", "https://[fd00::1]/"],
  ["a link-local address of IPv6", "https://[fe80::1]/"],
  ["a mapped loopback", "https://[::ffff:127.0.0.1]/"],
  ["a translated private address", "https://[64:ff9b::10.0.0.1]/"],
  ["a loopback translated without state", "https://[::ffff:0:127.0.0.1]/"],
  ["a private address of 6to4", "https://[2002:c0a8:1::]/"],
  ["too many characters", `https://example.com/${"a".repeat(2_000)}`],
  ["a number", 5],
])("endpoints take no URL with %s", async (_, bad) => {
  const { admin } = await receiverWorld();
  const refused = await admin("POST", "/webhooks", { mode: "live", url: bad });
  expectError(refused, "invalid_request", "url");
  expect((await admin("GET", "/webhooks?mode=live")).body.webhooks).toEqual([]);
});

it.each([
  "https://example.com",
  "https://xn--bcher-kva.example:8443/a?b#c",
  "https://bücher.example/",
  "https://172.32.0.1/",
  "https://[2606:4700::1111]/",
  "http://localhost:8787/",
  "http://[::1]/",
  "https://my_host.example./",
])("endpoints take the URL %s", async (good) => {
  const { create } = await receiverWorld();
  expect((await create({ url: good })).url).toBe(good);
});

it.each([
  ["no types", { types: [] }, "types"],
  ["an empty type", { types: [""] }, "types[0]"],
  ["an invalid type", { types: ["credits.*", "credit.low"] }, "types[1]"],
  ["types that are not a list", { types: "credits.*" }, "types"],
  ["an invalid mode", { mode: "both" }, "mode"],
  ["a secret of the caller's", { secret: "whsec_x" }, "secret"],
  ["an unknown field", { isEnabled: true }, "isEnabled"],
])("endpoints are refused with %s", async (_, fields, param) => {
  const { admin } = await receiverWorld();
  expectError(await admin("POST", "/webhooks", { mode: "live", url, ...fields }), "invalid_request", param);
  expect((await admin("GET", "/webhooks?mode=live")).body.webhooks).toEqual([]);
});
