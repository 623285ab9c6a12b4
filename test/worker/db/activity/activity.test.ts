import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { readActivity } from "../../../../src/dashboard/figures/read.ts";
import { flushActivity, pendingFlush } from "../../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { bound, Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";

/** An application that granted, spent, rejected and exported something, on two days. */
async function busy() {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const key = app.keys.sk_live;
  await makePack(app.appId, "Pack", [{ amountMinor: 5_000, unit: "tokens" }]);
  await makeOpenAmountPack(app.appId, "Legacy", "cents");
  const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key, body });
  const event = (eventId: string, tokens: number) =>
    post("usage/events", { eventId, userId: "u1", event: "e", quantities: { count: 0, tokens } });

  const grant = { userId: "u1", packId: "pack", externalRef: "order-1", expiresAt: "2026-01-20T00:00:00Z" };
  await post("credits/grant", grant);
  await post("credits/grant", grant);
  await post("credits/grant", { userId: "u1", packId: "no such pack" });
  await post("credits/grant", { userId: "u1", packId: "legacy" });
  await event("e1", 1.5);
  await event("e1", 1.5);
  await event("e2", 100);
  const { downloadUrl } = (await post("export-person", { distinctId: "u1" })).body;
  await call("GET", downloadUrl);
  clock.advance(DAY_MS);
  await event("e3", 2);
  return { app, clock };
}

/** Rows of last uses: on each of two days the key's, and the user's with an index row. */
const SEEN_ROWS = 2 * (1 + 2);
/** Rows of a shortage and two rejected grants, each with an index row. */
const REJECTED_ROWS = 3 * 2;

it("the figures by day count what was granted, spent, rejected, short, created and opened, and no replays", async () => {
  const { app, clock } = await busy();
  await flushActivity(bound());
  const ctx = makeCtx(app.environments.live, clock);
  const figure = async (kind: Parameters<typeof readActivity>[1]) =>
    (await readActivity(ctx, kind, clock.ms - DAY_MS, 2)).map(({ unit, days }) => [
      unit,
      days.map(({ value }) => value),
    ]);

  expect(await figure("granted")).toEqual([["tokens", [5, 0]]]);
  expect(await figure("spent")).toEqual([["tokens", [1.5, 2]]]);
  expect(await figure("failed_grant")).toEqual([[null, [2, 0]]]);
  expect(await figure("shortage")).toEqual([[null, [1, 0]]]);
  expect(await figure("minted")).toEqual([[null, [1, 0]]]);
  expect(await figure("opened")).toEqual([[null, [1, 0]]]);
  const other = makeCtx(app.environments.test, clock);
  expect(await readActivity(other, "granted", clock.ms, 1)).toMatchObject([{ unit: null, days: [{ value: 0 }] }]);
});

it("the figures by day add up over many writes, and cost a row for each kind, day, unit and pack of a write", async () => {
  const { app, clock } = await busy();
  const counting = countingD1(env.DB);
  await flushActivity(bound({ DB: counting.d1 }));
  expect(counting.spent()).toMatchObject({ roundTrips: 6, rowsWritten: 11 + SEEN_ROWS + REJECTED_ROWS });
  await flushActivity(bound({ DB: counting.d1 }));
  expect(counting.spent().roundTrips).toBe(0);

  const call = makeClient(clock);
  const body = { userId: "u2", packId: "pack" };
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  await flushActivity(bound());
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
  await flushActivity(bound());
  const ctx = makeCtx(app.environments.live, clock);
  expect(await readActivity(ctx, "granted", clock.ms, 1)).toMatchObject([{ unit: "tokens", days: [{ value: 10 }] }]);
});

it("the figures by day are written by one writer at a time, and again by the next one if a writer disappears", async () => {
  // The writer's wait for further figures is not tested here.
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  const { clock } = await busy();
  const first = pendingFlush(bound(), clock.ms);
  expect(first).not.toBeNull();
  expect(pendingFlush(bound(), clock.ms)).toBeNull();
  const second = pendingFlush(bound(), clock.ms + 60_000);
  expect(second).not.toBeNull();
  await Promise.all([first, second]);
  expect(pendingFlush(bound(), clock.ms)).toBeNull();
});

it("the figures by day are lost, and never counted twice, if their writing fails", async () => {
  const { app, clock } = await busy();
  const failingD1 = {
    prepare: () => {
      throw new Error("Network connection lost.");
    },
  } as unknown as D1Database;
  await expect(flushActivity(bound({ DB: failingD1 }))).rejects.toThrow();
  await flushActivity(bound());
  const ctx = makeCtx(app.environments.live, clock);
  expect(await readActivity(ctx, "minted", clock.ms - DAY_MS, 2)).toMatchObject([
    { days: [{ value: 0 }, { value: 0 }] },
  ]);
});
