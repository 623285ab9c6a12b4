import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { findExpiries } from "../../src/books/alerts/find-expiries.ts";
import { grantDuePeriods } from "../../src/books/recurring/grant-due.ts";
import { makeStatements } from "../../src/books/statements/make-statements.ts";
import { expireReservations } from "../../src/books/usage/expire.ts";
import { sumDays } from "../../src/books/usage/sum-days.ts";
import { clocksPart } from "../../src/clocks/advance.ts";
import { oldFaultsPart } from "../../src/db/cron-work.ts";
import { erasuresPart } from "../../src/erasure/erase-running.ts";
import { DAY_MS, MINUTE_MS } from "../../src/lib/time.ts";
import type { CronPart } from "../../src/runtime.ts";
import { creditsWorld } from "../support/credits.ts";
import { runPart } from "../support/cron.ts";
import { hookedD1 } from "../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { RECURRING, RESERVATIONS } from "../support/paths.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import { type Clock, makeAdminCtx, makeClient, makePack, type TestApp } from "../support/world.ts";

afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});
// Other files must not wait for the pauses of this one.
afterEach(async () => {
  await env.DB.prepare("DELETE FROM cron_faults").run();
});

type World = Awaited<ReturnType<typeof creditsWorld>>;

/**
 * Runs a part. Every batch with a value that has one of these texts fails, as for a bug or a limit that nobody foresaw, except the one
 * that sets it aside.
 */
const runFailing = (work: CronPart["work"], clock: Clock, texts: readonly string[]) =>
  runPart(
    work,
    makeAdminCtx(
      clock,
      hookedD1(
        env.DB,
        async () => {},
        (values) => {
          if (
            !values.some((value) => /^[a-z]+_not_[a-z]+$/.test(String(value))) &&
            texts.some((text) => values.some((value) => String(value).includes(text)))
          )
            throw new Error("D1_ERROR: planted");
        },
      ),
    ),
  );

const faultsOf = async ({ environments }: TestApp) =>
  (
    await env.DB.prepare(
      `SELECT part, kind, tries, retry_at_ms - failed_at_ms AS pause FROM cron_faults
       WHERE environment_id IN (?, ?) ORDER BY part, subject`,
    )
      .bind(environments.live.id, environments.test.id)
      .all<{ part: string; kind: string; tries: number; pause: number }>()
  ).results;

interface Case {
  readonly part: string;
  readonly work: CronPart["work"];
  /** Prepares due work that is called "bad", and other work. Returns the texts that only the batches of the first have. */
  readonly prepare: (world: World) => Promise<readonly string[]>;
  /** Returns whether the work called "bad", or the other, is done. */
  readonly isDone: (world: World, which: "bad" | "good") => Promise<boolean>;
}

const users = ["bad", "good"] as const;
const countOf = async (sql: string, ...values: readonly unknown[]) =>
  (await env.DB.prepare(sql)
    .bind(...values)
    .first<number>("count")) ?? 0;
const post = async ({ app, call }: World, path: string, body: object) => {
  const answer = await call("POST", path, { key: app.keys.sk_live, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
};
const admin = async ({ app, call }: World, method: string, path: string, body: object) => {
  const answer = await call(method, `/api/v1/admin/apps/${app.appId}${path}`, { key: env.ADMIN_TOKEN, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
};
const grant = (world: World, userId: string, more: object = {}) =>
  post(world, "/api/v1/credits/grant", { userId, packId: "Pack", ...more });

const CASES: readonly Case[] = [
  {
    part: "periods_not_granted",
    work: grantDuePeriods,
    prepare: async (world) => {
      for (const id of users)
        await post(world, RECURRING, { recurringId: `rec_${id}`, userId: id, packId: "Pack", every: "month" });
      world.clock.advance(31 * DAY_MS);
      return ["recurring:rec_bad:"];
    },
    isDone: async ({ app }, which) =>
      (await countOf(
        "SELECT count(*) AS count FROM credit_balances WHERE external_ref = ? AND account_id IN (SELECT id FROM accounts WHERE environment_id = ?)",
        `recurring:rec_${which}:2`,
        app.environments.live.id,
      )) === 1,
  },
  {
    part: "holds_not_returned",
    work: expireReservations,
    prepare: async (world) => {
      for (const userId of users) {
        await grant(world, userId);
        await post(world, RESERVATIONS, {
          ...{ reservationId: `res_${userId}`, userId, event: "chat", expiresInSeconds: 60 },
          quantities: { tokens: 5, count: 0 },
        });
      }
      world.clock.advance(2 * MINUTE_MS);
      return ["bad"];
    },
    isDone: async ({ app }, which) =>
      (await countOf(
        "SELECT count(*) AS count FROM reservations WHERE environment_id = ? AND id = ? AND state = 'expired'",
        app.environments.live.id,
        `res_${which}`,
      )) === 1,
  },
  {
    part: "usage_not_summed",
    work: sumDays,
    prepare: async (world) => {
      // Days that other files left to sum would fill the first pages.
      for (let run = 0; run < 50 && (await countOf("SELECT count(*) AS count FROM usage_to_sum")) > 0; run++) {
        await runPart(sumDays, makeAdminCtx(world.clock));
      }
      for (const userId of users) {
        await grant(world, userId);
        const quantities = { tokens: 5, count: 0 };
        await post(world, "/api/v1/usage/events", {
          eventId: `e-${userId}`,
          userId,
          event: `chat-${userId}`,
          quantities,
        });
      }
      return ['"chat-bad"'];
    },
    isDone: async ({ app }, which) =>
      (await countOf(
        "SELECT count(*) AS count FROM usage_days WHERE environment_id = ? AND event = ? AND events = 1",
        app.environments.live.id,
        `chat-${which}`,
      )) === 1,
  },
  {
    part: "statements_not_made",
    work: makeStatements,
    prepare: async (world) => {
      await grant(world, "good");
      world.clock.advance(31 * DAY_MS);
      const { statementId } = await admin(world, "POST", "/statements", { mode: "live", month: "2026-01" });
      await admin(world, "POST", "/statements", { mode: "live", month: "2025-12" });
      return [statementId];
    },
    isDone: async ({ app }, which) =>
      (await countOf(
        "SELECT count(*) AS count FROM statements WHERE environment_id = ? AND month = ? AND completed_at_ms IS NOT NULL",
        app.environments.live.id,
        which === "bad" ? "2026-01" : "2025-12",
      )) === 1,
  },
  {
    part: "erasures_not_continued",
    work: erasuresPart.work,
    prepare: async (world) => {
      for (const distinctId of users) {
        await grant(world, distinctId);
        // The call ends after the batch that begins the erasure.
        const cut = hookedD1(env.DB, async (trip) => {
          if (trip > 4) throw new Error("D1_ERROR: cut");
        });
        const call = makeClient(world.clock, { DB: cut });
        await call("POST", "/api/v1/erase-person", { key: world.app.keys.sk_live, body: { distinctId } });
      }
      const { results } = await env.DB.prepare(
        "SELECT id FROM erasures WHERE environment_id = ? AND completed_at_ms IS NULL",
      )
        .bind(world.app.environments.live.id)
        .all<{ id: string }>();
      expect(results).toHaveLength(2);
      return [results[0]?.id ?? ""];
    },
    isDone: async ({ app }, which) =>
      (await countOf(
        `SELECT count(*) AS count FROM erasures WHERE environment_id = ? AND completed_at_ms IS NOT NULL`,
        app.environments.live.id,
      )) >= (which === "good" ? 1 : 2),
  },
];

it.each(CASES)(
  "work of the cron that fails stops no other, waits for growing pauses, and is done when its fault ends: $part",
  async (of) => {
    const world = await creditsWorld();
    await makePack(world.app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
    const texts = await of.prepare(world);
    const run = () => runFailing(of.work, world.clock, texts);

    expect(await run(), "the first failure is logged").toHaveLength(1);
    expect(await of.isDone(world, "good")).toBe(true);
    expect(await of.isDone(world, "bad")).toBe(false);
    expect(await faultsOf(world.app)).toEqual([{ part: of.part, kind: "unknown", tries: 1, pause: 2 * MINUTE_MS }]);

    world.clock.advance(MINUTE_MS);
    expect(await run()).toEqual([]);
    expect(await faultsOf(world.app)).toMatchObject([{ tries: 1 }]);
    const pauses: number[] = [];
    for (let tries = 2; tries <= 8; tries++) {
      world.clock.advance(64 * MINUTE_MS);
      expect(await run(), "further failures of the same kind are not logged").toEqual([]);
      const [fault] = await faultsOf(world.app);
      expect(fault?.tries).toBe(tries);
      pauses.push((fault?.pause ?? 0) / MINUTE_MS);
    }
    expect(pauses).toEqual([4, 8, 16, 32, 64, 64, 64]);

    world.clock.advance(MINUTE_MS);
    expect(await runPart(of.work, makeAdminCtx(world.clock))).toEqual([]);
    expect(await of.isDone(world, "bad"), "not before its pause has ended").toBe(false);
    world.clock.advance(64 * MINUTE_MS);
    expect(await runPart(of.work, makeAdminCtx(world.clock))).toEqual([]);
    expect(await of.isDone(world, "bad")).toBe(true);
    expect(await faultsOf(world.app)).toEqual([]);
  },
);

it("work of the cron that fails does not stop the expiries of its environment: a user whose period cannot be granted", async () => {
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const world = await creditsWorld();
  await makePack(world.app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
  await makeEndpoint(world.app.environments.live, ["balance.expired"]);
  for (const userId of users) {
    await post(world, RECURRING, { recurringId: `rec_${userId}`, userId, packId: "Pack", every: "month" });
    await grant(world, userId, { expiresAt: new Date(world.clock.ms + 31 * DAY_MS).toISOString() });
  }
  world.clock.advance(31 * DAY_MS);
  expect(await runFailing(findExpiries, world.clock, ["recurring:rec_bad:"])).toHaveLength(1);
  const told = (await storedMessages(world.app.environments.live)).map(({ data }) => data.userId);
  expect(told.sort()).toEqual(["bad", "bad", "good", "good"]);
  expect(await faultsOf(world.app)).toMatchObject([{ part: "periods_not_granted" }]);
});

it("work of the cron that fails does not stop its environment's test clock: a user whose hold cannot be returned", async () => {
  const world = await creditsWorld("test");
  const key = world.app.keys.sk_test;
  await makePack(world.app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
  for (const userId of users) {
    expect((await world.grant({ userId, packId: "Pack" })).status).toBe(200);
    const hold = { reservationId: `res_${userId}`, userId, event: "chat", quantities: { tokens: 5, count: 0 } };
    expect((await world.call("POST", RESERVATIONS, { key, body: { ...hold, expiresInSeconds: 60 } })).status).toBe(200);
  }
  const now = new Date(world.clock.ms + DAY_MS).toISOString();
  // The call does not move the clock itself.
  await env.DB.prepare(
    "UPDATE environments SET settings_snapshot = json_set(coalesce(settings_snapshot, '{}'), '$.clock', json(?)) WHERE id = ?",
  )
    .bind(JSON.stringify({ atMs: world.clock.ms, setMs: Date.parse(now), aheadMs: 0 }), world.app.environments.test.id)
    .run();
  expect(await runFailing(clocksPart.work, world.clock, ["bad"])).toEqual([]);
  const states = await env.DB.prepare("SELECT id, state FROM reservations WHERE environment_id = ? ORDER BY id")
    .bind(world.app.environments.test.id)
    .all();
  expect(states.results).toEqual([
    { id: "res_bad", state: "open" },
    { id: "res_good", state: "expired" },
  ]);
  expect(await faultsOf(world.app)).toMatchObject([{ part: "holds_not_returned" }]);
  const clock = await world.call("GET", `/api/v1/admin/apps/${world.app.appId}/clock`, { key: env.ADMIN_TOKEN });
  expect(clock.body.status).toBe("ready");
});

it("work of the cron that fails is forgotten a day after its pause, if nothing tries it again", async () => {
  const world = await creditsWorld();
  const insert = env.DB.prepare(
    "INSERT INTO cron_faults VALUES ('holds_not_returned', ?, CAST(? AS INTEGER), 'unknown', 1, 0, CAST(? AS INTEGER))",
  );
  const { id } = world.app.environments.live;
  await env.DB.batch([
    insert.bind("old", id, world.clock.ms - DAY_MS - 1),
    insert.bind("kept", id, world.clock.ms - DAY_MS),
  ]);
  await runPart(oldFaultsPart.work, makeAdminCtx(world.clock));
  expect(await countOf("SELECT count(*) AS count FROM cron_faults WHERE environment_id = ?", id)).toBe(1);
});
