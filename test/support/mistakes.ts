import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { ErrorCode } from "../../src/errors.ts";
import { END_USER_SETTING } from "./end-user-setting.ts";
import { userToken } from "./keyed-routes.ts";
import { expectError } from "./rejections.ts";
import { Clock, makeApp, makeClient, makeOpenAmountPack, makePack, type TestApp } from "./world.ts";

/** An application with two packs, and the user "ana" with a balance. */
export interface MistakenWorld {
  readonly app: TestApp;
  readonly keys: TestApp["keys"];
  readonly adminToken: string;
  /** A token of "ana". */
  readonly userToken: string;
  /** The pack "Starter", which has items. */
  readonly packId: string;
  /** The open-amount pack "Wallet", in cents. */
  readonly walletId: string;
  readonly balanceId: string;
}

export interface MistakenRequest {
  /** Default: POST with a body, else GET. */
  readonly method?: string;
  readonly path: string;
  /** Default: the live secret key. Null: no key. */
  readonly key?: string | null;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** A mistake that integrators make, and its error. */
export interface Mistake {
  readonly name: string;
  readonly send: (world: MistakenWorld) => MistakenRequest;
  readonly code: ErrorCode;
  readonly param?: string;
  /** The message must name these: a field, a header, a path or a unit. How it says so is not tested. */
  readonly names: readonly string[];
}

const OF_APP = "environment_id IN (SELECT id FROM environments WHERE app_id = ?1)";
const OF_ACCOUNTS = `account_id IN (SELECT id FROM accounts WHERE ${OF_APP})`;
/** The tables that a request might change, and how to find an application's rows. */
const COUNTED = [
  ["credit_balances", OF_ACCOUNTS],
  ["credit_ledger", OF_ACCOUNTS],
  ["usage_events", OF_ACCOUNTS],
  ["reservations", OF_APP],
  ["consent_log", OF_APP],
  ["credit_packs", "app_id = ?1"],
] as const;

async function countRows({ appId }: TestApp): Promise<unknown> {
  const counts = COUNTED.map(([table, where]) => `(SELECT count(*) FROM ${table} WHERE ${where}) AS ${table}`);
  return env.DB.prepare(`SELECT ${counts.join(", ")}`)
    .bind(appId)
    .first();
}

async function makeWorld(clock: Clock): Promise<MistakenWorld> {
  const app = await makeApp(END_USER_SETTING);
  const packId = await makePack(app.appId, "Starter", [{ amountMinor: 400_000, unit: "tokens" }]);
  const walletId = await makeOpenAmountPack(app.appId, "Wallet", "cents");
  const body = { userId: "ana", packId };
  const granted = await makeClient(clock)("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  return {
    app,
    keys: app.keys,
    adminToken: env.ADMIN_TOKEN,
    userToken: await userToken("ana", clock),
    packId,
    walletId,
    balanceId: granted.body.balanceId,
  };
}

/** Defines a test for each mistake. The message must repeat no secret, and nothing may be written. */
export function testMistakes(about: string, mistakes: readonly Mistake[]): void {
  const clock = new Clock();
  const call = makeClient(clock);
  let made: Promise<MistakenWorld> | undefined;

  it.each(mistakes.map((mistake) => [mistake.name, mistake] as const))(`${about}: %s`, async (_name, mistake) => {
    made ??= makeWorld(clock);
    const world = await made;
    const { method, path, key = world.keys.sk_live, headers = {}, body } = mistake.send(world);
    const before = await countRows(world.app);
    const answer = await call(method ?? (body === undefined ? "GET" : "POST"), path, {
      headers,
      ...(key === null ? {} : { key }),
      ...(body === undefined ? {} : { body }),
    });
    expectError(answer, mistake.code, mistake.param);
    const { message } = answer.body.error;
    for (const name of mistake.names) expect(message).toContain(name);
    expect(message).toMatch(/^\S.*[.?]$/);
    const secrets = [
      ...Object.values(world.keys),
      world.adminToken,
      world.userToken,
      key ?? "",
      ...Object.values(headers),
    ];
    for (const secret of secrets.filter((text) => text.length > 12)) {
      expect(JSON.stringify(answer.body)).not.toContain(secret);
    }
    expect(await countRows(world.app)).toEqual(before);
  });
}
