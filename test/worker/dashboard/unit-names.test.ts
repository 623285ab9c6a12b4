import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { openDashboard } from "../../support/browse.ts";
import { sumDaysOf } from "../../support/cron.ts";
import { makePricedSpender } from "../../support/metered.ts";
import { makeAdminCtx, makeClient } from "../../support/world.ts";

it("the pages show an application's own name of a unit wherever a person reads an amount in it, and not after it ends", async () => {
  const w = await makePricedSpender([{ amountMinor: 7_000, unit: "count" }]);
  const call = makeClient(w.clock);
  const setNames = (names: object) =>
    call("PUT", `/api/v1/admin/apps/${w.app.appId}/unit-names`, {
      key: env.ADMIN_TOKEN,
      body: { mode: "live", names },
    });
  await setNames({ count: { one: "credit", other: "credits" }, cents: { one: "coin", other: "coins" } });
  await w.setPrices([{ event: "image", unit: "count", perEvent: 2 }]);
  await w.setPrices([{ event: "image", unit: "count", perEvent: 1 }]);
  expect((await w.spend("e1", { event: "image", meters: {} })).status).toBe(200);
  expect((await w.reserve({ reservationId: "res_1", event: "image", meters: {} })).status).toBe(200);
  const wallet = { packName: "Wallet", defaultExpiryDays: null, items: [], unit: "count" };
  const pack = await call("POST", `/api/v1/admin/apps/${w.app.appId}/packs`, { key: env.ADMIN_TOKEN, body: wallet });
  expect(pack.status).toBe(200);
  const limits = `/api/v1/admin/apps/${w.app.appId}/usage-limits`;
  const limit = { mode: "live", name: "Daily", unit: "count", amount: 9, every: "day" };
  expect((await call("POST", limits, { key: env.ADMIN_TOKEN, body: limit })).status).toBe(200);
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const pages = await openDashboard(w.app, w.clock);
  const read = async (path: string) =>
    (await pages.read(path)).text.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  const userId = encodeURIComponent(w.userId);
  const { balanceId } = (await w.get(`/api/v1/credits?userId=${userId}`)).body.credits[0];
  const shown: readonly (readonly [path: string, text: string])[] = [
    [`users?userId=${userId}`, "of 7 credits"],
    [`users?userId=${userId}`, "1 credit"],
    [`users/balance?balanceId=${balanceId}`, "5 of 7 credits"],
    [`users/balance?balanceId=${balanceId}`, "1 credit more"],
    ["users/event?eventId=e1", "1 credit"],
    ["packs", "7 credits"],
    ["users/grant", "Wallet (any quantity of credits)"],
    ["usage-limits", "9 credits"],
    ["usage", "credits"],
    ["overview", "credits"],
    ["figures?figure=granted", "count (credits)"],
    ["prices?event=image", "1 credit"],
    ["prices?event=image", "rule 1 (credits)"],
    ["prices/1", "2 any meters credits"],
    ["prices/compare", "credits an event: 2 → 1"],
    ["prices/margin", "Debited, in coins, and cost, in cents"],
    ["prices/compare", "1 credit"],
  ];
  for (const [path, text] of shown) expect(await read(path), path).toContain(text);
  for (const path of new Set(shown.map(([path]) => path))) expect(await read(path), path).not.toMatch(/\d count\b/);
  await setNames({});
  expect(await read("users/event?eventId=e1")).toContain("1 count");
  expect(await read("packs")).toContain("7 count");
});
