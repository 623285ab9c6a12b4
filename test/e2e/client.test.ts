import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { InsufficientCredits, Purser, PurserError, verifyWebhook } from "../../clients/typescript/src/index.ts";
import { type AskModel, chatServer } from "../../examples/ai-chat.mjs";
import { userToken } from "../../scripts/seed.mjs";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { type FaultyProxy, startFaultyProxy } from "./support/faulty-proxy.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, STARTER_ITEMS, sharedServer } from "./support/server.ts";

let server: Server;
let proxy: FaultyProxy;
let app: ServedApp;
let purser: Purser;
beforeAll(async () => {
  server = await sharedServer();
  proxy = await startFaultyProxy(server.url);
  app = await server.makeApp(END_USER_SETTING);
  purser = new Purser({ url: `${proxy.url}/`, key: app.keys.sk_live });
  const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  await admin.createPack({ appId: app.appId, packName: "Starter", items: STARTER_ITEMS });
  await admin.createPack({ appId: app.appId, packName: "Tokens", items: [], unit: "tokens" });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  proxy.faults.length = 0;
  proxy.seen.length = 0;
});
afterAll(async () => {
  await proxy.close();
});

let users = 0;
/** Creates a user with this number of tokens. */
async function userWith(tokens: number): Promise<string> {
  const userId = `user-${++users}`;
  await purser.grantCredits({ userId, packId: "tokens", quantity: tokens });
  proxy.seen.length = 0;
  return userId;
}

async function remainingOf(userId: string): Promise<number | undefined> {
  const { credits } = await purser.listBalances({ userId, includeExpired: true });
  return credits[0]?.remaining;
}

/** Returns the error of a call that must fail. */
const errorOf = (call: Promise<unknown>): Promise<PurserError> =>
  call.then(
    () => Promise.reject(new Error("This should have failed.")),
    (error) => error,
  );

it("the client under faults debits once, whatever happens to a connection, even if the caller gives no id", async () => {
  const userId = await userWith(1_000);
  for (const fault of ["refused", "lost", "cut", { status: 502, body: "<html>" }] as const) {
    proxy.faults.push(fault, fault);
    const { debits } = await purser.recordUsageEvent({ userId, event: "chat", quantities: { tokens: 10 } });
    expect(debits.map(({ amount }) => amount)).toEqual([10]);
  }
  proxy.faults.push("lost");
  const events = [1, 2].map(() => ({ userId, event: "chat", quantities: { tokens: 5 } }));
  const { results } = await purser.recordUsageEvents(events);
  expect(results.map((result) => "debits" in result && result.debits[0]?.amount)).toEqual([5, 5]);
  expect(await remainingOf(userId)).toBe(950);
});

it("the client under faults grants, reserves, commits and adjusts once, with ids that it generates", async () => {
  const userId = await userWith(100);
  proxy.faults.push("lost");
  const { balanceId } = await purser.grantCredits({ userId, packId: "tokens", quantity: 100 });
  proxy.faults.push("lost");
  const { reservationId } = await purser.createReservation({ userId, event: "chat", quantities: { tokens: 150 } });
  proxy.faults.push("lost", "cut");
  await purser.commitReservation({ reservationId, quantities: { tokens: 120 } });
  const admin = new PurserAdmin({ url: proxy.url, key: ADMIN_TOKEN });
  proxy.faults.push("lost");
  expect(await admin.adjustBalance({ balanceId, delta: 7, note: "sorry" })).toEqual({ balanceId, remaining: 87 });
  const { credits } = await purser.listBalances({ userId });
  expect(credits.map(({ remaining }) => remaining)).toEqual([87]);
});

it("the client under faults waits as long as Retry-After says, also when only one event of a list failed", async () => {
  const userId = await userWith(100);
  const waits: number[] = [];
  const start = setTimeout;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms = 0) => {
    if (ms === 7_000) waits.push(ms);
    return start(work, ms === 7_000 ? 0 : ms);
    // The types of Node and of Workers differ in what it returns.
  }) as typeof setTimeout);
  const rejection = JSON.stringify({ error: { code: "rate_limited", message: "Wait.", requestId: "req_1" } });
  const headers = { "content-type": "application/json", "retry-after": "7" };
  for (const fault of [
    { status: 429, headers, body: rejection },
    { status: 429, headers, body: rejection.replace("rate_limited", "usage_limit_reached") },
    { status: 503, headers, body: rejection.replace("rate_limited", "temporarily_unavailable") },
    { status: 200, headers, body: JSON.stringify({ results: [] }) },
  ]) {
    proxy.seen.length = 0;
    proxy.faults.push(fault);
    const { results } = await purser.recordUsageEvents([{ userId, event: "chat", quantities: { tokens: 1 } }]);
    expect(results).toHaveLength(1);
    expect(proxy.seen).toHaveLength(2);
  }
  expect(waits).toEqual([7_000, 7_000, 7_000, 7_000]);
});

it("the client under faults does not retry errors that a retry does not fix, or calls that could take effect twice", async () => {
  const fail = (status: number, code: string, headers = {}) =>
    proxy.faults.push({
      status,
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ error: { code, message: "No.", requestId: "req_1" } }),
    });
  const calls: [plant: () => unknown, call: () => Promise<unknown>, code: string][] = [
    [() => fail(503, "export_unavailable"), () => purser.createExportLink({ distinctId: "u" }), "export_unavailable"],
    [() => fail(429, "test_quota_exceeded"), () => purser.listBalances({ userId: "u" }), "test_quota_exceeded"],
    [() => fail(500, "internal_error"), () => purser.listBalances({ userId: "u" }), "internal_error"],
    [
      () => fail(429, "rate_limited", { "retry-after": "3600" }),
      () => purser.listBalances({ userId: "u" }),
      "rate_limited",
    ],
    [
      () => fail(429, "usage_limit_reached", { "retry-after": "61" }),
      () => purser.recordUsageEvent({ userId: "u", event: "chat" }),
      "usage_limit_reached",
    ],
    [
      () => proxy.faults.push("lost"),
      () => purser.recordConsent({ distinctId: "u", purpose: "a", decision: "denied" }),
      "no_answer",
    ],
  ];
  for (const [plant, call, code] of calls) {
    proxy.seen.length = 0;
    plant();
    expect((await errorOf(call())).code).toBe(code);
    expect(proxy.seen, code).toHaveLength(1);
  }
});

it("the client under faults gives up after its retries, and immediately when its signal aborts", async () => {
  const impatient = new Purser({ url: proxy.url, key: app.keys.sk_live, retries: 1 });
  proxy.faults.push("refused", "refused");
  const error = await errorOf(impatient.listBalances({ userId: "u" }));
  expect(error).toMatchObject({ name: "PurserError", code: "no_answer", status: 0, requestId: null });
  expect(error.message).toMatch(/^GET \/api\/v1\/credits got no answer from 127\.0\.0\.1:\d+: \w+/);
  const controller = new AbortController();
  proxy.faults.push({ status: 503, headers: { "retry-after": "60" } });
  const waiting = errorOf(purser.listBalances({ userId: "u" }, { signal: controller.signal }));
  await vi.waitFor(() => expect(proxy.seen).toHaveLength(3), { timeout: 10_000 });
  controller.abort(new Error("enough"));
  expect(await waiting).toMatchObject({ message: "enough" });
  expect(proxy.seen).toHaveLength(3);
});

it("the client throws every rejection as one class, and uncovered usage as InsufficientCredits", async () => {
  const userId = await userWith(10);
  const short = await errorOf(purser.recordUsageEvent({ userId, event: "chat", quantities: { tokens: 15 } }));
  expect(short).toBeInstanceOf(InsufficientCredits);
  expect(short).toBeInstanceOf(PurserError);
  expect(short).toMatchObject({ code: "insufficient_credits", status: 402, uncovered: { tokens: 5 } });
  const refused = await errorOf(purser.listLedgerEntries({ userId, limit: 501 }));
  expect(refused).toMatchObject({ name: "PurserError", code: "invalid_request", status: 400, param: "limit" });
  expect(refused.requestId).toMatch(/^req_/);
  expect(await errorOf(purser.getReservation({ reservationId: "../apps" }))).toMatchObject({ status: 404 });
  expect(await errorOf(purser.getReservation({ reservationId: ".." }))).toBeInstanceOf(TypeError);
  expect(await remainingOf(userId)).toBe(10);
});

it("the client sends the bookmark of each write with the next read, and can pass it to another client", async () => {
  const userId = await userWith(10);
  const other = new Purser({ url: proxy.url, key: app.keys.sk_live });
  await other.listBalances({ userId });
  expect(proxy.seen[0]?.headers["x-d1-bookmark"]).toBeUndefined();
  await purser.recordUsageEvent({ userId, event: "chat", quantities: { tokens: 1 } });
  const { bookmark } = purser;
  expect(bookmark).toMatch(/^[0-9a-f-]{59}$/);
  other.bookmark = bookmark;
  await other.listBalances({ userId });
  await purser.listBalances({ userId });
  expect(proxy.seen.slice(2).map(({ headers }) => headers["x-d1-bookmark"])).toEqual([bookmark, bookmark]);
  expect(proxy.seen[1]?.headers["x-d1-bookmark"]).toBeUndefined();
});

it("the client iterates over all pages of a list, or returns the first", async () => {
  const userId = await userWith(10);
  for (let n = 0; n < 4; n++) await purser.recordUsageEvent({ userId, event: "chat", quantities: { tokens: 1 } });
  proxy.seen.length = 0;
  const deltas: number[] = [];
  for await (const { delta } of purser.listLedgerEntries({ userId, limit: 2 })) deltas.push(delta);
  expect(deltas).toEqual([-1, -1, -1, -1, 10]);
  expect(proxy.seen).toHaveLength(3);
  expect((await purser.listLedgerEntries({ userId, limit: 2 })).entries).toHaveLength(2);
});

it("the client returns a signed-in user's balances with a publishable key", async () => {
  const userId = await userWith(10);
  const page = new Purser({
    url: server.url,
    key: app.keys.pk_live,
    userToken: () => userToken(END_USER_SECRET, userId),
  });
  expect((await page.listBalances({ userId })).credits).toHaveLength(1);
  const another = await errorOf(page.listBalances({ userId: "u" }, { userToken: "x" }));
  expect(another).toMatchObject({ code: "invalid_user_token", details: { reason: "malformed" } });
});

const hold = (userId: string, tokens = 50) => ({ userId, event: "chat", quantities: { tokens } });

it("usage.hold commits the usage, and returns the rest", async () => {
  const userId = await userWith(100);
  const { result, usage } = await purser.usage.hold(hold(userId), async ({ used, holds }) => {
    expect(holds.map(({ amount }) => amount)).toEqual([50]);
    used({ tokens: 5 });
    used({ tokens: 20 });
    return "a ship";
  });
  expect(result).toBe("a ship");
  expect(usage).toMatchObject({ debits: [{ amount: 20, remaining: 80 }], uncovered: null });
  expect(await remainingOf(userId)).toBe(80);
});

it("usage.hold charges once even if all its responses are lost", async () => {
  const userId = await userWith(100);
  proxy.faults.push("lost", null, "lost", "cut");
  await purser.usage.hold(hold(userId), ({ used }) => used({ tokens: 70 }));
  expect(await remainingOf(userId)).toBe(30);
  proxy.faults.push(null, "lost", "lost");
  expect((await errorOf(purser.usage.hold(hold(userId, 10), () => Promise.reject(new Error("broken"))))).message).toBe(
    "broken",
  );
  expect(await remainingOf(userId)).toBe(30);
});

it("usage.hold does not start work that the credits do not cover", async () => {
  const userId = await userWith(10);
  const work = vi.fn();
  expect(await errorOf(purser.usage.hold(hold(userId), work))).toMatchObject({ uncovered: { tokens: 40 } });
  expect(work).not.toHaveBeenCalled();
  expect(await remainingOf(userId)).toBe(10);
});

it("usage.hold releases the hold on failure if so requested, and when no usage was reported", async () => {
  const userId = await userWith(100);
  const failing = purser.usage.hold({ ...hold(userId), onError: "release" }, ({ used }) => {
    used({ tokens: 20 });
    throw new Error("the model failed");
  });
  expect((await errorOf(failing)).message).toBe("the model failed");
  expect((await errorOf(purser.usage.hold(hold(userId), () => {}))).message).toContain("hold.used");
  expect(await remainingOf(userId)).toBe(100);
  const reasons: string[] = [];
  for await (const { reason } of purser.listLedgerEntries({ userId })) reasons.push(reason);
  expect(reasons.filter((reason) => reason === "reservation_released")).toHaveLength(2);
});

it("usage.hold commits what was used before the work failed", async () => {
  const userId = await userWith(100);
  const failing = purser.usage.hold(hold(userId), ({ used }) => {
    used({ tokens: 20 });
    throw new Error("the model failed");
  });
  expect((await errorOf(failing)).message).toBe("the model failed");
  expect(await remainingOf(userId)).toBe(80);
});

it("usage.hold commits the usage when the stream is aborted, and releases the hold if there was none", async () => {
  const userId = await userWith(100);
  const controller = new AbortController();
  const { signal } = controller;
  const streaming = purser.usage.hold({ ...hold(userId), signal }, async ({ used }) => {
    for (let tokens = 1; ; tokens++) {
      signal.throwIfAborted();
      used({ tokens });
      if (tokens === 30) controller.abort();
    }
  });
  expect(await errorOf(streaming)).toMatchObject({ name: "AbortError" });
  expect(await remainingOf(userId)).toBe(70);
  const none = purser.usage.hold(hold(userId), () => Promise.reject(new DOMException("gone", "AbortError")));
  expect(await errorOf(none)).toMatchObject({ name: "AbortError" });
  const late = purser.usage.hold({ ...hold(userId), signal }, () => {});
  expect(await errorOf(late)).toMatchObject({ name: "AbortError" });
  expect(await remainingOf(userId)).toBe(70);
});

it("usage.hold rejects a report after the work has ended, whether it failed or not", async () => {
  const userId = await userWith(100);
  const reports: (() => void)[] = [];
  await purser.usage.hold(hold(userId), ({ used }) => {
    used({ tokens: 20 });
    reports.push(() => used({ tokens: 30 }));
  });
  const failing = purser.usage.hold(hold(userId), ({ used }) => {
    reports.push(() => used({ tokens: 30 }));
    throw new Error("the model failed");
  });
  expect((await errorOf(failing)).message).toBe("the model failed");
  expect(reports).toHaveLength(2);
  for (const report of reports) expect(report).toThrow("The hold has ended");
  expect(await remainingOf(userId)).toBe(80);
});

it("usage.hold lets other balances pay usage beyond the hold, and reports the uncovered rest", async () => {
  const userId = await userWith(60);
  const { usage, uncovered } = await purser.usage.hold(hold(userId), ({ used }) => used({ tokens: 75 }));
  expect(usage).toMatchObject({ debits: [{ amount: 60, remaining: 0 }], uncovered: { tokens: 15 } });
  expect(uncovered).toEqual(usage.uncovered);
});

it("usage.hold holds and commits free usage of a user without credits", async () => {
  const free = { userId: "free", event: "chat", quantities: { cents: 0 } };
  const { usage, uncovered } = await purser.usage.hold(free, ({ used, holds }) => {
    expect(holds).toEqual([]);
    used({ cents: 0 });
  });
  expect([usage.debits, uncovered]).toEqual([[], null]);
});

it("usage.hold extends the reservation while the work runs, and keeps it when the commit fails", async () => {
  const userId = await userWith(100);
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  let reservationId = "";
  const impatient = new Purser({ url: proxy.url, key: app.keys.sk_live, retries: 0 });
  const held = impatient.usage.hold({ ...hold(userId), expiresInSeconds: 60 }, async (one) => {
    reservationId = one.reservationId;
    const { expiresAt } = await purser.getReservation({ reservationId });
    await vi.advanceTimersByTimeAsync(30_000);
    await vi.waitFor(
      async () => {
        expect((await purser.getReservation({ reservationId })).expiresAt > expiresAt).toBe(true);
      },
      { timeout: 10_000 },
    );
    one.used({ tokens: 50 });
    proxy.faults.push("refused");
  });
  expect(await errorOf(held)).toMatchObject({ code: "no_answer" });
  expect(vi.getTimerCount()).toBe(0);
  expect((await purser.getReservation({ reservationId })).status).toBe("open");
});

it("verifyWebhook accepts the messages that Purser sends to an endpoint, and returns their types", async () => {
  const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  const received = Promise.withResolvers<{ headers: IncomingHttpHeaders; body: string }>();
  const receiver = createServer(async (request, response) => {
    received.resolve({ headers: request.headers, body: await text(request) });
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void receiver.close());
  // A server that listens on a TCP port has an address of this form.
  const { port } = receiver.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/hook`;
  const { secret, webhookId } = await admin.createWebhook({
    appId: app.appId,
    mode: "live",
    url,
    types: ["credits.*"],
  });
  const userId = await userWith(5);
  const { headers, body } = await received.promise;
  const message = await verifyWebhook(headers, body, secret);
  expect(message).toMatchObject({ type: "credits.granted", mode: "live", appId: app.appId });
  if (message.type === "credits.granted") expect(message.data).toMatchObject({ userId, balances: [{ initial: 5 }] });
  await admin.deleteWebhook({ appId: app.appId, webhookId });
});

describe("examples/ai-chat.mjs", () => {
  // A price list concerns all events of its application, so these tests have one of their own.
  let paid: Purser;
  let secretKey: string;
  beforeAll(async () => {
    const { appId, keys } = await server.makeApp(END_USER_SETTING);
    const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
    await admin.createPack({ appId, packName: "Cents", items: [], unit: "cents" });
    const per = { input: 1, output: 3, cacheRead: 0.1 };
    await admin.setPrices({ appId, mode: "live", rules: [{ model: "small-2", unit: "cents", per }] });
    secretKey = keys.sk_live;
    paid = new Purser({ url: server.url, key: secretKey });
  });

  async function chatterWith(cents: number): Promise<string> {
    const userId = `chatter-${++users}`;
    await paid.grantCredits({ userId, packId: "Cents", quantity: cents });
    return userId;
  }
  const centsOf = async (userId: string) => (await paid.listBalances({ userId })).credits[0]?.remaining;

  /** Starts a chat server with this model for the test, and sends it the prompt. */
  async function chat(userId: string, prompt: string, askModel?: AskModel, model = "small-2") {
    const settings = { purserUrl: proxy.url, secretKey };
    const shop = chatServer(askModel === undefined ? settings : { ...settings, askModel });
    await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void shop.close());
    // A server that listens on a TCP port has an address of this form.
    const { port } = shop.address() as AddressInfo;
    const body = JSON.stringify({ userId, model, prompt });
    return fetch(`http://127.0.0.1:${port}`, { method: "POST", body });
  }

  it("streams a response and charges its tokens by the price list, or reports that the credits do not suffice", async () => {
    const userId = await chatterWith(1_600);
    const answer = await chat(userId, "Tell me of ships.");
    const text = await answer.text();
    expect(text).toContain("A ship is a town that moves.");
    // The provider's own count, which comes last, is charged.
    expect(await centsOf(userId)).toBe(1_600 - 4 - 3 * text.trim().split(" ").length);
    const poor = await chat(await chatterWith(1_500), "Tell me of ships.");
    expect([poor.status, await poor.text()]).toEqual([402, "You have too few credits for this."]);
  });

  it("charges cached tokens once, and asks no model that has no price", async () => {
    const userId = await chatterWith(1_600);
    const cached = { prompt_tokens: 12, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 10 } };
    await (
      await chat(userId, "Tell me of ships.", async function* () {
        yield* [{ text: "No." }, { usage: cached }];
      })
    ).text();
    expect(await centsOf(userId)).toBe(1_600 - 2 - 1 - 3);
    // biome-ignore lint/correctness/useYield: it is never asked.
    const askModel: AskModel = async function* () {
      throw new Error("A model without a price was asked.");
    };
    const answer = await chat(userId, "Tell me of ships.", askModel, "large-9");
    expect([answer.status, await answer.text()]).toEqual([400, "This model has no price."]);
    expect(await centsOf(userId)).toBe(1_594);
  });

  it("charges the streamed part when the reader leaves, and when the model fails", async () => {
    const userId = await chatterWith(1_600);
    const leaving = await chat(userId, "one two", async function* ({ signal }) {
      yield* [{ text: "a " }, { text: "b " }, { text: "c " }, { usage: { prompt_tokens: 2, completion_tokens: 3 } }];
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const reader = leaving.body?.getReader();
    for (let text = ""; text.length < 6; ) text += new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    await vi.waitFor(async () => expect(await centsOf(userId)).toBe(1_589), { timeout: 10_000 });
    // biome-ignore lint/correctness/useYield: it fails before its first token.
    const failed = await chat(userId, "one two", async function* () {
      throw new Error("overloaded");
    });
    expect(failed.status).toBe(502);
    // The model was asked, so the two tokens of the prompt count.
    expect(await centsOf(userId)).toBe(1_587);
  });
});
