import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { makeEndpoint, type StoredMessage } from "./webhooks.ts";
import { type Bindings, bound, Clock, makeApp, makeClient, makePack, type PickIsolate } from "./world.ts";

/** A message, and the environment's time when it was written. */
export type TimedMessage = Pick<StoredMessage, "type" | "data"> & { readonly at: string };

const TOKENS = { amountMinor: 100_000, unit: "tokens" } as const;

/** An application with a pack of 100 tokens. Its test environment gets a test clock by `put` or `move`. */
export async function clockWorld({ bindings = {}, pick = () => 0 }: { bindings?: Bindings; pick?: PickIsolate } = {}) {
  const clock = new Clock();
  const startMs = clock.ms;
  const app = await makeApp();
  const call = makeClient(clock, bindings, randomId, pick);
  const packId = await makePack(app.appId, "Pack", [TOKENS]);
  const admin = (method: string, path: string, body?: object) =>
    call(method, `/api/v1/admin/apps/${app.appId}${path}`, {
      key: env.ADMIN_TOKEN,
      ...(body === undefined ? {} : { body }),
    });
  const at = (ms: number): string => new Date(startMs + ms).toISOString();
  /** Sets the environment's time to `ms` after the test's start. */
  const put = (ms: number) => admin("PUT", "/clock", { now: at(ms) });
  /** Sets the time like `put`, and expects that the clock is ready. */
  const move = async (ms: number): Promise<void> => {
    const answer = await put(ms);
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { now: at(ms), status: "ready" } });
  };
  /** Calls the API with a test key, expects the status 200 and returns the body. */
  const callOk = async (method: string, path: string, body?: object, key = app.keys.sk_test) => {
    const answer = await call(method, `/api/v1${path}`, { key, ...(body === undefined ? {} : { body }) });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const grant = async (fields: object = {}): Promise<string> =>
    (await callOk("POST", "/credits/grant", { userId: "u", packId, ...fields })).balanceId;
  const reserve = (fields: object = {}) =>
    callOk("POST", "/usage/reservations", {
      userId: "u",
      event: "chat",
      quantities: { count: 0, tokens: 10 },
      expiresInSeconds: 60,
      ...fields,
    });
  const ledger = async (userId = "u") => (await callOk("GET", `/credits/history?userId=${userId}`)).entries.reverse();
  const listen = (types: readonly string[] | null = ["**"]) => makeEndpoint(app.environments.test, types, startMs);
  const messages = async (): Promise<TimedMessage[]> => {
    const { results } = await env.DB.prepare(
      "SELECT type, data, at_ms FROM webhook_messages WHERE environment_id = ? ORDER BY at_ms, type, id",
    )
      .bind(app.environments.test.id)
      .all<{ type: string; data: string; at_ms: number }>();
    return results.map((row) => ({
      type: row.type,
      data: JSON.parse(row.data),
      at: new Date(row.at_ms).toISOString(),
    }));
  };
  const runtime = { isolate: {}, now: clock.now, newId: randomId };
  const cron = () => scheduled(bound(bindings), runtime);
  const state = async () =>
    JSON.parse(
      (await env.DB.prepare("SELECT settings_snapshot -> '$.clock' AS clock FROM environments WHERE id = ?")
        .bind(app.environments.test.id)
        .first<string>("clock")) ?? "null",
    );
  return {
    ...{ clock, app, call, packId, admin, at, put, move, callOk, grant, reserve, ledger, listen, messages, runtime },
    ...{ cron, state },
  };
}
