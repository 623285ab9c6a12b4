import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { scheduled } from "../../../src/cron.ts";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { ANA, DEVICE, type ErasureWorld, erasureWorld, fillPerson } from "../../support/erasure.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { makeEndpoint, storedMessages } from "../../support/webhooks.ts";
import { bound, makeCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

beforeEach(async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  // A run of the cron reads a limited number of pages, and none of them may belong to another test.
  await env.DB.prepare("DELETE FROM balance_expiries").run();
});

const input = { distinctId: ANA, dryRun: false, keepConsent: false };

/** An environment with an endpoint for everything, alerts and notices. */
async function watchedWorld(): Promise<ErasureWorld> {
  const world = await erasureWorld();
  const { app, call } = world;
  await makeEndpoint(app.environments.live);
  const admin = async (method: string, path: string, body: object) => {
    const answer = await call(method, `/api/v1/admin/apps/${app.appId}/${path}`, { key: env.ADMIN_TOKEN, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  };
  await admin("PUT", "expiry-notices", { mode: "live", days: [7] });
  await admin("POST", "alerts", { mode: "live", name: "Low", unit: "tokens", below: { amount: 100 } });
  return world;
}

const cron = ({ clock }: ErasureWorld) => scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId });

/** Expects that only the erasure's own message is left, and messages about payments, which name nobody. */
async function expectErasedAlone({ app }: ErasureWorld, erasureId: string): Promise<void> {
  const messages = (await storedMessages(app.environments.live)).filter(({ type }) => type !== "payment.unmatched");
  expect(messages.map(({ id, ...message }) => message)).toEqual([
    { type: "person.erased", subject: null, data: { erasureId }, deliveries: 1 },
  ]);
  const { results } = await env.DB.prepare(
    `SELECT m.type FROM webhook_deliveries AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id
     LEFT JOIN webhook_messages AS m ON m.id = d.message_id
     WHERE e.environment_id = ? AND m.type IS NOT 'payment.unmatched'`,
  )
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ type: "person.erased" }]);
}

it("an erasure sends one message without personal data, and deletes pending messages about the person", async () => {
  const world = await watchedWorld();
  const { app, post } = world;
  await fillPerson(world);
  expect((await storedMessages(app.environments.live)).map(({ type }) => type)).toEqual(
    expect.arrayContaining(["credits.granted", "usage.recorded", "credits.revoked", "person.exported"]),
  );
  const { body } = await post("erase-person", { distinctId: ANA });
  await expectErasedAlone(world, body.erasureId);
  await post("erase-person", { distinctId: DEVICE });
  await cron(world);
  await expectErasedAlone(world, body.erasureId);
});

it("an erasure also deletes deliveries to endpoints that were deleted before", async () => {
  const world = await erasureWorld();
  const { app, call, post } = world;
  const webhookId = await makeEndpoint(app.environments.live);
  await fillPerson(world);
  const path = `/api/v1/admin/apps/${app.appId}/webhooks/${webhookId}`;
  expect((await call("DELETE", path, { key: env.ADMIN_TOKEN })).status).toBe(200);
  const left = () =>
    env.DB.prepare(
      `SELECT count(*) AS n FROM webhook_deliveries AS d JOIN webhook_messages AS m ON m.id = d.message_id
       WHERE d.endpoint_id = ? AND m.subject = ?`,
    )
      .bind(webhookId, ANA)
      .first("n");
  const all = () =>
    env.DB.prepare("SELECT count(*) AS n FROM webhook_deliveries WHERE endpoint_id = ?")
      .bind(webhookId)
      .first<number>("n");
  const [named, before] = [Number(await left()), Number(await all())];
  expect(named).toBeGreaterThan(2);
  await post("erase-person", { distinctId: ANA });
  expect(await all()).toBe(before - named);
});

it("an erasure sends no other message, even if balances expire, alerts are due and holds end while it runs", async () => {
  const world = await watchedWorld();
  const { app, clock, post, get } = world;
  const expiresAt = new Date(clock.ms + 10 * DAY_MS).toISOString();
  await post("credits/grant", { userId: ANA, packId: "Two", expiresAt });
  const hold = { userId: ANA, event: "chat.done", quantities: { tokens: 150 }, expiresInSeconds: 60 };
  for (const onExpiry of ["return", "charge"]) {
    expect((await post("usage/reservations", { ...hold, onExpiry })).status).toBe(200);
  }
  const { output } = await erasePerson(makeCtx(app.environments.live, clock), input, { pages: 0, rows: 1 });
  expect(output.status).toBe("running");
  for (const days of [4, 10]) {
    clock.advance(days * DAY_MS);
    await cron(world);
  }
  expect((await get(`erasures/${output.erasureId}`)).body.status).toBe("completed");
  await expectErasedAlone(world, output.erasureId ?? "");
});

it.each(FAULTS)("an erasure sends its message once, whichever trip fails: %s", async (fault) => {
  const world = await watchedWorld();
  const { app, clock, post } = world;
  const erased: string[] = [];
  for (let at = 1; at <= 6; at++) {
    const distinctId = `${at}-${ANA}`;
    await post("consent", { distinctId, purpose: "ads", decision: "denied" });
    const faulty = faultyD1(env.DB);
    faulty.plan({ fault, at });
    const ctx = makeCtx(app.environments.live, clock, faulty.d1);
    await erasePerson(ctx, { ...input, distinctId }).catch(() => {});
    erased.push((await post("erase-person", { distinctId })).body.erasureId);
  }
  const messages = (await storedMessages(app.environments.live)).map(({ type, data }) => [type, data.erasureId]);
  expect(messages.toSorted()).toEqual(erased.map((erasureId) => ["person.erased", erasureId]).toSorted());
});
