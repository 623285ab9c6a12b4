import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { randomId } from "../../../../src/lib/ids.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { seedBalancesOfMany, seedHolds } from "../../../support/seed-rows.ts";
import { cents, makeSpender, runHoldsPart, type Spender, wallet } from "../../../support/spender.ts";
import type { Clock } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** The balance that pays last. */
const spare = { ...wallet, priority: 200 };
const OF_USER = "account_id IN (SELECT id FROM accounts WHERE user_id = ?)";

const dueIn300Seconds = ({ ms }: Clock) => ({ createdAtMs: ms, expiresAtMs: ms + 300_000 });

/** Adds holds of one cent each to a user's only balance. */
const holdCents = ({ app, clock, userId }: Spender, count: number) =>
  seedHolds(app.environments.live, new Map([[userId, count]]), {
    ...{ minor: 1_000_000, quantities: { cents: 1 } },
    ...dueIn300Seconds(clock),
  });

/** Changes what a reservation holds. A trigger rejects this, so it is dropped and restored in the same batch. */
async function forgeLegs(userId: string, amountMinor: number): Promise<void> {
  const trigger = await env.DB.prepare(
    "SELECT sql FROM sqlite_schema WHERE name = 'reservations_frozen'",
  ).first<string>("sql");
  await env.DB.batch([
    env.DB.prepare("DROP TRIGGER reservations_frozen"),
    env.DB.prepare(`UPDATE reservations SET legs = json_set(legs, '$[0][2]', ${amountMinor}) WHERE ${OF_USER}`).bind(
      userId,
    ),
    env.DB.prepare(trigger ?? ""),
  ]);
}

it("the cron returns every due hold of every application, once, and no other", async () => {
  const spenders = await Promise.all([makeSpender([wallet]), makeSpender([wallet, spare]), makeSpender([wallet])]);
  for (const spender of spenders) {
    await spender.reserve({ ...cents(4), expiresInSeconds: 60 });
    await spender.reserve({ ...cents(3), expiresInSeconds: 60 });
    await spender.reserve({ ...cents(2), expiresInSeconds: 120 });
  }
  const [first] = spenders;
  first.clock.advance(60_000);
  await runHoldsPart(first);
  await runHoldsPart(first);
  expect(await Promise.all(spenders.map(({ remaining }) => remaining()))).toEqual([[8], [8, 10], [8]]);
  expect((await first.ledger()).filter(({ reason }) => reason === "reservation_expired")).toHaveLength(2);
  first.clock.advance(60_000);
  await runHoldsPart(first);
  expect(await first.remaining()).toEqual([10]);
});

it("the cron works through more than one page", async () => {
  const spender = await makeSpender([{ amountMinor: 8_000_000_000, unit: "cents" }]);
  const others = await Promise.all(Array.from({ length: 3 }, () => makeSpender([wallet])));
  await holdCents(spender, 220);
  for (const other of others) await other.reserve(cents(1));
  spender.clock.advance(300_000);
  // One run returns the holds of some users, and other tests may have left some.
  for (let run = 0; run < 10; run++) await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([8_000]);
  for (const other of others) expect(await other.remaining()).toEqual([10]);
}, 120_000);

it("the cron returns the holds of more than 80 users in a run, within a Worker's query limit", async () => {
  const spender = await makeSpender([wallet]);
  const { app, clock } = spender;
  clock.advance(400_000_000);
  const counted = async () => {
    let queries = 0;
    const hooked = hookedD1(env.DB, async (_, statements) => {
      queries += statements;
    });
    await runHoldsPart(spender, hooked);
    return queries;
  };
  // Returns the holds that other tests left.
  while ((await counted()) > 200);
  const { live } = app.environments;
  const users = Array.from({ length: 160 }, (_, index) => `${spender.userId}-${index}`);
  await seedBalancesOfMany(live, new Map(users.map((userId) => [userId, 1])));
  // The first user has more holds than one statement takes.
  const holds = new Map(users.map((userId, index) => [userId, index === 0 ? 210 : (index % 2) + 1]));
  await seedHolds(live, holds, { minor: 1_000, quantities: { cents: 0.001 }, ...dueIn300Seconds(clock) });
  clock.advance(300_000);
  const returned = async () =>
    (
      await env.DB.prepare(
        `SELECT count(*) AS users FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
           WHERE a.environment_id = ? AND a.user_id LIKE ? AND b.remaining_minor = 1000000`,
      )
        .bind(app.environments.live.id, `${spender.userId}-%`)
        .first<{ users: number }>()
    )?.users;
  expect(await returned()).toBe(0);
  expect(await counted()).toBeLessThanOrEqual(1_000);
  expect(await returned()).toBeGreaterThan(80);
  expect(await counted()).toBeLessThanOrEqual(1_000);
  expect(await returned()).toBe(160);
}, 120_000);

it("the cron and the user's own concurrent writes return a hold once", async () => {
  const spender = await makeSpender([wallet]);
  await spender.reserve({ reservationId: "res_1", ...cents(4) });
  spender.clock.advance(300_000);
  const answers = await Promise.all([
    spender.spend("e1", cents(1)),
    runHoldsPart(spender),
    spender.post("/api/v1/usage/reservations/res_1/release"),
    runHoldsPart(spender),
    spender.spend("e2", cents(1)),
  ]);
  expect(answers.map((answer) => answer?.status ?? 200)).toEqual([200, 200, 200, 200, 200]);
  expect(await spender.remaining()).toEqual([8]);
});

it("the cron continues after a user whose holds cannot be returned, and logs this without naming anybody", async () => {
  const [stuck, other] = await Promise.all([makeSpender([wallet]), makeSpender([wallet])]);
  await stuck.reserve(cents(4));
  await other.reserve(cents(4));
  // A hold of more than a balance can hold, which Purser never writes.
  await forgeLegs(stuck.userId, 8_589_934_592_000_000);
  stuck.clock.advance(300_000);
  other.clock.advance(300_000);
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  await runHoldsPart(stuck);
  expect(await other.remaining()).toEqual([10]);
  expect(log).toHaveBeenCalledOnce();
  expect(String(log.mock.calls[0]?.[0])).toContain("credit_balances_remaining_within_bounds");
  expect(String(log.mock.calls[0]?.[0])).not.toContain(stuck.userId);
  log.mockRestore();
  await forgeLegs(stuck.userId, 4_000_000);
});

it("the cron, when D1 cannot be reached logs only the kind of the error, because the text of a failed query contains a user's id", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const spender = await makeSpender([wallet]);
  await runHoldsPart(
    spender,
    hookedD1(env.DB, async () => {
      throw new Error("D1_ERROR: nothing known");
    }),
  );
  await runHoldsPart(
    spender,
    hookedD1(env.DB, async () => {
      throw new Error("D1_ERROR: D1 DB is overloaded.");
    }),
  );
  const lines = log.mock.calls.map(([line]) => JSON.parse(String(line)));
  log.mockRestore();
  // Each part of the cron's work logs its own failure.
  expect(lines).toContainEqual({ level: "error", code: "holds_not_returned", kinds: ["unknown"] });
  for (const { kinds } of lines) expect([["unknown"], ["temporarily_unavailable"]]).toContainEqual(kinds);
  expect(lines.filter(({ code }) => code === "holds_not_returned")).toHaveLength(2);
});

/** A user with a due hold of 4 cents, and an earlier grant under a reference. */
async function overdue() {
  const spender = await makeSpender([wallet]);
  const { userId, app } = spender;
  await env.DB.prepare(
    "INSERT INTO credit_packs (app_id, id, pack_number, name, name_key, unit, priority, created_at_ms) VALUES (?1, ?2, 99, 'Loose', 'loose', 'cents', 200, 0)",
  )
    .bind(app.appId, randomId("cpk_"))
    .run();
  const grant = (body: object) => spender.post("/api/v1/credits/grant", { userId, packId: "Loose", ...body });
  await grant({ quantity: 1, externalRef: "order-1" });
  await spender.reserve(cents(4));
  expect(await spender.remaining()).toEqual([6]);
  spender.clock.advance(300_000);
  return { spender, grant };
}

it("a due hold returns with the user's next write if that is a grant, a repeated grant or a rejected grant", async () => {
  for (const body of [{ quantity: 1 }, { quantity: 1, externalRef: "order-1" }]) {
    const { spender, grant } = await overdue();
    expect((await grant(body)).status).toBe(200);
    expect(await spender.remaining()).toEqual([10]);
  }
  const { spender, grant } = await overdue();
  expectError(await grant({ quantity: -1 }), "invalid_quantity");
  expect(await spender.remaining()).toEqual([10]);
  const other = await overdue();
  expectError(await other.grant({ packId: "unknown" }), "credit_pack_not_found");
  expect(await other.spender.remaining()).toEqual([10]);
});

it("a due hold returns with the user's next write if that is a revoke of its balance, or a repeated revoke of another one", async () => {
  const { spender } = await overdue();
  await spender.post("/api/v1/credits/revoke", { balanceId: spender.balanceIds[0] });
  expect(await spender.remaining()).toEqual([0]);
  expect((await spender.ledger()).slice(0, 2)).toMatchObject([
    { delta: -10, reason: "admin_adjust", reservationId: null },
    { delta: 4, reason: "reservation_expired" },
  ]);
  const again = await makeSpender([wallet, spare]);
  await again.post("/api/v1/credits/revoke", { balanceId: again.balanceIds[1] });
  await again.reserve(cents(4));
  again.clock.advance(300_000);
  await again.post("/api/v1/credits/revoke", { balanceId: again.balanceIds[1] });
  expect(await again.remaining()).toEqual([10, 0]);
});

it("a due hold returns with the user's next write if that is an event, even if hundreds of holds are due", async () => {
  const spender = await makeSpender([{ amountMinor: 8_000_000_000, unit: "cents" }]);
  await holdCents(spender, 210);
  spender.clock.advance(300_000);
  expect((await spender.spend("e", cents(7_999))).status).toBe(200);
  expect(await spender.remaining()).toEqual([1]);
  expect((await spender.ledger()).filter(({ reason }) => reason === "reservation_expired")).toHaveLength(210);
}, 120_000);

it("a due hold returns with the user's next write only once if grants and events race", async () => {
  const { spender, grant } = await overdue();
  const answers = await Promise.all([
    ...Array.from({ length: 10 }, () => grant({ quantity: 1 })),
    ...Array.from({ length: 10 }, (_, index) => spender.spend(`e${index}`, cents(1))),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  expect((await spender.ledger()).filter(({ reason }) => reason === "reservation_expired")).toHaveLength(1);
});
