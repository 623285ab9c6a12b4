import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { expect, it, vi } from "vitest";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/lib/time.ts";
import { deleteOldMessages } from "../../../src/webhooks/delete-old-messages.ts";
import { deliverDue } from "../../../src/webhooks/deliver-due.ts";
import { SEARCHED_DELIVERIES_MAX } from "../../../src/webhooks/delivery-page.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { runPart } from "../../support/cron.ts";
import { expectError } from "../../support/rejections.ts";
import { receiverWorld } from "../../support/webhooks.ts";
import { makeClient, makeOpenAmountPack } from "../../support/world.ts";

async function grantingWorld(answer?: Parameters<typeof receiverWorld>[0]) {
  const world = await receiverWorld(answer);
  const packId = await makeOpenAmountPack(world.app.appId, "Legacy", "count");
  const grant = async (userId = "u") => {
    const body = { userId, packId, quantity: 0.5 };
    const answered = await world.call("POST", "/api/v1/credits/grant", { key: world.app.keys.sk_live, body });
    expect(answered.status).toBe(200);
    return answered.body;
  };
  const cron = async () => expect(await runPart(deliverDue, world.root())).toEqual([]);
  return { ...world, grant, cron };
}

it("a message is sent after the response that caused it, signed as in Standard Webhooks, and is delivered once", async () => {
  const { app, clock, received, grant, settled, create, deliveries, cron } = await grantingWorld();
  const { webhookId, secret } = await create();
  const { balanceId } = await grant();
  await settled();
  const [request] = received;
  vi.spyOn(Date, "now").mockImplementation(clock.now);
  const message = new Webhook(secret).verify(request?.text ?? "", request?.headers ?? {});
  expect(request).toMatchObject({
    url: "https://receiver.example/hook",
    headers: { "content-type": "application/json", "user-agent": "Purser" },
  });
  const { id } = message as { id: string };
  expect(request?.headers["webhook-id"]).toBe(id);
  const timestamp = "2026-01-15T12:00:00.000Z";
  expect(message).toEqual({
    ...{ id, type: "credits.granted", timestamp, appId: app.appId, mode: "live" },
    data: {
      userId: "u",
      balances: [
        { balanceId, packId: expect.any(String), packItemId: null, unit: "count", initial: 0.5, expiresAt: null },
      ],
      ...{ externalRef: null, source: "purchase", recurringId: null, seq: 1 },
    },
  });
  expect(await deliveries(webhookId)).toEqual([
    {
      ...{ messageId: id, type: "credits.granted", timestamp, status: "delivered", nextAttemptAt: null, message },
      attempts: [{ at: timestamp, status: 200, durationMs: 0, error: null }],
    },
  ]);
  clock.advance(10 * DAY_MS);
  await cron();
  expect(received).toHaveLength(1);
});

it("a message is signed by the new and the previous secret for a day, then by the new one alone", async () => {
  const { clock, received, create, admin, settled } = await grantingWorld();
  const { webhookId, secret: first } = await create();
  const path = `/webhooks/${webhookId}`;
  const { secret: second } = (await admin("POST", `${path}/rotate`)).body;
  vi.spyOn(Date, "now").mockImplementation(clock.now);
  const send = async () => {
    await admin("POST", `${path}/test`);
    await settled();
    const { text, headers } = received.at(-1) ?? { text: "", headers: {} };
    return [first, second].map((secret) => {
      try {
        return (new Webhook(secret).verify(text, headers) as { type: string }).type;
      } catch {
        return null;
      }
    });
  };
  expect(await send()).toEqual(["purser.test", "purser.test"]);
  clock.advance(DAY_MS - 1);
  expect(await send()).toEqual(["purser.test", "purser.test"]);
  clock.advance(1);
  expect(await send()).toEqual([null, "purser.test"]);
  const { secret: third } = (await admin("POST", `${path}/rotate`)).body;
  expect(third).not.toBe(second);
  expect(await send()).toEqual([null, "purser.test"]);
  expect(received.at(-1)?.headers["webhook-signature"]?.split(" ")).toHaveLength(2);
});

it("a message is attempted eleven times on the schedule, each up to 10 % later, and then fails", async () => {
  const { clock, received, grant, settled, create, deliveries, cron } = await grantingWorld(() => 500);
  const { webhookId } = await create();
  const startMs = clock.ms;
  await grant();
  await settled();
  expect(received.map(({ atMs }) => atMs - startMs)).toEqual([0, clock.ms - startMs]);
  for (let attempts = 2; attempts < 11; attempts++) {
    const [{ status, nextAttemptAt }] = await deliveries(webhookId);
    expect(status).toBe("pending");
    clock.ms = Date.parse(nextAttemptAt) - 1;
    await cron();
    expect(received).toHaveLength(attempts);
    clock.advance(1);
    await cron();
    expect(received).toHaveLength(attempts + 1);
  }
  const hour = 60;
  const minutes = [1 / 12, 1, 5, 30, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour];
  const times = received.map(({ atMs }) => atMs);
  for (const [index, delay] of minutes.entries()) {
    const gap = ((times[index + 1] ?? 0) - (times[index] ?? 0)) / MINUTE_MS;
    expect(gap).toBeGreaterThanOrEqual(delay);
    expect(gap).toBeLessThanOrEqual(delay * 1.1);
  }
  const [delivery] = await deliveries(webhookId);
  expect(delivery).toMatchObject({ status: "failed", nextAttemptAt: null });
  expect(delivery.attempts).toHaveLength(11);
  expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  expect(new Set(received.map(({ text }) => text)).size).toBe(1);
  clock.advance(30 * MINUTE_MS);
  await cron();
  expect(received).toHaveLength(11);
});

it.each([
  ["a 500", 500, { status: 500, error: null }],
  [
    "a redirect, which is not followed",
    () => Response.redirect("https://elsewhere.example/", 307),
    { status: 307, error: null },
  ],
  [
    "a closed connection or a bad certificate",
    new TypeError("Network connection lost."),
    { status: null, error: "unreachable" },
  ],
  ["no answer in ten seconds", new DOMException("late", "TimeoutError"), { status: null, error: "timeout" }],
])("a message is tried again after %s, five seconds later and by the cron", async (_, answer, attempt) => {
  let attempts = 0;
  const answered = () => (++attempts > 2 ? 204 : typeof answer === "function" ? answer() : answer);
  const { clock, grant, settled, create, deliveries, cron } = await grantingWorld(answered);
  const { webhookId } = await create();
  await grant();
  await settled();
  // After a timeout the same invocation does not try the endpoint again.
  expect(attempts).toBe(attempt.error === "timeout" ? 1 : 2);
  for (let run = attempts; run < 3; run++) {
    clock.advance(1.1 * MINUTE_MS);
    await cron();
  }
  const [delivery] = await deliveries(webhookId);
  expect(delivery.status).toBe("delivered");
  expect(delivery.attempts).toMatchObject([attempt, attempt, { status: 204, error: null }]);
  expect(attempts).toBe(3);
});

it.each(["the person is erased", "the endpoint is switched off", "the endpoint is deleted"])(
  "a message is not tried a second time if %s before that",
  async (change) => {
    const world = await grantingWorld(() => 500);
    const { app, clock, admin, call, grant, received, settled, create } = world;
    const { webhookId } = await create({ types: ["credits.granted"] });
    let isDone = false;
    vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => {
      clock.advance(ms);
      // The pause between two attempts.
      if (isDone || ms < 5_000) return;
      isDone = true;
      if (change.includes("off")) await admin("PATCH", `/webhooks/${webhookId}`, { isEnabled: false });
      else if (change.includes("deleted")) await admin("DELETE", `/webhooks/${webhookId}`);
      else await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body: { distinctId: "ana" } });
    });
    await grant("ana");
    await settled();
    expect([isDone, received.length]).toEqual([true, 1]);
  },
);

it("a message is delivered even if the response is endless, because it is not read", async () => {
  let isCancelled = false;
  const endless = () =>
    new Response(
      new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(1_000_000)),
        cancel: () => {
          isCancelled = true;
        },
      }),
    );
  const { grant, settled, create, deliveries } = await grantingWorld(endless);
  const { webhookId } = await create();
  await grant();
  await settled();
  expect((await deliveries(webhookId))[0].status).toBe("delivered");
  expect(isCancelled).toBe(true);
});

it.each([
  ["120", 120_000],
  ["1000000", DAY_MS],
  ["Thu, 15 Jan 2026 13:00:00 GMT", HOUR_MS],
  ["soon", 0],
  ["-5", 0],
])("a message waits for the Retry-After %s, but at most a day", async (after, ms) => {
  const reject = () => new Response(null, { status: 429, headers: { "retry-after": after } });
  const { clock, received, grant, settled, create, deliveries } = await grantingWorld(reject);
  const { webhookId } = await create();
  const startMs = clock.ms;
  await grant();
  await settled();
  const [{ nextAttemptAt }] = await deliveries(webhookId);
  expect(received).toHaveLength(ms === 0 ? 2 : 1);
  if (ms > 0) expect(Date.parse(nextAttemptAt) - startMs).toBe(ms);
});

it("a message disables its endpoint after a 410, pending messages fail, and no more are written for the endpoint", async () => {
  let status = 500;
  const { clock, grant, settled, create, deliveries, admin } = await grantingWorld(() => status);
  const { webhookId } = await create();
  await grant();
  await settled();
  status = 410;
  await grant();
  await settled();
  await grant();
  await settled();
  const log = await deliveries(webhookId);
  expect(log.map((entry: { status: string }) => entry.status)).toEqual(["failed", "failed"]);
  expect((await admin("GET", "/webhooks?mode=live")).body.webhooks).toMatchObject([{ isEnabled: false }]);
  for (const [rest, body] of [["/test"], ["/replay", { from: "2026-01-01T00:00:00Z" }]] as const) {
    expectError(await admin("POST", `/webhooks/${webhookId}${rest}`, body), "invalid_request", "webhookId");
  }
  expect((await admin("PATCH", `/webhooks/${webhookId}`, { isEnabled: true })).body.isEnabled).toBe(true);
  status = 200;
  clock.advance(1);
  const { messages } = (await admin("POST", `/webhooks/${webhookId}/replay`, { from: "2026-01-01T00:00:00Z" })).body;
  expect(messages).toBe(2);
  await settled();
});

it("a message disables its endpoint if no message was delivered for five days, and not if one was", async () => {
  let status = 500;
  const { clock, grant, settled, create, admin } = await grantingWorld(() => status);
  await create();
  const attempt = async (answered: number) => {
    status = answered;
    await grant();
    await settled();
    return (await admin("GET", "/webhooks?mode=live")).body.webhooks[0].isEnabled;
  };
  expect(await attempt(500)).toBe(true);
  clock.advance(3 * DAY_MS);
  expect(await attempt(200)).toBe(true);
  clock.advance(3 * DAY_MS);
  expect(await attempt(500)).toBe(true);
  clock.advance(4.9 * DAY_MS);
  expect(await attempt(500)).toBe(true);
  clock.advance(0.2 * DAY_MS);
  expect(await attempt(500)).toBe(false);
});

it("a message does not disable its endpoint if another of the same run was delivered, and the five days start again", async () => {
  let statuses: number[] = [];
  const { clock, grant, settled, create, admin, cron, received } = await grantingWorld(() => statuses.shift() ?? 500);
  const { webhookId } = await create();
  const isEnabled = async () => (await admin("GET", "/webhooks?mode=live")).body.webhooks[0].isEnabled;
  await grant();
  await settled();
  clock.advance(4.9 * DAY_MS);
  for (let count = 0; count < 3; count++) await grant();
  await settled();
  clock.advance(0.2 * DAY_MS);
  statuses = [200];
  const before = received.length;
  await cron();
  expect(received.length).toBeGreaterThan(before + 1);
  expect(await isEnabled()).toBe(true);
  clock.advance(4.9 * DAY_MS);
  await grant();
  await settled();
  expect(await isEnabled()).toBe(true);
  clock.advance(0.2 * DAY_MS);
  await grant();
  await settled();
  expect(await isEnabled()).toBe(false);
  const offFrom = "SELECT off_from_ms FROM webhook_endpoints WHERE id = ?";
  expect(await env.DB.prepare(offFrom).bind(webhookId).first("off_from_ms")).toBe(clock.ms);
});

it("a message is not sent without SETTINGS_SECRET, records that as an attempt, and is sent once there is one", async () => {
  let status = 500;
  const { grant, settled, create, deliveries, cron, received, root, clock } = await grantingWorld(() => status);
  const { webhookId } = await create();
  await grant();
  await settled();
  const before = received.length;
  clock.advance(DAY_MS);
  const without = { ...root(), settings: { ...root().settings, settingsSecrets: null } };
  expect(await runPart(deliverDue, without)).toEqual([]);
  expect(received).toHaveLength(before);
  const [unsent] = await deliveries(webhookId);
  expect(unsent).toMatchObject({ status: "pending" });
  expect(unsent.attempts.at(-1)).toMatchObject({ status: null, error: "secrets_unavailable" });
  status = 200;
  clock.advance(DAY_MS);
  await cron();
  expect(received).toHaveLength(before + 1);
  expect((await deliveries(webhookId))[0]).toMatchObject({ status: "delivered" });
});

/** Deletes the application's many old messages, so that the cron of the next tests finds their own. */
const forget = ({ environments: { live } }: { readonly environments: { readonly live: { readonly id: number } } }) =>
  env.DB.batch([
    env.DB.prepare(
      "DELETE FROM webhook_deliveries WHERE message_id IN (SELECT id FROM webhook_messages WHERE environment_id = ?)",
    ).bind(live.id),
    env.DB.prepare("DELETE FROM webhook_messages WHERE environment_id = ?").bind(live.id),
  ]);

it("the cron makes no attempt twice, even if its runs overlap with each other and with a request's own attempts", async () => {
  const { received, grant, settled, create, cron, clock } = await grantingWorld();
  await create();
  await create({ url: "https://second.example/" });
  for (let n = 0; n < 5; n++) await grant();
  await Promise.all([cron(), settled(), cron()]);
  expect(received).toHaveLength(10);
  clock.advance(DAY_MS);
  await Promise.all([cron(), cron()]);
  expect(received).toHaveLength(10);
});

it("the cron makes the attempts of a replay that exceed the twenty of an invocation", async () => {
  const { admin, create, received, settled, cron, clock } = await grantingWorld();
  const { webhookId } = await create();
  const from = new Date(clock.ms).toISOString();
  for (let n = 0; n < 25; n++) {
    await admin("POST", `/webhooks/${webhookId}/test`);
    await settled();
  }
  clock.advance(1);
  expect((await admin("POST", `/webhooks/${webhookId}/replay`, { from })).body).toEqual({ messages: 25 });
  await settled();
  expect(received).toHaveLength(45);
  await cron();
  expect(received).toHaveLength(50);
});

it("the cron makes the first attempts that exceed the twenty of an invocation", async () => {
  const { app, call, received, grant, settled, create, cron } = await grantingWorld();
  await create({ types: ["usage.recorded"] });
  await grant();
  await settled();
  const event = (n: number) => ({ userId: `u${n}`, eventId: `e${n}`, event: "x", quantities: { count: 0 } });
  const list = Array.from({ length: 30 }, (_, n) => event(n));
  await call("POST", "/api/v1/usage/events/batch", { key: app.keys.sk_live, body: list });
  await settled();
  expect(received).toHaveLength(20);
  await cron();
  expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(30);
  expect(received).toHaveLength(30);
});

it("the cron has nothing left to do if each request made its own attempts, even to seven endpoints", async () => {
  const { received, grant, settled, create, cron } = await grantingWorld();
  for (let n = 0; n < 7; n++) await create({ url: `https://receiver.example/${n}` });
  const packs = await Promise.all([grant("a"), grant("b"), grant("c")]);
  expect(packs).toHaveLength(3);
  await settled();
  expect(received).toHaveLength(21);
  await cron();
  expect(received).toHaveLength(21);
});

it("the cron makes the attempts of other endpoints even if a dead one has a thousand due, and tries the dead one once", async () => {
  const answered: string[] = [];
  let startMs = 0;
  const others = Promise.withResolvers<void>();
  const { create, admin, clock, root, app } = await receiverWorld(async ({ url }) => {
    answered.push(url);
    if (answered.filter((url) => url.includes("well")).length === 20) others.resolve();
    if (!url.includes("dead")) return 200;
    // The other endpoint gets its attempts in the ten seconds before this one times out.
    await others.promise;
    clock.ms = startMs + 10_000;
    return new DOMException("late", "TimeoutError");
  });
  const { webhookId: gone } = await create({ url: "https://dead.example/" });
  const { webhookId } = await create({ url: "https://well.example/" });
  await env.DB.batch([
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO webhook_messages (id, environment_id, type, at_ms, data)
         SELECT 'msg_0' || printf('%04d', i) || ?1, ?2, 'purser.test', 1, '{}' FROM n`,
    ).bind(app.appId, app.environments.live.id),
    env.DB.prepare(
      `INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms)
         SELECT e.value, m.id, 'pending', 1, 1 FROM webhook_messages AS m, json_each(?1) AS e
         WHERE m.environment_id = ?2 AND (e.key = 0 OR m.id < 'msg_00021')`,
    ).bind(JSON.stringify([gone, webhookId]), app.environments.live.id),
  ]);
  clock.advance(1);
  startMs = clock.ms;
  expect(await runPart(deliverDue, root())).toEqual([]);
  expect(answered.filter((url) => url.includes("well"))).toHaveLength(20);
  expect(answered.filter((url) => url.includes("dead"))).toHaveLength(1);
  await admin("DELETE", `/webhooks/${gone}`);
  expect(await runPart(deliverDue, root())).toEqual([]);
});

it("the cron fails the pending deliveries of a disabled or deleted endpoint in steps, and a disabled one cannot be enabled before", async () => {
  const { app, create, admin, root, deliveries } = await grantingWorld();
  const [off, gone] = [await create(), await create({ url: "https://gone.example/" })];
  // More than two requests fail, and more than one.
  const counts = [45_000, 23_500] as const;
  const ids = [off, gone].map(({ webhookId }) => webhookId);
  await env.DB.batch([
    env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
         INSERT INTO webhook_messages (id, environment_id, type, at_ms, data)
         SELECT 'msg_0' || printf('%06d', i) || ?1, ?2, 'purser.test', 1, '{}' FROM n`,
    ).bind(app.appId, app.environments.live.id, counts[0]),
    ...ids.map((id, n) =>
      env.DB.prepare(
        `INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms)
           SELECT ?1, id, 'pending', 1, 1 FROM webhook_messages WHERE environment_id = ?2 ORDER BY id LIMIT ?3`,
      ).bind(id, app.environments.live.id, counts[n] ?? 0),
    ),
  ]);
  const pending = async (id?: string) =>
    (await env.DB.prepare("SELECT count(*) AS n FROM webhook_deliveries WHERE endpoint_id = ? AND status = 'pending'")
      .bind(id)
      .first("n")) as number;
  const change = (isEnabled: boolean) => admin("PATCH", `/webhooks/${off.webhookId}`, { isEnabled });
  expect((await change(false)).status).toBe(200);
  await admin("DELETE", `/webhooks/${gone.webhookId}`);
  for (const [n, id] of ids.entries()) {
    expect(await pending(id)).toBeLessThan((counts[n] ?? 0) - 20_000);
    expect(await pending(id)).toBeGreaterThan(0);
  }
  // The log already shows them as failed.
  expect(await deliveries(off.webhookId, "?status=pending")).toEqual([]);
  expect(await deliveries(off.webhookId, "?status=failed&limit=3")).toHaveLength(3);
  expectError(await change(true), "temporarily_unavailable");
  expect(await deliveries(off.webhookId, "?status=pending")).toEqual([]);
  expect(await runPart(deliverDue, root())).toEqual([]);
  expect(await Promise.all(ids.map(pending))).toEqual([0, 0]);
  expect((await change(true)).body.isEnabled).toBe(true);
  expect(await deliveries(off.webhookId, "?status=pending")).toEqual([]);
  await forget(app);
});

it("the cron deletes messages after thirty days, with their deliveries, in steps", async () => {
  const { app, clock, grant, create, settled, root } = await grantingWorld();
  const { webhookId } = await create();
  await grant();
  await settled();
  clock.advance(15 * DAY_MS);
  await grant();
  await settled();
  const count = async () => {
    const { results } = await env.DB.prepare(
      `SELECT (SELECT count(*) FROM webhook_messages WHERE environment_id = ?) AS messages,
           (SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = ?) AS deliveries`,
    )
      .bind(app.environments.live.id, webhookId)
      .all();
    return results;
  };
  clock.advance(15 * DAY_MS);
  await runPart(deleteOldMessages, root());
  expect(await count()).toEqual([{ messages: 2, deliveries: 2 }]);
  clock.advance(1);
  for (let n = 0; n < 5; n++) await runPart(deleteOldMessages, root());
  expect(await count()).toEqual([{ messages: 1, deliveries: 1 }]);
});

it("the log is listed newest first, by status, in pages that stay stable while messages are written", async () => {
  let status = 200;
  const { admin, create, clock, deliveries, settled } = await grantingWorld(() => status);
  const { webhookId } = await create();
  const sent: string[] = [];
  for (const answered of [200, 500, 200, 500, 200]) {
    status = answered;
    sent.unshift((await admin("POST", `/webhooks/${webhookId}/test`)).body.messageId);
    await settled();
    clock.advance(1);
  }
  const ids = (found: { messageId: string }[]) => found.map(({ messageId }) => messageId);
  expect(ids(await deliveries(webhookId))).toEqual(sent);
  expect(ids(await deliveries(webhookId, "?status=pending"))).toEqual([sent[1], sent[3]]);
  expect(ids(await deliveries(webhookId, "?status=failed"))).toEqual([]);
  const pages: string[][] = [];
  for (let cursor = ""; ; ) {
    const { body } = await admin("GET", `/webhooks/${webhookId}/deliveries?limit=2${cursor}`);
    pages.push(ids(body.deliveries));
    await admin("POST", `/webhooks/${webhookId}/test`);
    if (body.nextCursor === null) break;
    cursor = `&cursor=${body.nextCursor}`;
  }
  expect(pages).toEqual([sent.slice(0, 2), sent.slice(2, 4), sent.slice(4)]);
  for (const [query, param] of [
    ["?limit=0", "limit"],
    ["?status=lost", "status"],
    ["?cursor=x", "cursor"],
  ] as const) {
    expectError(await admin("GET", `/webhooks/${webhookId}/deliveries${query}`), "invalid_request", param);
  }
});

it("the log finds the few of one status among many in pages that read a bounded number of rows", async () => {
  const { app, create, clock } = await grantingWorld();
  const { webhookId } = await create();
  const count = 2 * SEARCHED_DELIVERIES_MAX + 5;
  const rows = JSON.stringify(
    Array.from({ length: count }, (_, n) => [
      `msg_${app.appId.slice(4)}${String(n).padStart(6, "0")}`,
      [3, 2_500].includes(n) ? "failed" : "delivered",
    ]),
  );
  await env.DB.prepare(
    "INSERT INTO webhook_messages (id, environment_id, type, at_ms, data) SELECT value ->> 0, CAST(? AS INTEGER), 'purser.test', 1, '{}' FROM json_each(?)",
  )
    .bind(app.environments.live.id, rows)
    .run();
  await env.DB.prepare(
    `INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms)
       SELECT ?, value ->> 0, value ->> 1, 1, 1 FROM json_each(?)`,
  )
    .bind(webhookId, rows)
    .run();
  const { d1, spent } = countingD1(env.DB);
  const call = makeClient(clock, { DB: d1 });
  const pagesOf = async (query: string) => {
    const pages: string[][] = [];
    for (let cursor = ""; ; ) {
      spent();
      const path = `/api/v1/admin/apps/${app.appId}/webhooks/${webhookId}/deliveries?${query}${cursor}`;
      const { body } = await call("GET", path, { key: env.ADMIN_TOKEN });
      expect(spent().rowsRead).toBeLessThan(2.2 * SEARCHED_DELIVERIES_MAX + 20);
      pages.push(body.deliveries.map(({ messageId }: { messageId: string }) => Number(messageId.slice(-6))));
      if (body.nextCursor === null) return pages;
      cursor = `&cursor=${body.nextCursor}`;
    }
  };
  expect(await pagesOf("status=failed")).toEqual([[2_500], [], [3]]);
  expect(await pagesOf("status=failed&limit=1")).toEqual([[2_500], [], [3]]);
  expect((await pagesOf("status=delivered&limit=500")).flat()).toHaveLength(count - 2);
  expect((await pagesOf("limit=500")).flat()).toHaveLength(count);
});

it("the log resends one message once more, and a delivered one stays delivered", async () => {
  let status = 200;
  const { admin, create, received, deliveries, settled, cron, clock } = await grantingWorld(() => status);
  const { webhookId } = await create();
  await create({ url: "https://second.example/" });
  const { messageId } = (await admin("POST", `/webhooks/${webhookId}/test`)).body;
  await settled();
  status = 500;
  const path = `/webhooks/${webhookId}/deliveries/${messageId}/resend`;
  expect((await admin("POST", path)).body).toEqual({ messageId });
  await settled();
  clock.advance(DAY_MS);
  await cron();
  expect(received.map(({ headers }) => headers["webhook-id"])).toEqual([messageId, messageId]);
  const [delivery] = await deliveries(webhookId);
  expect(delivery).toMatchObject({ status: "delivered", attempts: [{ status: 200 }, { status: 500 }] });
  expectError(await admin("POST", `/webhooks/${webhookId}/deliveries/msg_none/resend`), "not_found", "messageId");
});

it("the log replays the messages of a span, its end excluded, whatever their status", async () => {
  const { admin, create, received, settled, clock } = await grantingWorld();
  const { webhookId } = await create();
  const path = `/webhooks/${webhookId}`;
  const times: string[] = [];
  for (let n = 0; n < 4; n++) {
    times.push(new Date(clock.ms).toISOString());
    await admin("POST", `${path}/test`);
    await settled();
    clock.advance(1_000);
  }
  const ids = received.map(({ headers }) => headers["webhook-id"]);
  const replay = async (body: object) => (await admin("POST", `${path}/replay`, body)).body;
  expect(await replay({ from: times[1], to: times[3] })).toEqual({ messages: 2 });
  await settled();
  expect(
    received
      .slice(4)
      .map(({ headers }) => headers["webhook-id"])
      .sort(),
  ).toEqual(ids.slice(1, 3).sort());
  expect(await replay({ from: times[3] })).toEqual({ messages: 1 });
  expect(await replay({ from: new Date(clock.ms).toISOString() })).toEqual({ messages: 0 });
  expectError(await admin("POST", `${path}/replay`, { from: "yesterday" }), "invalid_request", "from");
});

it("the log lists and replays price.missing at the time when it was written", async () => {
  const { app, admin, call, create, deliveries, settled, clock } = await grantingWorld();
  const { webhookId } = await create();
  await admin("PUT", "/prices", { mode: "live", rules: [{ model: "known", unit: "cents", perEvent: 1 }] });
  clock.ms = Date.parse("2027-03-01T12:00:00Z");
  await admin("POST", `/webhooks/${webhookId}/test`);
  clock.advance(3_600_000);
  const from = new Date(clock.ms).toISOString();
  const body = { eventId: "e1", userId: "ana", event: "chat", model: "new", meters: { input: 1 } };
  expectError(await call("POST", "/api/v1/usage/events", { key: app.keys.sk_live, body }), "price_not_found");
  await settled();
  clock.advance(1);
  const types = (await deliveries(webhookId)).map(({ type }: { type: string }) => type);
  expect(types).toEqual(["price.missing", "purser.test"]);
  expect((await admin("POST", `/webhooks/${webhookId}/replay`, { from })).body).toEqual({ messages: 1 });
  await settled();
});

it("person.exported reports a created link, and each opening, and writes nothing if nobody receives it", async () => {
  const { app, call, received, settled, create, clock } = await grantingWorld();
  const mint = () => call("POST", "/api/v1/export-person", { key: app.keys.sk_live, body: { distinctId: "ana" } });
  await mint();
  await create({ types: ["credits.*"] });
  await mint();
  await settled();
  expect(received).toEqual([]);
  await create({ types: ["person.*"] });
  const { downloadUrl } = (await mint()).body;
  clock.advance(1);
  await call("GET", downloadUrl.slice(downloadUrl.indexOf("/api")));
  await settled();
  expect(received.map(({ text }) => JSON.parse(text))).toMatchObject([
    { type: "person.exported", appId: app.appId, mode: "live", data: { distinctId: "ana", action: "minted" } },
    { type: "person.exported", data: { distinctId: "ana", action: "opened" } },
  ]);
});
