import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { createWorkerApp } from "../../src/app.ts";
import { makeKeyId } from "../../src/auth/key-session.ts";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import type { Unit } from "../../src/books/amounts/amount.ts";
import type { MatchRule } from "../../src/books/amounts/match.ts";
import { nameKey } from "../../src/catalog/pack.ts";
import { writeKey } from "../../src/db/key-form.ts";
import { idIn, openSession } from "../../src/db/session.ts";
import { timesOf } from "../../src/db/settings-snapshot.ts";
import { sha256 } from "../../src/lib/encoding.ts";
import { randomId } from "../../src/lib/ids.ts";
import type { AdminCtx, Environment, Mode, Runtime, TenantCtx } from "../../src/runtime.ts";
import { readSettings } from "../../src/settings.ts";
import { storedSettingOf } from "./end-user-setting.ts";
import { checkRequest, checkResponse } from "./openapi-check.ts";
import type { Random } from "./random.ts";

/** A clock that the test sets. It starts at a round time and never moves by itself. */
export class Clock {
  ms = Date.UTC(2026, 0, 15, 12);
  readonly now = (): number => this.ms;
  advance(ms: number): void {
    this.ms += ms;
  }
}

/** The test's own application, with a key of each kind in each mode. */
export interface TestApp {
  readonly appId: string;
  readonly environments: Readonly<Record<Mode, Environment>>;
  readonly keys: Readonly<Record<`${"sk" | "pk"}_${Mode}`, string>>;
}

export interface TestItem {
  readonly amountMinor: number;
  readonly unit: Unit;
  readonly matches?: readonly MatchRule[];
  readonly priority?: number;
}

type KeyKind = "secret" | "publishable" | "relay";

/** Returns a new key of an environment, and the statement that stores it. */
async function newKey(environment: Environment, kind: KeyKind) {
  const key = writeKey(kind, environment, randomId(""));
  const hash = await sha256(key);
  const insert = env.DB.prepare(
    "INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms) VALUES (?, ?, CAST(? AS INTEGER), ?, ?, 0)",
  ).bind(hash, makeKeyId(hash), environment.id, kind, key.slice(0, 12));
  return { key, insert };
}

/** Creates a key of an environment, and returns it. */
export async function makeKey(environment: Environment, kind: KeyKind): Promise<string> {
  const { key, insert } = await newKey(environment, kind);
  await insert.run();
  return key;
}

/** The id of the last application's first environment. */
let lastEnvironmentId = 0;
/**
 * Returns ids that are higher than all others in the database. The API takes the ids after them, and no test makes 10,000
 * applications with it.
 */
export function newEnvironmentIds(): Readonly<Record<Mode, number>> {
  lastEnvironmentId += 10_000;
  return { live: lastEnvironmentId, test: lastEnvironmentId + 1 };
}

/** Returns a new application with its keys, and the statements that store them. */
export async function newApp({
  name = "Test",
  endUserAuth = null,
}: {
  name?: string;
  endUserAuth?: object | null;
} = {}) {
  const database = home();
  const appId = idIn(database, randomId("app_"));
  const ids = newEnvironmentIds();
  const environments = {
    live: { id: ids.live, appId, mode: "live", database },
    test: { id: ids.test, appId, mode: "test", database },
  } as const;
  const insertEnvironment = async ({ id, mode }: Environment) =>
    env.DB.prepare(
      // `key_test` is the key of `makeCtx`.
      "INSERT INTO environments (id, app_id, mode, end_user_auth, authors) VALUES (CAST(? AS INTEGER), ?, ?, ?, ' key_test ')",
    ).bind(id, appId, mode, await storedSettingOf({ appId, mode }, endUserAuth));
  const [skLive, pkLive, skTest, pkTest] = await Promise.all([
    newKey(environments.live, "secret"),
    newKey(environments.live, "publishable"),
    newKey(environments.test, "secret"),
    newKey(environments.test, "publishable"),
  ]);
  const inserts = [
    env.DB.prepare("INSERT INTO apps (id, name, created_at_ms) VALUES (?, ?, 0)").bind(appId, name),
    await insertEnvironment(environments.live),
    await insertEnvironment(environments.test),
    ...[skLive, pkLive, skTest, pkTest].map(({ insert }) => insert),
  ];
  const keys = { sk_live: skLive.key, pk_live: pkLive.key, sk_test: skTest.key, pk_test: pkTest.key };
  return { app: { appId, environments, keys } satisfies TestApp as TestApp, inserts };
}

/** Creates an application with its keys. */
export async function makeApp(endUserAuth: object | null = null): Promise<TestApp> {
  const { app, inserts } = await newApp({ endUserAuth });
  await env.DB.batch(inserts);
  return app;
}

/**
 * The database of this test file's applications: `DB_1` for half of the files, for the other half with `SWAP_DATABASES`, and for
 * all files in the soak. Tests always read it as `env.DB`.
 */
export function home(): 0 | 1 {
  if (env.SOAK_OPERATIONS !== "") return 1;
  return homeOf(expect.getState().testPath ?? "", env.SWAP_DATABASES !== "");
}

/** The database of any test file. It depends on the path inside the repository, so it is the same in every clone. */
export function homeOf(path: string, isSwapped: boolean): 0 | 1 {
  const inside = path.slice(path.lastIndexOf("/test/"));
  const sum = [...inside].reduce((sum, character) => sum + character.charCodeAt(0), 0);
  return (sum + Number(isSwapped)) % 2 === 0 ? 0 : 1;
}

/** The databases that a test replaces: `DB` for its own applications, `SPARE` for the other database. */
export type Bindings = Partial<Env> & { readonly SPARE?: D1Database };

/** Purser's bindings. The file's own database is `env.DB` or its replacement; the other database is `env.SPARE` or its replacement. */
export function bound(bindings: Bindings = {}): Env {
  const { DB: d1 = env.DB, SPARE: spare = env.SPARE, ...others } = bindings;
  const databases = home() === 0 ? { DB: d1, DB_1: spare } : { DB: spare, DB_1: d1 };
  // Without rate limiters, the isolate counts requests, by the test's clock.
  const none = undefined as unknown as RateLimit;
  const counters = { PUBLIC_REQUESTS: none, STRIPE_REQUESTS: none, NEW_KEY_REQUESTS: none };
  return { ...env, ...counters, NEW_APPS_DATABASE: home() === 0 ? "DB" : "DB_1", ...others, ...databases };
}

/** SQL: the next number of a pack of the application `?1`. */
const NEXT_NUMBER = "1 + coalesce((SELECT max(pack_number) FROM credit_packs WHERE app_id = ?1), 0)";

/** Returns a new pack with items, and the statements that store it. */
export function newPack(appId: string, name: string, items: readonly TestItem[]) {
  const packId = randomId("cpk_");
  const insertItem = env.DB.prepare(
    `INSERT INTO credit_pack_items (app_id, pack_id, position, item_number, amount_minor, unit, matches, priority)
     VALUES (?1, ?2, CAST(?3 AS INTEGER), 1 + CAST(?3 AS INTEGER), CAST(? AS INTEGER), ?, ?, CAST(? AS INTEGER))`,
  );
  const inserts = [
    env.DB.prepare(`INSERT INTO credit_packs (app_id, id, pack_number, last_item_number, name, name_key, created_at_ms)
       SELECT ?1, ?2, ${NEXT_NUMBER}, CAST(?5 AS INTEGER), ?3, ?4, 0`).bind(
      ...[appId, packId, name, nameKey(name), items.length],
    ),
    ...items.map(({ amountMinor, unit, matches = [], priority = 100 }, position) =>
      insertItem.bind(...[appId, packId, position, amountMinor, unit, JSON.stringify(matches), priority]),
    ),
  ];
  return { packId, inserts };
}

/** Creates a pack with items. */
export async function makePack(appId: string, name: string, items: readonly TestItem[]): Promise<string> {
  const { packId, inserts } = newPack(appId, name, items);
  await env.DB.batch(inserts);
  return packId;
}

/** Returns a new open-amount pack, which has no items but a unit of its own, and the statement that stores it. */
export function newOpenAmountPack(
  appId: string,
  name: string,
  unit: Unit,
  { matches = [], expiryDays = null }: { matches?: readonly MatchRule[]; expiryDays?: number | null } = {},
) {
  const packId = randomId("cpk_");
  const insert = env.DB.prepare(
    `INSERT INTO credit_packs (app_id, id, pack_number, name, name_key, unit, matches, default_expiry_days, created_at_ms)
     SELECT ?1, ?2, ${NEXT_NUMBER}, ?3, ?4, ?5, ?6, CAST(?7 AS INTEGER), 0`,
  ).bind(appId, packId, name, nameKey(name), unit, JSON.stringify(matches), expiryDays);
  return { packId, insert };
}

/** Creates an open-amount pack. */
export async function makeOpenAmountPack(
  appId: string,
  name: string,
  unit: Unit,
  matches: readonly MatchRule[] = [],
): Promise<string> {
  const { packId, insert } = newOpenAmountPack(appId, name, unit, { matches });
  await insert.run();
  return packId;
}

/** The context of a verb, on the real D1 or a double around it. */
export function makeCtx(environment: Environment, clock: Clock, d1: D1Database = env.DB): TenantCtx {
  return {
    isolate: {},
    ...timesOf(null, clock),
    newId: randomId,
    db: openSession(d1, "first-primary"),
    settings: readSettings(env),
    environment,
    caller: { kind: "secret", keyId: "key_test" },
  };
}

/** The context of an administrative verb. */
export function makeAdminCtx(clock: Clock, d1: D1Database = env.DB): AdminCtx {
  const root = systemCtx(bound({ DB: d1 }), { isolate: {}, now: clock.now, newId: randomId });
  const own = root.databases.find(({ index }) => index === home());
  return { ...root, db: own?.db ?? root.db, caller: { kind: "admin", by: "test" } };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // A test reads any response. Its assertions say what it should be.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly body: any;
}

export type Client = (
  method: string,
  path: string,
  options?: { key?: string; body?: unknown; headers?: Record<string, string> },
) => Promise<Answer>;

let requests = 0;
/** A unique address, so that other tests' requests do not limit this test. */
const ownAddress = (): string => `198.51.100.${requests++}`;

const isRaw = (body: unknown): body is string | Uint8Array | ReadableStream =>
  typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;

/** Returns the number of the isolate that a call reaches. Each isolate remembers its own writes. */
export type PickIsolate = () => number;

/** Picks several isolates in turn. */
export function inTurn(count: number): PickIsolate {
  let calls = 0;
  return () => calls++ % count;
}

/** Picks several isolates at random, often the previous one, which remembers the user. */
export function atRandom(count: number, random: Random): PickIsolate {
  let last = 0;
  return () => {
    if (random.chance(0.5)) last = random.integer(0, count - 1);
    return last;
  };
}

/** Makes the first attempts of messages. */
export type Deliver = NonNullable<Parameters<typeof createWorkerApp>[1]>;

/** The isolate and the way to deliver messages of each running request. */
const isolates = new WeakMap<Env, { readonly runtime: Runtime; readonly deliver: Deliver }>();
const isolateOf = (bindings: Env) => {
  const own = isolates.get(bindings);
  if (own === undefined) throw new Error("Send requests with `startIsolate`.");
  return own;
};
/** All isolates share one app, because creating its router takes longer than most requests. */
const sharedApp = createWorkerApp(
  (bindings) => isolateOf(bindings).runtime,
  (bindings, ...rest) => isolateOf(bindings).deliver(bindings, ...rest),
);

/** Starts an isolate, which has its own memory. It makes no first attempts of messages unless `deliver` does. */
export function startIsolate(
  clock: Clock,
  { newId = randomId, deliver = async () => {} }: { newId?: Runtime["newId"]; deliver?: Deliver | undefined } = {},
) {
  const own = { runtime: { isolate: {}, now: clock.now, newId }, deliver };
  return {
    request: async (path: string, init: RequestInit = {}, bindings: Env = bound()): Promise<Response> => {
      const ownBindings = { ...bindings };
      isolates.set(ownBindings, own);
      return sharedApp.request(path, init, ownBindings, createExecutionContext());
    },
  };
}

/**
 * Returns a function that calls the app in process, at the clock's time, in one isolate or several. `bindings` may replace the real
 * D1 by a double. A response that openapi.json does not describe fails the test.
 */
export function makeClient(
  clock: Clock,
  bindings: Bindings = {},
  newId: Runtime["newId"] = randomId,
  pick: PickIsolate = () => 0,
  deliver?: Deliver,
): Client {
  const started: ReturnType<typeof startIsolate>[] = [];
  const isolateAt = (index: number) => {
    const isolate = started[index] ?? startIsolate(clock, { newId, deliver });
    started[index] = isolate;
    return isolate;
  };
  return async (method, path, options = {}) => {
    const isolate = isolateAt(pick());
    const headers = new Headers(options.headers);
    if (options.key !== undefined) headers.set("authorization", `Bearer ${options.key}`);
    if (!headers.has("cf-connecting-ip")) headers.set("cf-connecting-ip", ownAddress());
    const { body } = options;
    if (body !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const init: RequestInit = { method, headers };
    if (body !== undefined) init.body = isRaw(body) ? body : JSON.stringify(body);
    const response = await isolate.request(path, init, bound(bindings));
    const text = await response.text();
    const isJson = text !== "" && (response.headers.get("content-type") ?? "").includes("json");
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    checkResponse(method, path, answer.status, answer.headers, answer.body);
    if (answer.status === 200 && typeof init.body === "string") {
      checkRequest(method, path, headers.get("content-type") ?? "", init.body);
    }
    return answer;
  };
}
