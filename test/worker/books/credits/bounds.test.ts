import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { REFERENCE_BALANCES_MAX, USER_BALANCES_MAX } from "../../../../src/books/credits/grant.ts";
import { readAccount } from "../../../../src/books/ledger/read-account.ts";
import { expireReservations } from "../../../../src/books/usage/expire.ts";
import { type CreditsWorld, creditsWorld, storedLedger } from "../../../support/credits.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { EVENTS, RESERVATIONS } from "../../../support/paths.ts";
import { paymentsWorld } from "../../../support/payments.ts";
import { expectError } from "../../../support/rejections.ts";
import { liveBalancesSql, seededId } from "../../../support/seed.ts";
import { isSoak } from "../../../support/soak.ts";
import { eventOf, session } from "../../../support/stripe-events.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { makeAdminCtx, makeCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** How many balances one write debits or holds. */
const LEGS = 10_000;
/** 100 rules of 20 kB. With LONG_BALANCES_MAX such balances, a user's rules have the maximum length. */
const LONG_RULES = JSON.stringify(Array.from({ length: 100 }, (_, n) => ({ event: `*${"*a".repeat(89)}${n + 100}*` })));
const LONG_BALANCES_MAX = Math.floor(8_000_000 / LONG_RULES.length);
const TIMEOUT = { timeout: 120_000 };

/** A user with `count` balances of 1,000 tokens, and an open-amount pack of tokens. */
async function crowdedWorld(count: number) {
  const w = await creditsWorld();
  const account = { environmentId: w.app.environments.live.id, userId: "u" };
  for (const sql of liveBalancesSql(account, count, "[]")) await env.DB.prepare(sql).run();
  await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
  const key = w.app.keys.sk_live;
  const post = (path: string, body: object) => w.call("POST", path, { key, body });
  const grant = (more: object = {}) => w.grant({ userId: "u", packId: "legacy", quantity: 1, ...more });
  return { ...w, account, post, grant, idOf: (n: number) => seededId(account, "live", n) };
}

function expectFull(answer: Awaited<ReturnType<CreditsWorld["grant"]>>): void {
  expectError(answer, "invalid_request", "userId");
  expect(answer.body.error.details).toEqual({ limit: USER_BALANCES_MAX });
}

/** A user with as many balances with long rules as possible, a pack of one such balance, and a pack of two. */
async function fullWorld() {
  const w = await paymentsWorld();
  const account = { environmentId: w.app.environments.live.id, userId: "u" };
  for (const sql of liveBalancesSql(account, LONG_BALANCES_MAX, LONG_RULES)) await env.DB.prepare(sql).run();
  const item = { amountMinor: 1_000, unit: "tokens", matches: JSON.parse(LONG_RULES) } as const;
  const one = await makePack(w.app.appId, "Long", [item]);
  const two = await makePack(w.app.appId, "Twice", [item, item]);
  const countBalances = () =>
    env.DB.prepare(
      `SELECT count(*) AS count FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
       WHERE a.environment_id = ? AND a.user_id = 'u' AND b.matches <> '[]' AND b.revoked_at_ms IS NULL`,
    )
      .bind(account.environmentId)
      .first<number>("count");
  return {
    ...{ ...w, one, two, countBalances },
    grant: (body: object) => w.post("credits/grant", { userId: "u", ...body }),
    revoke: (n: number) => w.post("credits/revoke", { balanceId: seededId(account, "live", n) }),
  };
}

describe("a user with the maximum number of balances", () => {
  // Each test leaves the user full.
  let w: Awaited<ReturnType<typeof fullWorld>>;
  beforeAll(async () => {
    w = await fullWorld();
  }, TIMEOUT.timeout);

  it("gets the last balance from one of four racing grants, and a replay of that grant adds none", async () => {
    expect((await w.revoke(0)).status).toBe(200);
    const entries = (await storedLedger(w.app, "u")).length;
    expectFull(await w.grant({ packId: w.two }));
    const references = ["a", "b", "c", "d"];
    const answers = await Promise.all(references.map((externalRef) => w.grant({ packId: w.one, externalRef })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400]);
    for (const answer of answers) if (answer.status !== 200) expectFull(answer);
    expect(await w.countBalances()).toBe(LONG_BALANCES_MAX);
    expect(await storedLedger(w.app, "u")).toHaveLength(entries + 1);
    const landed = references[answers.findIndex(({ status }) => status === 200)];
    const replay = await w.grant({ packId: w.one, externalRef: landed });
    expect(replay.headers.get("idempotent-replayed")).toBe("true");
    expect(replay.body).toEqual(answers.find(({ status }) => status === 200)?.body);
    // Balances without rules, other users' balances and revoked balances do not count.
    expect((await w.grant({ packId: w.packs.tokens, quantity: 1 })).status).toBe(200);
    expect((await w.grant({ userId: "v", packId: w.one })).status).toBe(200);
    expect((await w.revoke(1)).status).toBe(200);
    expect((await w.grant({ packId: w.one })).status).toBe(200);
    expectFull(await w.grant({ packId: w.one }));
    const list = await w.call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_live });
    expect(list.body.credits).toHaveLength(LONG_BALANCES_MAX + 1);
  });

  it("is still full while a balance is completely held, and has room once it is spent", async () => {
    const quantities = { tokens: 1_000 };
    const event = `a${"a".repeat(100)}150`;
    const reservation = { userId: "u", reservationId: "res_full", event, quantities };
    const held = await w.post("usage/reservations", reservation);
    expect(held.body.holds).toMatchObject([{ amount: 1_000, remaining: 0 }]);
    expectFull(await w.grant({ packId: w.one }));
    expect((await w.post("usage/reservations/res_full/commit", { eventId: "e", quantities })).status).toBe(200);
    expect((await w.grant({ packId: w.one })).status).toBe(200);
    expectFull(await w.grant({ packId: w.one }));
  });

  it("gets nothing for a further payment, which is unmatched and can be settled for another user", async () => {
    const fields = { client_reference_id: "u", metadata: { pack: "long" }, payment_intent: "pi_1" };
    const event = eventOf("checkout.session.completed", w.nowS, session("cs_1", fields));
    expect(await w.deliver(event)).toBe("unmatched");
    expect(await w.deliver(event)).toBe("ignored");
    expect(await w.payments()).toMatchObject([{ status: "unmatched", reason: "quota", grants: [], userId: "u" }]);
    expectFull(await w.settle("cs_1", { userId: "u", packId: "long" }));
    expect((await w.settle("cs_1", { userId: "other", packId: "long" })).status).toBe(200);
    expect((await w.payments())[0]).toMatchObject({ status: "granted", userId: "other" });
  });

  it.runIf(isSoak)("has at most 40,000, and a list of more is rejected", { timeout: 600_000 }, async () => {
    const w = await crowdedWorld(USER_BALANCES_MAX - 1);
    expect((await w.grant()).status).toBe(200);
    expectFull(await w.grant());
    expect((await w.list({ userId: "u" })).body.credits).toHaveLength(USER_BALANCES_MAX);
    await w.revoke({ balanceId: w.idOf(0) });
    expect((await w.grant()).status).toBe(200);
    const rejection = await w.list({ userId: "u", includeExpired: "true" });
    expectError(rejection, "invalid_request");
    expect(rejection.body.error.details).toEqual({ limit: USER_BALANCES_MAX });
  });
});

it(
  "a user with 10,001 balances cannot use all of them at once, unless it has happened, and may use them in two parts",
  TIMEOUT,
  async () => {
    const w = await crowdedWorld(LEGS + 1);
    const all = { userId: "u", event: "chat", quantities: { tokens: 1_000 * (LEGS + 1) } };
    for (const [path, more] of [
      [EVENTS, { eventId: "e" }],
      [RESERVATIONS, { reservationId: "res_all" }],
    ] as const) {
      const refused = await w.post(path, { ...more, ...all });
      expectError(refused, "invalid_request", "quantities");
      expect(refused.body.error.details).toEqual({ limit: LEGS });
    }
    const partial = await w.post(EVENTS, { eventId: "e", ...all, onShortage: "partial" });
    expect(partial.status).toBe(200);
    expect([partial.body.debits.length, partial.body.uncovered]).toEqual([LEGS, { count: 0.001, tokens: 1_000 }]);
    const rest = await w.post(EVENTS, { ...all, eventId: "rest", quantities: { tokens: 1_000, count: 0 } });
    expect([rest.status, rest.body.debits.length]).toEqual([200, 1]);
  },
);

/** A user with `count` balances of 1,000 tokens under the reference "order", each of its own pack. */
async function referencedWorld(count: number) {
  const w = await crowdedWorld(1);
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)
     INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
       initial_minor, remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
     SELECT account_id, 'crb_order' || i, 'cpk_' || i, 'Pack', 1 + i, 0, 'tokens', '[]', 100, 1000, 1000, 1, 2, 'order', 1,
       expires_at_ms, i, i
     FROM credit_balances AS b CROSS JOIN n WHERE b.id = ?`,
  )
    .bind(count, w.idOf(0))
    .run();
  return w;
}

it(
  "a reference with 5,000 balances is refunded in one write, with one message, and takes no further balance",
  TIMEOUT,
  async () => {
    const w = await referencedWorld(REFERENCE_BALANCES_MAX);
    await makeEndpoint(w.app.environments.live, ["credits.refunded"]);
    const refused = await w.grant({ externalRef: "order" });
    expectError(refused, "invalid_request", "externalRef");
    expect(refused.body.error.details).toEqual({ limit: REFERENCE_BALANCES_MAX });
    expect((await w.grant({ externalRef: "another" })).status).toBe(200);
    const refund = await w.post("/api/v1/credits/refund", { userId: "u", externalRef: "order", refundRef: "r" });
    expect(refund.status).toBe(200);
    expect(refund.body.balances).toHaveLength(REFERENCE_BALANCES_MAX);
    const [message] = await storedMessages(w.app.environments.live);
    expect(message?.data.balances).toHaveLength(REFERENCE_BALANCES_MAX);
  },
);

it(
  "a user with 10,000 balances can spend, hold, commit and release all of them in one write each",
  TIMEOUT,
  async () => {
    const w = await crowdedWorld(LEGS);
    const quantities = { tokens: 1_000 * LEGS };
    const all = { userId: "u", event: "chat", quantities };
    const answer = await w.post(RESERVATIONS, { reservationId: "res_all", ...all });
    expect(answer.status).toBe(200);
    expect(answer.body.holds).toHaveLength(LEGS);
    expect((await w.post(`${RESERVATIONS}/res_all/release`, {})).status).toBe(200);
    const event = { eventId: "\u{1f4b8}".repeat(200), ...all };
    const spent = await w.post(EVENTS, event);
    expect(spent.status).toBe(200);
    expect(spent.body.debits).toHaveLength(LEGS);
    const replay = await w.post(EVENTS, event);
    expect(replay.headers.get("idempotent-replayed")).toBe("true");
    expect(replay.body).toEqual(spent.body);
    expect((await w.list({ userId: "u" })).body).toEqual({ credits: [] });
  },
);

/** A read returns 500 due holds. */
const HOLDS = 1_100;

/** A user with due holds of a free usage, half of which are charged. Their legs take up `bytes`. */
async function dueWorld(count = HOLDS, bytes = 2) {
  const w = await crowdedWorld(1);
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms, expires_at_ms,
           request_hash, is_charged)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
         SELECT a.environment_id, printf('res_due_%06d_', i) || a.id, a.id, i, 'chat', '{"tokens":0}', '[' || replace(hex(zeroblob(${bytes / 2 - 1})), '0', ' ') || ']', 'open', 1, i, 'hash',
           i % 2 = 0
         FROM n CROSS JOIN accounts AS a WHERE a.environment_id = ? AND a.user_id = 'u'`,
    ).bind(w.account.environmentId),
  ]);
  const states = async () => {
    const { results } = await env.DB.prepare(
      "SELECT state, count(*) AS count FROM reservations WHERE environment_id = ? GROUP BY state ORDER BY state",
    )
      .bind(w.account.environmentId)
      .all<{ state: string; count: number }>();
    return Object.fromEntries(results.map(({ state, count }) => [state, count]));
  };
  return { ...w, states };
}
const charged = Math.floor(HOLDS / 2);
const settled = { committed: charged, expired: HOLDS - charged };

it("more due holds than one read returns are all settled before the user's next write, in order", TIMEOUT, async () => {
  const w = await dueWorld();
  const answer = await w.post(EVENTS, { eventId: "e", userId: "u", event: "chat", quantities: { tokens: 1 } });
  expect(answer.status).toBe(200);
  expect(answer.body.debits).toMatchObject([{ amount: 1, remaining: 999 }]);
  expect(await w.states()).toEqual(settled);
  const events = await env.DB.prepare(
    "SELECT event_id FROM usage_events WHERE environment_id = ? AND reservation_id IS NOT NULL ORDER BY seq",
  )
    .bind(w.account.environmentId)
    .all<{ event_id: string }>();
  const ids = events.results.map(({ event_id }) => event_id);
  expect(ids).toHaveLength(charged);
  expect(ids).toEqual(ids.toSorted());
});

it("more due holds than one read returns are read five at a time, if each has a megabyte", TIMEOUT, async () => {
  const w = await dueWorld(12, 1_000_000);
  const ctx = makeCtx(w.app.environments.live, w.clock);
  const { account } = await readAccount(ctx, { user: { userId: "u" }, read: () => [] });
  expect([account?.due.map(({ endsAtMs }) => endsAtMs), account?.hasMoreDue]).toEqual([[1, 2, 3, 4, 5], true]);
  const answer = await w.post(EVENTS, { eventId: "e", userId: "u", event: "chat", quantities: { tokens: 1 } });
  expect(answer.status).toBe(200);
  expect(await w.states()).toEqual({ committed: 6, expired: 6 });
});

it("more due holds than one read returns are all settled by one run of the cron", TIMEOUT, async () => {
  const w = await dueWorld();
  expect(await runPart(expireReservations, makeAdminCtx(w.clock))).toEqual([]);
  expect(await w.states()).toEqual(settled);
});
