import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import { grantInput } from "../../../../src/api/credits/grant-credits.ts";
import { grantPack } from "../../../../src/books/credits/grant.ts";
import { recentUsers } from "../../../../src/books/credits/users.ts";
import { walkBusiness } from "../../../../src/dashboard/figures/business.ts";
import { readBusiness } from "../../../../src/dashboard/figures/read-business.ts";
import { flushActivity } from "../../../../src/db/count-activity.ts";
import { DAY_MS, HOUR_MS } from "../../../../src/lib/time.ts";
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

// An isolate keeps a limited number of notes for the figures. This stores those of other test files.
beforeEach(async () => {
  await flushActivity(bound());
  // One walk covers the whole database, and that of another test file would be younger.
  await forgetWalks();
});
afterAll(expectLedgerInvariants);

/** Runs the cron until its walk over the database has ended. */
async function walk(clock: Clock, runs = 3): Promise<void> {
  for (let n = 0; n < runs; n++) expect(await runPart(walkBusiness, makeAdminCtx(clock))).toEqual([]);
}

it("the cron's figures are the users' credits by unit and pack, expired credits by day, and active users, each counted once", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const { live } = app.environments;
  const ctx = makeCtx(live, clock);
  const [calls, tokens] = [
    await makeOpenAmountPack(app.appId, "Calls", "count"),
    await makeOpenAmountPack(app.appId, "Tokens", "tokens"),
  ];
  const grant = (userId: string, packId: string, quantity: number, expiresAt: string | null = null) =>
    grantPack(ctx, grantInput.parse({ userId, packId, quantity, expiresAt }));
  await grant("ana", calls, 2.5);
  await grant("ana", calls, 7, new Date(clock.ms + HOUR_MS).toISOString());
  await grant("bob", calls, 4);
  // A double does not hold their sum exactly.
  await grant("bob", tokens, 8_796_093_022_207.999);
  await grant("bob", tokens, 8_796_093_022_207.999);
  await flushActivity(bound());
  clock.advance(2 * HOUR_MS);
  await Promise.all([walk(clock), walk(clock)]);
  const business = await readBusiness(ctx);
  expect(business).toMatchObject({
    outstanding: [
      { unit: "count", amount: 6.5 },
      { unit: "tokens", amount: 17_592_186_044_415.998 },
    ],
    users: 2,
    active: [
      { days: 7, users: 2 },
      { days: 30, users: 2 },
      { days: 90, users: 2 },
    ],
  });
  expect(business?.byPack.find(({ packId }) => packId === calls)?.amounts).toEqual([{ unit: "count", amount: 6.5 }]);
  const expired = business?.expired(clock.ms - 6 * DAY_MS, 7) ?? [];
  expect(expired.map(({ unit, days }) => [unit, days.at(-1)?.value])).toEqual([["count", 7]]);

  expect(business?.expiring(clock.ms, 30)).toEqual([]);

  // Figures stay for an hour. Then they are computed again, and the old ones are deleted.
  await grant("ana", calls, 100);
  // This balance expires within the span.
  await grant("cem", tokens, 9, new Date(clock.ms + 3 * DAY_MS).toISOString());
  const erasure = { key: app.keys.sk_live, body: { distinctId: "bob" } };
  expect((await makeClient(clock)("POST", "/api/v1/erase-person", erasure)).status).toBe(200);
  await walk(clock);
  expect((await readBusiness(ctx))?.outstanding[0]).toEqual({ unit: "count", amount: 6.5 });
  clock.advance(HOUR_MS);
  await walk(clock);
  const later = await readBusiness(ctx);
  expect(later?.outstanding[0]).toEqual({ unit: "count", amount: 102.5 });
  const expiring = later?.expiring(clock.ms, 30) ?? [];
  expect(expiring.map(({ unit, days }) => [unit, days[3]?.value])).toEqual([["tokens", 9]]);
  // An erased user does not count.
  expect(later?.users).toBe(2);
  const walks = await env.DB.prepare("SELECT count(DISTINCT began_at_ms) AS n FROM business_figures").first("n");
  expect(walks).toBe(1);
});

it("the days of a key's last use and of a user's last activity are recorded after the responses", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const call = makeClient(clock);
  const grant = (userId: string) =>
    call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId, packId, quantity: 1 } });
  for (const userId of ["ana", "ana", "bob"]) expect((await grant(userId)).status).toBe(200);
  await flushActivity(bound());
  clock.advance(DAY_MS);
  await grant("ana");
  await flushActivity(bound());
  const day = Math.floor(clock.ms / DAY_MS);
  const keys = await env.DB.prepare(
    "SELECT last_used_day AS d FROM api_keys WHERE environment_id = ? AND kind = 'secret'",
  )
    .bind(app.environments.live.id)
    .all();
  expect(keys.results).toEqual([{ d: day }]);
  const { users, nextCursor } = await recentUsers(makeCtx(app.environments.live, clock), { limit: 1 });
  expect(users.map(({ userId }) => userId)).toEqual(["ana"]);
  const next = await recentUsers(makeCtx(app.environments.live, clock), { limit: 1, cursor: nextCursor ?? "" });
  expect([next.users.map(({ userId }) => userId), next.nextCursor]).toEqual([["bob"], null]);
});

it("the cron's figures of an application with very many packs are whole, except for the list of packs", async () => {
  const clock = new Clock();
  const { environments } = await makeApp();
  const insert = `INSERT INTO business_figures (environment_id, began_at_ms, kind, label, unit, whole, rest)`;
  await env.DB.batch([
    env.DB.prepare("INSERT INTO business_walks VALUES (1, 0, 2)"),
    env.DB.prepare(
      `${insert} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
       SELECT CAST(? AS INTEGER), 1, 'outstanding', 'cpk_' || i, 'tokens', 0, 1500 FROM n`,
    ).bind(environments.live.id),
    env.DB.prepare(`${insert} VALUES (CAST(? AS INTEGER), 1, 'users', '', '', 400, 0)`).bind(environments.live.id),
  ]);
  expect(await readBusiness(makeCtx(environments.live, clock))).toMatchObject({
    ...{ users: 400, outstanding: [{ unit: "tokens", amount: 3_750 }], isPartial: true },
  });
});
