import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { makeStatements } from "../../../../src/books/statements/make-statements.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { DAY_MS, HOUR_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart } from "../../../support/cron.ts";
import { FAULTS, faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { seedBalancesOfMany } from "../../../support/seed-rows.ts";
import { clockWorld } from "../../../support/test-clock.ts";
import { bound, Clock, makeAdminCtx, makeApp, makeClient, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const FEBRUARY = Date.UTC(2026, 1, 1);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  const key = app.keys.sk_live;
  const packId = await makePack(app.appId, "=Starter", [{ amountMinor: 1_000_500, unit: "tokens" }]);
  const path = `/api/v1/admin/apps/${app.appId}/statements`;
  const admin = (method: string, rest = "", body?: object) =>
    call(method, `${path}${rest}`, { key: env.ADMIN_TOKEN, ...(body === undefined ? {} : { body }) });
  const post = (rest: string, body: object) => call("POST", `/api/v1/${rest}`, { key, body });
  const use = (tokens: number, eventId: string) =>
    post("usage/events", { eventId, userId: "ana", event: "chat", quantities: { tokens, count: 0 } });
  return {
    ...{ app, clock, call, key, packId, path, admin, post, use },
    ask: (month = "2026-01", mode = "live") => admin("POST", "", { mode, month }),
    make: () => runPart(makeStatements, makeAdminCtx(clock)),
  };
}

it("the statement of a month takes two trips a page, and reads balances and entries since the month began, not older balances", async () => {
  const { clock, ask, make, post, packId } = await world();
  // Statements that other tests requested are made first.
  await make();
  const used = Array.from({ length: 20 }, (_, n) => `old ${n}`);
  for (const externalRef of used) {
    const { balances } = (await post("credits/grant", { userId: "ana", packId, externalRef })).body;
    await post("credits/revoke", { balanceId: balances[0].balanceId });
  }
  clock.ms = FEBRUARY;
  await post("credits/grant", { userId: "ana", packId, source: "grant" });
  clock.ms = Date.UTC(2026, 2, 1) + HOUR_MS;
  await ask("2026-02");
  const { d1, spent } = countingD1(env.DB);
  const root = systemCtx(bound({ DB: d1 }), { isolate: {}, now: clock.now, newId: randomId });
  const before = (await env.DB.prepare("SELECT count(*) AS n FROM accounts").first<number>("n")) ?? 0;
  expect(await runPart(makeStatements, root)).toEqual([]);
  const { roundTrips, rowsRead } = spent();
  const pages = Math.ceil(before / 200);
  expect(roundTrips).toBeLessThanOrEqual(1 + 2 * pages + 2);
  // Each statement of a page finds its end among 200 accounts. Of the user's 40 entries of January only one is read.
  expect(rowsRead).toBeLessThanOrEqual(8 * before + 36);
});

it("the statement of a month can be requested from an hour after the month's end, is made by the cron, and is the same for a repeated request", async () => {
  const { app, clock, ask, admin, make, post, use, packId } = await world();
  await post("credits/grant", { userId: "ana", packId, source: "purchase" });
  await use(300, "e1");
  await post("usage/reservations", {
    userId: "ana",
    event: "chat",
    quantities: { tokens: 100, count: 0 },
    expiresInSeconds: 86_400,
  });
  clock.ms = FEBRUARY + HOUR_MS - 1;
  expectError(await ask(), "invalid_request", "month");
  clock.advance(1);
  expectError(await ask("2026-02"), "invalid_request", "month");
  const first = await ask();
  expect(first.body).toEqual({
    statementId: expect.stringMatching(/^stm_/),
    ...{ mode: "live", month: "2026-01", status: "running", madeAt: null, lines: null },
  });
  const { statementId } = first.body;
  expectError(await admin("GET", `/${statementId}.csv`), "temporarily_unavailable");
  expect(await make()).toEqual([]);
  const line = {
    ...{ unit: "tokens", packId, packName: "=Starter", opening: 0, spent: 300, closing: 700.5, held: 0 },
    granted: { purchase: 1000.5, grant: 0, refund: 0, manual: 0, payment: 0, recurring: 0 },
    ...{ refunded: 0, taken: 0, restored: 0, revoked: 0, adjusted: 0, erased: 0, expired: 0 },
  };
  const statement = (await admin("GET", `/${statementId}`)).body;
  expect(statement).toEqual({
    ...{ statementId, mode: "live", month: "2026-01", status: "ready", madeAt: "2026-02-01T01:00:00.000Z" },
    lines: [{ ...line, held: 100 }],
  });
  // Later entries change nothing.
  await use(50, "e2");
  expect((await ask()).body).toEqual(statement);
  expect(await make()).toEqual([]);
  expect((await admin("GET", `/${statementId}`)).body).toEqual(statement);
  const { entries } = (
    await makeClient(clock)("GET", `/api/v1/admin/apps/${app.appId}/audit`, { key: env.ADMIN_TOKEN })
  ).body;
  expect(entries.filter(({ action }: { action: string }) => action === "statement.created")).toMatchObject([
    { target: statementId, details: { mode: "live", month: "2026-01" } },
  ]);
});

it("the statement of a month is CSV that a spreadsheet can open: a header, plain numbers, and no formula", async () => {
  const { clock, call, ask, make, path, post, use, packId } = await world();
  await post("credits/grant", { userId: "ana", packId, source: "manual" });
  await use(0.5, "e1");
  clock.ms = FEBRUARY + HOUR_MS;
  const { statementId } = (await ask()).body;
  await make();
  const answer = await call("GET", `${path}/${statementId}.csv`, { key: env.ADMIN_TOKEN });
  expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect(answer.headers.get("content-disposition")).toContain("attachment");
  const raw = await call("GET", `${path}/${statementId}.csv?raw=true`, { key: env.ADMIN_TOKEN });
  expect(raw.body).toBe(answer.body.replace("'=Starter", "=Starter"));
  expectError(
    await call("GET", `${path}/${statementId}.csv?raw=1`, { key: env.ADMIN_TOKEN }),
    "invalid_request",
    "raw",
  );
  expect(answer.body.replace(/^\ufeff/, "")).toBe(
    "unit,packId,packName,opening,granted.purchase,granted.grant,granted.refund,granted.manual,granted.payment,granted.recurring," +
      "spent,refunded,taken,restored,revoked,adjusted,erased,expired,closing,held\r\n" +
      `"tokens","${packId}","'=Starter",0,0,0,0,1000.5,0,0,0.5,0,0,0,0,0,0,0,1000,0\r\n`,
  );
});

it("the statement of a month has the units' names in the CSV's last column if some unit has a name, whether the CSV is raw or not", async () => {
  const { app, clock, call, path, ask, make, post, packId } = await world();
  await post("credits/grant", { userId: "ana", packId });
  const creditPack = await makePack(app.appId, "Credits", [{ amountMinor: 5_000, unit: "count" }]);
  await post("credits/grant", { userId: "ana", packId: creditPack });
  clock.ms = FEBRUARY + HOUR_MS;
  const { statementId } = (await ask()).body;
  await make();
  const body = { mode: "live", names: { count: { one: "credit", other: "=credits" } } };
  await call("PUT", `/api/v1/admin/apps/${app.appId}/unit-names`, { key: env.ADMIN_TOKEN, body });
  for (const [query, name] of [
    ["", "'=credits"],
    ["?raw=true", "=credits"],
  ]) {
    const answer = await call("GET", `${path}/${statementId}.csv${query}`, { key: env.ADMIN_TOKEN });
    const rows = answer.body
      .trim()
      .replace(/^\ufeff/, "")
      .split("\r\n")
      .map((row: string) => row.split(","));
    const ends = new Map(rows.map((row: string[]) => [row[0], row.at(-1)]));
    expect(Object.fromEntries(ends)).toEqual({ unit: "unitName", '"count"': `"${name}"`, '"tokens"': '""' });
  }
});

it("the statement of a month counts credits that expired in the month, and opens with the previous month's closing", async () => {
  const { clock, ask, make, post, packId } = await world();
  await post("credits/grant", { userId: "ana", packId, expiresAt: "2026-02-10T00:00:00Z" });
  clock.ms = Date.UTC(2026, 2, 1) + HOUR_MS;
  const [january, february] = [await ask("2026-01"), await ask("2026-02")];
  await make();
  const lineOf = async ({ body }: typeof january) => (await ask(body.month)).body.lines[0];
  expect(await lineOf(january)).toMatchObject({ opening: 0, closing: 1000.5, expired: 0 });
  expect(await lineOf(february)).toMatchObject({ opening: 1000.5, closing: 0, expired: 1000.5 });
});

it("the statement of a month counts what a hold used of credits that had expired as spent in its month, and no longer as expired", async () => {
  const { clock, ask, make, post, packId } = await world();
  await post("credits/grant", { userId: "ana", packId, expiresAt: "2026-01-31T23:59:59Z" });
  clock.ms = FEBRUARY - 60_000;
  const hold = { reservationId: "res_1", userId: "ana", event: "chat", quantities: { tokens: 400, count: 0 } };
  await post("usage/reservations", hold);
  clock.ms = FEBRUARY + 60_000;
  const commit = { eventId: "e1", quantities: { tokens: 300, count: 0 } };
  expect((await post("usage/reservations/res_1/commit", commit)).status).toBe(200);
  clock.ms = Date.UTC(2026, 2, 1) + HOUR_MS;
  const [january, february] = [await ask("2026-01"), await ask("2026-02")];
  await make();
  const lineOf = async ({ body }: typeof january) => (await ask(body.month)).body.lines[0];
  expect(await lineOf(january)).toMatchObject({ opening: 0, spent: 0, expired: 1000.5, closing: 0, held: 0 });
  expect(await lineOf(february)).toMatchObject({ opening: 0, spent: 300, expired: -300, closing: 0, held: 0 });
});

it("the statement of a month has no line of zeros, and no lines for an empty month", async () => {
  const { clock, ask, make, admin } = await world();
  clock.ms = FEBRUARY + HOUR_MS;
  const { statementId } = (await ask("2025-03")).body;
  await ask("2026-01");
  await make();
  expect((await admin("GET", `/${statementId}`)).body.lines).toEqual([]);
  const { statements } = (await admin("GET", "?mode=live")).body;
  expect(statements.map(({ month }: { month: string }) => month)).toEqual(["2026-01", "2025-03"]);
  expect((await admin("GET", "?mode=test")).body).toEqual({ statements: [] });
});

it("the statement of a month is rejected for invalid months and unknown or foreign ids, and nothing is written", async () => {
  const { clock, ask, admin } = await world();
  clock.ms = FEBRUARY + HOUR_MS;
  for (const month of ["2026-13", "2026-1", "January", "", "2026-01-01"]) {
    expectError(await ask(month), "invalid_request", "month");
  }
  expectError(await ask("2026-01", "both"), "invalid_request", "mode");
  expectError(await admin("POST", "", { mode: "live", month: "2026-01", lines: [] }), "invalid_request", "lines");
  expectError(await admin("GET", "/stm_none"), "not_found", "statementId");
  expectError(await admin("GET", "/stm_none.csv"), "not_found", "statementId");
  expect((await admin("GET", "?mode=live")).body).toEqual({ statements: [] });
  const other = await world();
  other.clock.ms = clock.ms;
  const { statementId } = (await other.ask()).body;
  expectError(await admin("GET", `/${statementId}`), "not_found", "statementId");
});

it("the statement of a month uses the test clock's time if the environment has a clock", async () => {
  const w = await clockWorld();
  await w.grant();
  await w.move(62 * DAY_MS);
  const body = { mode: "test", month: "2026-02" };
  const { statementId } = (await w.admin("POST", "/statements", body)).body;
  expect(await runPart(makeStatements, makeAdminCtx(w.clock))).toEqual([]);
  expect((await w.admin("GET", `/statements/${statementId}`)).body).toMatchObject({
    madeAt: w.at(62 * DAY_MS),
    lines: [{ opening: 100, closing: 100 }],
  });
});

it("the statement of a month counts each user of several pages once, even if credits change meanwhile", async () => {
  const { app, clock, ask, make, post } = await world();
  const users = Array.from({ length: 210 }, (_, n) => `user ${n}`);
  await seedBalancesOfMany(app.environments.live, new Map(users.map((userId) => [userId, 1])));
  clock.ms = FEBRUARY + HOUR_MS;
  await ask();
  const use = (userId: string) =>
    post("usage/events", { eventId: userId, userId, event: "chat", quantities: { cents: 0.5, count: 0 } });
  const spending = users.filter((_, n) => n % 5 === 0);
  const [failures, ...used] = await Promise.all([make(), ...spending.map(use)]);
  expect(failures).toEqual([]);
  expect(used.map(({ status }) => status)).toEqual(spending.map(() => 200));
  expect((await ask()).body.lines).toMatchObject([{ unit: "cents", opening: 210, spent: 0, closing: 210 }]);
});

it("the statement of a month is created once by concurrent requests", async () => {
  const { clock, ask, admin } = await world();
  clock.ms = FEBRUARY + HOUR_MS;
  const answers = await Promise.all(Array.from({ length: 10 }, () => ask()));
  expect(new Set(answers.map(({ body }) => body.statementId)).size).toBe(1);
  expect((await admin("GET", "?mode=live")).body.statements).toHaveLength(1);
});

it("the statement of a month counts each page once, whichever trip of the cron fails, and with any number of concurrent crons", async () => {
  for (const fault of FAULTS) {
    for (let at = 1; at <= 5; at++) {
      const { clock, ask, make, post, packId } = await world();
      await post("credits/grant", { userId: "ana", packId, source: "manual" });
      clock.ms = FEBRUARY + HOUR_MS;
      await ask();
      const faulty = faultyD1(env.DB);
      faulty.plan({ fault, at });
      const root = systemCtx(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId: randomId });
      await runPart(makeStatements, root);
      await Promise.all([make(), make(), make()]);
      await make();
      expect((await ask()).body.lines, `${fault} ${at}`).toMatchObject([
        { granted: { manual: 1000.5 }, closing: 1000.5 },
      ]);
    }
  }
});
