import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import { walkBusiness } from "../../../../src/dashboard/figures/business.ts";
import { flushActivity } from "../../../../src/db/count-activity.ts";
import {
  noteRejection,
  type RejectionKind,
  readRejections,
  readRejectionsOfUser,
} from "../../../../src/db/rejections.ts";
import { PurserError } from "../../../../src/errors.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { forgetWalks, runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import {
  bound,
  Clock,
  makeAdminCtx,
  makeApp,
  makeClient,
  makeCtx,
  makeOpenAmountPack,
} from "../../../support/world.ts";

beforeEach(() => flushActivity(bound()));
afterAll(expectLedgerInvariants);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  const post = (path: string, body: unknown) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  const ctx = makeCtx(app.environments.live, clock);
  const read = async (kind: RejectionKind) => {
    await flushActivity(bound());
    return readRejections(ctx, kind);
  };
  return { app, clock, call, post, ctx, read };
}

const short = new PurserError("insufficient_credits", "x", { details: { uncovered: { tokens: 1 } } });

it("recent rejections show who was short of credits, for which event and by how much, for every verb, with one row for each event of a user", async () => {
  const { app, clock, ctx, post, read } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Some", "tokens");
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  const usage = { userId: "ana", event: "chat.done", quantities: { count: 0, tokens: 15 } };
  expect((await post("usage/events", { eventId: "e1", ...usage })).status).toBe(402);
  clock.advance(1_000);
  expect((await post("usage/events", { eventId: "e1", ...usage, quantities: { count: 0, tokens: 12 } })).status).toBe(
    402,
  );
  clock.advance(1_000);
  expect((await post("usage/reservations", { ...usage, userId: "nobody", event: "hold" })).status).toBe(402);
  clock.advance(1_000);
  const list = await post("usage/events", [{ eventId: "e2", ...usage, event: "listed" }]);
  expect(list.body.results[0].error.code).toBe("insufficient_credits");
  clock.advance(1_000);
  const reservation = await post("usage/reservations", {
    reservationId: "res_a",
    ...usage,
    event: "later",
    model: "big",
    quantities: { count: 0, tokens: 1 },
  });
  expect(reservation.status).toBe(200);
  const commit = { eventId: "e3", quantities: { count: 0, tokens: 99 } };
  expect((await post("usage/reservations/res_a/commit", commit)).status).toBe(402);
  const row = (userId: string, subject: string, model: string | null, tokens: number, times: number, ago: number) => ({
    ...{
      kind: "shortage",
      userId,
      memberId: null,
      subject,
      model,
      times,
      lastAt: new Date(clock.ms - ago).toISOString(),
    },
    reason: { uncovered: { tokens }, skipped: userId === "nobody" ? [] : ["exhausted"] },
  });
  const all = [
    row("ana", "later", "big", 89, 1, 0),
    row("ana", "listed", null, 5, 1, 1_000),
    row("nobody", "hold", null, 15, 1, 2_000),
    row("ana", "chat.done", null, 2, 2, 3_000),
  ];
  expect(await read("shortage")).toEqual(all);
  expect(await readRejectionsOfUser(ctx, "ana")).toEqual(all.filter(({ userId }) => userId === "ana"));
  expect(await read("failed_grant")).toEqual([]);
  // A later rejection of the same event adds to the same row.
  await post("usage/events", { eventId: "e1", ...usage });
  expect(await read("shortage")).toContainEqual(expect.objectContaining({ subject: "chat.done", times: 3 }));
  await post("usage/events", { eventId: "e4", ...usage, memberId: "kim" });
  expect(await read("shortage")).toContainEqual(
    expect.objectContaining({ subject: "chat.done", memberId: "kim", times: 1 }),
  );
  expect(await readRejections(makeCtx(app.environments.test, clock), "shortage")).toEqual([]);
});

it("recent rejections keep an event and a model of 200 characters whole, even if these take two units each", async () => {
  const { post, read } = await world();
  const name = `a${"😀".repeat(199)}`;
  const usage = { eventId: "e1", userId: "ana", event: name, model: name, quantities: { tokens: 1 } };
  expect((await post("usage/events", usage)).status).toBe(402);
  expect(await read("shortage")).toMatchObject([{ subject: name, model: name }]);
});

it("recent rejections keep each model of an event in a row of its own, with why no balance paid", async () => {
  const { app, post, read } = await world();
  const rules = [{ event: "chat", model: "small-*" }];
  const packId = await makeOpenAmountPack(app.appId, "Small", "tokens", rules);
  await post("credits/grant", { userId: "ana", packId, quantity: 10 });
  const use = (model: string) =>
    post("usage/events", {
      eventId: model,
      userId: "ana",
      event: "chat",
      model,
      quantities: { count: 0, tokens: 12 },
    });
  for (const model of ["small-1", "big", "big"]) expect((await use(model)).status).toBe(402);
  expect((await read("shortage")).map(({ model, reason, times }) => [model, reason, times]).toSorted()).toEqual([
    ["big", { uncovered: { tokens: 12 }, skipped: ["no_match"] }, 2],
    ["small-1", { uncovered: { tokens: 2 }, skipped: ["exhausted"] }, 1],
  ]);
});

it("recent rejections show who reached a usage limit, with which model and how much was used", async () => {
  const { app, call, post, read } = await world();
  const limit = { mode: "live", name: "Daily", unit: "tokens", amount: 10, every: "day" };
  const path = `/api/v1/admin/apps/${app.appId}/usage-limits`;
  expect((await call("POST", path, { key: env.ADMIN_TOKEN, body: limit })).status).toBe(200);
  const usage = { userId: "ana", event: "chat", model: "big", quantities: { count: 0, tokens: 12 } };
  expect((await post("usage/events", { eventId: "e", ...usage })).status).toBe(429);
  expect(await read("usage_limit")).toMatchObject([
    {
      ...{ userId: "ana", subject: "chat", model: "big", times: 1 },
      reason: { limit: { name: "Daily", unit: "tokens", amount: 10, used: 0, asked: 12 } },
    },
  ]);
  expect(await read("shortage")).toEqual([]);
});

it("recent rejections show which pack was not granted and why, and no error of shape", async () => {
  const { app, post, read } = await world();
  await makeOpenAmountPack(app.appId, "Legacy", "cents");
  expect((await post("credits/grant", { userId: "ana", packId: "no such pack" })).status).toBe(404);
  expect((await post("credits/grant", { userId: "bob", packId: "legacy" })).status).toBe(400);
  const past = { userId: "cyd", packId: "legacy", quantity: 1, expiresAt: "2001-01-01T00:00:00Z" };
  expect((await post("credits/grant", past)).status).toBe(400);
  expect((await post("credits/grant", { packId: "legacy" })).status).toBe(400);
  const rejections = (await read("failed_grant")).map(({ userId, subject, reason }) => [userId, subject, reason]);
  expect(rejections.toSorted()).toEqual([
    ["ana", "no such pack", { code: "credit_pack_not_found", param: "packId" }],
    ["bob", "legacy", { code: "invalid_quantity", param: "quantity" }],
    ["cyd", "legacy", { code: "invalid_request", param: "expiresAt" }],
  ]);
});

it("recent rejections keep the newest two hundred of a kind, and write two rows a rejection, after its response", async () => {
  const { app, clock, ctx, read } = await world();
  const note = (n: number) => noteRejection(ctx, "shortage", short, { userId: `user-${n}`, subject: "e".repeat(500) });
  for (let n = 0; n < 300; n++) {
    clock.advance(1_000);
    note(n);
    if (n % 100 === 99) await flushActivity(bound());
  }
  const kept = await read("shortage");
  expect([kept.length, kept[0]?.userId, kept.at(-1)?.userId]).toEqual([200, "user-299", "user-100"]);
  expect(kept[0]?.subject).toBe("e".repeat(200));

  const counting = countingD1(env.DB);
  const counted = makeClient(clock, { DB: counting.d1 });
  const body = { eventId: "e", userId: "user-9", event: "x" };
  const answer = await counted("POST", "/api/v1/usage/events", { key: app.keys.sk_live, body });
  expect([answer.status, counting.spent().rowsWritten]).toEqual([402, 0]);
  note(1_000);
  await flushActivity(bound({ DB: counting.d1 }));
  const { rowsRead, rowsWritten } = counting.spent();
  // Two rejections with an index row each, the two rows that they push out with theirs, and a figure of the day.
  expect(rowsWritten).toBeLessThanOrEqual(2 * 2 + 2 * 2 + 1);
  expect(rowsRead).toBeLessThanOrEqual(450);
});

it("recent rejections are kept for at most thirty days", async () => {
  const { clock, ctx, read } = await world();
  const ago = (days: number) => ({ ...ctx, realNow: () => clock.ms - days * DAY_MS });
  noteRejection(ago(31), "shortage", short, { userId: "old", subject: "e" });
  noteRejection(ago(31), "failed_grant", short, { userId: "old", subject: "e" });
  noteRejection(ago(31), "usage_limit", short, { userId: "old", subject: "e" });
  noteRejection(ago(31), "shortage", short, { userId: "young", subject: "e", model: "small" });
  noteRejection(ago(29), "shortage", short, { userId: "young", subject: "e", model: "large" });
  expect(await read("shortage")).toHaveLength(3);
  // One walk covers the whole database, and that of another test would be younger.
  await forgetWalks();
  for (let n = 0; n < 3; n++) expect(await runPart(walkBusiness, makeAdminCtx(clock))).toEqual([]);
  expect((await read("shortage")).map(({ userId, model }) => [userId, model])).toEqual([["young", "large"]]);
  for (const kind of ["failed_grant", "usage_limit"] as const) expect(await read(kind), kind).toEqual([]);
});

it("recent rejections keep two hundred of five thousand that an isolate notes at once", async () => {
  const { ctx, read } = await world();
  for (let n = 0; n < 5_000; n++) noteRejection(ctx, "shortage", short, { userId: `u-${n}`, subject: "e" });
  expect(await read("shortage")).toHaveLength(200);
});

it("recent rejections name no erased person, even if the erasure comes between a rejection and its writing", async () => {
  const { app, post, read } = await world();
  await makeOpenAmountPack(app.appId, "Any", "count");
  const usage = (userId: string) =>
    post("usage/events", { eventId: `e-${userId}`, userId, event: "x", model: `model of ${userId}` });
  await usage("ana");
  expect(await read("shortage")).toHaveLength(1);
  // These are noted, and not yet written.
  await usage("ana");
  await usage("bob");
  await post("credits/grant", { userId: "ana", packId: "none" });
  const dry = await post("erase-person", { distinctId: "ana", dryRun: true });
  expect(dry.body.erased.refusals).toBe(1);
  expect((await post("erase-person", { distinctId: "ana" })).body.status).toBe("completed");
  await post("credits/grant", { userId: "ana", packId: "any", quantity: 1 });
  expect((await read("shortage")).map(({ userId }) => userId)).toEqual(["bob"]);
  expect(await read("failed_grant")).toMatchObject([
    { userId: null, subject: "any", reason: { code: "person_erased" } },
  ]);
  const rows = await env.DB.prepare(
    "SELECT count(*) AS n FROM rejections WHERE environment_id = ? AND (user_id = 'ana' OR model LIKE '%ana')",
  )
    .bind(app.environments.live.id)
    .first("n");
  expect(rows).toBe(0);
});
