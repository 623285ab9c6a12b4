import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { holdsPart } from "../../src/books/usage/expire.ts";
import { rejectionIn } from "../../src/errors.ts";
import { randomId } from "../../src/lib/ids.ts";
import { runPart } from "../support/cron.ts";
import { FAULTS, type FaultPlan, type FaultyD1, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { type Operation, type Scene, setPrices } from "../support/operation.ts";
import { operations } from "../support/operations.ts";
import { isSoak, RANDOM_SEED } from "../support/soak.ts";
import { userRowsReader } from "../support/user-rows.ts";
import {
  type Answer,
  bound,
  Clock,
  inTurn,
  makeApp,
  makeClient,
  makePack,
  type PickIsolate,
  type TestApp,
} from "../support/world.ts";

afterAll(expectLedgerInvariants);
vi.setConfig({ testTimeout: 120_000 });

let app: TestApp;
let faulty: FaultyD1;
/** All rows of the user. */
let heldOf: (userId: string) => Promise<string>;

beforeAll(async () => {
  app = await makeApp();
  await makePack(app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  faulty = faultyD1(env.DB);
  heldOf = await userRowsReader(app.appId);
  // All scenes have the price list that some operations set, whichever ran before.
  await setPrices(enter(1));
});

// Repeated attempts do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  // The faults write errors to the log.
  vi.spyOn(console, "error").mockReturnValue();
});

function enter(isolates: number | PickIsolate): Scene {
  const clock = new Clock();
  const pick = typeof isolates === "number" ? inTurn(isolates) : isolates;
  // All scenes grant in one application, in test mode.
  const call = makeClient(clock, { DB: faulty.d1, TEST_BALANCE_QUOTA: "100000" }, randomId, pick);
  return {
    userId: randomId("u_"),
    clock,
    send: (method, path, body, key = app.keys.sk_test, headers = {}) =>
      call(method, path, { key, headers, ...(body === undefined ? {} : { body }) }),
    appId: app.appId,
    publishableKey: app.keys.pk_test,
    cron: async ({ work }) => {
      const root = systemCtx(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId: randomId });
      await runPart(work, root);
    },
  };
}

/** Names every random id by the order of its first appearance, so that two users' states can be compared. */
function named(scene: Scene, held: string, answer: unknown = null): string {
  const ordinals = new Map<string, number>();
  const text = `[${held},${JSON.stringify(answer)}]`
    .replaceAll(scene.userId, "the user")
    .replace(/"hint":"[^"]*"|"(account_|environment_)?id":\d+/g, "")
    // Each scene has packs of its own in the one application.
    .replace(/"pack_number":\d+/g, '"pack_number":"of the pack"')
    // This column has hashes of the user and the pack.
    .replace(/"settled_by":"[^"]*"/g, '"settled_by":"fingerprint"')
    // Its characters are not only of base62, and have no separators.
    .replace(/"request_hash":"[\w-]{30,}"/g, '"request_hash":"stamp"')
    // The text is sealed for its environment, so it differs in each run.
    .replace(/v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+/g, "sealed");
  return text.replace(/key_[\w-]{22}|[0-9A-Za-z_-]{43,}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-Za-z]{20,}/g, (id) => {
    const ordinal = ordinals.get(id) ?? ordinals.size;
    ordinals.set(id, ordinal);
    return `#${ordinal}`;
  });
}

/** Runs the operation with the planned fault. */
async function attempt(run: () => Promise<Answer>, plan: FaultPlan | null): Promise<Answer> {
  faulty.plan(plan);
  const answer = await run().catch((error): Answer => {
    // Only the cron throws. Requests always get a response.
    return { status: 503, headers: new Headers(), body: { error: { code: rejectionIn(error)?.code } } };
  });
  if (plan !== null) expect(faulty.trips(), "the fault occurred").toBeGreaterThanOrEqual(plan.at);
  return answer;
}

/** The response, without the id of the request in a rejection. */
function responseOf({ status, body }: Answer): unknown {
  // The repeat of a list whose answer was lost tells which elements are replays.
  const varies = (name: string): boolean => name === "requestId" || name === "isReplayed";
  return [status, JSON.parse(JSON.stringify(body, (name, value) => (varies(name) ? undefined : value)))];
}

/** Returns the operation's result without a fault. Each operation runs once without a fault. */
function flawless(operation: Operation, isolates: number): ReturnType<typeof doFlawlessly> {
  const name = `${operation.name}, ${isolates}`;
  const done = flawlessly.get(name) ?? doFlawlessly(operation, isolates);
  flawlessly.set(name, done);
  return done;
}
const flawlessly = new Map<string, ReturnType<typeof doFlawlessly>>();

async function doFlawlessly(operation: Operation, isolates: number) {
  const scene = enter(isolates);
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const before = named(scene, await heldOf(scene.userId));
  const answer = await attempt(run, null);
  expect(answer.status, JSON.stringify(answer.body)).toBe(operation.status ?? 200);
  const trips = faulty.trips();
  const held = await heldOf(scene.userId);
  const states = [before, named(scene, held)];
  if (operation.settlesFirst === true) {
    const other = enter(isolates);
    await operation.prepare(other);
    await other.cron(holdsPart);
    states.push(named(other, await heldOf(other.userId)));
  }
  return { isolates, trips, states, answered: named(scene, held, responseOf(answer)) };
}

/** D1's errors after which the same batch may be sent again. */
const PASSING = [
  "D1_ERROR: Network connection lost.",
  "D1_ERROR: Internal error in D1 DB storage caused object to be reset.",
  "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.",
  "D1_ERROR: D1 DB reset because its code was updated.",
  "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
];
const OUT_OF_QUERIES = "Too many API requests by single Worker invocation.";
/** Errors that an immediate retry does not fix. */
const NOT_NOW = [
  "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
  "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
  "D1_ERROR: D1 DB exceeded its CPU time limit and was reset.",
  "D1_ERROR: D1 DB's isolate exceeded its memory limit and was reset.",
  "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1_ERROR: Exceeded maximum DB size",
  OUT_OF_QUERIES,
];

const isPassing = ({ fault, persists, says }: FaultPlan): boolean =>
  fault !== "overloaded" && persists !== true && !(says !== undefined && NOT_NOW.includes(says));

const nameOf = (plan: FaultPlan): string => `${JSON.stringify(plan)}, PROOF_SEED=${RANDOM_SEED}`;

async function underFault(operation: Operation, plan: FaultPlan, expected: Awaited<ReturnType<typeof flawless>>) {
  const scene = enter(expected.isolates);
  faulty.plan(null);
  const run = await operation.prepare(scene);
  const answer = await attempt(run, plan);
  faulty.plan(null);
  const held = await heldOf(scene.userId);
  if (isPassing(plan)) {
    // The caller does not notice one passing fault.
    expect(named(scene, held, responseOf(answer)), nameOf(plan)).toBe(expected.answered);
    return;
  }
  if (operation.isList === true && answer.status === 200) {
    const codes = answer.body.results.map(({ error }: { error?: { code: string } }) => error?.code);
    expect(codes).toContain("temporarily_unavailable");
  } else if (operation.hasNoCaller !== true) {
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "temporarily_unavailable" } } });
    expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  }
  expect(expected.states, nameOf(plan)).toContain(named(scene, held));
  if (!operation.isIdempotent) return;
  const again = await attempt(run, null);
  if (operation.tellsWhatItDid === true) {
    expect(again.status).toBe(200);
    expect(named(scene, await heldOf(scene.userId)), nameOf(plan)).toBe(expected.states[1]);
    return;
  }
  expect(named(scene, await heldOf(scene.userId), responseOf(again)), nameOf(plan)).toBe(expected.answered);
}

type Trial = Omit<FaultPlan, "at"> & {
  /** After a trip that never returns: whether the isolate ends, or serves the next request. */
  readonly isIsolateEnded?: boolean;
};

/** A trip fails, the caller does not notice. */
const PASSING_TRIALS: readonly Trial[] = FAULTS.filter((fault) => fault !== "overloaded").map((fault) => ({ fault }));
/** The ways in which a trip leaves behind nothing, and the caller gets a 503 or no answer. */
const WITHOUT_EFFECT: readonly Trial[] = [
  { fault: "overloaded" },
  { fault: "before", persists: true },
  { fault: "before", persists: true, says: OUT_OF_QUERIES },
  { fault: "silent before", isIsolateEnded: true },
  { fault: "silent before", isIsolateEnded: false },
];
/** The ways in which a trip leaves behind all of its batch, and the caller gets a 503 or no answer. */
const WITH_EFFECT: readonly Trial[] = [
  { fault: "after", persists: true },
  { fault: "silent after", isIsolateEnded: true },
  { fault: "silent after", isIsolateEnded: false },
];

/** At each trip the suite makes one trial of a list, which differs from run to run. The soak makes all. */
const oneOf = (trials: readonly Trial[], at: number): readonly Trial[] =>
  trials.filter((_, index) => isSoak || (at + RANDOM_SEED) % trials.length === index);

// One isolate plans a write from its memory; with two isolates, one does not know the other's writes.
const everywhere = operations.flatMap((operation) =>
  (operation.hasNoMemory === true ? [1] : [1, 2]).map((isolates) => ({ ...operation, isolates })),
);

describe.each(everywhere)("$name, isolates: $isolates", ({ isolates, ...operation }) => {
  let expected: Awaited<ReturnType<typeof flawless>>;
  beforeAll(async () => {
    expected = await flawless(operation, isolates);
  });

  const atEachTrip = async (trialsAt: (at: number) => readonly Trial[]): Promise<void> => {
    for (let at = 1; at <= expected.trips; at++) {
      for (const { isIsolateEnded, ...trial } of trialsAt(at)) {
        const plan = { ...trial, at };
        if (isIsolateEnded === undefined) await underFault(operation, plan, expected);
        else await underSilence(operation, plan, expected, isIsolateEnded);
      }
    }
  };

  if (isolates > 1) {
    // A second isolate sees only the effect of a failed trip, so the kind of the failure does not matter.
    it("takes effect once or not at all, and succeeds or returns 503, when one trip fails", async () => {
      await atEachTrip((at) => oneOf([{ fault: "before" }, { fault: "after" }], at));
    });
    return;
  }

  it.each(PASSING_TRIALS)(
    "takes effect once, and its caller does not notice, when one trip fails ($fault)",
    async (trial) => {
      await atEachTrip(() => [trial]);
    },
  );

  it("takes effect once or not at all, and its repetition once, when D1, its isolate or its caller ends at any trip", async () => {
    await atEachTrip((at) => [...oneOf(WITHOUT_EFFECT, at), ...oneOf(WITH_EFFECT, at)]);
  });
});

/** Each of D1's errors, before and after the batch runs. Without a soak, each error has one of both, because one function reads all errors. */
const errorsToTest = (words: readonly string[]) =>
  words.flatMap((says, index) =>
    (["before", "after"] as const)
      .filter((_, when) => isSoak || index % 2 === when)
      .map((fault) => [says, fault] as const),
  );

const some = operations.filter(({ name }) =>
  /^(usage event$|list of usage events of several|grant with an|capture)/.test(name),
);

/** Tries an error at each trip of some operations, in the suite of one, which differs from error to error. */
async function tryError(says: string, fault: FaultPlan["fault"]): Promise<void> {
  const turn = [...PASSING, ...NOT_NOW].indexOf(says) + RANDOM_SEED;
  for (const operation of some.filter((_, index) => isSoak || turn % some.length === index)) {
    const expected = await flawless(operation, 1);
    for (let at = 1; at <= expected.trips; at++) await underFault(operation, { fault, at, says }, expected);
  }
}

it.each(errorsToTest(PASSING))(
  "a D1 error is retried, so that the caller does not notice it and the write takes effect once: %s (%s the trip)",
  tryError,
);

it.each(errorsToTest(NOT_NOW))(
  "a D1 error causes a 503 without a partial write, and the repeated call takes effect once: %s (%s the trip)",
  tryError,
);

async function underSilence(
  operation: Operation,
  plan: FaultPlan,
  expected: Awaited<ReturnType<typeof flawless>>,
  isIsolateEnded: boolean,
) {
  let isolate = 0;
  const scene = enter(() => isolate);
  faulty.plan(null);
  const run = await operation.prepare(scene);
  faulty.plan(plan);
  void run();
  await faulty.silenced();
  faulty.plan(null);
  expect(expected.states, nameOf(plan)).toContain(named(scene, await heldOf(scene.userId)));
  if (isIsolateEnded) isolate++;
  expect((await scene.send("GET", `/api/v1/credits?userId=${scene.userId}`)).status).toBe(200);
  if (!operation.isIdempotent) return;
  const again = await attempt(run, null);
  if (operation.tellsWhatItDid === true) {
    expect(again.status).toBe(200);
    expect(named(scene, await heldOf(scene.userId)), nameOf(plan)).toBe(expected.states[1]);
    return;
  }
  expect(named(scene, await heldOf(scene.userId), responseOf(again)), nameOf(plan)).toBe(expected.answered);
}

it("the count of test balances has each balance once, and each item of a recurring grant once, whichever responses were lost", async () => {
  const counted = await env.DB.prepare(
    `SELECT test_balance_count AS counted, (
       SELECT count(*) FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
       WHERE a.environment_id = e.id AND coalesce(b.external_ref, '') NOT LIKE 'recurring:%'
     ) + (SELECT sum(counted_balances) FROM recurring_grants WHERE environment_id = e.id) AS there
     FROM environments AS e WHERE e.id = ?`,
  )
    .bind(app.environments.test.id)
    .first<{ counted: number; there: number }>();
  expect(counted?.there).toBeGreaterThan(0);
  expect(counted?.counted).toBe(counted?.there);
});
