import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { UNITS } from "../../../../src/books/amounts/amount.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RECURRING, RESERVATIONS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { centsOnly, makeSpender, runHoldsPart, type Spender } from "../../../support/spender.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

// A hold is a guarantee (U5): what it holds pays for its commit or charge even where its balance has expired since.

interface Granted {
  readonly cents?: number;
  /** Default: it never expires. */
  readonly expiresInSeconds?: number;
  readonly externalRef?: string;
}

/** A user with balances in cents, which are spent in the order in which they expire. */
async function world(grants: readonly Granted[], bindings: Partial<Env> = {}) {
  const spender = await makeSpender([], bindings);
  const { app, clock, post, get, userId } = spender;
  await makeOpenAmountPack(app.appId, "Wallet", "cents");
  const grant = async ({ cents = 10, expiresInSeconds, externalRef }: Granted = {}): Promise<string> => {
    const expiresAt = expiresInSeconds && new Date(clock.ms + expiresInSeconds * 1_000).toISOString();
    const body = { userId, packId: "Wallet", quantity: cents, ...(expiresAt && { expiresAt }) };
    const answer = await post("/api/v1/credits/grant", { ...body, ...(externalRef && { externalRef }) });
    expect(answer.status).toBe(200);
    return answer.body.balances[0].balanceId;
  };
  const balanceIds: string[] = [];
  for (const one of grants) {
    balanceIds.push(await grant(one));
    clock.advance(1);
  }
  const commit = (amount: number, more: object = {}, by: Pick<Spender, "post"> = spender) =>
    by.post(`${RESERVATIONS}/res_1/commit`, { eventId: "e1", ...centsOnly(amount), ...more });
  return {
    ...spender,
    balanceIds,
    grant,
    commit,
    hold: async (amount: number, seconds = 600, more: object = {}) => {
      const body = { reservationId: "res_1", expiresInSeconds: seconds, ...centsOnly(amount), ...more };
      expect((await spender.reserve(body)).status).toBe(200);
    },
    /** Status and remaining amount of each balance, in the order of the grants. */
    state: async () => {
      const { credits } = (await get(`/api/v1/credits?userId=${userId}&includeExpired=true`)).body;
      const rows: { balanceId: string; status: string; remaining: number }[] = credits;
      const rowOf = (id: string) => rows.find(({ balanceId }) => balanceId === id);
      return balanceIds.map((id) => `${rowOf(id)?.status} ${rowOf(id)?.remaining}`);
    },
    lines: async () =>
      (await spender.ledger()).toReversed().map(({ delta, reason, balanceId }) => {
        return `${balanceIds.indexOf(balanceId)} ${reason} ${delta}`;
      }),
    storedEvent: (id: string) =>
      env.DB.prepare(
        `SELECT debits, uncovered, model FROM usage_events
         WHERE event_id = ? AND account_id = (SELECT id FROM accounts WHERE user_id = ?)`,
      )
        .bind(id, userId)
        .first<{ debits: string; uncovered: string | null; model: string | null }>(),
  };
}

/** Seconds after the hold of 600 seconds was made. */
const moments = { "at once": 1, "a millisecond before the commit": 299.999, "at the commit": 300 };
it.each(Object.entries(moments))(
  "a commit in time is paid by what it holds of a balance that expired %s",
  async (_name, seconds) => {
    for (const isWarm of [true, false]) {
      const w = await world([{ expiresInSeconds: seconds + 0.001 }, {}]);
      await w.hold(4);
      w.clock.advance(300_000);
      expect((await w.state())[0]).toBe("expired 6");
      const { body } = await w.commit(3, {}, isWarm ? w : w.inNewIsolate());
      expect(body).toMatchObject({
        debits: [{ balanceId: w.balanceIds[0], unit: "cents", amount: 3, remaining: 7 }],
        uncovered: null,
      });
      expect(await w.state()).toEqual(["expired 7", "active 10"]);
      expect((await w.lines()).slice(2)).toEqual([
        "0 reservation_held -4",
        "0 reservation_released 4",
        "0 event_committed -3",
      ]);
      const again = await w.commit(3, {}, w.inNewIsolate());
      expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", body]);
      // The unused part is lost with its balance.
      expectError(await w.spend("e2", centsOnly(10.5)), "insufficient_credits");
    }
  },
);

it("a commit in time takes one trip in an isolate that made the hold, also after its balance expired", async () => {
  const { d1, spent } = countingD1(env.DB);
  const w = await world([{ expiresInSeconds: 60 }], { DB: d1 });
  await w.hold(4);
  w.clock.advance(61_000);
  spent();
  expect((await w.commit(4)).status).toBe(200);
  expect(spent().roundTrips).toBe(1);
  expect(await w.state()).toEqual(["expired 6"]);
});

it("a commit in time of more than it holds takes no more than that from an expired balance, and the rest from others", async () => {
  const w = await world([{ expiresInSeconds: 60 }, {}]);
  await w.hold(4);
  w.clock.advance(61_000);
  expect((await w.commit(9)).body.debits).toMatchObject([
    { balanceId: w.balanceIds[0], amount: 4, remaining: 6 },
    { balanceId: w.balanceIds[1], amount: 5, remaining: 5 },
  ]);
  expect(await w.state()).toEqual(["expired 6", "active 5"]);
});

it("a commit in time is paid by all held balances first, an expired one with its hold alone, a live one with all that it has", async () => {
  const w = await world([{ expiresInSeconds: 60 }, { expiresInSeconds: 700 }, { expiresInSeconds: 650 }]);
  await w.spend("e0", { event: "x", ...centsOnly(1) });
  // The hold takes 9 of the first and 1 of the third, which expires before the second.
  await w.hold(10);
  w.clock.advance(61_000);
  expect((await w.commit(22)).body.debits).toMatchObject([
    { balanceId: w.balanceIds[0], amount: 9 },
    { balanceId: w.balanceIds[2], amount: 10 },
    { balanceId: w.balanceIds[1], amount: 3 },
  ]);
});

it("a commit in time that is short says so with what is held of an expired balance, and leaves the hold", async () => {
  const w = await world([{ expiresInSeconds: 60 }, { cents: 2 }]);
  await w.hold(4);
  w.clock.advance(61_000);
  const short = await w.commit(7);
  expectError(short, "insufficient_credits");
  expect(short.body.error.details).toMatchObject({
    uncovered: { cents: 1 },
    skipped: [
      { balanceId: w.balanceIds[0], remaining: 4, reason: "exhausted" },
      { balanceId: w.balanceIds[1], remaining: 2, reason: "exhausted" },
    ],
  });
  expect(await w.state()).toEqual(["expired 6", "active 2"]);
  expect((await w.commit(7, { onShortage: "partial" })).body).toMatchObject({ uncovered: { cents: 1 } });
  expect(await w.state()).toEqual(["expired 6", "depleted 0"]);
});

it("a commit in time leaves two holds of one expired balance to their own commits", async () => {
  const w = await world([{ expiresInSeconds: 60 }]);
  await w.hold(4);
  await w.reserve({ reservationId: "res_2", expiresInSeconds: 600, ...centsOnly(5) });
  w.clock.advance(61_000);
  expectError(await w.commit(5), "insufficient_credits");
  const second = await w.post(`${RESERVATIONS}/res_2/commit`, { eventId: "e2", ...centsOnly(5) });
  expect(second.body.debits).toMatchObject([{ amount: 5 }]);
  expect((await w.commit(4)).body.debits).toMatchObject([{ amount: 4, remaining: 1 }]);
});

it("a commit in time is paid by a balance whose hold was extended over its expiry", async () => {
  const w = await world([{ expiresInSeconds: 400 }]);
  await w.hold(4, 300);
  w.clock.advance(299_000);
  await w.post(`${RESERVATIONS}/res_1/extend`, { expiresInSeconds: 300 });
  w.clock.advance(200_000);
  expect((await w.commit(4)).body.debits).toMatchObject([{ amount: 4, remaining: 6 }]);
});

it("a commit in time after the hold's end is a plain event: what was held is lost where its balance expired", async () => {
  for (const isReturned of [true, false]) {
    const w = await world([{ expiresInSeconds: 60 }, { cents: 1 }]);
    await w.hold(4, 120);
    w.clock.advance(120_000);
    if (isReturned) await runHoldsPart(w);
    expectError(await w.commit(4), "insufficient_credits");
    const { body } = await w.commit(4, { onShortage: "partial" });
    expect(body).toMatchObject({ debits: [{ balanceId: w.balanceIds[1], amount: 1 }], uncovered: { cents: 3 } });
    expect(await w.state()).toEqual(["expired 10", "depleted 0"]);
  }
});

it("a commit in time is paid by a month's credits that it held, although the next month's have come", async () => {
  const w = await world([]);
  await makePack(w.app.appId, "Monthly", [{ amountMinor: 100_000_000, unit: "cents" }]);
  const startsAt = new Date(w.clock.ms - 20 * 86_400_000).toISOString();
  const body = { userId: w.userId, packId: "Monthly", every: "month", startsAt };
  expect((await w.post(RECURRING, body)).status).toBe(200);
  w.clock.advance(10 * 86_400_000 + 86_000_000);
  await w.hold(70, 86_400);
  w.clock.advance(43_200_000);
  // The commit itself grants the new month.
  const { debits } = (await w.commit(90)).body;
  expect(debits).toMatchObject([
    { amount: 70, remaining: 30 },
    { amount: 20, remaining: 80 },
  ]);
  const live = (await w.get(`/api/v1/credits?userId=${w.userId}`)).body.credits;
  expect(live).toMatchObject([{ balanceId: debits[1].balanceId, remaining: 80 }]);
});

it("a revocation or a refund while credits are held leaves a commit nothing of a revoked balance, also of an expired one, and takes the return with its note", async () => {
  const w = await world([{ expiresInSeconds: 60 }, {}]);
  await makeEndpoint(w.app.environments.live, ["credits.adjusted"]);
  await w.hold(4);
  w.clock.advance(61_000);
  await w.post("/api/v1/credits/revoke", { balanceId: w.balanceIds[0], reason: "fraud" });
  expect((await w.commit(4)).body.debits).toMatchObject([{ balanceId: w.balanceIds[1], amount: 4 }]);
  expect(await w.state()).toEqual(["revoked 0", "active 6"]);
  expect((await w.lines()).slice(-3)).toEqual([
    "0 reservation_released 4",
    "0 admin_adjust -4",
    "1 event_committed -4",
  ]);
  const told = (await storedMessages(w.app.environments.live)).map(({ data }) => data);
  expect(told).toMatchObject([{ balanceId: w.balanceIds[0], delta: -4, note: "fraud" }]);
});

it("a revocation or a refund while credits are held leaves a commit nothing of a balance that a refund revoked", async () => {
  const w = await world([{ expiresInSeconds: 60, externalRef: "order-1" }, {}]);
  await w.hold(4);
  w.clock.advance(61_000);
  await w.post("/api/v1/credits/refund", { userId: w.userId, externalRef: "order-1", refundRef: "re_1" });
  expect((await w.commit(4)).body.debits).toMatchObject([{ balanceId: w.balanceIds[1], amount: 4 }]);
  expect(await w.state()).toEqual(["revoked 0", "active 6"]);
});

it("a revocation or a refund while credits are held of a part lets the commit be paid first, and then takes what is owed of the rest", async () => {
  const w = await world([{ expiresInSeconds: 60, externalRef: "order-1" }]);
  await w.hold(8);
  w.clock.advance(61_000);
  const share = { part: 7, of: 10 };
  const refund = { userId: w.userId, externalRef: "order-1", refundRef: "re_1", share, reason: "too late" };
  expect((await w.post("/api/v1/credits/refund", refund)).body.balances).toMatchObject([{ taken: 2, short: 5 }]);
  expect((await w.commit(5)).body.debits).toMatchObject([{ amount: 5 }]);
  expect((await w.lines()).slice(-3)).toEqual([
    "0 reservation_released 8",
    "0 event_committed -5",
    "0 admin_adjust -3",
  ]);
  expect(await w.state()).toEqual(["expired 0"]);
});

const charge = { onExpiry: "charge" };

it("a charge is paid by what is held of a balance that expired before its end, and by no other balance that had expired", async () => {
  const w = await world([{ expiresInSeconds: 60 }, { expiresInSeconds: 120 }, { expiresInSeconds: 150 }]);
  await w.hold(24, 120, charge);
  // At the hold's end the second has just expired, and the third has not.
  w.clock.advance(119_998);
  await w.grant({ cents: 50 });
  w.clock.advance(1_000_000);
  await runHoldsPart(w);
  const stored = await w.storedEvent("res_1");
  const amounts = JSON.parse(stored?.debits ?? "").map(([, unit, minor]: number[]) => [unit, minor]);
  expect(amounts).toEqual([10, 10, 4].map((cents) => [UNITS.indexOf("cents"), cents * 1_000_000]));
  expect(await w.state()).toEqual(["expired 0", "expired 0", "expired 6"]);
});

it("a charge takes no more than is held of its expired balance, and nothing of others that expired by its end", async () => {
  const w = await world([{ expiresInSeconds: 60 }, { expiresInSeconds: 120 }]);
  await w.hold(4, 120, charge);
  await w.post("/api/v1/credits/revoke", { balanceId: w.balanceIds[1] });
  w.clock.advance(1_000_000);
  expect(await w.state()).toEqual(["expired 6", "revoked 0"]);
  expectError(await w.commit(1), "reservation_closed");
  expect((await w.storedEvent("res_1"))?.uncovered).toBeNull();
  expect(await w.state()).toEqual(["expired 6", "revoked 0"]);
  expect((await w.lines()).slice(-2)).toEqual(["0 reservation_released 4", "0 event_committed -4"]);
});

it("a charge is short where its balance was revoked and others were granted later or expired by its end", async () => {
  const w = await world([{ expiresInSeconds: 60 }, { expiresInSeconds: 100 }]);
  await w.hold(4, 120, charge);
  await w.post("/api/v1/credits/revoke", { balanceId: w.balanceIds[0] });
  w.clock.advance(120_001);
  await w.grant();
  expect(JSON.parse((await w.storedEvent("res_1"))?.uncovered ?? "null")).toEqual({ cents: 4 });
  expect(await w.state()).toEqual(["revoked 0", "expired 10"]);
});

it("a charge appears in a plan as paid by its expired balance", async () => {
  const w = await world([{ expiresInSeconds: 60 }, {}]);
  await w.hold(4, 120, charge);
  w.clock.advance(120_000);
  const { body } = await w.post("/api/v1/credits/plan", { userId: w.userId, event: "x", ...centsOnly(10) });
  expect(body).toMatchObject({
    debits: [{ balanceId: w.balanceIds[1], amount: 10 }],
    uncovered: null,
    skipped: [{ balanceId: w.balanceIds[0], remaining: 6, reason: "expired" }],
  });
});

/** 10 cents for the model "small", and 10 for "large". */
async function modelsWorld() {
  const items = ["small", "large"].map((model) => ({
    ...{ amountMinor: 10_000_000, unit: "cents" as const },
    matches: [{ model }],
  }));
  const spender = await makeSpender(items);
  const { body } = await spender.reserve({ reservationId: "res_1", model: "small", ...centsOnly(4) });
  expect(body.holds).toMatchObject([{ balanceId: spender.balanceIds[0], amount: 4 }]);
  const commit = (model: unknown, more: object = {}) =>
    spender.post(`${RESERVATIONS}/res_1/commit`, { eventId: "e1", model, ...centsOnly(3), ...more });
  return { ...spender, commit };
}

it("the model of a commit replaces the reservation's: the held balance that it does not match gets its hold back, and others pay", async () => {
  const w = await modelsWorld();
  const { body } = await w.commit("large");
  expect(body.debits).toMatchObject([{ balanceId: w.balanceIds[1], amount: 3, remaining: 7 }]);
  expect(await w.remaining()).toEqual([10, 7]);
  const { events } = (await w.get(`/api/v1/usage/events?userId=${w.userId}&model=large`)).body;
  expect(events).toMatchObject([{ eventId: "e1", model: "large", reservationId: "res_1" }]);
  const { totals } = (
    await w.get(`/api/v1/usage?userId=${w.userId}&groupBy=model&from=${new Date(w.clock.ms - 1_000).toISOString()}`)
  ).body;
  expect(totals).toMatchObject([{ model: "large", events: 1, quantities: { cents: 3 }, debited: { cents: 3 } }]);
  // The reservation keeps the model that it was made with.
  expect((await w.get(`${RESERVATIONS}/res_1`)).body).toMatchObject({ model: "small", status: "committed" });
});

it("the model of a commit is the reservation's if none is sent, and is compared in a repeat as sent", async () => {
  const w = await modelsWorld();
  const first = await w.commit(undefined);
  expect(first.body.debits).toMatchObject([{ balanceId: w.balanceIds[0], amount: 3 }]);
  expect((await w.commit(undefined)).headers.get("idempotent-replayed")).toBe("true");
  const conflict = await w.commit("small");
  expectError(conflict, "idempotency_conflict", "eventId");
  expect(conflict.body.error.details).toEqual({ differs: ["model"] });
});

it("the model of a commit may be short where the held balance would have paid: then the hold stays", async () => {
  const w = await modelsWorld();
  const short = await w.commit("large", centsOnly(11));
  expectError(short, "insufficient_credits");
  expect(short.body.error.details.skipped).toMatchObject([
    { balanceId: w.balanceIds[1], remaining: 10, reason: "exhausted" },
    { balanceId: w.balanceIds[0], remaining: 10, reason: "no_match" },
  ]);
  expect(await w.remaining()).toEqual([6, 10]);
  expectError(await w.commit(""), "invalid_request", "model");
});
