import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { forgetKeys } from "../../src/access/keys.ts";
import { randomId } from "../../src/lib/ids.ts";
import { FAULTS, type FaultPlan, type FaultyD1, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { type Answer, type Client, Clock, makeApp, makeClient, makePack, type TestApp } from "../support/world.ts";

afterAll(expectLedgerInvariants);

/** A user of the test's own, before anything fails. */
interface Scene {
  readonly userId: string;
  readonly clock: Clock;
  /** Sends a request with the secret key. */
  readonly send: (method: string, path: string, body?: unknown) => Promise<Answer>;
}

interface Operation {
  readonly name: string;
  /** Brings the user to the moment before, and answers what does the operation: once, or again. */
  readonly prepare: (scene: Scene) => Promise<() => Promise<Answer>>;
  /** Whether sending it again is safe: the caller's own remedy after a 503. */
  readonly isIdempotent: boolean;
}

const CREDITS = "/api/v1/credits";
let app: TestApp;
let faulty: FaultyD1;

beforeAll(async () => {
  app = await makeApp();
  await makePack(app.appId, "Two", [
    { amountSteps: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountSteps: 5_000_000, unit: "cents" },
  ]);
  faulty = faultyD1(env.DB);
});

// The pauses between attempts are not what is tested.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

function enter(): Scene {
  const clock = new Clock();
  const call: Client = makeClient(clock, { DB: faulty.d1 });
  return {
    userId: randomId("u_"),
    clock,
    send: (method, path, body) =>
      call(method, path, { key: app.keys.sk_test, ...(body === undefined ? {} : { body }) }),
  };
}

const granted = async (scene: Scene): Promise<Answer> => {
  const answer = await scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two" });
  expect(answer.status).toBe(200);
  return answer;
};

const operations: readonly Operation[] = [
  {
    name: "grant with an externalRef",
    isIdempotent: true,
    prepare: async (scene) => () =>
      scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "two", externalRef: "order-1" }),
  },
  {
    name: "grant without an externalRef",
    isIdempotent: false,
    prepare: async (scene) => () => scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "two" }),
  },
  {
    name: "revoke",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await granted(scene)).body;
      return () => scene.send("POST", `${CREDITS}/revoke`, { balanceId, reason: "refunded" });
    },
  },
  {
    name: "list",
    isIdempotent: true,
    prepare: async (scene) => {
      await granted(scene);
      return () => scene.send("GET", `${CREDITS}?userId=${scene.userId}&event=chat.*`);
    },
  },
  {
    name: "history",
    isIdempotent: true,
    prepare: async (scene) => {
      await granted(scene);
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}`);
    },
  },
  {
    name: "history of one balance",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await granted(scene)).body;
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}&balanceId=${balanceId}`);
    },
  },
];

const TABLES = {
  credit_balances: "grant_seq",
  credit_ledger: "seq",
  usage_events: "seq",
  reservations: "created_at_ms, id",
} as const;

/** Everything that the database holds of the user. */
async function heldOf(scene: Scene): Promise<unknown> {
  const results = await env.DB.batch(
    Object.entries(TABLES).map(([table, order]) =>
      env.DB.prepare(`SELECT * FROM ${table} WHERE user_id = ? ORDER BY ${order}`).bind(scene.userId),
    ),
  );
  return results.map((result) => result.results);
}

/** Names every random id by the order of its first appearance, so that two users' states can be compared. */
function named(scene: Scene, held: unknown, answer: unknown = null): string {
  const ordinals = new Map<string, number>();
  const text = JSON.stringify([held, answer]).replaceAll(scene.userId, "the user");
  return text.replace(/[0-9A-Za-z]{20,}/g, (id) => {
    const ordinal = ordinals.get(id) ?? ordinals.size;
    ordinals.set(id, ordinal);
    return `#${ordinal}`;
  });
}

/** Forgets the key, so that its look-up is the first trip, and does the operation under the plan. */
async function attempt(run: () => Promise<Answer>, plan: FaultPlan | null): Promise<Answer> {
  forgetKeys();
  faulty.plan(plan);
  const answer = await run();
  if (plan !== null) expect(faulty.trips(), "the fault struck").toBeGreaterThanOrEqual(plan.at);
  return answer;
}

/** What the operation does when nothing fails. */
async function flawless(operation: Operation) {
  const scene = enter();
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const before = named(scene, await heldOf(scene));
  const answer = await attempt(run, null);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  const trips = faulty.trips();
  const held = await heldOf(scene);
  return { trips, before, after: named(scene, held), answered: named(scene, held, answer.body) };
}

async function underFault(operation: Operation, plan: FaultPlan, expected: Awaited<ReturnType<typeof flawless>>) {
  const scene = enter();
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const answer = await attempt(run, plan);
  faulty.plan(null);
  const held = await heldOf(scene);
  if (plan.fault !== "overloaded" && plan.persists !== true) {
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expect(named(scene, held, answer.body)).toBe(expected.answered);
  } else {
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "temporarily_unavailable" } } });
    expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    expect([expected.before, expected.after]).toContain(named(scene, held));
    if (!operation.isIdempotent) return;
    const again = await attempt(run, null);
    expect(again.status, JSON.stringify(again.body)).toBe(200);
    expect(named(scene, await heldOf(scene), again.body)).toBe(expected.answered);
  }
}

describe.each(operations)("$name", (operation) => {
  for (const fault of FAULTS) {
    it(`lands once or not at all, and answers or says 503, when any one trip fails: ${fault}`, async () => {
      const expected = await flawless(operation);
      for (let at = 1; at <= expected.trips; at++) await underFault(operation, { fault, at }, expected);
    });

    it(`lands once or not at all, and says 503, when every trip from any one on fails: ${fault}`, async () => {
      const expected = await flawless(operation);
      for (let at = 1; at <= expected.trips; at++) await underFault(operation, { fault, at, persists: true }, expected);
    });
  }
});

it("counts a test-mode balance once, however its grant's answers were lost", async () => {
  const counted = await env.DB.prepare(
    `SELECT test_balance_count AS counted, (SELECT count(*) FROM credit_balances WHERE environment_id = e.id) AS there
     FROM environments AS e WHERE e.id = ?`,
  )
    .bind(app.environments.test.id)
    .first<{ counted: number; there: number }>();
  expect(counted?.there).toBeGreaterThan(0);
  expect(counted?.counted).toBe(counted?.there);
});
