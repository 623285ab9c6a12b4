import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { grantPack } from "../../../../src/books/credits/grant.ts";
import { createLink } from "../../../../src/exports/create-link.ts";
import { revokeLinks } from "../../../../src/exports/end-links.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { Clock, makeApp, makeClient, makeCtx, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const items = [{ amountMinor: 5_000_000, unit: "cents" }] as const;

async function makeAuditWorld() {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", items);
  const call = makeClient(clock);
  const byOperator = (mode: "live" | "test" = "live") => ({
    ...makeCtx(app.environments[mode], clock),
    caller: { kind: "admin", by: "eva" } as const,
  });
  const grant = (userId: string, mode: "live" | "test" = "live") =>
    grantPack(byOperator(mode), { userId, packId, source: "manual" });
  const audit = async (query = "") => {
    const path = `/api/v1/admin/apps/${app.appId}/audit${query}`;
    const { status, body } = await call("GET", path, { key: env.ADMIN_TOKEN });
    expect(status).toBe(200);
    return body;
  };
  const about = async (userId: string, mode: "live" | "test" = "live") =>
    (await audit(`?userId=${encodeURIComponent(userId)}&mode=${mode}`)).entries;
  return { app, call, clock, byOperator, grant, audit, about };
}

it("the audit about users shows the user of each act, and finds the acts about one user in one mode", async () => {
  const { call, grant, audit, about } = await makeAuditWorld();
  const { output } = await grant("ana");
  await grant("bob");
  await grant("ana", "test");
  const { balanceId } = output;
  const adjusted = await call("POST", `/api/v1/admin/balances/${balanceId}/adjust`, {
    key: env.ADMIN_TOKEN,
    body: { delta: -1.5, note: "n" },
  });
  expect(adjusted.status).toBe(200);
  const { entries } = await audit();
  expect(entries.map((entry: { userId: string | null }) => entry.userId)).toEqual(["ana", "ana", "bob", "ana"]);
  const ofAna = await about("ana");
  expect(ofAna).toMatchObject([
    { by: "api", action: "credits.adjusted", details: { balanceId, unit: "cents", amount: -1.5, seq: 2 } },
    { by: "eva", action: "credits.granted", details: { balanceId, unit: "cents", amount: 5, seq: 1 } },
  ]);
  expect(await about("ana", "test")).toHaveLength(1);
  expect(await about("nobody")).toEqual([]);
  const first = await audit("?userId=ana&mode=live&limit=1");
  const second = await audit(`?userId=ana&mode=live&limit=1&cursor=${first.nextCursor}`);
  expect([...first.entries, ...second.entries]).toEqual(ofAna);
});

it("the audit about users shows an erased user only by their pseudonym", async () => {
  const { app, call, grant, audit, about } = await makeAuditWorld();
  await grant("ana@example.com");
  const body = { distinctId: "ana@example.com" };
  const key = app.keys.sk_live;
  expect((await call("POST", "/api/v1/erase-person", { key, body })).status).toBe(200);
  const { entries } = await audit();
  const granted = entries.find((entry: { action: string }) => entry.action === "credits.granted");
  expect(granted.userId).toMatch(/^erased_/);
  expect(JSON.stringify(entries)).not.toContain("ana@example.com");
  expect(await about("ana@example.com")).toEqual([]);
  expect(await about(granted.userId)).toEqual([granted]);
});

it("the audit about users has the export links that an operator made and ended, but not those that a key made", async () => {
  const { app, call, clock, byOperator, grant, about } = await makeAuditWorld();
  await grant("ana");
  const key = app.keys.sk_live;
  await call("POST", "/api/v1/export-person", { key, body: { distinctId: "ana" } });
  await createLink(byOperator(), { distinctId: "ana", requestOrigin: "https://purser.example.com" });
  clock.advance(1);
  expect(await revokeLinks(byOperator(), { distinctId: "ana" })).toEqual({ revoked: 2 });
  const acts = await about("ana");
  expect(acts).toMatchObject([
    { by: "eva", action: "export_link.revoked", details: { mode: "live" } },
    { by: "eva", action: "export_link.created", details: { mode: "live" } },
    { action: "credits.granted" },
  ]);
  const { results } = await env.DB.prepare(
    "SELECT id FROM export_audit WHERE environment_id = ? AND key_id IS NULL AND action = 'minted'",
  )
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ id: acts[1].target }]);
});

it("the audit about users rejects a user without a mode, a mode without a user, and a foreign cursor", async () => {
  const { app, call, grant, audit } = await makeAuditWorld();
  await grant("ana");
  await grant("ana");
  const path = `/api/v1/admin/apps/${app.appId}/audit`;
  const { nextCursor } = await audit("?limit=1");
  const wrong = ["?userId=ana", "?mode=live", "?userId=&mode=live", "?userId=ana&mode=both"];
  for (const query of [...wrong, `?userId=ana&mode=live&cursor=${nextCursor}`]) {
    expectError(await call("GET", `${path}${query}`, { key: env.ADMIN_TOKEN }), "invalid_request");
  }
});
