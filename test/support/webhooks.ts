import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { changeFeature } from "../../src/db/settings-snapshot.ts";
import { randomId } from "../../src/lib/ids.ts";
import type { Environment } from "../../src/runtime.ts";
import { makeFirstAttempts } from "../../src/webhooks/deliver-due.ts";
import { type Bindings, bound, Clock, type Deliver, makeApp, makeClient } from "./world.ts";

/** Inserts an endpoint for all messages of `types`. */
export async function makeEndpoint(
  environment: Environment,
  types: readonly string[] | null = ["**"],
  createdAtMs = 0,
): Promise<string> {
  const id = randomId("whk_");
  const { text, params } = changeFeature(environment.id, "webhooks", [{ id, types, exports: 1 }]);
  await env.DB.batch([
    env.DB.prepare(
      "INSERT INTO webhook_endpoints (id, environment_id, url, types, secret, created_at_ms) VALUES (?, ?, ?, ?, ?, CAST(? AS INTEGER))",
    ).bind(id, environment.id, "https://receiver.example", types && JSON.stringify(types), "sealed", createdAtMs),
    env.DB.prepare(text).bind(...params),
  ]);
  return id;
}

export interface StoredMessage {
  readonly id: string;
  readonly type: string;
  readonly subject: string | null;
  // A test reads any message. Its assertions say what it should be.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly data: any;
  readonly deliveries: number;
}

/** The messages of an environment, by seq, each with its number of deliveries. */
export async function storedMessages({ id }: Environment): Promise<StoredMessage[]> {
  const { results } = await env.DB.prepare(
    `SELECT m.id, m.type, m.subject, m.data, (
       SELECT count(*) FROM webhook_endpoints AS e JOIN webhook_deliveries AS d ON d.endpoint_id = e.id AND d.message_id = m.id
       WHERE e.environment_id = m.environment_id
     ) AS deliveries FROM webhook_messages AS m WHERE m.environment_id = ? ORDER BY m.data ->> 'seq', m.id`,
  )
    .bind(id)
    .all<Omit<StoredMessage, "data"> & { data: string }>();
  return results.map((row) => ({ ...row, data: JSON.parse(row.data) }));
}

export interface Received {
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly text: string;
  readonly atMs: number;
}

/** A receiver's response to an attempt: a response, a status, or an error of the connection. */
type ReceiverAnswer = (received: Received) => Response | number | Error | Promise<Response | number | Error>;

/**
 * An application whose endpoints get their responses from `answer` instead of the network. Each request makes the first attempts of
 * its messages, and `settled` waits for them. A wait moves the clock, so it takes no real time.
 */
export async function receiverWorld(answer: ReceiverAnswer = () => 200, bindings: Bindings = {}) {
  const clock = new Clock();
  const app = await makeApp();
  // Pending deliveries of other tests would use the cron's time.
  for (const d1 of [env.DB, env.SPARE]) {
    await d1.prepare("UPDATE webhook_deliveries SET status = 'failed' WHERE status = 'pending'").run();
  }
  const received: Received[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
    expect(init).toMatchObject({ method: "POST", redirect: "manual" });
    const headers = Object.fromEntries(new Headers(init?.headers));
    // The cron may also make deliveries that other tests left.
    if (!String(init?.body).includes(app.appId)) return new Response(null, { status: 200 });
    const request = { url: String(url), headers, text: String(init?.body), atMs: clock.ms };
    received.push(request);
    const response = await answer(request);
    if (response instanceof Error) throw response;
    return typeof response === "number" ? new Response(null, { status: response }) : response;
  });
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => {
    const untilMs = clock.ms + ms;
    // Concurrent waits end together.
    await new Promise((resolve) => setTimeout(resolve, 1));
    clock.ms = Math.max(clock.ms, untilMs);
  });
  const running: Promise<void>[] = [];
  const deliver: Deliver = (ownEnv, runtime, outbox) => {
    const attempts = makeFirstAttempts(systemCtx(ownEnv, runtime), outbox);
    running.push(attempts);
    return attempts;
  };
  const call = makeClient(clock, bindings, randomId, () => 0, deliver);
  const settled = async () => void (await Promise.all(running.splice(0)));
  const admin = (method: string, path: string, body?: object) =>
    call(method, `/api/v1/admin/apps/${app.appId}${path}`, {
      key: env.ADMIN_TOKEN,
      ...(body === undefined && method !== "POST" ? {} : { body: body ?? {} }),
    });
  const create = async (body: object = {}) =>
    (await admin("POST", "/webhooks", { mode: "live", url: "https://receiver.example/hook", ...body })).body;
  const deliveries = async (webhookId: string, query = "") =>
    (await admin("GET", `/webhooks/${webhookId}/deliveries${query}`)).body.deliveries;
  const root = () => systemCtx(bound(bindings), { isolate: {}, now: clock.now, newId: randomId });
  return { clock, app, received, call, deliver, settled, admin, create, deliveries, root };
}
