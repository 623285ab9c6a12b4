import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld, signatureOf } from "../../support/payments.ts";
import { eventOf, session } from "../../support/stripe-events.ts";
import { makeEndpoint } from "../../support/webhooks.ts";

afterAll(expectLedgerInvariants);

const TEN_MINUTES_MS = 600_000;

it("Stripe's events in an environment with a test clock are granted at the clock's time, reported as unmatched after its ten minutes, and signed in real time", async () => {
  const w = await paymentsWorld();
  const startMs = w.clock.ms;
  const at = (ms: number) => new Date(startMs + ms).toISOString();
  const admin = (method: string, path: string, body: object) =>
    w.admin(method, `${w.path}${path}`, { key: env.ADMIN_TOKEN, body });
  const setting = { signingSecrets: ["whsec_of_the_tests_0001"] };
  expect((await admin("PUT", "/stripe", { mode: "test", setting })).status).toBe(200);
  await makeEndpoint(w.app.environments.test, ["payment.*"]);
  expect((await admin("PUT", "/clock", { now: at(DAY_MS) })).body.status).toBe("ready");
  const send = async (fields: Readonly<Record<string, unknown>>, id: string) => {
    const event = { ...eventOf("checkout.session.completed", w.nowS, session(id, fields)), livemode: false };
    const body = JSON.stringify(event);
    const headers = { "stripe-signature": await signatureOf(body, w.clock) };
    return (await w.call("POST", `/api/v1/stripe/${w.app.appId}/test`, { body, headers })).body;
  };
  const user = { client_reference_id: "u" };
  const good = { ...user, metadata: { pack: "wallet" }, payment_intent: "pi_good" };
  expect(await send(good, "cs_good")).toMatchObject({ outcome: "granted" });
  const listed = await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_test });
  expect(listed.body.credits).toMatchObject([{ grantedAt: at(DAY_MS) }]);
  const unknownPack = { ...user, metadata: { pack: "gone" }, payment_intent: "pi_gone" };
  expect(await send(unknownPack, "cs_gone")).toMatchObject({ outcome: "unmatched" });
  const messages = async () =>
    (
      await env.DB.prepare("SELECT type, at_ms AS atMs FROM webhook_messages WHERE environment_id = ?")
        .bind(w.app.environments.test.id)
        .all()
    ).results;
  expect((await admin("PUT", "/clock", { now: at(DAY_MS + TEN_MINUTES_MS - 1) })).status).toBe(200);
  expect(await messages()).toEqual([]);
  expect((await admin("PUT", "/clock", { now: at(2 * DAY_MS) })).status).toBe(200);
  expect(await messages()).toEqual([{ type: "payment.unmatched", atMs: startMs + DAY_MS + TEN_MINUTES_MS }]);
});
