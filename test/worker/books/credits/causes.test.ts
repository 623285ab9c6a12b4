import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { holdsPart } from "../../../../src/books/usage/expire.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { type PaymentsWorld, paymentsWorld } from "../../../support/payments.ts";
import { charge, eventOf, refund, session } from "../../../support/stripe-events.ts";
import { makeAdminCtx } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

type Line = [reason: string, cause: string, by: string];

const linesOf = async (w: Pick<PaymentsWorld, "history">): Promise<Line[]> =>
  (await w.history("u"))
    .toReversed()
    .map(({ reason, cause, by }: Record<string, string>) => [reason, cause, by?.startsWith("key_") ? "key" : by]);

const use = { userId: "u", event: "chat", quantities: { count: 0, cents: 1 } };

async function grantedWorld() {
  const w = await paymentsWorld();
  const grant = { userId: "u", packId: "Wallet", quantity: 10, externalRef: "order" };
  const [{ balanceId }] = (await w.post("credits/grant", grant)).body.balances;
  const reserve = async (id: string, more: object = {}) =>
    expect((await w.post("usage/reservations", { ...use, reservationId: `res_${id}`, ...more })).status).toBe(200);
  const settle = async (path: string, body: object = {}) =>
    expect((await w.post(`usage/reservations/res_${path}`, body)).status).toBe(200);
  const refundOf = (refundRef: string) =>
    w.post("credits/refund", { userId: "u", externalRef: "order", refundRef, share: { part: 9, of: 10 } });
  return { ...w, balanceId, reserve, settle, refundOf };
}

it("the cause and the author of a ledger entry name usage, holds, adjustments, refunds and payments of owed amounts, by the key or the administrator", async () => {
  const w = await grantedWorld();
  await w.post("usage/events", { ...use, eventId: "e" });
  await w.reserve("a");
  await w.settle("a/commit", { eventId: "of a", quantities: { count: 0, cents: 1 } });
  await w.reserve("b", { quantities: { count: 0, cents: 5 } });
  await w.admin("POST", `/api/v1/admin/balances/${w.balanceId}/adjust`, {
    key: env.ADMIN_TOKEN,
    body: { delta: 1, note: "n" },
  });
  expect((await w.refundOf("re")).body.balances[0]).toMatchObject({ taken: 4, short: 5 });
  await w.settle("b/release");
  expect(await linesOf(w)).toEqual([
    ["grant", "grant", "key"],
    ["event_committed", "usage", "key"],
    ["reservation_held", "hold", "key"],
    ["reservation_released", "hold_returned", "key"],
    ["event_committed", "usage", "key"],
    ["reservation_held", "hold", "key"],
    ["admin_adjust", "adjustment", "admin"],
    ["admin_adjust", "refund", "key"],
    ["reservation_released", "hold_returned", "key"],
    ["admin_adjust", "refund", "key"],
  ]);
});

it("the cause and the author of a ledger entry name the cron if it settles a due hold, and a reversal has the cause of the revoke", async () => {
  const w = await grantedWorld();
  await w.reserve("a", { expiresInSeconds: 60 });
  await w.reserve("b", { expiresInSeconds: 60, onExpiry: "charge" });
  await w.post("credits/revoke", { balanceId: w.balanceId });
  w.clock.advance(60_000);
  expect(await runPart(holdsPart.work, makeAdminCtx(w.clock))).toEqual([]);
  expect((await linesOf(w)).slice(3)).toEqual([
    ["admin_adjust", "revoke", "key"],
    ["reservation_expired", "hold_returned", "cron"],
    ["admin_adjust", "revoke", "cron"],
    ["reservation_released", "hold_returned", "cron"],
    ["admin_adjust", "revoke", "cron"],
  ]);
});

it("the cause and the author of a ledger entry name the caller whose write returns a due hold", async () => {
  const w = await grantedWorld();
  await w.reserve("a", { expiresInSeconds: 60 });
  w.clock.advance(60_000);
  await w.admin("POST", `/api/v1/admin/balances/${w.balanceId}/adjust`, {
    key: env.ADMIN_TOKEN,
    body: { delta: 1, note: "n" },
  });
  expect((await linesOf(w)).slice(2)).toEqual([
    ["reservation_expired", "hold_returned", "admin"],
    ["admin_adjust", "adjustment", "admin"],
  ]);
});

it("the cause and the author of a ledger entry name an erasure for the credits that it takes, and its key for these and for the holds that it returns", async () => {
  const w = await grantedWorld();
  await w.reserve("a");
  expect((await w.post("erase-person", { distinctId: "u" })).status).toBe(200);
  const { results } = await env.DB.prepare(
    `SELECT reason, cause, substr(written_by, 1, 4) AS by FROM credit_ledger
       WHERE account_id = (SELECT account_id FROM credit_balances WHERE id = ?) AND seq > 2 ORDER BY seq`,
  )
    .bind(w.balanceId)
    .all();
  expect(results).toEqual([
    { reason: "reservation_released", cause: "hold_returned", by: "key_" },
    { reason: "admin_adjust", cause: "erasure", by: "key_" },
  ]);
});

it("the cause and the author of a ledger entry name a payment, its refund and its restoration, by Stripe", async () => {
  const w = await paymentsWorld();
  const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 1000)));
  await w.deliver(eventOf("refund.failed", w.nowS + 2, refund("re_1", "ch_1", "pi_1", 900, "failed")));
  expect(await linesOf(w)).toEqual([
    ["grant", "payment", "stripe"],
    ["admin_adjust", "payment_taken", "stripe"],
    ["admin_adjust", "payment_restored", "stripe"],
  ]);
});

it("the cause and the author of a ledger entry name a payment by the administrator when it is settled by hand", async () => {
  const w = await paymentsWorld();
  const nobodys = { client_reference_id: null, metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", nobodys)));
  expect((await w.settle("pi_1", { userId: "u", packId: "wallet" })).status).toBe(200);
  expect(await linesOf(w)).toEqual([["grant", "payment", "admin"]]);
});
