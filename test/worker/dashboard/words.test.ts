import { afterAll, expect, it } from "vitest";
import { browse } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { makeEndpoint } from "../../support/webhooks.ts";

afterAll(expectLedgerInvariants);

it("the dashboard explains its settings and figures in the agreed words", async () => {
  const w = await paymentsWorld();
  const browser = browse(w.clock);
  await browser.signIn();
  const read = async (path: string) => {
    const answer = await browser.get(`/admin/apps/${w.app.appId}/live/${path}`);
    expect(answer.status, path).toBe(200);
    return (await answer.text()).replace(/<[^>]*>/g, "").replace(/\s+/g, " ");
  };
  const paid = { client_reference_id: "ana", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", paid)));
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 250)));
  const unknown = { ...paid, metadata: { pack: "gone" }, payment_intent: "pi_2" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS + 2, session("cs_2", unknown)));
  const webhookId = await makeEndpoint(w.app.environments.live);
  const day = new Date(w.clock.ms).toISOString().slice(0, 10);
  for (const [path, ...sentences] of [
    [
      "alerts",
      "Send credits.low when a user has less than this (reserved credits count).",
      "Warn this many days before unused credits expire.",
    ],
    [`webhooks/${webhookId}`, "Off (cancels unsent messages)"],
    [`webhooks/${webhookId}/rotate`, "Any older secret stops now."],
    [
      `figures?figure=granted&from=${day}&to=${day}`,
      "Their sum may be below the figure: recurring grants to users who did nothing else since",
    ],
    ["payments/pi_1", "Already spent: due back, but not there any more", "Paid", "Refunded", "Withheld"],
    ["payments/pi_2", "No such pack"],
    ["people/erase?distinctId=ana", "Kept, pseudonymised"],
  ] as const) {
    const text = await read(path);
    for (const sentence of sentences) expect([path, text.includes(sentence) || text]).toEqual([path, true]);
  }
});
