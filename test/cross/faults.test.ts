import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { refusalIn } from "../../src/errors.ts";
import { randomId } from "../../src/lib/ids.ts";
import { scheduled } from "../../src/scheduled.ts";
import { FAULTS, type FaultPlan, type FaultyD1, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import type { Operation, Scene } from "../support/operation.ts";
import { operations } from "../support/operations.ts";
import { type Answer, bound, Clock, inTurn, makeApp, makeClient, makePack, type TestApp } from "../support/world.ts";

afterAll(expectLedgerInvariants);
vi.setConfig({ testTimeout: 120_000 });

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
  // The cron's word on what it left for its next run.
  vi.spyOn(console, "error").mockReturnValue();
});

function enter(isolates: number): Scene {
  const clock = new Clock();
  // Every scene grants in the one application, in test mode.
  const call = makeClient(clock, { DB: faulty.d1, TEST_BALANCE_QUOTA: "100000" }, randomId, inTurn(isolates));
  return {
    userId: randomId("u_"),
    clock,
    send: (method, path, body, key = app.keys.sk_test) =>
      call(method, path, { key, ...(body === undefined ? {} : { body }) }),
    appId: app.appId,
    publishableKey: app.keys.pk_test,
    cron: () => scheduled(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId: randomId }),
  };
}

const OF_ACCOUNT = "account_id IN (SELECT id FROM accounts WHERE user_id = ?)";
/** Each table, where a user's rows are in it, and their order. */
const TABLES = [
  ["accounts", "user_id = ?", "id"],
  ["credit_balances", OF_ACCOUNT, "grant_seq"],
  ["credit_ledger", OF_ACCOUNT, "seq"],
  ["credit_adjustments", OF_ACCOUNT, "seq"],
  ["credit_refunds", OF_ACCOUNT, "ordinal"],
  ["usage_events", OF_ACCOUNT, "seq"],
  ["reservations", OF_ACCOUNT, "created_at_ms"],
  ["distinct_ids", "?1 IN (distinct_id, claimed_by)", "distinct_id"],
  ["id_properties", "distinct_id = ?", "distinct_id"],
  ["analytics_events", "distinct_id = ?", "seq"],
  ["consent_log", "distinct_id = ?", "seq"],
  ["export_audit", "distinct_id = ?", "seq"],
  ["apps", "name = ?", "id"],
  ["environments", "app_id IN (SELECT id FROM apps WHERE name = ?)", "mode"],
  ["api_keys", "name = ?", "id"],
  ["credit_packs", "name = ?", "id"],
  [
    // The scenes share an application, whose rows are numbered.
    "(SELECT app_id, id, at_ms, actor, action, target, details FROM admin_audit)",
    `target IN (
      SELECT id FROM apps WHERE name = ?1 UNION ALL SELECT id FROM api_keys WHERE name = ?1
      UNION ALL SELECT id FROM credit_packs WHERE name = ?1
      UNION ALL SELECT b.id FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id WHERE a.user_id = ?1
    )`,
    "action",
  ],
  ["credit_pack_items", "pack_id IN (SELECT id FROM credit_packs WHERE name = ?)", "position"],
] as const;

/** Everything that the database holds of the user. */
async function heldOf(scene: Scene): Promise<unknown> {
  const results = await env.DB.batch(
    TABLES.map(([table, where, order]) =>
      env.DB.prepare(`SELECT * FROM ${table} WHERE ${where} ORDER BY ${order}`).bind(scene.userId),
    ),
  );
  return results.map((result) => result.results);
}

/** Names every random id by the order of its first appearance, so that two users' states can be compared. */
function named(scene: Scene, held: unknown, answer: unknown = null): string {
  const ordinals = new Map<string, number>();
  const text = JSON.stringify([held, answer])
    .replaceAll(scene.userId, "the user")
    .replace(/"hint":"[^"]*"|"(account_)?id":\d+/g, "")
    // Sealed for its environment, so different in each run.
    .replace(/v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+/g, "sealed");
  return text.replace(/key_[\w-]{22}|[0-9A-Za-z_-]{43,}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-Za-z]{20,}/g, (id) => {
    const ordinal = ordinals.get(id) ?? ordinals.size;
    ordinals.set(id, ordinal);
    return `#${ordinal}`;
  });
}

/** Does the operation under the plan. */
async function attempt(run: () => Promise<Answer>, plan: FaultPlan | null): Promise<Answer> {
  faulty.plan(plan);
  const answer = await run().catch((error): Answer => {
    // The cron alone throws: requests are answered, whatever happens.
    return { status: 503, headers: new Headers(), body: { error: { code: refusalIn(error)?.code } } };
  });
  if (plan !== null) expect(faulty.trips(), "the fault struck").toBeGreaterThanOrEqual(plan.at);
  return answer;
}

/** What the caller is told: the answer, but for the id of the request that a refusal carries. */
function told({ status, body }: Answer): unknown {
  return [status, JSON.parse(JSON.stringify(body, (name, value) => (name === "requestId" ? undefined : value)))];
}

/** What the operation does when nothing fails. */
async function flawless(operation: Operation, isolates: number) {
  const scene = enter(isolates);
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const before = named(scene, await heldOf(scene));
  const answer = await attempt(run, null);
  expect(answer.status, JSON.stringify(answer.body)).toBe(operation.status ?? 200);
  const trips = faulty.trips();
  const held = await heldOf(scene);
  const states = [before, named(scene, held)];
  if (operation.settlesFirst === true) {
    const other = enter(isolates);
    await operation.prepare(other);
    await other.cron();
    states.push(named(other, await heldOf(other)));
  }
  return { isolates, trips, states, answered: named(scene, held, told(answer)) };
}

async function underFault(operation: Operation, plan: FaultPlan, expected: Awaited<ReturnType<typeof flawless>>) {
  const scene = enter(expected.isolates);
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const answer = await attempt(run, plan);
  faulty.plan(null);
  const held = await heldOf(scene);
  if (plan.fault !== "overloaded" && plan.persists !== true) {
    // One fault that passes is not even noticed.
    expect(named(scene, held, told(answer))).toBe(expected.answered);
    return;
  }
  if (operation.isList === true && answer.status === 200) {
    const codes = answer.body.results.map(({ error }: { error?: { code: string } }) => error?.code);
    expect(codes).toContain("temporarily_unavailable");
  } else if (operation.hasNoCaller !== true) {
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "temporarily_unavailable" } } });
    expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  }
  expect(expected.states).toContain(named(scene, held));
  if (!operation.isIdempotent) return;
  const again = await attempt(run, null);
  expect(named(scene, await heldOf(scene), told(again))).toBe(expected.answered);
}

// In one isolate a write is planned on what the one before it knew; in two, what one did is unknown to the other.
const everywhere = operations.flatMap((operation) => [1, 2].map((isolates) => ({ ...operation, isolates })));

describe.each(everywhere)("$name, isolates: $isolates", ({ isolates, ...operation }) => {
  let expected: Awaited<ReturnType<typeof flawless>>;
  beforeAll(async () => {
    expected = await flawless(operation, isolates);
  });

  for (const fault of FAULTS) {
    it(`lands once or not at all, and answers or says 503, when any one trip fails: ${fault}`, async () => {
      for (let at = 1; at <= expected.trips; at++) await underFault(operation, { fault, at }, expected);
    });

    it(`lands once or not at all, and says 503, when every trip from any one on fails: ${fault}`, async () => {
      for (let at = 1; at <= expected.trips; at++) await underFault(operation, { fault, at, persists: true }, expected);
    });
  }
});

it("counts a test-mode balance once, however its grant's answers were lost", async () => {
  const counted = await env.DB.prepare(
    `SELECT test_balance_count AS counted, (
       SELECT count(*) FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
       WHERE a.environment_id = e.id
     ) AS there
     FROM environments AS e WHERE e.id = ?`,
  )
    .bind(app.environments.test.id)
    .first<{ counted: number; there: number }>();
  expect(counted?.there).toBeGreaterThan(0);
  expect(counted?.counted).toBe(counted?.there);
});
