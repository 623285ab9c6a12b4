import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { continueErasure } from "../../../src/erasure/erase-running.ts";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { ANA, DEVICE, erasureWorld, fillPerson } from "../../support/erasure.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { exportOf, identify, send } from "../../support/people.ts";
import { expectError } from "../../support/rejections.ts";
import { makeClient, makeCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const NEW = "another-erasure-secret-of-32-characters";
const ROTATED = { ERASURE_SECRET: NEW, ERASURE_SECRET_PREVIOUS: env.ERASURE_SECRET };

/** A person whose consent an erasure kept. Then the secret was rotated, and the erasure was lifted. */
async function rotatedWorld() {
  const world = await erasureWorld();
  const { app, clock } = world;
  const key = app.keys.sk_live;
  const consent = (purpose: string) => ({ distinctId: ANA, purpose, decision: "granted" });
  await world.post("consent", consent("first"));
  const { body } = await world.post("erase-person", { distinctId: ANA, keepConsent: true });
  const call = makeClient(clock, ROTATED);
  const post = (path: string, sent: object) => call("POST", `/api/v1/${path}`, { key, body: sent });
  expect((await exportOf(call, app, ANA)).consentLog).toHaveLength(1);
  expect((await post(`erasures/${body.erasureId}/lift`, {})).status).toBe(200);
  expect((await post("consent", consent("second"))).status).toBe(200);
  const rows = () =>
    env.DB.prepare("SELECT count(*) FROM consent_log WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .first("count(*)");
  expect(await rows()).toBe(2);
  return { ...world, call, post, rows };
}

it("an erasure after the secret was rotated deletes the consent that a lifted erasure kept", async () => {
  const { app, call, post, rows } = await rotatedWorld();
  const { body } = await post("erase-person", { distinctId: ANA });
  expect(body).toMatchObject({ status: "completed", distinctIdCount: 1 });
  expect(await rows()).toBe(0);
  expect(await exportOf(call, app, ANA)).toMatchObject({ person: null, consentLog: [] });
});

it("an erasure after the secret was rotated keeps all consent under the new secret", async () => {
  const { app, clock, post, rows } = await rotatedWorld();
  const { body } = await post("erase-person", { distinctId: ANA, keepConsent: true });
  expect(body).toMatchObject({ status: "completed", distinctIdCount: 1 });
  expect(await rows()).toBe(2);
  for (const bindings of [ROTATED, { ERASURE_SECRET: NEW }]) {
    const { consentLog } = await exportOf(makeClient(clock, bindings), app, ANA);
    expect(consentLog.map(({ purpose }) => purpose)).toEqual(["first", "second"]);
  }
});

it("an erasure after the secret was rotated keeps the consent of an id whose tombstone did not block", async () => {
  const { app, call, clock, post } = await erasureWorld();
  await send(call, app.keys.pk_live, [identify(ANA, DEVICE)]);
  await post("consent", { distinctId: DEVICE, purpose: "ads", decision: "denied", isDevice: true });
  await post("erase-person", { distinctId: ANA, keepConsent: true });
  const later = makeClient(clock, ROTATED);
  const body = { distinctId: DEVICE, keepConsent: true };
  const erased = await later("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body });
  expect(erased.body.status).toBe("completed");
  expect((await exportOf(later, app, DEVICE)).consentLog).toHaveLength(1);
});

it("an erasure completes when its secret was replaced while it ran, so that its tombstones can be forgotten", async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  await fillPerson(world);
  const ctx = makeCtx(app.environments.live, clock);
  const input = { distinctId: ANA, dryRun: false, keepConsent: false };
  const { output } = await erasePerson(ctx, input, { pages: 0, rows: 1 });
  const erasureId = output.erasureId ?? "";
  const call = makeClient(clock, { ERASURE_SECRET: NEW });
  const receipt = await call("GET", `/api/v1/erasures/${erasureId}`, { key: app.keys.sk_live });
  const forget = () =>
    call("POST", `/api/v1/admin/apps/${app.appId}/tombstones/forget`, {
      key: env.ADMIN_TOKEN,
      body: { mode: "live", fingerprint: receipt.body.fingerprint },
    });
  expectError(await forget(), "changed_meanwhile");
  const settings = { ...ctx.settings, erasureSecrets: { current: NEW, previous: null } };
  expect(await continueErasure({ ...ctx, settings }, erasureId)).toBe(true);
  expect((await forget()).body).toEqual({ forgotten: expect.any(Number) });
});
