import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { creditsWorld, storedLedger } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { describeRejections, expectError } from "../../../support/rejections.ts";
import { makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** A user with 400 tokens and 5 cents, granted as "Two" under "order-1". */
async function makeWorld(more: object = {}) {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens" },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  const post = (path: string, body: unknown) => w.call("POST", `/api/v1/${path}`, { key: w.app.keys.sk_live, body });
  const granted = await w.grant({ userId: "u", packId, externalRef: "order-1", ...more });
  const [tokens, cents]: string[] = granted.body.balances.map((b: { balanceId: string }) => b.balanceId);
  return {
    ...w,
    ...{ packId, tokens, cents, post },
    refund: (body: object = {}) =>
      post("credits/refund", { userId: "u", externalRef: "order-1", refundRef: "re-1", ...body }),
    spend: (eventId: string, quantities: object) =>
      post("usage/events", { userId: "u", event: "chat", eventId, quantities: { count: 0, ...quantities } }),
    listed: async () => {
      const { credits } = (await w.list({ userId: "u", includeExpired: "true" })).body;
      return Object.fromEntries(
        credits.map((b: { balanceId: string; remaining: number; status: string }) => [
          b.balanceId,
          [b.remaining, b.status],
        ]),
      );
    },
    /** Everything that a refund writes. */
    writtenRows: async () => [
      await storedLedger(w.app, "u"),
      (
        await env.DB.prepare(
          "SELECT * FROM credit_refunds WHERE account_id IN (SELECT id FROM accounts WHERE environment_id = ?)",
        )
          .bind(w.app.environments.live.id)
          .all()
      ).results,
    ],
  };
}
type World = Awaited<ReturnType<typeof makeWorld>>;

const amounts = (answer: { body: { balances: { taken: number; short: number; remaining: number }[] } }) =>
  answer.body.balances.map(({ taken, short, remaining }) => [taken, short, remaining]);

async function expectRejected(w: World, body: object, code: Parameters<typeof expectError>[1], param: string) {
  const before = await w.writtenRows();
  const answer = await w.refund(body);
  expectError(answer, code, param);
  expect(await w.writtenRows()).toEqual(before);
  return answer;
}

it("a refund takes back the share of each balance's issued amount, with one entry each and the reason, in their original order", async () => {
  const w = await makeWorld();
  const answer = await w.refund({ share: { part: 500, of: 1_500 }, reason: "refunded in part" });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("idempotent-replayed")).toBeNull();
  const of = { packItemId: expect.stringMatching(/^cpi_/), short: 0 };
  expect(answer.body).toEqual({
    refundRef: "re-1",
    externalRef: "order-1",
    balances: [
      { ...of, balanceId: w.tokens, unit: "tokens", taken: 133.333, remaining: 266.667 },
      { ...of, balanceId: w.cents, unit: "cents", taken: 1.666666, remaining: 3.333334 },
    ],
  });
  expect((await storedLedger(w.app, "u")).slice(2)).toEqual([
    [w.tokens, -133_333, "admin_adjust", "refunded in part"],
    [w.cents, -1_666_666, "admin_adjust", "refunded in part"],
  ]);
  expect(await w.listed()).toEqual({ [`${w.tokens}`]: [266.667, "active"], [`${w.cents}`]: [3.333334, "active"] });
});

it("a refund adds up exactly with other refunds of its reference, and at a sum of 1 the entry that takes the rest also revokes", async () => {
  const w = await makeWorld();
  const share = { part: 1, of: 3 };
  expect(amounts(await w.refund({ share }))[0]).toEqual([133.333, 0, 266.667]);
  expect(amounts(await w.refund({ refundRef: "re-2", share: { part: 2, of: 6 } }))[0]).toEqual([133.333, 0, 133.334]);
  expect(amounts(await w.refund({ refundRef: "re-3", share }))[0]).toEqual([133.334, 0, 0]);
  expect(await w.listed()).toEqual({ [`${w.tokens}`]: [0, "revoked"], [`${w.cents}`]: [0, "revoked"] });
  expect(await storedLedger(w.app, "u")).toHaveLength(8);
});

it("a refund without a share takes the whole rest, and then nothing is left to refund", async () => {
  const w = await makeWorld();
  await w.refund({ share: { part: 1, of: 4 } });
  expect(amounts(await w.refund({ refundRef: "re-2" }))).toEqual([
    [300, 0, 0],
    [3.75, 0, 0],
  ]);
  expect(await w.listed()).toEqual({ [`${w.tokens}`]: [0, "revoked"], [`${w.cents}`]: [0, "revoked"] });
  await expectRejected(w, { refundRef: "re-3" }, "invalid_request", "share");
  await expectRejected(w, { refundRef: "re-3", share: { part: 1, of: 1_000_000_000_000 } }, "invalid_request", "share");
});

it("a refund takes what remains, reports spent or held amounts as short, and later refunds do not take these", async () => {
  const w = await makeWorld();
  await w.spend("e1", { tokens: 300 });
  const hold = { userId: "u", event: "chat", reservationId: "res_held", quantities: { count: 0, tokens: 50 } };
  expect((await w.post("usage/reservations", hold)).status).toBe(200);
  expect(amounts(await w.refund({ share: { part: 1, of: 2 } }))[0]).toEqual([50, 150, 0]);
  await w.post("usage/reservations/res_held/release", {});
  // The held amount was owed, and was taken when it returned (owed.test.ts).
  expect(amounts(await w.refund({ refundRef: "re-2", share: { part: 1, of: 10 } }))[0]).toEqual([0, 40, 0]);
  // At a sum of 1 all that remains is taken. A balance that gives nothing gets an entry too.
  expect(amounts(await w.refund({ refundRef: "re-3" }))).toEqual([
    [0, 160, 0],
    [2, 0, 0],
  ]);
  await expectRejected(w, { refundRef: "re-4" }, "invalid_request", "share");
});

it("a refund also takes the amount that an adjustment added if the shares add up to 1", async () => {
  const w = await makeWorld();
  const path = `/api/v1/admin/balances/${w.tokens}/adjust`;
  const adjusted = await w.call("POST", path, { key: env.ADMIN_TOKEN, body: { delta: 100, note: "sorry" } });
  expect(adjusted.body.remaining).toBe(500);
  expect(amounts(await w.refund())[0]).toEqual([500, 0, 0]);
});

it("a refund of a revoked balance writes an entry of delta 0 with the reason, and the whole due amount is short", async () => {
  const w = await makeWorld();
  await w.revoke({ balanceId: w.tokens, reason: "fraud" });
  expect(amounts(await w.refund({ share: { part: 1, of: 2 }, reason: "refunded" }))).toEqual([
    [0, 200, 0],
    [2.5, 0, 2.5],
  ]);
  expect((await storedLedger(w.app, "u")).slice(3)).toEqual([
    [w.tokens, 0, "admin_adjust", "refunded"],
    [w.cents, -2_500_000, "admin_adjust", "refunded"],
  ]);
  expect(await w.listed()).toMatchObject({ [`${w.tokens}`]: [0, "revoked"] });
});

it("a refund restores nothing to a balance that it revoked: a held amount returns and is taken, with its note", async () => {
  const w = await makeWorld();
  const hold = { userId: "u", event: "chat", reservationId: "res_held", quantities: { count: 0, tokens: 50 } };
  await w.post("usage/reservations", hold);
  expect(amounts(await w.refund({ reason: "refunded" }))[0]).toEqual([350, 50, 0]);
  await w.post("usage/reservations/res_held/release", {});
  expect((await storedLedger(w.app, "u")).slice(-2)).toEqual([
    [w.tokens, 50_000, "reservation_released", null],
    [w.tokens, -50_000, "admin_adjust", "refunded"],
  ]);
  expect(await w.listed()).toMatchObject({ [`${w.tokens}`]: [0, "revoked"] });
  expect((await w.revoke({ balanceId: w.tokens })).body.remaining).toBe(0);
});

it("a refund treats due holds as returned, and takes from them", async () => {
  const w = await makeWorld();
  const hold = { userId: "u", event: "chat", quantities: { count: 0, tokens: 400 }, expiresInSeconds: 1 };
  expect((await w.post("usage/reservations", hold)).status).toBe(200);
  w.clock.advance(2_000);
  expect(amounts(await w.refund({ share: { part: 1, of: 1 } }))[0]).toEqual([400, 0, 0]);
});

/** A second pack under the same reference. */
async function withSecond() {
  const w = await makeWorld();
  const second = await makePack(w.app.appId, "Straße", [{ amountMinor: 9_000, unit: "seconds" }]);
  await w.grant({ userId: "u", packId: second, externalRef: "order-1" });
  return { ...w, second };
}

it("a refund by pack takes only from that pack's balances, by id or by the name at issue, even if it is archived or renamed", async () => {
  const w = await withSecond();
  const third = { part: 1, of: 3 };
  expect(amounts(await w.refund({ packId: w.second, share: third }))).toEqual([[3, 0, 6]]);
  const path = `/api/v1/admin/apps/${w.app.appId}/packs/${w.second}`;
  await w.call("PATCH", path, { key: env.ADMIN_TOKEN, body: { packName: "Renamed" } });
  await w.call("POST", `${path}/archive`, { key: env.ADMIN_TOKEN, body: {} });
  expect(amounts(await w.refund({ packId: "STRAßE", refundRef: "re-2", share: third }))).toEqual([[3, 0, 3]]);
  await expectRejected(w, { packId: "Renamed", refundRef: "re-3" }, "credit_balance_not_found", "packId");
  await expectRejected(w, { packId: "strasse", refundRef: "re-3" }, "credit_balance_not_found", "packId");
});

it("a refund by pack counts only for these balances, and a refund of all balances is rejected if one of them would exceed 1", async () => {
  const w = await withSecond();
  await w.refund({ packId: "straße", share: { part: 3, of: 4 } });
  await expectRejected(w, { refundRef: "re-2", share: { part: 1, of: 2 } }, "invalid_request", "share");
  expect(amounts(await w.refund({ refundRef: "re-2", share: { part: 1, of: 4 } }))).toEqual([
    [100, 0, 300],
    [1.25, 0, 3.75],
    [2.25, 0, 0],
  ]);
  // The first two balances give their rest. The third has none, and gets an entry of 0.
  expect(amounts(await w.refund({ refundRef: "re-3" }))).toEqual([
    [300, 0, 0],
    [3.75, 0, 0],
    [0, 0, 0],
  ]);
});

it("a repeated refund gets the first response, whatever happened since, in any order of its fields", async () => {
  const w = await makeWorld();
  const first = await w.refund({ share: { part: 1, of: 3 }, reason: "a" });
  await w.spend("e1", { tokens: 10 });
  await w.refund({ refundRef: "re-2", share: { part: 1, of: 3 } });
  await w.grant({
    userId: "u",
    packId: await makePack(w.app.appId, "More", [{ amountMinor: 1, unit: "count" }]),
    externalRef: "order-1",
  });
  const before = await w.writtenRows();
  const again = await w.post("credits/refund", {
    ...{ reason: "a", share: { of: 3, part: 1 }, refundRef: "re-1", externalRef: "order-1", userId: "u" },
  });
  expect(again.status).toBe(200);
  expect(again.body).toEqual(first.body);
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(await w.writtenRows()).toEqual(before);
});

it.each([
  [{ share: { part: 2, of: 6 } }, ["share"]],
  [{}, ["share"]],
  [{ share: { part: 1, of: 3 }, reason: "b" }, ["reason"]],
  [{ packId: "Two" }, ["packId", "share"]],
])(
  "a repeated refund with another body is a conflict, even if the share is equal in value: %j differs in %j",
  async (body, differs) => {
    const w = await makeWorld();
    await w.refund({ share: { part: 1, of: 3 } });
    const answer = await expectRejected(w, body, "idempotency_conflict", "refundRef");
    expect(answer.body.error.details).toEqual({ differs });
  },
);

it("a repeated refund is another refund with another reference, or for another user", async () => {
  const w = await makeWorld();
  await w.grant({ userId: "u", packId: "Two", externalRef: "order-2" });
  await w.grant({ userId: "v", packId: "Two", externalRef: "order-1" });
  for (const more of [{}, { externalRef: "order-2" }, { userId: "v" }]) {
    const answer = await w.refund({ share: { part: 1, of: 4 }, ...more });
    expect(amounts(answer)[0]).toEqual([100, 0, 300]);
    expect(answer.headers.get("idempotent-replayed")).toBeNull();
  }
});

it("a repeated refund takes effect once when twenty race, and of twenty others only those pass that keep the sum at 1", async () => {
  const w = await makeWorld();
  const same = await Promise.all(Array.from({ length: 20 }, () => w.refund({ share: { part: 1, of: 2 } })));
  expect(new Set(same.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
  const others = await Promise.all(
    Array.from({ length: 20 }, (_, index) => w.refund({ refundRef: `other-${index}`, share: { part: 1, of: 10 } })),
  );
  expect(others.filter(({ status }) => status === 200)).toHaveLength(5);
  for (const answer of others) if (answer.status !== 200) expectError(answer, "invalid_request", "share");
  expect(await w.listed()).toMatchObject({ [`${w.tokens}`]: [0, "revoked"] });
});

it.each([
  [{ share: { part: 0, of: 3 } }, "share.part"],
  [{ share: { part: 1.5, of: 3 } }, "share.part"],
  [{ share: { part: 4, of: 3 } }, "share"],
  [{ share: { part: 1, of: 1_000_000_000_001 } }, "share.of"],
  [{ share: { part: "1", of: 3 } }, "share.part"],
  [{ share: { part: 1 } }, "share.of"],
  [{ share: null }, "share"],
  [{ refundRef: "" }, "refundRef"],
  [{ refundRef: "x".repeat(501) }, "refundRef"],
  [{ externalRef: "stripe:pi_1" }, "externalRef"],
  [{ packId: "" }, "packId"],
  [{ refund_ref: "x" }, "refund_ref"],
])("a rejected refund names the malformed field and changes nothing: %j", async (body, param) => {
  const w = await makeWorld();
  await expectRejected(w, body, "invalid_request", param);
});

it("a rejected refund for a reference without grants to this user is credit_balance_not_found", async () => {
  const w = await makeWorld();
  await expectRejected(w, { externalRef: "order-2" }, "credit_balance_not_found", "externalRef");
  await expectRejected(w, { userId: "nobody" }, "credit_balance_not_found", "externalRef");
  await expectRejected(w, { packId: "Other" }, "credit_balance_not_found", "packId");
});

it("a rejected refund names the limit after the hundredth refund of a reference", async () => {
  const w = await makeWorld();
  const share = { part: 1, of: 101 };
  expect((await w.refund({ refundRef: "n1", share })).status).toBe(200);
  await env.DB.prepare(
    `INSERT INTO credit_refunds
       WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
       SELECT account_id, external_ref, i, 'n' || i, pack_ids, part, of_parts, first_seq, last_seq, request_hash
       FROM credit_refunds CROSS JOIN n WHERE account_id IN (SELECT id FROM accounts WHERE environment_id = ?) ORDER BY i`,
  )
    .bind(w.app.environments.live.id)
    .run();
  expect((await w.refund({ refundRef: "n100", share })).status).toBe(200);
  const answer = await expectRejected(w, { refundRef: "last" }, "invalid_request", "externalRef");
  expect(answer.body.error.details).toEqual({ limit: 100 });
  for (const refundRef of ["n1", "n100"]) {
    expect((await w.refund({ refundRef, share })).headers.get("idempotent-replayed")).toBe("true");
  }
});

it("a rejected refund still returns due holds", async () => {
  const w = await makeWorld();
  await w.post("usage/reservations", {
    userId: "u",
    event: "chat",
    quantities: { count: 0, tokens: 400 },
    expiresInSeconds: 1,
  });
  w.clock.advance(2_000);
  expectError(await w.refund({ externalRef: "order-2" }), "credit_balance_not_found", "externalRef");
  expect(await w.listed()).toMatchObject({ [`${w.tokens}`]: [400, "active"] });
});

it("a reference that begins with stripe: is rejected on a grant, but only in this exact spelling", async () => {
  const w = await makeWorld();
  const grant = (externalRef: string) => w.grant({ userId: "v", packId: "Two", externalRef });
  for (const ref of ["stripe:", "stripe:pi_1"]) expectError(await grant(ref), "invalid_request", "externalRef");
  for (const ref of ["Stripe:pi_1", "stripe", " stripe:pi_1"]) expect((await grant(ref)).status).toBe(200);
});

describeRejections("POST /api/v1/credits/refund", {
  prepare: async (call, app) => {
    await makePack(app.appId, "Pack", [{ amountMinor: 1_000, unit: "tokens" }]);
    const body = { userId: "u", packId: "Pack", externalRef: "order" };
    await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
    return {
      method: "POST",
      path: "/api/v1/credits/refund",
      body: { userId: "u", externalRef: "order", refundRef: "re" },
    };
  },
  publishable: "forbidden",
  stranger: "credit_balance_not_found",
});
