import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { grantDuePeriods } from "../../../../src/books/recurring/grant-due.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { creditsWorld, storedBalances } from "../../../support/credits.ts";
import { runPart } from "../../../support/cron.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RECURRING } from "../../../support/paths.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { Clock, makeAdminCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const JANUARY_15 = "2026-01-15T12:00:00.000Z";

async function recurringWorld(mode: "live" | "test" = "live", bindings: Partial<Env> = {}) {
  const credits = await creditsWorld(mode, bindings);
  const { app, call, clock } = credits;
  const key = app.keys[`sk_${mode}`];
  const pack = await makePack(app.appId, "Free", [
    { amountMinor: 100_000, unit: "tokens" },
    { amountMinor: 5_000, unit: "count", matches: [{ event: "image.*" }] },
  ]);
  const post = (path: string, body: unknown) => call("POST", `${RECURRING}${path}`, { key, body });
  return {
    ...credits,
    key,
    pack,
    post,
    make: (body: object) => post("", { userId: "u", packId: "Free", every: "month", ...body }),
    recurring: async (userId = "u") => (await call("GET", `${RECURRING}?userId=${userId}`, { key })).body.recurring,
    use: (eventId: string, tokens: number, more: object = {}) =>
      call("POST", "/api/v1/usage/events", {
        key,
        body: { eventId, userId: "u", event: "chat", quantities: { tokens, count: 0 }, ...more },
      }),
    cron: () => runPart(grantDuePeriods, makeAdminCtx(clock)),
    balances: async (userId = "u") => (await credits.list({ userId })).body.credits,
  };
}

it("creating a recurring grant grants the first period with the call, and returns the fields of R1", async () => {
  const world = await recurringWorld();
  const answer = await world.make({ recurringId: "rec_a" });
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({
    recurringId: "rec_a",
    userId: "u",
    packId: world.pack,
    packName: "Free",
    quantity: null,
    every: "month",
    startsAt: JANUARY_15,
    endsAt: null,
    rolloverPeriods: 0,
    timeZone: "UTC",
    status: "active",
    reason: null,
    period: { n: 1, from: JANUARY_15, to: "2026-02-15T12:00:00.000Z" },
    nextAt: "2026-02-15T12:00:00.000Z",
    createdAt: JANUARY_15,
  });
  const stored = await storedBalances(world.app, "u");
  expect(stored.map((row) => [row.external_ref, row.source])).toEqual([
    ["recurring:rec_a:1", "grant"],
    ["recurring:rec_a:1", "grant"],
  ]);
  expect((await world.balances()).map(({ expiresAt }: { expiresAt: string }) => expiresAt)).toEqual([
    "2026-02-15T12:00:00.000Z",
    "2026-02-15T12:00:00.000Z",
  ]);
});

it("creating a recurring grant answers a repeat with the grant as it stands now, and another body with 409", async () => {
  const world = await recurringWorld();
  const first = await world.make({ recurringId: "rec_a" });
  world.clock.advance(40 * DAY_MS);
  const again = await world.make({ recurringId: "rec_a" });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual({
    ...first.body,
    period: { n: 2, from: first.body.nextAt, to: "2026-03-15T12:00:00.000Z" },
    nextAt: "2026-03-15T12:00:00.000Z",
  });
  const other = await world.make({ recurringId: "rec_a", every: "week" });
  expect([other.status, other.body.error.code]).toEqual([409, "idempotency_conflict"]);
  expect(other.body.error.details.differs).toEqual(["every"]);
});

it("creating a recurring grant creates one when ten race with one id", async () => {
  const world = await recurringWorld();
  const all = await Promise.all(Array.from({ length: 10 }, () => world.make({ recurringId: "rec_a" })));
  expect(all.map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  expect(await world.recurring()).toHaveLength(1);
});

it("creating a recurring grant rejects what a grant would reject, and invalid times, and writes nothing", async () => {
  const world = await recurringWorld();
  await makeOpenAmountPack(world.app.appId, "Wallet", "cents");
  const rejections: [object, string, string | undefined][] = [
    [{ packId: "None" }, "credit_pack_not_found", "packId"],
    [{ packId: "Wallet" }, "invalid_quantity", "quantity"],
    [{ packId: "Wallet", quantity: -1 }, "invalid_quantity", "quantity"],
    [{ startsAt: "2024-12-31T00:00Z" }, "invalid_request", "startsAt"],
    [{ startsAt: "2027-01-16T00:00Z" }, "invalid_request", "startsAt"],
    [{ endsAt: JANUARY_15 }, "invalid_request", "endsAt"],
    [{ startsAt: "2026-03-01T00:00Z", endsAt: "2026-02-01T00:00Z" }, "invalid_request", "endsAt"],
    [{ rolloverPeriods: 13 }, "invalid_request", "rolloverPeriods"],
    [{ rolloverPeriods: -1 }, "invalid_request", "rolloverPeriods"],
    [{ every: "hour" }, "invalid_request", "every"],
    [{ recurringId: "free" }, "invalid_request", "recurringId"],
  ];
  for (const [body, code, param] of rejections) {
    const { body: answer, status } = await world.make(body);
    expect([status, answer.error?.code, answer.error?.param]).toEqual([
      code === "credit_pack_not_found" ? 404 : 400,
      code,
      param,
    ]);
  }
  const grant = await world.grant({ userId: "u", packId: "Free", externalRef: "recurring:rec_a:1" });
  expect([grant.status, grant.body.error.param]).toEqual([400, "externalRef"]);
  expect(await world.recurring()).toEqual([]);
  expect(await storedBalances(world.app, "u")).toEqual([]);
});

it("creating a recurring grant rejects the 101st that has not ended", async () => {
  const world = await recurringWorld();
  // They begin so late that no cron of another test grants them.
  for (let n = 0; n < 100; n++) {
    expect((await world.make({ recurringId: `rec_${n}`, startsAt: "2026-12-01T00:00Z" })).status).toBe(200);
  }
  const more = await world.make({ recurringId: "rec_more" });
  expect([more.status, more.body.error.details]).toEqual([400, { limit: 100 }]);
  await world.post("/rec_7/cancel", {});
  expect((await world.make({ recurringId: "rec_more" })).status).toBe(200);
});

it("creating a recurring grant grants past periods whose match rules are together larger than a value of D1", async () => {
  // Hosted D1 takes no value above 2 MB. The local one takes more.
  const hosted = hookedD1(
    env.DB,
    async () => {},
    (values) => {
      const isTooBig = values.some((value) => typeof value === "string" && value.length > 2_000_000);
      if (isTooBig) throw new Error("D1_ERROR: string or blob too big");
    },
  );
  const world = await recurringWorld("live", { DB: hosted });
  const rules = Array.from({ length: 100 }, (_, rule) => ({
    event: `${rule}.`.padEnd(200, "x"),
    model: "x".repeat(200),
  }));
  const items = Array.from({ length: 23 }, () => ({ amountMinor: 1_000, unit: "tokens" as const, matches: rules }));
  await makePack(world.app.appId, "Heavy", items);
  const startsAt = new Date(world.clock.ms - 2 * DAY_MS).toISOString();
  const answer = await world.make({ packId: "Heavy", every: "day", startsAt, rolloverPeriods: 2 });
  expect([answer.status, answer.body.period?.n]).toEqual([200, 3]);
  const stored = await storedBalances(world.app, "u");
  expect(stored.map(({ grant_seq }) => grant_seq)).toEqual(Array.from({ length: 69 }, (_, index) => index + 1));
});

it("creating a recurring grant counts each item once in the test quota, even if it begins later", async () => {
  const world = await recurringWorld("test", { TEST_BALANCE_QUOTA: "3" });
  expect((await world.make({ every: "day", startsAt: "2026-02-01T00:00Z" })).status).toBe(200);
  expect((await world.make({})).body.error.code).toBe("test_quota_exceeded");
  world.clock.advance(20 * DAY_MS);
  for (let day = 0; day < 5; day++) {
    world.clock.advance(DAY_MS);
    expect(await world.cron()).toEqual([]);
  }
  expect(await storedBalances(world.app, "u")).toHaveLength(10);
});

it("a due period is shown by a list before it is written, with the ids under which the next debit writes it", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  await world.use("e1", 30);
  world.clock.ms = Date.parse("2026-02-15T12:00:00.000Z");
  const shown = await world.balances();
  expect(shown.map(({ remaining, status }: { remaining: number; status: string }) => [remaining, status])).toEqual([
    [5, "active"],
    [100, "active"],
  ]);
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  const plan = await world.call("POST", "/api/v1/credits/plan", {
    key: world.key,
    body: { userId: "u", event: "chat", quantities: { tokens: 40, count: 0 } },
  });
  expect(plan.body.debits).toMatchObject([{ balanceId: shown[1].balanceId, amount: 40, remaining: 60 }]);
  const used = await world.use("e2", 40);
  expect(used.body.debits).toEqual(plan.body.debits);
  expect((await world.balances()).map(({ balanceId }: { balanceId: string }) => balanceId)).toEqual(
    shown.map(({ balanceId }: { balanceId: string }) => balanceId),
  );
  const [now] = await world.recurring();
  expect(now.period).toEqual({ n: 2, from: "2026-02-15T12:00:00.000Z", to: "2026-03-15T12:00:00.000Z" });
});

it("a due period is granted by a write that is rejected or replayed", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  await world.use("e1", 30);
  world.clock.advance(31 * DAY_MS);
  expect((await world.use("e2", 1_000)).status).toBe(402);
  expect(await storedBalances(world.app, "u")).toHaveLength(4);
  world.clock.advance(31 * DAY_MS);
  expect((await world.use("e1", 30)).headers.get("idempotent-replayed")).toBe("true");
  expect(await storedBalances(world.app, "u")).toHaveLength(6);
});

it("a due period is granted once by ten debits and four runs of the cron at once", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(31 * DAY_MS);
  const debits = Array.from({ length: 10 }, (_, n) => world.use(`e${n}`, 5));
  const runs = Array.from({ length: 4 }, () => world.cron());
  expect((await Promise.all(debits)).map(({ status }) => status)).toEqual(Array(10).fill(200));
  await Promise.all(runs);
  expect(await storedBalances(world.app, "u")).toHaveLength(4);
  expect((await world.balances()).map(({ remaining }: { remaining: number }) => remaining)).toEqual([5, 50]);
});

it("a due period is granted by the cron to many users in one batch, even with an endpoint, a fired alert and an erased person", async () => {
  const world = await recurringWorld();
  const { live } = world.app.environments;
  // Periods of other tests are granted first, so that this one counts only its own.
  const later = new Clock();
  later.advance(31 * DAY_MS);
  await runPart(grantDuePeriods, makeAdminCtx(later));
  await makeEndpoint(live, ["credits.granted", "credits.low"]);
  const users = Array.from({ length: 40 }, (_, n) => `user${n}`);
  for (const [n, userId] of users.entries()) await world.make({ userId, recurringId: `rec_${n}` });
  const low = { mode: "live", name: "Low", unit: "tokens", below: { amount: 10 } };
  const alert = await world.call("POST", `/api/v1/admin/apps/${world.app.appId}/alerts`, {
    key: env.ADMIN_TOKEN,
    body: low,
  });
  expect(alert.status).toBe(200);
  const spend = (eventId: string) => world.use(eventId, 95, { userId: "user3" });
  await spend("before");
  await world.call("POST", "/api/v1/erase-person", { key: world.key, body: { distinctId: "user39" } });
  world.clock.advance(31 * DAY_MS);
  const counted = countingD1(env.DB);
  await runPart(grantDuePeriods, makeAdminCtx(world.clock, counted.d1));
  expect(counted.spent().roundTrips).toBe(3);
  const granted = (await storedMessages(live)).filter(({ type, data }) => type === "credits.granted" && data.seq > 2);
  expect(granted.map(({ data }) => data.userId).sort()).toEqual(users.slice(0, 39).sort());
  for (const { data } of granted) {
    const stored = await storedBalances(world.app, data.userId);
    expect(data.seq).toBe(stored.at(-1)?.grant_seq);
    expect(data.recurringId).toBe(`rec_${data.userId.slice(4)}`);
  }
  const lows = async () => (await storedMessages(live)).filter(({ type }) => type === "credits.low").length;
  expect(await lows()).toBe(1);
  await spend("after");
  expect(await lows()).toBe(2);
});

it("a due period is skipped if its credits would have expired, and granted if they roll over", async () => {
  const world = await recurringWorld();
  await world.make({ userId: "plain", recurringId: "rec_p", every: "day" });
  await world.make({ userId: "rolls", recurringId: "rec_r", every: "day", rolloverPeriods: 2 });
  await world.make({ userId: "pack", recurringId: "rec_n", every: "day", rolloverPeriods: null });
  world.clock.advance(10 * DAY_MS);
  await world.cron();
  const refs = async (userId: string) => [
    ...new Set((await storedBalances(world.app, userId)).map(({ external_ref }) => external_ref)),
  ];
  expect(await refs("plain")).toEqual(["recurring:rec_p:1", "recurring:rec_p:11"]);
  expect(await refs("rolls")).toEqual(["recurring:rec_r:1", ...[9, 10, 11].map((n) => `recurring:rec_r:${n}`)]);
  expect(await refs("pack")).toEqual(["recurring:rec_n:1", "recurring:rec_n:11"]);
  expect(await world.balances("rolls")).toHaveLength(6);
});

it("a due period is granted as of its beginning, with the current time in the ledger", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(35 * DAY_MS);
  await world.cron();
  const rows = await env.DB.prepare(
    `SELECT b.granted_at_ms AS granted, l.occurred_at_ms AS occurred FROM credit_balances AS b
       JOIN credit_ledger AS l ON l.account_id = b.account_id AND l.seq = b.grant_seq
       WHERE b.external_ref = 'recurring:rec_a:2' AND b.pack_id = ?`,
  )
    .bind(world.pack)
    .all();
  const granted = Date.parse("2026-02-15T12:00:00.000Z");
  expect(rows.results).toEqual(Array(2).fill({ granted, occurred: world.clock.ms }));
});

it("a due period is granted if it begins before endsAt, and runs to its own end", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a", endsAt: "2026-02-20T00:00Z" });
  world.clock.ms = Date.parse("2026-02-15T12:00:00.000Z");
  const [due] = await world.recurring();
  expect(due).toMatchObject({ status: "ended", nextAt: null, period: { n: 2, to: "2026-03-15T12:00:00.000Z" } });
  await world.cron();
  expect(await world.recurring()).toEqual([due]);
  world.clock.advance(40 * DAY_MS);
  expect(await world.recurring()).toEqual([{ ...due, period: null }]);
  await world.cron();
  expect(await storedBalances(world.app, "u")).toHaveLength(4);
});

it("a rejected period suspends its recurring grant, and resume continues with the current period", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  await env.DB.prepare("UPDATE credit_packs SET archived_at_ms = 1, version = version + 1 WHERE id = ?")
    .bind(world.pack)
    .run();
  world.clock.advance(31 * DAY_MS);
  const suspended = { status: "suspended", reason: "credit_pack_not_found", period: null, nextAt: null };
  expect((await world.recurring())[0]).toMatchObject(suspended);
  await world.cron();
  expect((await world.recurring())[0]).toMatchObject(suspended);
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  expect((await world.post("/rec_a/resume", {})).body.error.code).toBe("credit_pack_not_found");
  world.clock.advance(31 * DAY_MS);
  await env.DB.prepare("UPDATE credit_packs SET archived_at_ms = NULL, version = version + 1 WHERE id = ?")
    .bind(world.pack)
    .run();
  const resumed = await world.post("/rec_a/resume", {});
  expect(resumed.body).toMatchObject({ status: "active", reason: null, period: { n: 3 } });
  expect((await storedBalances(world.app, "u")).map(({ external_ref }) => external_ref)).toEqual([
    ...Array(2).fill("recurring:rec_a:1"),
    ...Array(2).fill("recurring:rec_a:3"),
  ]);
  expect((await world.post("/rec_a/resume", {})).body.error.code).toBe("invalid_request");
  expect((await world.post("/rec_none/resume", {})).body.error.code).toBe("not_found");
});

it("cancelling keeps granted credits, and with `now` revokes them, even those that are spent", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  await world.use("e1", 100);
  const cancelled = await world.post("/rec_a/cancel", {});
  expect(cancelled.body).toMatchObject({ status: "ended", nextAt: null, period: { n: 1 } });
  expect((await world.post("/rec_a/cancel", {})).body).toEqual(cancelled.body);
  expect(await world.balances()).toHaveLength(1);
  const now = await world.post("/rec_a/cancel", { at: "now", reason: "left" });
  expect(now.body).toMatchObject({ status: "ended", nextAt: null, period: null });
  expect((await world.post("/rec_a/cancel", { at: "now" })).body).toEqual(now.body);
  const all = await world.list({ userId: "u", includeExpired: "true" });
  expect(all.body.credits.map(({ status }: { status: string }) => status)).toEqual(["revoked", "revoked"]);
  world.clock.advance(31 * DAY_MS);
  await world.cron();
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
});

it("cancelling with `now` also revokes the credits of a due period", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(31 * DAY_MS);
  await world.post("/rec_a/cancel", { at: "now" });
  const all = await world.list({ userId: "u", includeExpired: "true" });
  expect(all.body.credits.map(({ status }: { status: string }) => status).sort()).toEqual([
    ...["expired", "expired", "revoked", "revoked"],
  ]);
});

it("other calls about periods refund a period by its reference, and show the cause in the history", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(31 * DAY_MS);
  await world.cron();
  const body = { userId: "u", externalRef: "recurring:rec_a:2", refundRef: "r1", share: { part: 1, of: 2 } };
  const refunded = await world.call("POST", "/api/v1/credits/refund", { key: world.key, body });
  expect(refunded.body.balances.map(({ taken }: { taken: number }) => taken)).toEqual([50, 2.5]);
  const { body: history } = await world.history({ userId: "u" });
  expect(history.entries.map(({ cause, by }: { cause: string; by: string }) => [cause, by.slice(0, 4)])).toEqual([
    ...[
      ["refund", "key_"],
      ["refund", "key_"],
      ["recurring", "cron"],
      ["recurring", "cron"],
    ],
    ...[
      ["recurring", "key_"],
      ["recurring", "key_"],
    ],
  ]);
});

it("other calls about periods refund a due period that no write has granted yet, with the same result as afterwards", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(31 * DAY_MS);
  const body = { userId: "u", externalRef: "recurring:rec_a:2", refundRef: "r1", share: { part: 1, of: 2 } };
  const refund = () => world.call("POST", "/api/v1/credits/refund", { key: world.key, body });
  const due = (await world.balances()).map(({ balanceId }: { balanceId: string }) => balanceId);
  const refunded = await refund();
  expect(refunded.status).toBe(200);
  expect(refunded.body.balances).toMatchObject([
    { unit: "tokens", taken: 50, short: 0, remaining: 50 },
    { unit: "count", taken: 2.5, short: 0, remaining: 2.5 },
  ]);
  expect(refunded.body.balances.map(({ balanceId }: { balanceId: string }) => balanceId).sort()).toEqual(due.sort());
  const again = await refund();
  expect([again.body, again.headers.get("idempotent-replayed")]).toEqual([refunded.body, "true"]);
});

it("other calls about periods leave out a due period until it is written: balances as of a moment, history and verification", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  const madeAt = new Date(world.clock.ms).toISOString();
  world.clock.advance(31 * DAY_MS);
  const { key, call } = world;
  const due = await world.balances();
  const asOf = async (time: string) =>
    (await call("GET", `/api/v1/credits?userId=u&asOf=${time}`, { key })).body.credits.map(
      ({ balanceId, status }: { balanceId: string; status: string }) => ({ balanceId, status }),
    );
  const now = () => new Date(world.clock.ms).toISOString();
  const first = await asOf(madeAt);
  expect(first.map(({ status }: { status: string }) => status)).toEqual(["active", "active"]);
  expect((await asOf(now())).map(({ status }: { status: string }) => status)).toEqual(["expired", "expired"]);
  const history = await call("GET", "/api/v1/credits/history?userId=u", { key });
  expect(history.body.entries).toHaveLength(2);
  const verified = await call("GET", "/api/v1/credits/verify?userId=u", { key });
  expect(verified.body).toMatchObject({ balances: 2, isSound: true });
  const balanceId = due[0].balanceId;
  const unwritten = await call("GET", `/api/v1/credits/history?userId=u&balanceId=${balanceId}`, { key });
  expect(unwritten.body.error?.code).toBe("credit_balance_not_found");
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  await world.cron();
  expect((await asOf(now())).map(({ status }: { status: string }) => status).sort()).toEqual([
    "active",
    "active",
    "expired",
    "expired",
  ]);
  expect((await call("GET", "/api/v1/credits/history?userId=u", { key })).body.entries).toHaveLength(4);
  expect((await call("POST", "/api/v1/credits/revoke", { key, body: { balanceId } })).body).toEqual({
    balanceId,
    remaining: 0,
  });
});

it("other calls about periods send each period with its recurringId and the seq of its last entry, and a suspension", async () => {
  const world = await recurringWorld();
  await makeEndpoint(world.app.environments.live);
  await world.make({ recurringId: "rec_a" });
  world.clock.advance(31 * DAY_MS);
  await world.use("e1", 10);
  await env.DB.prepare("UPDATE credit_packs SET archived_at_ms = 1, version = version + 1 WHERE id = ?")
    .bind(world.pack)
    .run();
  world.clock.advance(31 * DAY_MS);
  await world.cron();
  const messages = (await storedMessages(world.app.environments.live))
    .map(({ type, data }) => ({ type, data }))
    .filter(({ type }) => type !== "usage.recorded");
  expect(messages).toMatchObject([
    { type: "recurring.suspended" },
    { type: "credits.granted", data: { recurringId: "rec_a", externalRef: "recurring:rec_a:1", seq: 2 } },
    { type: "credits.granted", data: { recurringId: "rec_a", externalRef: "recurring:rec_a:2", seq: 4 } },
  ]);
  expect(messages[0]?.data).toEqual({ userId: "u", recurringId: "rec_a", reason: "credit_pack_not_found" });
});

it("undoing a cancel goes on after a cancel at the period's end, with the next period and nothing granted twice", async () => {
  const world = await recurringWorld();
  const id = (await world.make({ recurringId: "rec_a" })).body.recurringId;
  expect((await world.post(`/${id}/cancel`, {})).body.status).toBe("ended");
  const undone = await world.post(`/${id}/resume`, { undoCancel: true });
  expect([undone.status, undone.body.status, undone.body.nextAt]).toEqual([200, "active", "2026-02-15T12:00:00.000Z"]);
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  world.clock.advance(31 * DAY_MS);
  await world.cron();
  expect((await world.recurring())[0]).toMatchObject({ status: "active", period: { n: 2 } });
  expect(await storedBalances(world.app, "u")).toHaveLength(4);
});

it("undoing a cancel goes on after a cancel before the first period, until that begins, but not after a cancel now", async () => {
  const world = await recurringWorld();
  const startsAt = "2026-02-01T00:00:00.000Z";
  for (const recurringId of ["rec_a", "rec_now", "rec_late"]) await world.make({ recurringId, startsAt });
  await world.post("/rec_a/cancel", {});
  await world.post("/rec_late/cancel", {});
  await world.post("/rec_now/cancel", {});
  expect((await world.post("/rec_now/cancel", { at: "now" })).body.status).toBe("ended");
  const undone = await world.post("/rec_a/resume", { undoCancel: true });
  expect([undone.status, undone.body.status, undone.body.nextAt]).toEqual([200, "active", startsAt]);
  expect((await world.post("/rec_now/resume", { undoCancel: true })).body.error.param).toBe("undoCancel");
  expect(await storedBalances(world.app, "u")).toEqual([]);
  world.clock.advance(18 * DAY_MS);
  expect((await world.post("/rec_late/resume", { undoCancel: true })).body.error.param).toBe("undoCancel");
  await world.cron();
  expect(await storedBalances(world.app, "u")).toHaveLength(2);
  expect((await world.recurring()).map(({ status }: { status: string }) => status)).toEqual([
    "active",
    "ended",
    "ended",
  ]);
});

it("undoing a cancel is rejected after a cancel now, after the last period's end, and without `undoCancel`, and changes nothing", async () => {
  const world = await recurringWorld();
  for (const recurringId of ["rec_now", "rec_late", "rec_plain"]) await world.make({ recurringId });
  await world.post("/rec_now/cancel", { at: "now" });
  await world.post("/rec_late/cancel", {});
  await world.post("/rec_plain/cancel", {});
  const refused = async (id: string, body: object) => (await world.post(`/${id}/resume`, body)).body.error;
  expect(await refused("rec_now", { undoCancel: true })).toMatchObject({
    code: "invalid_request",
    param: "undoCancel",
  });
  expect(await refused("rec_plain", {})).toMatchObject({ code: "invalid_request", param: "recurringId" });
  world.clock.advance(31 * DAY_MS);
  expect(await refused("rec_late", { undoCancel: true })).toMatchObject({
    code: "invalid_request",
    param: "undoCancel",
  });
  expect((await world.recurring()).map(({ status }: { status: string }) => status)).toEqual([
    "ended",
    "ended",
    "ended",
  ]);
});

it("the id of a recurring grant may be any text behind its prefix, also in a path", async () => {
  const world = await recurringWorld();
  for (const recurringId of [
    "rec_free-auth0|abc",
    "rec_ada@example.com",
    "rec_a/b",
    "rec_50%",
    "rec_a:1",
    "rec_ü #?",
  ]) {
    expect((await world.make({ recurringId })).body.recurringId).toBe(recurringId);
    const ended = await world.post(`/${encodeURIComponent(recurringId)}/cancel`, {});
    expect([ended.status, ended.body.recurringId, ended.body.status]).toEqual([200, recurringId, "ended"]);
  }
});

it("the id of a recurring grant that begins with another's and a colon keeps its credits when the other is cancelled now", async () => {
  const world = await recurringWorld();
  await world.make({ recurringId: "rec_a" });
  await world.make({ recurringId: "rec_a:1" });
  expect((await world.post("/rec_a/cancel", { at: "now" })).status).toBe(200);
  expect((await world.balances()).length).toBe(2);
  expect((await world.recurring()).map(({ status }: { status: string }) => status)).toEqual(["ended", "active"]);
});
