import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planInput } from "../../src/api/credits/preview-debit.ts";
import { stripeEventInput } from "../../src/api/payments/receive-stripe-event.ts";
import { adjustBalance } from "../../src/books/credits/adjust.ts";
import { grantPack } from "../../src/books/credits/grant.ts";
import { listEntries } from "../../src/books/credits/history.ts";
import { listBalances } from "../../src/books/credits/list.ts";
import { refundCredits } from "../../src/books/credits/refund.ts";
import { revokeBalance } from "../../src/books/credits/revoke.ts";
import { planUsage } from "../../src/books/usage/plan.ts";
import { handleStripeEvent } from "../../src/payments/take-event.ts";
import type { TenantCtx } from "../../src/runtime.ts";
import { type Cost, countingD1 } from "../support/counting-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { deadBalancesSql, entriesSql, liveBalancesSql, seededId } from "../support/seed.ts";
import { charge, eventOf, refund, session } from "../support/stripe-events.ts";
import { invoice, invoicePayment } from "../support/stripe-invoices.ts";
import { Clock, makeApp, makeCtx, makePack, type TestApp } from "../support/world.ts";

/**
 * Checks the cost table of docs/architecture.md by D1's own counters: the cost of an operation depends on active balances and
 * requested items, never on history.
 */
afterAll(expectLedgerInvariants);

const LIVE = [1, 10, 100];
const DEAD = [0, 10_000];
const users = LIVE.flatMap((live) => DEAD.map((dead) => ({ live, dead, userId: `live${live}dead${dead}` })));

let app: TestApp;
const { d1, spent } = countingD1(env.DB);
const clock = new Clock();
const ctxOf = (mode: "live" | "test" = "live"): TenantCtx => makeCtx(app.environments[mode], clock, d1);

const liveOf = (userId: string, i: number, mode: "live" | "test" = "live") =>
  seededId({ environmentId: app.environments[mode].id, userId }, "live", i);

/** The cost of `work`. */
async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  spent();
  await work();
  return spent();
}

beforeAll(async () => {
  app = await makeApp();
  for (const [name, size] of [
    ["One", 1],
    ["Three", 3],
    ["Ten", 10],
  ] as const) {
    const item = { amountMinor: 1_000, unit: "tokens", matches: [{ event: "chat.*" }] } as const;
    await makePack(app.appId, name, Array(size).fill(item));
  }
  for (const { userId, live, dead } of users) {
    for (const environment of Object.values(app.environments)) {
      const account = { environmentId: environment.id, userId };
      // The table has unspendable balances beside the active ones.
      const statements = [
        ...deadBalancesSql(account, dead),
        ...liveBalancesSql(account, live),
        ...entriesSql(account, live, 60 / Math.min(live, 60)),
      ];
      for (const statement of statements) await env.DB.prepare(statement).run();
    }
  }
}, 120_000);

describe.each(users)("for a user with $live live and $dead dead balances", ({ userId, live, dead }) => {
  it("a list takes one trip and reads at most 5 rows more than live balances", async () => {
    const cost = await costOf(async () => {
      const { credits } = await listBalances(ctxOf(), { userId, includeExpired: false });
      expect(credits).toHaveLength(live);
    });
    expect(cost).toEqual({ roundTrips: 1, rowsRead: expect.toSatisfy((read) => read <= live + 5), rowsWritten: 0 });
  });

  it("a list by event costs the same, and a list with includeExpired reads at most 5 rows more than balances", async () => {
    const plain = await costOf(() => listBalances(ctxOf(), { userId, includeExpired: false }));
    expect(await costOf(() => listBalances(ctxOf(), { userId, event: "chat.*", includeExpired: false }))).toEqual(
      plain,
    );
    expect(await costOf(() => listBalances(ctxOf(), { userId, event: "other", includeExpired: false }))).toEqual(plain);
    const whole = await costOf(() => listBalances(ctxOf(), { userId, includeExpired: true }));
    expect(whole).toEqual({
      roundTrips: 1,
      rowsRead: expect.toSatisfy((read) => read <= live + dead + 5),
      rowsWritten: 0,
    });
  });

  it.each([1, 50])(
    "a history page of n = %d entries takes one trip and reads at most 2n + 5 rows, first page or later",
    async (limit) => {
      const first = await listEntries(ctxOf(), { userId, limit });
      expect(first.entries).toHaveLength(limit);
      const cursor = first.nextCursor ?? "";
      for (const input of [
        { userId, limit },
        { userId, limit, cursor },
      ]) {
        const cost = await costOf(() => listEntries(ctxOf(), input));
        expect(cost).toEqual({
          roundTrips: 1,
          rowsRead: expect.toSatisfy((read) => read <= 2 * limit + 5),
          rowsWritten: 0,
        });
      }
    },
  );

  it("a history page of n entries of one balance takes one trip and reads at most 2n + 5 rows, first page or later", async () => {
    const balanceId = liveOf(userId, 0);
    const all = (await listEntries(ctxOf(), { userId, balanceId, limit: 500 })).entries.length;
    for (const limit of [1, Math.max(1, all - 2), all, 500]) {
      const first = await listEntries(ctxOf(), { userId, balanceId, limit });
      const n = first.entries.length;
      const cost = await costOf(() => listEntries(ctxOf(), { userId, balanceId, limit }));
      expect(cost).toEqual({ roundTrips: 1, rowsRead: expect.toSatisfy((read) => read <= 2 * n + 5), rowsWritten: 0 });
      if (first.nextCursor === null) continue;
      const input = { userId, balanceId, limit, cursor: first.nextCursor };
      const later = (await listEntries(ctxOf(), input)).entries.length;
      const next = await costOf(() => listEntries(ctxOf(), input));
      expect(next).toEqual({
        roundTrips: 1,
        rowsRead: expect.toSatisfy((read) => read <= 2 * later + 5),
        rowsWritten: 0,
      });
    }
  });
});

// The newest unspendable balances are among active ones in the table, which are therefore read twice.

it.each(users)(
  "a plan takes one trip and reads at most 2 rows for each of $live live balances, 100 dead ones, and 9 rows more ($userId)",
  async (user) => {
    const { userId, live, dead } = user;
    const cost = await costOf(() =>
      planUsage(ctxOf(), planInput.parse({ userId, event: "chat", quantities: { tokens: 1 } })),
    );
    // If fewer balances are unspendable, the walk that looks for them reads one more row.
    // Two more rows show that no period of a recurring grant is due, one that no hold is charged, and one that the environment has
    // no limit.
    const rowsRead = expect.toSatisfy((read) => read <= 2 * live + 9 + Math.min(dead + 1, 100));
    expect(cost).toEqual({ roundTrips: 1, rowsRead, rowsWritten: 0 });
  },
);

it("an adjustment takes 2 trips, writes at most 4 rows and reads O(1) rows, whatever else the user has; a repeat takes one trip and writes nothing", async () => {
  for (const { userId, live } of users.filter((user) => user.live > 1)) {
    const input = { balanceId: liveOf(userId, live - 1), delta: -1, note: "cost", adjustmentId: `cost of ${userId}` };
    const cost = await costOf(() => adjustBalance(ctxOf(), input));
    expect(cost.roundTrips).toBe(2);
    expect(cost.rowsWritten).toBeLessThanOrEqual(4);
    expect(cost.rowsRead).toBeLessThanOrEqual(33);
    const again = await costOf(async () => expect((await adjustBalance(ctxOf(), input)).replayed).toBe(true));
    expect(again).toEqual({ roundTrips: 1, rowsRead: expect.toSatisfy((read) => read <= 16), rowsWritten: 0 });
  }
});

describe("a grant", () => {
  const sizes = [
    { pack: "One", n: 1 },
    { pack: "Three", n: 3 },
    { pack: "Ten", n: 10 },
  ];
  for (const mode of ["live", "test"] as const) {
    it.each(sizes)(
      `in ${mode} mode, of n = $n items, takes at most 2 trips, writes at most 6n rows and reads O(n) rows`,
      async ({ pack, n }) => {
        for (const { userId } of users) {
          for (const externalRef of [`cost of ${n}`, undefined]) {
            const cost = await costOf(() =>
              grantPack(ctxOf(mode), { userId, packId: pack, externalRef, source: "purchase" }),
            );
            expect(cost.roundTrips).toBeLessThanOrEqual(2);
            expect(cost.rowsWritten).toBeLessThanOrEqual(6 * n);
            expect(cost.rowsRead).toBeLessThanOrEqual(13 * n + 17);
          }
        }
      },
    );

    it.each(sizes)(
      `in ${mode} mode, of n = $n items, takes one trip, writes nothing and reads O(n) rows when it is replayed`,
      async ({ pack, n }) => {
        for (const { userId } of users) {
          const input = { userId, packId: pack, externalRef: `replay of ${n}`, source: "purchase" } as const;
          await grantPack(ctxOf(mode), input);
          const cost = await costOf(async () => expect((await grantPack(ctxOf(mode), input)).replayed).toBe(true));
          expect(cost.roundTrips).toBe(1);
          expect(cost.rowsWritten).toBe(0);
          // Each statement that names the user reads the account's row.
          expect(cost.rowsRead).toBeLessThanOrEqual(6 * n + 16);
        }
      },
    );

    it.each(sizes)(
      `in ${mode} mode, of n = $n items, writes 2 rows more if it is the user's first`,
      async ({ pack, n }) => {
        const userId = `first of ${n}`;
        const input = { userId, packId: pack, source: "purchase" } as const;
        const first = await costOf(() => grantPack(ctxOf(mode), input));
        const second = await costOf(() => grantPack(ctxOf(mode), input));
        expect(first.roundTrips).toBeLessThanOrEqual(2);
        expect(first.rowsWritten).toBeLessThanOrEqual(6 * n + 2);
        expect(first.rowsRead).toBeLessThanOrEqual(13 * n + 20);
        expect(first.rowsWritten - second.rowsWritten).toBe(2);
      },
    );
  }

  it("costs the same however many packs the application has", async () => {
    const input = { userId: "packs", packId: "three", source: "purchase" } as const;
    await grantPack(ctxOf(), input);
    const before = await costOf(() => grantPack(ctxOf(), input));
    await env.DB.prepare(
      `INSERT INTO credit_packs (app_id, id, pack_number, name, name_key, unit, created_at_ms, archived_at_ms)
       SELECT ?, 'cpk_' || value, 1000 + value, 'three', 'three', 'count', 1, 1 FROM json_each(?)`,
    )
      .bind(app.appId, JSON.stringify(Array.from({ length: 1_000 }, (_, i) => i)))
      .run();
    const after = await costOf(() => grantPack(ctxOf(), input));
    // A search may also read the next row of the index.
    expect(after.rowsRead).toBeLessThanOrEqual(before.rowsRead + 4);
    expect(after).toMatchObject({ roundTrips: before.roundTrips, rowsWritten: before.rowsWritten });
  });
});

it("a revoke takes at most 2 trips, writes at most 4 rows and reads O(1) rows, whatever else the user has; a repeat takes one trip and writes nothing", async () => {
  for (const { userId } of users) {
    const balanceId = liveOf(userId, 0);
    const cost = await costOf(() => revokeBalance(ctxOf(), { balanceId, reason: "cost" }));
    expect(cost.roundTrips).toBeLessThanOrEqual(2);
    expect(cost.rowsWritten).toBeLessThanOrEqual(4);
    expect(cost.rowsRead).toBeLessThanOrEqual(31);
    const again = await costOf(() => revokeBalance(ctxOf(), { balanceId, reason: "cost" }));
    expect(again).toEqual({ roundTrips: 1, rowsRead: expect.toSatisfy((read) => read <= 12), rowsWritten: 0 });
  }
});

it.each([
  { pack: "One", n: 1 },
  { pack: "Ten", n: 10 },
])(
  "a refund of n = $n balances takes 2 trips, writes at most 4n + 2 rows and reads O(n) rows, whatever else the user has; a repeat takes one trip and writes nothing",
  async ({ pack, n }) => {
    for (const { userId } of users) {
      const externalRef = `refund of ${n}`;
      await grantPack(ctxOf(), { userId, packId: pack, externalRef, source: "purchase" });
      const part = { userId, externalRef, refundRef: "a", share: { part: 1, of: 3 } };
      // A partial refund changes each balance by one entry; the refund of the rest empties and revokes it.
      for (const [input, rows] of [
        [part, 2 * n + 2],
        [{ userId, externalRef, refundRef: "b" }, 4 * n + 2],
      ] as const) {
        const cost = await costOf(() => refundCredits(ctxOf(), input));
        expect(cost.roundTrips).toBe(2);
        expect(cost.rowsWritten).toBeLessThanOrEqual(rows);
        expect(cost.rowsRead).toBeLessThanOrEqual(25 * n + 30);
        const again = await costOf(async () => expect((await refundCredits(ctxOf(), input)).replayed).toBe(true));
        expect(again).toEqual({
          roundTrips: 1,
          rowsRead: expect.toSatisfy((read) => read <= 4 * n + 16),
          rowsWritten: 0,
        });
      }
    }
  },
);

it.each([
  { pack: "One", n: 1 },
  { pack: "Ten", n: 10 },
])(
  "Stripe's event about a payment with n = $n balances takes 3 trips, writes at most 7n + 14 rows and reads at most 32n + 52; a repeat takes one trip and writes nothing",
  async ({ pack, n }) => {
    const setting = { currency: "usd", prices: [] };
    for (const { userId } of users) {
      const id = `${pack}_${userId}`;
      const [pi, ch] = [`pi_${id}`, `ch_${id}`];
      const nowS = Math.floor(clock.ms / 1_000);
      const fields = { client_reference_id: userId, metadata: { pack }, payment_intent: pi };
      const events = [
        eventOf("checkout.session.completed", nowS, session(`cs_${id}`, fields)),
        eventOf("charge.refunded", nowS + 1, charge(ch, pi, 300)),
        eventOf("charge.refunded", nowS + 2, charge(ch, pi, 1000)),
        eventOf("refund.failed", nowS + 3, refund(`re_${id}`, ch, pi, 1000, "failed")),
      ];
      for (const event of events) {
        const take = () =>
          handleStripeEvent({ ...ctxOf(), caller: { kind: "stripe" } }, setting, stripeEventInput.parse(event));
        const cost = await costOf(async () => expect((await take()).outcome).toMatch(/granted|taken|restored/));
        // The route's own look-up of the setting is one trip more.
        expect(cost.roundTrips).toBe(3);
        expect(cost.rowsWritten).toBeLessThanOrEqual(7 * n + 14);
        expect(cost.rowsRead).toBeLessThanOrEqual(32 * n + 52);
        const again = await costOf(async () => expect((await take()).outcome).toBe("ignored"));
        expect(again.rowsWritten).toBe(0);
        expect(again.roundTrips).toBe(1);
      }
    }
  },
);

it.each([
  { pack: "One", n: 1 },
  { pack: "Ten", n: 10 },
])(
  "Stripe's event about an invoice with n = $n balances costs the same beside a thousand customers, and at most seven rows more when it changes a carry",
  async ({ pack, n }) => {
    const price = { price: `price_${pack}`, packId: pack, expires: "pack", amount: 1000 } as const;
    const setting = { currency: "usd", prices: [price] };
    const environmentId = app.environments.live.id;
    await env.DB.prepare(
      `WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < 1000)
         INSERT INTO stripe_payers SELECT ?, 'cus_${pack}_' || n, 'payer', 1, '{"usd":5}', '[]', '[]', 0 FROM each`,
    )
      .bind(environmentId)
      .run();
    for (const { userId } of users) {
      const [nowS, tag] = [Math.floor(clock.ms / 1_000), `${pack}_${userId}`];
      const line = { id: `il_${tag}`, price: price.price };
      const bill = { customer: `cus_of_${tag}`, subscription: { user: userId }, total: 1000, paid: 1000 };
      const back = { ...line, id: `il_${tag}_b`, amount: -400, proration: true };
      const objects = [
        ["invoice.paid", invoice(`in_${tag}_1`, { ...bill, lines: [line] })],
        ["invoice_payment.paid", invoicePayment(`inpay_${tag}`, `in_${tag}_1`, `pi_i_${tag}`)],
        ["invoice.paid", invoice(`in_${tag}_2`, { ...bill, lines: [back], paid: 0, total: -400 })],
        ["charge.refunded", charge(`ch_i_${tag}`, `pi_i_${tag}`, 600)],
        ["invoice.paid", invoice(`in_${tag}_3`, { ...bill, lines: [{ ...line, id: `il_${tag}_c` }], paid: 600 })],
      ] as const;
      for (const [index, [type, object]] of objects.entries()) {
        const event = stripeEventInput.parse(eventOf(type, nowS + index, object));
        const take = () => handleStripeEvent({ ...ctxOf(), caller: { kind: "stripe" } }, setting, event);
        const cost = await costOf(async () =>
          expect((await take()).outcome, `${index}`).toMatch(/granted|taken|remembered/),
        );
        const name = `${pack} ${userId} ${index} ${JSON.stringify(cost)}`;
        expect(cost.roundTrips, name).toBeLessThanOrEqual(3);
        expect(cost.rowsWritten, name).toBeLessThanOrEqual(7 * n + 21);
        expect(cost.rowsRead, name).toBeLessThanOrEqual(32 * n + 56);
        const again = await costOf(async () => expect((await take()).outcome).toBe("ignored"));
        expect(again.rowsWritten).toBe(0);
      }
    }
  },
);
