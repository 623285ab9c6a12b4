import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { ANA, erasureWorld } from "../../support/erasure.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { expectError } from "../../support/rejections.ts";
import { makeApp, makeClient } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const LOST = "another-erasure-secret-of-32-characters";

/** A person who was erased under a secret that is not set any more. */
async function lostWorld() {
  const world = await erasureWorld();
  const { app, clock, post } = world;
  const { body } = await post("erase-person", { distinctId: ANA });
  expect(body.status).toBe("completed");
  const receipt = await world.get(`erasures/${body.erasureId}`);
  const { fingerprint } = receipt.body;
  expect(fingerprint).toMatch(/^[\w-]{12}$/);
  const call = makeClient(clock, { ERASURE_SECRET: LOST });
  const path = `/api/v1/admin/apps/${app.appId}/tombstones/forget`;
  const forget = (more: object = {}, key = env.ADMIN_TOKEN, by = call) =>
    by("POST", path, { key, body: { mode: "live", fingerprint, ...more } });
  const write = () =>
    call("POST", "/api/v1/consent", {
      key: app.keys.sk_live,
      body: { distinctId: ANA, purpose: "ads", decision: "granted" },
    });
  return { ...world, call, forget, write, fingerprint, erasureId: body.erasureId as string };
}

it("forgetting the tombstones of a lost secret lets the environment accept writes again, even for erased ids, and is one entry in the audit", async () => {
  const { app, call, forget, write, fingerprint } = await lostWorld();
  expectError(await write(), "erasure_unavailable");
  expect((await forget()).body).toEqual({ forgotten: expect.any(Number) });
  expect((await write()).status).toBe(200);
  const again = await forget();
  expect([again.status, again.body]).toEqual([200, { forgotten: 0 }]);
  const { entries } = (await call("GET", `/api/v1/admin/apps/${app.appId}/audit`, { key: env.ADMIN_TOKEN })).body;
  const acts = entries.filter(({ action }: { action: string }) => action === "tombstones.forgotten");
  expect(acts).toMatchObject([{ target: fingerprint, by: "api", userId: null, details: { mode: "live" } }]);
});

it("forgetting the tombstones of a lost secret counts the erased ids, and shows the erasure as lifted", async () => {
  const { app, forget, call, erasureId } = await lostWorld();
  const count = await env.DB.prepare("SELECT count(*) AS n FROM tombstones WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .first<number>("n");
  expect((await forget()).body).toEqual({ forgotten: count });
  const receipt = await call("GET", `/api/v1/erasures/${erasureId}`, { key: app.keys.sk_live });
  expect(receipt.body.liftedAt).not.toBeNull();
});

it("forgetting the tombstones of a lost secret is rejected for a secret that is set and with any key but the admin token, and affects no other application", async () => {
  const { app, clock, forget, write } = await lostWorld();
  expectError(await forget({}, env.ADMIN_TOKEN, makeClient(clock)), "invalid_request", "fingerprint");
  const asPrevious = makeClient(clock, { ERASURE_SECRET: LOST, ERASURE_SECRET_PREVIOUS: env.ERASURE_SECRET });
  expectError(await forget({}, env.ADMIN_TOKEN, asPrevious), "invalid_request", "fingerprint");
  expectError(await forget({}, app.keys.sk_live), "invalid_key");
  expectError(await forget({ fingerprint: "" }), "invalid_request", "fingerprint");
  expectError(await forget({ mode: "both" }), "invalid_request", "mode");
  expectError(await write(), "erasure_unavailable");
  const other = await makeApp();
  const path = `/api/v1/admin/apps/${other.appId}/tombstones/forget`;
  const body = { mode: "live", fingerprint: "none" };
  expect((await makeClient(clock)("POST", path, { key: env.ADMIN_TOKEN, body })).body).toEqual({ forgotten: 0 });
});

it("forgetting the tombstones of a lost secret is rejected during a running erasure", async () => {
  const { app, forget } = await lostWorld();
  await env.DB.prepare(
    `INSERT INTO erasures (environment_id, id, keep_consent, actor, fingerprint, started_at_ms)
       SELECT environment_id, 'era_running', 0, 'api', fingerprint, 1 FROM erasures WHERE environment_id = ?`,
  )
    .bind(app.environments.live.id)
    .run();
  expectError(await forget(), "changed_meanwhile");
});

it("forgetting the tombstones of a lost secret happens once even if its trip fails before or after it was stored", async () => {
  for (const fault of FAULTS) {
    const { app, clock, forget, write } = await lostWorld();
    const faulty = faultyD1(env.DB);
    faulty.plan({ fault, at: 3 });
    await forget({}, env.ADMIN_TOKEN, makeClient(clock, { ERASURE_SECRET: LOST, DB: faulty.d1 }));
    expect((await forget()).status).toBe(200);
    expect((await write()).status).toBe(200);
    const acts = env.DB.prepare(
      "SELECT count(*) AS n FROM admin_audit WHERE app_id = ? AND action = 'tombstones.forgotten'",
    );
    expect(await acts.bind(app.appId).first("n")).toBe(1);
  }
});
