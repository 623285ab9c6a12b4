import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { countingD1 } from "../../../support/counting-d1.ts";
import { storedLedger } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { paymentsWorld } from "../../../support/payments.ts";
import { expectError } from "../../../support/rejections.ts";
import { charge, eventOf, session } from "../../../support/stripe-events.ts";
import { makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const OWED = 5_000;
const TIMEOUT = { timeout: 120_000 };

/** A user with balances of 1,000 tokens, some under each reference, all of them held. */
async function heldWorld(references: Readonly<Record<string, number>>) {
  const { d1, spent } = countingD1(env.DB);
  const w = await paymentsWorld({ DB: d1 });
  const packId = await makePack(w.app.appId, "One", [{ amountMinor: 1_000_000, unit: "tokens" }]);
  for (const [externalRef, count] of Object.entries(references)) {
    const granted = await w.post("credits/grant", { userId: "u", packId, externalRef });
    expect(granted.status).toBe(200);
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
         initial_minor, remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
       SELECT account_id, id || i, 'cpk_' || i, 'Pack', 1000 + i, 0, 'tokens', '[]', 100, 1000000, 1000000, 1, 2, external_ref, 1,
         expires_at_ms, grant_seq + i, grant_seq + i
       FROM credit_balances AS b CROSS JOIN n WHERE b.id = ? AND ? > 1`,
    )
      .bind(count - 1, granted.body.balances[0].balanceId, count)
      .run();
  }
  const total = Object.values(references).reduce((sum, count) => sum + count, 0);
  const held = { userId: "u", event: "chat", quantities: { count: 0, tokens: 1_000 * total }, expiresInSeconds: 60 };
  expect((await w.post("usage/reservations", { ...held, reservationId: "res_all" })).status).toBe(200);
  return {
    ...{ ...w, packId, spent },
    refund: (refundRef: string, externalRef: string) =>
      w.post("credits/refund", { userId: "u", externalRef, refundRef, share: { part: 1, of: 1_000 } }),
    release: (id = "res_all") => w.post(`usage/reservations/${id}/release`, {}),
    spend: (eventId: string) =>
      w.post("usage/events", { userId: "u", event: "chat", eventId, quantities: { count: 0, tokens: 1 } }),
    owed: () =>
      env.DB.prepare(
        `SELECT count(*) AS count FROM refund_owed
         WHERE account_id = (SELECT id FROM accounts WHERE environment_id = ? AND user_id = 'u')`,
      )
        .bind(w.app.environments.live.id)
        .first<number>("count"),
    verify: async () => (await w.call("GET", "/api/v1/credits/verify?userId=u", { key: w.app.keys.sk_live })).body,
  };
}

it(
  "a user whose held credits owe 5,000 refunds writes on after the hold's end: one refund of 5,000 balances is paid by their returns",
  TIMEOUT,
  async () => {
    const w = await heldWorld({ many: OWED });
    w.spent();
    expect((await w.refund("re-1", "many")).status).toBe(200);
    // Each balance is looked up among the held ones, not compared with each of them.
    expect(w.spent().rowsRead).toBeLessThan(100 * OWED);
    expect(await w.owed()).toBe(OWED);
    expect((await w.verify()).isSound).toBe(true);
    w.clock.ms += 60_000;
    w.spent();
    expect((await w.spend("e1")).status).toBe(200);
    expect(w.spent().rowsRead).toBeLessThan(100 * OWED);
    expect(await w.owed()).toBe(0);
    expect((await w.verify()).isSound).toBe(true);
  },
);

it(
  "a user whose held credits owe 5,000 refunds gets no further refund that would be owed, before the holds end",
  TIMEOUT,
  async () => {
    const w = await heldWorld({ many: OWED - 1, one: 1, spent: 1 });
    expect((await w.refund("re-1", "many")).status).toBe(200);
    expect((await w.refund("re-1", "one")).status).toBe(200);
    expect(await w.owed()).toBe(OWED);
    const entries = (await storedLedger(w.app, "u")).length;
    const refused = await w.refund("re-1", "spent");
    expectError(refused, "invalid_request", "externalRef");
    expect(refused.body.error.details).toEqual({ limit: OWED });
    expect(refused.body.error.message).toContain("at most 24 hours");
    expect([await w.owed(), (await storedLedger(w.app, "u")).length]).toEqual([OWED, entries]);
    const replay = await w.refund("re-1", "one");
    expect([replay.status, replay.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    // A refund of credits that are not held owes nothing.
    expect((await w.post("credits/grant", { userId: "u", packId: w.packId, externalRef: "free" })).status).toBe(200);
    expect((await w.refund("re-1", "free")).status).toBe(200);
    expect((await w.release()).status).toBe(200);
    expect(await w.owed()).toBe(0);
    expect((await w.refund("re-1", "spent")).body.balances).toMatchObject([{ taken: 1, short: 0 }]);
    expect((await w.verify()).isSound).toBe(true);
  },
);

it(
  "a user whose held credits owe 5,000 refunds owes at most 5,000 when refunds race for the last place",
  TIMEOUT,
  async () => {
    const w = await heldWorld({ many: OWED - 1, a: 1, b: 1, c: 1 });
    expect((await w.refund("re-1", "many")).status).toBe(200);
    const answers = await Promise.all(["a", "b", "c"].map((reference) => w.refund("re-1", reference)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400, 400]);
    expect(await w.owed()).toBe(OWED);
  },
);

it(
  "a user whose held credits owe 5,000 refunds loses no payment's credits to a refund at Stripe before the holds end: the event comes again",
  TIMEOUT,
  async () => {
    const w = await heldWorld({ many: OWED });
    const fields = { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
    await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
    const hold = { userId: "u", reservationId: "res_cents", event: "chat", quantities: { count: 0, cents: 1_000 } };
    expect((await w.post("usage/reservations", hold)).status).toBe(200);
    expect((await w.refund("re-1", "many")).status).toBe(200);
    const before = await w.payments();
    const entries = (await storedLedger(w.app, "u")).length;
    const refunded = eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", 900));
    for (let delivery = 1; delivery <= 2; delivery++) {
      const answer = await w.send(refunded);
      expectError(answer, "temporarily_unavailable");
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "3600"]);
    }
    expect(await w.payments()).toEqual(before);
    expect([await w.owed(), (await storedLedger(w.app, "u")).length]).toEqual([OWED, entries]);
    const logged = (await w.events()).filter(({ type }: { type: string }) => type === "charge.refunded");
    expect(logged).toMatchObject([
      { eventId: refunded.id, outcome: "ignored", reason: "refunds_owed", hint: expect.stringContaining("24 hours") },
    ]);
    expect((await w.release()).status).toBe(200);
    expect(await w.deliver(refunded)).toBe("taken");
    expect((await w.events()).filter(({ type }: { type: string }) => type === "charge.refunded")).toMatchObject([
      { eventId: refunded.id, outcome: "taken", reason: null },
    ]);
    expect(await w.owed()).toBe(1);
    expect((await w.release("res_cents")).status).toBe(200);
    expect(await w.balances("u")).toContainEqual(["cents", 100, "active"]);
  },
);

/** A user with a balance of 1,000 tokens in `count` equal holds, which end one after another, and a refund that they owe. */
async function owingHolds(count: number, shares: number) {
  const w = await heldWorld({ one: 1 });
  expect((await w.release()).status).toBe(200);
  const first = { userId: "u", event: "chat", quantities: { count: 0, tokens: 1_000 / count } };
  for (let n = 0; n < 2; n++) {
    const hold = { ...first, reservationId: `res_${n}`, expiresInSeconds: 60 * (n + 1) };
    expect((await w.post("usage/reservations", hold)).status).toBe(200);
  }
  await env.DB.batch([
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq,
           kind, written_by, reservation_number, occurred_at_ms)
         SELECT account_id, seq + i - 2, grant_seq, delta_minor, balance_after_minor + delta_minor * (i - 2), seq + i - 3,
           kind, written_by, 1 + i, occurred_at_ms
         FROM credit_ledger CROSS JOIN n WHERE i <= ${count} AND reservation_number = 3 AND account_id = (
           SELECT id FROM accounts WHERE environment_id = ?
         ) ORDER BY i`,
    ).bind(count, w.app.environments.live.id),
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms, expires_at_ms,
           request_hash, is_charged, created_at_seq)
         SELECT environment_id, 'res_more_' || i, account_id, 1 + i, event, quantities, legs, state, created_at_ms, expires_at_ms + i - 2,
           request_hash, is_charged, created_at_seq + i - 2
         FROM reservations CROSS JOIN n WHERE i <= ${count} AND id = 'res_1' AND environment_id = ?`,
    ).bind(count, w.app.environments.live.id),
  ]);
  const share = { part: shares, of: 1_000 };
  const refund = { userId: "u", externalRef: "one", refundRef: "re-1", share };
  expect((await w.post("credits/refund", refund)).body.balances).toMatchObject([{ taken: 0 }]);
  return w;
}

it(
  "due holds of one balance that owes a refund pay it, though more statements than one settle them",
  TIMEOUT,
  async () => {
    const w = await owingHolds(1_000, 900);
    const remaining = async () => (await w.balances("u"))[0]?.[1];
    expect([await w.owed(), await remaining()]).toEqual([1, 0]);
    w.clock.ms += 121_000;
    expect((await w.spend("e1")).status).toBe(200);
    expect([await w.owed(), await remaining()]).toEqual([0, 99]);
    expect((await w.verify()).isSound).toBe(true);
  },
);

it(
  "due holds of one balance that owes a refund pay it before the release of a hold that would pay it too",
  TIMEOUT,
  async () => {
    const w = await owingHolds(2, 998);
    w.clock.ms += 60_000;
    expect((await w.release("res_1")).body).toMatchObject({ status: "released" });
    expect([await w.owed(), await w.balances("u")]).toEqual([0, [["tokens", 2, "active"]]]);
    expect((await w.verify()).isSound).toBe(true);
  },
);

it(
  "due holds of one balance that owes a refund pay it, though a period begins between their ends",
  TIMEOUT,
  async () => {
    const w = await owingHolds(2, 998);
    const recurring = {
      userId: "u",
      packId: w.packId,
      recurringId: "rec_1",
      every: "day",
      startsAt: new Date(w.clock.ms + 90_000).toISOString(),
    };
    const made = await w.post("credits/recurring", recurring);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    w.clock.ms += 121_000;
    expect((await w.spend("e1")).status).toBe(200);
    expect(await w.owed()).toBe(0);
    expect((await w.verify()).isSound).toBe(true);
  },
);
