import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { settleDueHolds } from "../../../src/books/ledger/write.ts";
import { drizzle, fields, query, type ValueOf } from "../../../src/db/query.ts";
import { environments } from "../../../src/db/schema.ts";
import { all, batch } from "../../../src/db/sql.ts";
import type { Mode, Outbox } from "../../../src/runtime.ts";
import { messageData } from "../../../src/webhooks/message-data.ts";
import { MESSAGE_TYPES, messageWrites, noteMessages, wantedMessages } from "../../../src/webhooks/outbox.ts";
import { makeEndpoint, storedMessages } from "../../support/webhooks.ts";
import { Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack, makePack } from "../../support/world.ts";

async function world(types: readonly string[] | null = ["**"], mode: Mode = "live") {
  const clock = new Clock();
  const app = await makeApp();
  const environment = app.environments[mode];
  const call = makeClient(clock);
  const key = app.keys[`sk_${mode}`];
  const post = async (path: string, body: object) => {
    const answer = await call("POST", `/api/v1${path}`, { key, body });
    expect(answer.status).toBe(200);
    return answer.body;
  };
  const items = [
    { amountMinor: 400_000, unit: "tokens", priority: 1 },
    { amountMinor: 10_500_000, unit: "cents" },
  ] as const;
  const packId = await makePack(app.appId, "Pack", items);
  const webhookId = await makeEndpoint(environment, types);
  const adjust = (balanceId: string, body: object) =>
    call("POST", `/api/v1/admin/balances/${balanceId}/adjust`, { key: env.ADMIN_TOKEN, body });
  const messages = async () =>
    (await storedMessages(environment)).map(({ type, subject, data, deliveries }) => {
      expect(deliveries).toBe(1);
      expect(subject).toBe("u");
      return { type, ...data };
    });
  return { clock, app, environment, call, key, post, packId, webhookId, adjust, messages };
}

it("each type of message that an endpoint can choose has a schema, and no other", () => {
  expect(Object.keys(messageData).sort()).toEqual([...MESSAGE_TYPES].sort());
});

it("messages about changed credits report a grant, an event, an adjustment, a refund and a revoke, with the seq of each one's last entry", async () => {
  const { app, post, packId, adjust, messages } = await world();
  const granted = await post("/credits/grant", { userId: "u", packId, externalRef: "order", source: "purchase" });
  const [tokens, cents] = granted.balances;
  const event = { userId: "u", eventId: "e1", event: "chat", quantities: { count: 0, tokens: 100.5 } };
  const recorded = await post("/usage/events", event);
  const adjusted = { ...(await adjust(cents.balanceId, { delta: -0.25, note: "gift" })).body };
  const { refundRef, externalRef, balances } = await post("/credits/refund", {
    ...{ userId: "u", externalRef: "order", refundRef: "r1", share: { part: 9, of: 10 } },
  });
  await post("/credits/revoke", { balanceId: tokens.balanceId, reason: "fraud" });
  const sentMessages = await messages();
  expect(sentMessages).toEqual([
    {
      type: "credits.granted",
      userId: "u",
      balances: [
        { ...tokens, packId, unit: "tokens", initial: 400, remaining: undefined },
        { ...cents, packId, unit: "cents", initial: 10.5, remaining: undefined },
      ],
      externalRef: "order",
      recurringId: null,
      source: "purchase",
      seq: 2,
    },
    {
      type: "usage.recorded",
      userId: "u",
      ...recorded,
      event: "chat",
      model: null,
      quantities: event.quantities,
      ...{ memberId: null, meters: null, priceVersion: null },
      occurredAt: expect.stringMatching(/Z$/),
      properties: null,
      seq: 3,
    },
    {
      type: "credits.adjusted",
      userId: "u",
      balanceId: cents.balanceId,
      unit: "cents",
      delta: -0.25,
      remaining: adjusted.remaining,
      note: "gift",
      seq: 4,
    },
    { type: "credits.refunded", userId: "u", refundRef, externalRef, balances, seq: 6 },
    {
      type: "credits.revoked",
      userId: "u",
      balanceId: tokens.balanceId,
      unit: "tokens",
      delta: 0,
      remaining: 0,
      note: "fraud",
      seq: 7,
    },
  ]);
  expect(balances.map((balance: { short: number }) => balance.short)).toEqual([60.5, 0]);
  expect(await storedMessages(app.environments.test)).toEqual([]);
});

it("messages about changed credits report a commit, a charge, an expiry, and a list's events, each with its own seq", async () => {
  const { clock, environment, post, packId, messages } = await world(["usage.*", "reservation.*"]);
  await post("/credits/grant", { userId: "u", packId });
  const hold = { userId: "u", event: "chat", model: "m", quantities: { tokens: 10 }, expiresInSeconds: 60 };
  await post("/usage/reservations", { ...hold, reservationId: "res_a" });
  await post("/usage/reservations", { ...hold, reservationId: "res_b" });
  await post("/usage/reservations", { ...hold, reservationId: "res_c", onExpiry: "charge" });
  const committed = await post("/usage/reservations/res_a/commit", { eventId: "e1", quantities: { tokens: 3 } });
  clock.advance(60_000);
  await settleDueHolds(makeCtx(environment, clock), { accountId: await accountOf(environment.id) });
  const event = (n: number, tokens: number, onShortage = "reject") => ({
    ...{ userId: "u", eventId: `l${n}`, event: "chat", quantities: { count: 0, tokens }, onShortage },
  });
  const list = [event(1, 1), event(2, 5_000), event(3, 5_000, "partial"), event(4, 1, "partial"), event(1, 1)];
  const { results } = await post("/usage/events/batch", list as never);
  const sentMessages = await messages();
  const data = { userId: "u", event: "chat", model: null, memberId: null, meters: null, priceVersion: null };
  expect(sentMessages.map(({ debits: _, occurredAt, properties, ...message }) => message)).toEqual([
    {
      type: "usage.recorded",
      ...data,
      eventId: "l4",
      quantities: { count: 0, tokens: 1 },
      uncovered: { tokens: 1 },
      seq: null,
    },
    {
      type: "usage.recorded",
      ...data,
      model: "m",
      eventId: "e1",
      quantities: { count: 1, tokens: 3 },
      uncovered: null,
      seq: 7,
    },
    {
      ...{ type: "reservation.expired", userId: "u", memberId: null, reservationId: "res_b", event: "chat", seq: 8 },
      holds: [{ balanceId: expect.stringMatching(/^crb_/), packId, unit: "tokens", amount: 10 }],
    },
    {
      type: "usage.recorded",
      ...data,
      model: "m",
      eventId: "res_c",
      quantities: { count: 1, tokens: 10 },
      uncovered: null,
      seq: 10,
    },
    { type: "usage.recorded", ...data, eventId: "l1", quantities: { count: 0, tokens: 1 }, uncovered: null, seq: 11 },
    {
      type: "usage.recorded",
      ...data,
      eventId: "l3",
      quantities: { count: 0, tokens: 5_000 },
      uncovered: { tokens: 4_614 },
      seq: 12,
    },
  ]);
  expect(sentMessages[1]?.debits).toEqual(committed.debits);
  expect(sentMessages[4]?.debits).toEqual(results[0].debits);
  expect(results[1].error.code).toBe("insufficient_credits");
});

it("messages about changed credits report usage with its time and its properties, up to 16 KiB", async () => {
  const { post, messages } = await world(["usage.*"]);
  const event = { userId: "u", event: "chat", onShortage: "partial", occurredAt: "2026-01-10T00:00:00.000Z" };
  const sent = [{ a: 1 }, { text: "x".repeat(5_000) }, { text: "x".repeat(17_000) }, undefined];
  for (const [n, properties] of sent.entries()) {
    await post("/usage/events", { ...event, eventId: `e${n}`, ...(properties === undefined ? {} : { properties }) });
  }
  const recorded = (await messages()).toSorted((a, b) => (String(a.eventId) < String(b.eventId) ? -1 : 1));
  expect(recorded.map(({ occurredAt, properties }) => [occurredAt, properties])).toEqual(
    [sent[0], sent[1], null, null].map((properties) => [event.occurredAt, properties]),
  );
});

it("messages about changed credits are written once even if the request is repeated, and only for endpoints that receive them", async () => {
  const { post, packId, messages } = await world(["credits.*"]);
  for (let n = 0; n < 3; n++) await post("/credits/grant", { userId: "u", packId, externalRef: "order" });
  await post("/usage/events", { userId: "u", eventId: "e", event: "chat", quantities: { count: 0, cents: 1 } });
  expect((await messages()).map(({ type }) => type)).toEqual(["credits.granted"]);
});

it.each([
  [null, ["credits.granted"]],
  [["*"], ["credits.granted"]],
  [
    ["*", "usage.recorded"],
    ["credits.granted", "usage.recorded"],
  ],
  [["credits.low"], []],
])("messages about changed credits go to an endpoint with the types %j: %j", async (types, wanted) => {
  const { post, app, messages } = await world(types);
  const packId = await makeOpenAmountPack(app.appId, "Legacy", "count");
  await post("/credits/grant", { userId: "u", packId, quantity: 2 });
  await post("/usage/events", { userId: "u", eventId: "e", event: "chat" });
  expect((await messages()).map(({ type }) => type)).toEqual(wanted);
});

it("a message that is written directly is written once even if its batch is sent twice, and its writer makes the first attempt", async () => {
  const { clock, environment } = await world();
  const outbox: Outbox = [];
  const ctx = { ...makeCtx(environment, clock), outbox };
  const { settingsSnapshot } = await all(ctx.db, readSettingsSnapshotOf({ environmentId: environment.id })).then(
    ([row]) => row ?? raise(),
  );
  const limits = { type: "limits.reached", subject: null, data: { limit: "eventsADay" } } as const;
  const messages = wantedMessages(ctx, settingsSnapshot, () => [limits]);
  const statements = messageWrites(ctx, messages, 5);
  for (let n = 0; n < 2; n++) await batch(ctx.db, statements);
  noteMessages(ctx, messages);
  expect(await storedMessages(environment)).toEqual([{ ...limits, id: messages[0]?.id, deliveries: 1 }]);
  expect(outbox).toEqual([{ database: environment.database, messageId: messages[0]?.id }]);
  const due = await env.DB.prepare("SELECT due_at_ms FROM webhook_deliveries WHERE message_id = ?")
    .bind(messages[0]?.id)
    .first("due_at_ms");
  expect(due).toBe(clock.ms + 30_000);
  expect(wantedMessages(ctx, null, () => raise())).toEqual([]);
});

const readSettingsSnapshotOf = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(fields(environments, "settingsSnapshot"))
    .from(environments)
    .where(eq(environments.id, value("environmentId"))),
);

const raise = (): never => {
  throw new Error("not reached");
};

async function accountOf(environmentId: number): Promise<number> {
  const row = await env.DB.prepare("SELECT id FROM accounts WHERE environment_id = ?").bind(environmentId).first("id");
  return Number(row);
}
