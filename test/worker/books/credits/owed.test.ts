import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { creditsWorld, storedLedger } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { paymentsWorld } from "../../../support/payments.ts";
import { charge, eventOf, refund, session } from "../../../support/stripe-events.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { makeClient, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** A user with 1,000 tokens under "order-1". */
async function makeWorld() {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "One", [{ amountMinor: 1_000_000, unit: "tokens" }]);
  const post = (path: string, body: unknown) => w.call("POST", `/api/v1/${path}`, { key: w.app.keys.sk_live, body });
  const granted = await w.grant({ userId: "u", packId, externalRef: "order-1" });
  const balanceId: string = granted.body.balances[0].balanceId;
  return {
    ...w,
    ...{ packId, balanceId, post },
    hold: async (id: string, tokens: number, more: object = {}) => {
      const body = {
        userId: "u",
        reservationId: `res_${id}`,
        event: "chat",
        quantities: { count: 0, tokens },
        ...more,
      };
      expect((await post("usage/reservations", body)).status).toBe(200);
    },
    refund: async (refundRef: string, part: number, of = 100) => {
      const body = {
        userId: "u",
        externalRef: "order-1",
        refundRef,
        share: { part, of },
        reason: `because ${refundRef}`,
      };
      const answer = await post("credits/refund", body);
      expect(answer.status).toBe(200);
      return answer.body.balances[0];
    },
    release: (id: string) => post(`usage/reservations/res_${id}/release`, {}),
    commit: (id: string, tokens: number, more: object = {}) =>
      post(`usage/reservations/res_${id}/commit`, { eventId: `of ${id}`, quantities: { count: 0, tokens }, ...more }),
    remaining: async () => (await w.list({ userId: "u", includeExpired: "true" })).body.credits[0].remaining,
    /** The owed amounts, in units, oldest first. */
    owed: async () => {
      const { results } = await env.DB.prepare(
        `SELECT owed_minor AS minor FROM refund_owed
         WHERE account_id = (SELECT id FROM accounts WHERE environment_id = ? AND user_id = 'u') ORDER BY seq`,
      )
        .bind(w.app.environments.live.id)
        .all<{ minor: number }>();
      return results.map(({ minor }) => minor / 1_000);
    },
    /** The entries after the first `count`: delta, reason and note. */
    entries: async (count: number) =>
      (await storedLedger(w.app, "u")).slice(count).map(([, minor, ...rest]) => [Number(minor) / 1_000, ...rest]),
    verify: async () => (await w.call("GET", "/api/v1/credits/verify?userId=u", { key: w.app.keys.sk_live })).body,
  };
}

it("the amount that a refund cannot take because it is held is taken when the hold is released, with the refund's note", async () => {
  const w = await makeWorld();
  await w.hold("a", 1_000);
  expect(await w.refund("re-1", 90)).toMatchObject({ taken: 0, short: 900, remaining: 0 });
  expect(await w.owed()).toEqual([900]);
  expect((await w.release("a")).status).toBe(200);
  expect(await w.remaining()).toBe(100);
  expect(await w.owed()).toEqual([]);
  expect(await w.entries(2)).toEqual([
    [0, "admin_adjust", "because re-1"],
    [1_000, "reservation_released", null],
    [-900, "admin_adjust", "because re-1"],
  ]);
  expect((await w.verify()).isSound).toBe(true);
});

it("the amount that a refund cannot take because it is held is lowered by a commit only if the hold then has less", async () => {
  const w = await makeWorld();
  await w.hold("a", 1_000);
  await w.refund("re-1", 90);
  expect((await w.commit("a", 40)).body.debits).toMatchObject([{ amount: 40, remaining: 960 }]);
  expect(await w.remaining()).toBe(60);
  expect(await w.owed()).toEqual([]);
  expect((await w.entries(3)).map(([delta]) => delta)).toEqual([1_000, -40, -900]);
});

it("the amount that a refund cannot take because it is held is forgiven as far as it was spent", async () => {
  const w = await makeWorld();
  await w.hold("a", 600);
  const spent = { userId: "u", event: "chat", eventId: "e1", quantities: { count: 0, tokens: 400 } };
  expect((await w.post("usage/events", spent)).status).toBe(200);
  expect(await w.refund("re-1", 90)).toMatchObject({ taken: 0, short: 900 });
  expect(await w.owed()).toEqual([600]);
  await w.commit("a", 500);
  expect(await w.remaining()).toBe(0);
  expect(await w.owed()).toEqual([]);
});

it("the amount that a refund cannot take because it is held is not paid by amounts held after the refund", async () => {
  const w = await makeWorld();
  await w.hold("a", 900);
  await w.refund("re-1", 50);
  expect(await w.owed()).toEqual([400]);
  const adjusted = { key: env.ADMIN_TOKEN, body: { delta: 300, note: "sorry" } };
  expect((await w.call("POST", `/api/v1/admin/balances/${w.balanceId}/adjust`, adjusted)).status).toBe(200);
  await w.hold("later", 300);
  await w.release("later");
  expect([await w.remaining(), await w.owed()]).toEqual([300, [400]]);
  await w.hold("again", 300);
  await w.commit("a", 800);
  expect([await w.remaining(), await w.owed()]).toEqual([0, []]);
  await w.release("again");
  expect(await w.remaining()).toBe(300);
});

it("the amount that a refund cannot take because it is held is kept per refund, and the oldest is paid first, one entry each", async () => {
  const w = await makeWorld();
  await w.hold("a", 300);
  await w.hold("b", 700);
  await w.refund("re-1", 40);
  await w.refund("re-2", 50);
  expect(await w.owed()).toEqual([400, 500]);
  await w.release("a");
  expect([await w.remaining(), await w.owed()]).toEqual([0, [100, 500]]);
  await w.commit("b", 50);
  expect([await w.remaining(), await w.owed()]).toEqual([50, []]);
  expect((await w.entries(3)).filter(([, reason]) => reason === "admin_adjust").slice(2)).toEqual([
    [-300, "admin_adjust", "because re-1"],
    [-100, "admin_adjust", "because re-1"],
    [-500, "admin_adjust", "because re-2"],
  ]);
});

it("the amount that a refund cannot take because it is held decreases to what the other hold still has after one is used up", async () => {
  const w = await makeWorld();
  await w.hold("a", 600);
  await w.hold("b", 400);
  await w.refund("re-1", 90);
  await w.commit("a", 600);
  expect(await w.owed()).toEqual([400]);
  await w.release("b");
  expect([await w.remaining(), await w.owed()]).toEqual([0, []]);
});

it("the amount that a refund cannot take because it is held is paid when the hold expires or is charged, before the event that found it due", async () => {
  const w = await makeWorld();
  await w.hold("a", 300, { expiresInSeconds: 10 });
  await w.hold("b", 600, { expiresInSeconds: 20, onExpiry: "charge" });
  await w.refund("re-1", 30);
  w.clock.ms += 10_000;
  const spent = { userId: "u", event: "chat", quantities: { count: 0, tokens: 150 } };
  const plan = await w.post("credits/plan", spent);
  expect(plan.body).toMatchObject({ debits: [{ amount: 100, remaining: 0 }], uncovered: { tokens: 50 } });
  const refused = await w.post("usage/events", { ...spent, eventId: "e1" });
  expect([refused.status, refused.body.error.details.uncovered]).toEqual([402, { tokens: 50 }]);
  w.clock.ms += 10_000;
  await w.post("usage/events", { ...spent, eventId: "e2", onShortage: "partial" });
  expect([await w.remaining(), await w.owed()]).toEqual([0, []]);
  expect((await w.verify()).isSound).toBe(true);
});

it("the amount that a refund cannot take because it is held ends when the balance is revoked: one entry takes the whole return", async () => {
  const w = await makeWorld();
  await w.hold("a", 1_000);
  await w.refund("re-1", 90);
  expect((await w.revoke({ balanceId: w.balanceId, reason: "fraud" })).status).toBe(200);
  expect(await w.owed()).toEqual([]);
  await w.release("a");
  expect((await w.entries(3)).map(([delta]) => delta)).toEqual([0, 1_000, -1_000]);
});

it("the amount that a refund cannot take because it is held is paid once when refunds and releases race", async () => {
  const w = await makeWorld();
  const ids = Array.from({ length: 10 }, (_, index) => `h${index}`);
  for (const id of ids) await w.hold(id, 100);
  await Promise.all([
    ...ids.map((id) => w.release(id)),
    ...ids.map((id) => w.refund(`re-${id}`, 9)),
    ...ids.map((id) => w.commit(`${id}`, 0)),
  ]);
  expect([await w.remaining(), await w.owed()]).toEqual([100, []]);
  expect((await w.verify()).isSound).toBe(true);
});

it("the amount that a refund cannot take because it is held sends credits.adjusted with the refund's note, and can fire an alert", async () => {
  const w = await makeWorld();
  await makeEndpoint(w.app.environments.live);
  const alert = { mode: "live", name: "low", unit: "tokens", below: { amount: 200 } };
  const path = `/api/v1/admin/apps/${w.app.appId}/alerts`;
  expect((await w.call("POST", path, { key: env.ADMIN_TOKEN, body: alert })).status).toBe(200);
  await w.hold("a", 1_000);
  await w.refund("re-1", 90);
  await w.release("a");
  const messages = (await storedMessages(w.app.environments.live)).map(({ type, data, deliveries }) => [
    ...[type, data.seq, deliveries],
    ...[data.delta ?? null, data.remaining ?? null, data.note ?? null],
  ]);
  expect(messages.toSorted()).toEqual([
    ["credits.adjusted", 5, 1, -900, 100, "because re-1"],
    ["credits.low", 5, 1, null, 100, null],
    ["credits.refunded", 3, 1, null, null, null],
  ]);
});

it("the amount that a refund cannot take because it is held is respected by an isolate that remembers the account from before the refund", async () => {
  const w = await makeWorld();
  await w.hold("a", 400);
  await w.hold("b", 400);
  // Another isolate refunds.
  const body = { userId: "u", externalRef: "order-1", refundRef: "re-1", share: { part: 50, of: 100 } };
  const refunded = { key: w.app.keys.sk_live, body };
  expect((await makeClient(w.clock)("POST", "/api/v1/credits/refund", refunded)).status).toBe(200);
  await w.commit("a", 10);
  const spend = (eventId: string, tokens: number) =>
    w.post("usage/events", { userId: "u", event: "chat", eventId, quantities: { count: 0, tokens } });
  expect((await spend("e1", 91)).status).toBe(402);
  expect((await spend("e2", 90)).body.debits).toMatchObject([{ amount: 90, remaining: 0 }]);
  expect(await w.owed()).toEqual([]);
});

it("the amount that a refund cannot take because it is held costs a row for each refund that is owed, and three for each that is paid, and no further trip", async () => {
  const w = await makeWorld();
  const counting = countingD1(env.DB);
  const call = makeClient(w.clock, { DB: counting.d1 });
  const cost = async (path: string, body: object) => {
    counting.spent();
    expect((await call("POST", `/api/v1/${path}`, { key: w.app.keys.sk_live, body })).status).toBe(200);
    const { rowsWritten, roundTrips } = counting.spent();
    return { rowsWritten, roundTrips };
  };
  const refund = (refundRef: string) =>
    cost("credits/refund", { userId: "u", externalRef: "order-1", refundRef, share: { part: 1, of: 10 } });
  const hold = (reservationId: string, tokens: number) =>
    cost("usage/reservations", { userId: "u", reservationId, event: "chat", quantities: { count: 0, tokens } });
  await hold("res_a", 500);
  await hold("res_b", 500);
  const owing = [await refund("re-1"), await refund("re-2")];
  for (const { rowsWritten } of owing) expect(rowsWritten).toBeLessThanOrEqual(4 + 2 + 2);
  const paid = await cost("usage/reservations/res_a/commit", {
    ...{ eventId: "e1", quantities: { count: 0, tokens: 10 } },
  });
  // The last row marks the user for the sums of days.
  expect(paid.rowsWritten).toBeLessThanOrEqual(4 + 5 + 2 * 3 + 1 + 1);
  expect(paid.roundTrips).toBe(2);
  expect([await w.remaining(), await w.owed()]).toEqual([290, []]);
  const released = await cost("usage/reservations/res_b/release", {});
  expect(released.rowsWritten).toBeLessThanOrEqual(4);
});

it("the amount that a refund cannot take because it is held is a error in the verification if it is more than open holds have", async () => {
  const w = await makeWorld();
  await w.hold("a", 1_000);
  await w.refund("re-1", 90);
  expect((await w.verify()).flaws).toEqual([]);
  await env.DB.batch([
    env.DB.prepare("DELETE FROM refund_owed WHERE balance_id = ?").bind(w.balanceId),
    env.DB.prepare(
      `INSERT INTO refund_owed (account_id, balance_id, seq, owed_minor)
         SELECT account_id, id, last_seq, 1000001 FROM credit_balances WHERE id = ?`,
    ).bind(w.balanceId),
  ]);
  expect((await w.verify()).flaws).toEqual([{ balanceId: w.balanceId, kind: "owed" }]);
  // The release takes no more than it returned.
  await w.release("a");
  expect([await w.remaining(), await w.owed(), (await w.verify()).isSound]).toEqual([0, [], true]);
});

it("the amount that a refund cannot take because it is held is guarded by the database: only for an entry of a balance that is not revoked, only decreasing, never 0", async () => {
  const w = await makeWorld();
  await w.hold("a", 1_000);
  await w.refund("re-1", 90);
  const of = `WHERE balance_id = '${w.balanceId}'`;
  for (const sql of [
    `UPDATE refund_owed SET owed_minor = owed_minor + 1 ${of}`,
    `UPDATE refund_owed SET owed_minor = 0 ${of}`,
    `UPDATE refund_owed SET seq = seq + 1 ${of}`,
    `INSERT OR REPLACE INTO refund_owed SELECT account_id, balance_id, seq, 1 FROM refund_owed ${of}`,
    `INSERT INTO refund_owed SELECT account_id, balance_id, 1, 1 FROM refund_owed ${of}`,
  ]) {
    await expect(env.DB.prepare(sql).run(), sql).rejects.toThrow("SQLITE_CONSTRAINT");
  }
  expect(await w.owed()).toEqual([900]);
});

async function heldWallet() {
  const w = await paymentsWorld();
  const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await makeEndpoint(w.app.environments.live);
  const hold = { userId: "u", reservationId: "res_a", event: "chat", quantities: { count: 0, cents: 1000 } };
  expect((await w.post("usage/reservations", hold)).status).toBe(200);
  expect(await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 900)))).toBe("taken");
  return w;
}

it("the amount that a payment cannot take back because it is held is taken when the hold is released, counts as taken, and sends payment.taken", async () => {
  const w = await heldWallet();
  await w.post("usage/reservations/res_a/release", {});
  expect(await w.balances("u")).toEqual([["cents", 100, "active"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 900, short: 0 }]);
  const messages = (await storedMessages(w.app.environments.live)).filter(({ type }) => type === "payment.taken");
  expect(messages).toHaveLength(1);
  expect(messages[0]?.data).toEqual({
    ...{ userId: "u", paymentKey: "pi_1", seq: 5 },
    balances: [{ balanceId: expect.any(String), unit: "cents", delta: -900, remaining: 100 }],
  });
  const failed = refund("re_2", "ch_1", "pi_1", 900, "failed");
  expect(await w.deliver(eventOf("refund.failed", w.nowS + 3, failed))).toBe("restored");
  expect(await w.balances("u")).toEqual([["cents", 1000, "active"]]);
});

it("the amount that a payment cannot take back because it is held is no longer owed when less is due", async () => {
  const w = await heldWallet();
  const failed = refund("re_2", "ch_1", "pi_1", 900, "failed");
  await w.deliver(eventOf("refund.failed", w.nowS + 3, failed));
  await w.post("usage/reservations/res_a/release", {});
  expect(await w.balances("u")).toEqual([["cents", 1000, "active"]]);
  expect((await w.payments())[0].grants).toMatchObject([{ taken: 0, short: 0 }]);
});
