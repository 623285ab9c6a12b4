import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { openDashboard } from "../../support/browse.ts";
import { sumDaysOf } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { makeAdminCtx, makeClient } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

it("cents are shown as money of the wallets' currency, with the exact amount on hover, and in cents where they have a name or no currency", async () => {
  const w = await paymentsWorld();
  for (const userId of ["ana", "bob"])
    await w.post("credits/grant", { userId, packId: "wallet", quantity: 279.123456 });
  const { read, send } = await openDashboard(w.app, w.clock);
  const admin = (path: string, body: object) =>
    makeClient(w.clock)("PUT", `/api/v1/admin/apps/${w.app.appId}/${path}`, { key: env.ADMIN_TOKEN, body });
  const balances = async () => (await read("users/balances?userId=ana")).text;
  expect(await balances()).toContain('<span title="279.123456 cents">$2.79</span>');
  expect((await read("users?userId=ana")).text).toContain("$2.79 of $2.79");
  // The file has the amount itself.
  expect((await read("users/balances.csv?userId=ana")).text).toContain(",279.123456,");
  // A preview of prices has both amounts in the same form.
  const list = { rules: [{ unit: "cents", per: { input: 0.0015 } }] };
  expect((await admin("prices", { mode: "live", ...list })).status).toBe(200);
  const event = { eventId: "e1", userId: "bob", event: "chat", meters: { input: 100_000 } };
  expect((await w.post("usage/events", event)).status).toBe(200);
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const draft = { ifVersion: "1", "rules.0.unit": "cents", "rules.0.per": "input 0.002" };
  const review = (await (await send("prices/review", draft)).text()).replaceAll(/<[^>]+>/g, "").replaceAll(/\s+/g, " ");
  expect(review).toContain("$2.00 instead of $1.50.");

  const names = { cents: { one: "point", other: "points" } };
  expect((await admin("unit-names", { mode: "live", names })).status).toBe(200);
  expect(await balances()).toContain("279.123456 points");
  expect((await admin("unit-names", { mode: "live", names: {} })).status).toBe(200);
  expect((await admin("stripe", { mode: "live", setting: null })).status).toBe(200);
  expect(await balances()).toContain("279.123456 of 279.123456 cents");
});
