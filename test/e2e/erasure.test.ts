import { afterAll, beforeAll, expect, it } from "vitest";
import { findInCopies } from "./support/copies.ts";
import { type KillableServer, startKillableServer } from "./support/killable-server.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

// E7: nothing of an erased person remains in the used pages of the database's file.

const ANA = "Zq7-ana@example.com";
const DEVICE = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f";
const TEXTS = ["note", "order", "property", "purpose", "source", "page", "event", "reason"].map(
  (what) => `Zq7 ${what}`,
);
const [NOTE, ORDER, PROPERTY, PURPOSE, SOURCE, PAGE, EVENT, REASON] = TEXTS;

let server: KillableServer;
beforeAll(async () => {
  server = await startKillableServer();
}, 120_000);
afterAll(() => server?.close());

async function post(path: string, key: string, body: object) {
  const response = await fetch(`${server.url()}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text);
}

it("an erasure leaves no id and no text of its person in a copy made by VACUUM INTO", async () => {
  const { appId } = await post("/api/v1/admin/apps", ADMIN_TOKEN, { name: "Shop" });
  const { key } = await post(`/api/v1/admin/apps/${appId}/keys`, ADMIN_TOKEN, { kind: "secret", mode: "live" });
  const items = [{ unit: "cents", amount: 60 }];
  const { packId } = await post(`/api/v1/admin/apps/${appId}/packs`, ADMIN_TOKEN, { packName: "Wallet", items });
  const write = (path: string, body: object) => post(`/api/v1/${path}`, key, body);
  const { balances } = await write("credits/grant", { userId: ANA, packId, externalRef: ORDER, notes: NOTE });
  await write("usage/events", {
    ...{ eventId: `e1 ${ANA}`, userId: ANA, event: "call", quantities: { cents: 1 }, properties: { told: PROPERTY } },
  });
  await write("consent", { distinctId: ANA, purpose: PURPOSE, decision: "granted", source: SOURCE });
  const batch = [
    { event: EVENT, distinct_id: ANA, properties: { $set: { email: ANA } } },
    { event: "$identify", distinct_id: ANA, properties: { $anon_distinct_id: DEVICE } },
    { event: "$pageview", distinct_id: DEVICE, properties: { $current_url: PAGE } },
  ];
  await post("/batch/", key, { api_key: key, batch });
  await write("credits/revoke", { balanceId: balances[0].balanceId, reason: REASON });
  await server.kill();
  expect(findInCopies(server.state, [ANA, DEVICE, ...TEXTS])).toEqual([ANA, DEVICE, ...TEXTS].sort());
  await server.start();
  const { status, distinctIds } = await write("erase-person", { distinctId: ANA });
  expect([status, distinctIds]).toEqual(["completed", [ANA, DEVICE]]);
  await server.kill();
  expect(findInCopies(server.state, [ANA, DEVICE, ...TEXTS])).toEqual([]);
}, 60_000);
