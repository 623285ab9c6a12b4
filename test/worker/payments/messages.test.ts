import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { randomId } from "../../../src/lib/ids.ts";
import { HOUR_MS } from "../../../src/lib/time.ts";
import { reportUnmatched } from "../../../src/payments/report-unmatched.ts";
import { runPart } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { type PaymentsWorld, paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, refund, session } from "../../support/stripe-events.ts";
import { makeAdminCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

/** Makes an enabled endpoint for all types of messages. */
async function listen(w: PaymentsWorld): Promise<void> {
  const { id } = w.app.environments.live;
  const endpointId = randomId("whk_");
  await env.DB.batch([
    env.DB.prepare(
      "INSERT INTO webhook_endpoints (id, environment_id, url, secret, created_at_ms) VALUES (?, CAST(? AS INTEGER), 'https://example.com', 'sealed', 1)",
    ).bind(endpointId, id),
    env.DB.prepare("UPDATE environments SET settings_snapshot = ? WHERE id = ?").bind(
      JSON.stringify({ webhooks: [{ id: endpointId, types: null }] }),
      id,
    ),
  ]);
}

async function messagesOf(w: PaymentsWorld): Promise<[string, Record<string, unknown>][]> {
  const { results } = await env.DB.prepare(
    "SELECT type, data FROM webhook_messages WHERE environment_id = ? AND type NOT LIKE 'credits.depleted'",
  )
    .bind(w.app.environments.live.id)
    .all<{ type: string; data: string }>();
  const messages = results.map(({ type, data }): [string, Record<string, unknown>] => [type, JSON.parse(data)]);
  return messages.toSorted(([, a], [, b]) => Number(a.seq ?? 0) - Number(b.seq ?? 0));
}

/** Runs the part of the cron that reports unmatched payments. */
const cron = async (w: PaymentsWorld) => expect(await runPart(reportUnmatched, makeAdminCtx(w.clock))).toEqual([]);
const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };

it("the messages of a payment report granted, taken and restored credits", async () => {
  const w = await paymentsWorld();
  await listen(w);
  await w.deliver(eventOf("charge.refunded", w.nowS, charge("ch_1", "pi_1", 100)));
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 1000)));
  await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 900, "failed")));
  await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 900, "failed")));
  const messages = await messagesOf(w);
  const moved = (delta: number, remaining: number) => [
    { balanceId: expect.stringMatching(/^crb_/), unit: "cents", delta, remaining },
  ];
  const common = { userId: "u", paymentKey: "pi_1" };
  expect(messages).toEqual([
    [
      "credits.granted",
      expect.objectContaining({ userId: "u", externalRef: "stripe:pi_1", source: "purchase", seq: 1 }),
    ],
    ["payment.taken", { ...common, balances: moved(-100, 900), seq: 2 }],
    ["payment.taken", { ...common, balances: moved(-900, 0), seq: 3 }],
    ["payment.restored", { ...common, balances: moved(900, 900), seq: 4 }],
  ]);
});

it("the messages of a payment are not sent for a refund that takes nothing, nor for its failure, which restores nothing", async () => {
  const w = await paymentsWorld();
  await listen(w);
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await w.deliver(eventOf("charge.refunded", w.nowS, charge("ch_1", "pi_1", 500)));
  const spent = { userId: "u", event: "chat", eventId: "e1", quantities: { count: 0, cents: 500 } };
  expect((await w.post("usage/events", spent)).status).toBe(200);
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 800)));
  await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 300, "failed")));
  const messages = (await messagesOf(w)).filter(([type]) => type.startsWith("payment."));
  expect(messages).toEqual([["payment.taken", expect.objectContaining({ seq: 2 })]]);
  expect((await w.history("u")).map(({ reason, delta }: { reason: string; delta: number }) => [reason, delta])).toEqual(
    [
      ["admin_adjust", 0],
      ["admin_adjust", 0],
      ["event_committed", -500],
      ["admin_adjust", -500],
      ["grant", 1000],
    ],
  );
});

it("the messages of a payment report once that a payment is still unmatched after ten minutes", async () => {
  // A run of the cron reports fifty payments, which could all be of other test files.
  await env.DB.prepare("UPDATE payments SET notify_at_ms = NULL").run();
  const w = await paymentsWorld();
  await listen(w);
  const unknownPack = { ...fields, metadata: { pack: "gone" } };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", unknownPack)));
  const other = { ...unknownPack, payment_intent: "pi_2" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_2", other)));
  w.clock.advance(10 * 60_000 - 1);
  await cron(w);
  expect(await messagesOf(w)).toEqual([]);
  expect((await w.settle("pi_2", { userId: "u", packId: "wallet" })).status).toBe(200);
  w.clock.advance(1);
  await Promise.all([cron(w), cron(w)]);
  w.clock.advance(HOUR_MS);
  await cron(w);
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", unknownPack)));
  const messages = (await messagesOf(w)).filter(([type]) => type === "payment.unmatched");
  expect(messages).toEqual([["payment.unmatched", { paymentKey: "pi_1", reason: "no_pack" }]]);
});
