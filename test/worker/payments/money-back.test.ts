import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { type PaymentsWorld, paymentsWorld } from "../../support/payments.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, refund, session } from "../../support/stripe-events.ts";

afterAll(expectLedgerInvariants);

const withdrawn = "charge.dispute.funds_withdrawn";
const reinstated = "charge.dispute.funds_reinstated";
const use = { userId: "u", event: "chat" };

/** A user with 1000 cents in a wallet, paid with 1000. */
async function walletWorld(): Promise<PaymentsWorld> {
  const w = await paymentsWorld();
  const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  expect(await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)))).toBe("granted");
  return w;
}

const spend = (w: PaymentsWorld, eventId: string, cents: number) =>
  w.post("usage/events", { ...use, eventId, quantities: { count: 0, cents } });

it("refunds take at most what remains, and a failed refund restores what is no longer due", async () => {
  const w = await walletWorld();
  await spend(w, "e1", 600);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300)))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 100, "active"]]);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 2, charge("ch_1", "pi_1", 1000)))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 0, "revoked"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ initial: 1000, taken: 400, short: 600 }]);
  const failed = refund("re_2", "ch_1", "pi_1", 700, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 3, failed))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 100, "active"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 300, short: 0 }]);
  expect((await w.history("u")).slice(0, 3).map((e: { note: string; delta: number }) => [e.delta, e.note])).toEqual([
    [100, "Stripe refund.failed: re_2"],
    [-100, "Stripe charge.refunded: ch_1"],
    [-300, "Stripe charge.refunded: ch_1"],
  ]);
});

it("refunds are decided by Stripe's newest event, whichever arrives last", async () => {
  const w = await walletWorld();
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 500)))).toBe("taken");
  const stored = await w.stored();
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 8, charge("ch_1", "pi_1", 900)))).toBe("ignored");
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 400)))).toBe("ignored");
  expect(await w.stored()).toEqual(stored);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", 501)))).toBe("taken");
  const standing = refund("re_1", "ch_1", "pi_1", 501, "succeeded");
  expect(await w.deliver(eventOf("refund.updated", w.nowS + 10, standing))).toBe("remembered");
  const canceled = refund("re_1", "ch_1", "pi_1", 501, "canceled");
  expect(await w.deliver(eventOf("refund.updated", w.nowS + 10, canceled))).toBe("restored");
  expect(await w.deliver(eventOf("refund.updated", w.nowS + 10, standing))).toBe("ignored");
  expect(await w.balances("u")).toEqual([["cents", 1000, "active"]]);
  // A newer sum does not include a refund that failed before.
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 11, charge("ch_1", "pi_1", 100)))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 900, "active"]]);
});

it("refunds of held credits are taken when the hold returns, and count as taken", async () => {
  const w = await walletWorld();
  const reservation = await w.post("usage/reservations", {
    ...use,
    quantities: { cents: 700 },
    reservationId: "res_1",
  });
  expect(reservation.status).toBe(200);
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 1000)));
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 300, short: 700 }]);
  await w.post("usage/reservations/res_1/release", {});
  expect(await w.balances("u")).toEqual([["cents", 0, "revoked"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 1000, short: 0 }]);
  const failed = refund("re_1", "ch_1", "pi_1", 1000, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 2, failed))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 1000, "active"]]);
});

it("refunds restore nothing to a balance that the operator revoked", async () => {
  const w = await walletWorld();
  const { credits } = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body;
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 300)));
  await w.post("credits/revoke", { balanceId: credits[0].balanceId });
  await w.deliver(eventOf("charge.refunded", w.nowS + 2, charge("ch_1", "pi_1", 1000)));
  const failed = refund("re_1", "ch_1", "pi_1", 1000, "failed");
  await w.deliver(eventOf("refund.failed", w.nowS + 3, failed));
  expect(await w.balances("u")).toEqual([["cents", 0, "revoked"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 300, short: 0 }]);
});

it("refunds restore nothing to a balance that the operator revoked after everything was taken, and the ledger keeps the reason", async () => {
  const w = await walletWorld();
  const { credits } = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body;
  const { balanceId } = credits[0];
  await w.post("usage/reservations", { ...use, quantities: { cents: 300 }, reservationId: "res_1" });
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 1000)));
  const revoke = () => w.post("credits/revoke", { balanceId, reason: "fraud" });
  const answers = await Promise.all(Array.from({ length: 10 }, revoke));
  for (const { status, body } of answers) expect([status, body]).toEqual([200, { balanceId, remaining: 0 }]);
  expect((await w.history("u")).map(({ delta, note }: { delta: number; note: string }) => [delta, note])).toEqual([
    [0, "fraud"],
    [-700, "Stripe charge.refunded: ch_1"],
    [-300, null],
    [1000, "Stripe checkout.session.completed: cs_1"],
  ]);
  const failed = refund("re_1", "ch_1", "pi_1", 1000, "failed");
  await w.deliver(eventOf("refund.failed", w.nowS + 2, failed));
  await w.post("usage/reservations/res_1/release", {});
  expect(await w.balances("u")).toEqual([["cents", 0, "revoked"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 700, short: 0 }]);
});

it("refunds restore as much as the balance has room for, besides its holds", async () => {
  const w = await paymentsWorld();
  const most = 8_589_934_592;
  const fields = {
    client_reference_id: "u",
    metadata: { pack: "wallet", quantity: `${most}` },
    payment_intent: "pi_1",
  };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  const { credits } = (await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live })).body;
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 500)));
  const path = `/api/v1/admin/balances/${credits[0].balanceId}/adjust`;
  expect(
    (await w.admin("POST", path, { key: env.ADMIN_TOKEN, body: { delta: most / 2 - 1_000, note: "more" } })).status,
  ).toBe(200);
  await w.post("usage/reservations", { ...use, quantities: { cents: 300 }, reservationId: "res_1" });
  const failed = eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 500, "failed"));
  expect(await w.deliver(failed)).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", most - 300, "active"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: most / 2 - 1_000, short: 0 }]);
  await w.post("usage/reservations/res_1/release", {});
  expect(await w.balances("u")).toEqual([["cents", most, "active"]]);
  await w.deliver(eventOf("charge.refunded", w.nowS + 3, charge("ch_1", "pi_1", 1000)));
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 4, refund("re_2", "ch_1", "pi_1", 1000, "failed")))).toBe(
    "restored",
  );
  expect(await w.balances("u")).toEqual([["cents", most, "active"]]);
});

it("refunds are shares of an odd price, rounded down to a step, and add up", async () => {
  const w = await paymentsWorld();
  const fields = {
    client_reference_id: "u",
    metadata: { pack: "tokens", quantity: "100" },
    payment_intent: "pi_1",
    amount_total: 300,
  };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  const remaining: number[] = [];
  for (const part of [100, 200, 300]) {
    await w.deliver(eventOf("charge.refunded", w.nowS + part, charge("ch_1", "pi_1", part, 300)));
    remaining.push((await w.balances("u"))[0]?.[1] ?? Number.NaN);
  }
  expect(remaining).toEqual([66.667, 33.334, 0]);
});

it("disputes withhold and restore credits, even in part", async () => {
  const w = await walletWorld();
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 200)));
  const out = dispute("dp_1", "ch_1", "pi_1", 800, [-800]);
  expect(await w.deliver(eventOf(withdrawn, w.nowS + 2, out))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 0, "revoked"]]);
  expect((await w.payments())[0]).toMatchObject({ captured: 1000, refunded: 200, withheld: 800 });
  const part = dispute("dp_1", "ch_1", "pi_1", 800, [-800, 500]);
  expect(await w.deliver(eventOf(reinstated, w.nowS + 3, part))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 500, "active"]]);
  expect(await w.deliver(eventOf(withdrawn, w.nowS + 3, out))).toBe("ignored");
  const whole = dispute("dp_1", "ch_1", "pi_1", 800, [-800, 800]);
  expect(await w.deliver(eventOf(reinstated, w.nowS + 4, whole))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 800, "active"]]);
  const foreign = dispute("dp_2", "ch_1", "pi_1", 300, [-270], "eur");
  expect(await w.deliver(eventOf(withdrawn, w.nowS + 5, foreign))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 500, "active"]]);
  expect((await w.history("u"))[0].note).toBe("Stripe charge.dispute.funds_withdrawn: dp_2");
});

it("disputes in another currency withhold the part that is still withdrawn, and nothing after they are won", async () => {
  const w = await walletWorld();
  const disputeOf = (moved: number[], status?: string) => dispute("dp_1", "ch_1", "pi_1", 600, moved, "eur", status);
  expect(await w.deliver(eventOf(withdrawn, w.nowS + 1, disputeOf([-540])))).toBe("taken");
  expect(await w.balances("u")).toEqual([["cents", 400, "active"]]);
  expect(await w.deliver(eventOf(reinstated, w.nowS + 2, disputeOf([-540, 360])))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 800, "active"]]);
  // The exchange rate has changed, so less comes back than was withdrawn.
  expect(await w.deliver(eventOf(reinstated, w.nowS + 3, disputeOf([-540, 530], "won")))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 1000, "active"]]);
});

it("disputes use the session's amount while no charge is known", async () => {
  const w = await paymentsWorld();
  await w.deliver(eventOf(withdrawn, w.nowS, dispute("dp_1", "ch_1", "pi_1", 500, [-500])));
  const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  expect(await w.balances("u")).toEqual([["cents", 500, "active"]]);
});
