import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { openDashboard, tableRows } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, refund, session } from "../../support/stripe-events.ts";
import { bound } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const DAY_S = DAY_MS / 1_000;

it("the money of the overview is that of all payments, each amount on its own day and by currency, and equals the API's sums", async () => {
  const w = await paymentsWorld();
  const pay = (index: number, atS: number, total: number, currency = "usd") =>
    w.deliver(
      eventOf(
        "checkout.session.completed",
        atS,
        session(`cs_${index}`, {
          ...{ client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: `pi_${index}`, currency },
          ...{ amount_subtotal: total, amount_total: total },
        }),
      ),
    );
  const dayS = (day: number) => w.nowS + day * DAY_S;
  await pay(1, dayS(0), 1_000);
  await pay(2, dayS(0), 2_500);
  await pay(3, dayS(1), 700, "eur");
  const give = async (type: string, day: number, object: Parameters<typeof eventOf>[2]) =>
    expect(await w.deliver(eventOf(type, dayS(day), object))).not.toBe("ignored");
  await give("charge.refunded", 1, charge("ch_1", "pi_1", 300));
  await give("charge.refunded", 3, charge("ch_1", "pi_1", 1_000));
  await give("refund.failed", 4, refund("re_1", "ch_1", "pi_1", 100, "failed"));
  await give("charge.dispute.funds_withdrawn", 4, dispute("dp_2", "ch_2", "pi_2", 2_500, [-2_500]));
  await give("charge.dispute.funds_reinstated", 6, dispute("dp_2", "ch_2", "pi_2", 2_500, [-2_500, 2_500]));
  // A repeated event, and an older one that comes late, change no day.
  await w.deliver(eventOf("charge.refunded", dayS(1), charge("ch_1", "pi_1", 300)));
  w.clock.advance(6 * DAY_MS);

  const { read } = await openDashboard(w.app, w.clock);
  const money = await read("figures?figure=money&from=2026-01-01&to=2026-02-28");
  const rows = tableRows(money.text, "Money by day");
  const date = (day: number) => new Date(dayS(day) * 1_000).toISOString().slice(0, 10);
  expect(rows).toEqual([
    `${date(6)} USD $0.00 $0.00 -$25.00 $25.00`,
    `${date(4)} USD $0.00 -$1.00 $25.00 -$24.00`,
    `${date(3)} USD $0.00 $7.00 $0.00 -$7.00`,
    `${date(1)} EUR €7.00 €0.00 €0.00 €7.00`,
    `${date(1)} USD $0.00 $3.00 $0.00 -$3.00`,
    `${date(0)} USD $35.00 $0.00 $0.00 $35.00`,
  ]);
  const { body } = await w.admin("GET", `${w.path}/payments?mode=live`, { key: env.ADMIN_TOKEN });
  expect(body.sums).toEqual([
    { currency: "eur", captured: 700, refunded: 0, withheld: 0 },
    { currency: "usd", captured: 3_500, refunded: 900, withheld: 0 },
  ]);
  const overview = (await read("overview?days=7")).text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  expect(overview).not.toContain("€7.00 paid");
  expect(overview).toContain("$26.00 $35.00 paid, $9.00 refunded");
});

it("the overview says sold of what payments granted, and tells purchases of the API apart", async () => {
  const w = await paymentsWorld();
  await w.post("credits/grant", { userId: "u", packId: "wallet", quantity: 40 });
  await w.post("credits/grant", { userId: "u", packId: "wallet", quantity: 100, source: "grant" });
  const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await flushActivity(bound());
  const { read } = await openDashboard(w.app, w.clock);
  const overview = (await read("overview")).text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  expect(overview).toContain("$11.40 $10.00 sold");
  expect(overview).toContain("Granted as a purchase elsewhere: $0.40");
});

it("granting a payment by hand preselects the pack and the quantity that Stripe named, and links its reference to the payment", async () => {
  const w = await paymentsWorld();
  const fields = { metadata: { pack: "Wallet", quantity: "250" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  const { read } = await openDashboard(w.app, w.clock);
  const { text } = await read("payments/pi_1");
  expect(text).toMatch(new RegExp(`<option value="${w.packs.wallet}" selected`));
  expect(text).toMatch(/name="quantity"[^>]*value="250"/);
  const paid = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_2" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS + 1, session("cs_2", paid)));
  const [payment] = await w.payments("&userId=u");
  const balance = await read(`users/balance?balanceId=${payment.grants[0].balanceId}`);
  expect(balance.text).toMatch(/Payment <a [^>]*href="[^"]*payments\/pi_2"/);
  const [, reference = ""] = /title="(stripe:[^"]+)"/.exec(balance.text) ?? [];
  const refund = await read(`users/refund?userId=u&externalRef=${encodeURIComponent(reference)}`);
  expect(refund.text).toContain("This reference belongs to a payment");
});
