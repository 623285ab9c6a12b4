import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { grantDuePeriods } from "../../../../src/books/recurring/grant-due.ts";
import { PACK_BYTES_MAX } from "../../../../src/catalog/pack.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { creditsWorld, storedBalances } from "../../../support/credits.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RECURRING } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeAdminCtx, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** Rules of about 400 bytes each, all of which pay for `chat`. */
const rules = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    event: `${"*".repeat(190)}chat*${n}`.slice(0, 198),
    model: "*".repeat(198),
  }));
const items = (count: number) =>
  Array.from({ length: count }, () => ({ amountMinor: 1_000, unit: "tokens" as const, matches: rules(100) }));

/** A user whose grants of large packs and of a small one begin tomorrow, and another user with a small one. */
async function worldOf(large: number, itemsOfEach: number) {
  const world = await creditsWorld();
  const key = world.app.keys.sk_live;
  const heavy = await makePack(world.app.appId, "Heavy", items(itemsOfEach));
  await makePack(world.app.appId, "Light", [{ amountMinor: 5_000, unit: "tokens" }]);
  const startsAt = new Date(world.clock.ms + DAY_MS).toISOString();
  const make = (userId: string, recurringId: string, packId: string) =>
    world.call("POST", RECURRING, { key, body: { userId, recurringId, packId, every: "month", startsAt } });
  for (let n = 0; n < large; n++) expect((await make("heavy", `rec_h${n}`, heavy)).status).toBe(200);
  expect((await make("heavy", "rec_last", "Light")).status).toBe(200);
  expect((await make("other", "rec_other", "Light")).status).toBe(200);
  world.clock.advance(DAY_MS);
  return {
    ...world,
    key,
    cron: () => runPart(grantDuePeriods, makeAdminCtx(world.clock)),
    references: async (userId: string) =>
      [...new Set((await storedBalances(world.app, userId)).map(({ external_ref }) => external_ref))].sort(),
    states: async () => {
      const { body } = await world.call("GET", `${RECURRING}?userId=heavy`, { key });
      return Map.groupBy(body.recurring as { status: string }[], ({ status }) => status);
    },
  };
}

const PERIODS_OF_FIVE = ["h0", "h1", "h2", "h3", "h4", "last"].map((id) => `recurring:rec_${id}:1`);

it("due grants of packs that an earlier version took, each of 970 KB are granted by the cron, and so are those of other users in the same run", async () => {
  const world = await worldOf(5, 24);
  expect(await world.cron()).toEqual([]);
  expect(await world.references("other")).toEqual(["recurring:rec_other:1"]);
  expect(await world.references("heavy")).toEqual(PERIODS_OF_FIVE);
  expect(await storedBalances(world.app, "heavy")).toHaveLength(5 * 24 + 1);
});

it("due grants of packs that an earlier version took, each of 970 KB are shown by a list and a plan, and granted by the user's next write", async () => {
  const world = await worldOf(5, 24);
  const list = await world.list({ userId: "heavy" });
  expect(list.body.credits).toHaveLength(5 * 24 + 1);
  const usage = { userId: "heavy", event: "other", quantities: { tokens: 5 } };
  const plan = await world.call("POST", "/api/v1/credits/plan", { key: world.key, body: usage });
  const used = await world.call("POST", "/api/v1/usage/events", {
    key: world.key,
    body: { eventId: "e1", ...usage },
  });
  expect([plan.status, used.status]).toEqual([200, 200]);
  expect(used.body.debits).toEqual(plan.body.debits);
  expect(await world.references("heavy")).toEqual(PERIODS_OF_FIVE);
  expect((await world.list({ userId: "heavy" })).body.credits).toHaveLength(5 * 24);
});

it("due grants of packs that an earlier version took, each of 970 KB that exceed what a user may have are suspended, and the others are granted", {
  timeout: 120_000,
}, async () => {
  const world = await worldOf(12, 24);
  expect(await world.cron()).toEqual([]);
  expect(await world.references("other")).toEqual(["recurring:rec_other:1"]);
  const states = await world.states();
  expect([...states.keys()].sort()).toEqual(["active", "suspended"]);
  expect(await storedBalances(world.app, "heavy")).toHaveLength(24 * ((states.get("active")?.length ?? 0) - 1) + 1);
  expect(states.get("active")?.length).toBeGreaterThan(7);
});

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;
const item = (matches: object[]) => ({ amount: 1, unit: "tokens", matches, priority: 100 });
/** Two items with exactly so many bytes as JSON. Each character of the last event has two. */
const itemsOf = (bytes: number) => {
  const listOf = (count: number, event: string, model: string) => [
    item(rules(100)),
    item([...rules(count), { event, model }]),
  ];
  let count = 0;
  while (bytesOf(listOf(count + 1, "é", "m")) + 2 < bytes) count++;
  const missing = bytes - bytesOf(listOf(count, "é", "m"));
  return listOf(
    count,
    `é${"é".repeat(Math.floor(missing / 4))}`,
    `m${"m".repeat(missing - 2 * Math.floor(missing / 4))}`,
  );
};

it("a pack's items may have 65,536 bytes with their rules, and are rejected with one more, when made and when changed", async () => {
  const { app, call } = await creditsWorld();
  const path = `/api/v1/admin/apps/${app.appId}/packs`;
  const post = (body: object) => call("POST", path, { key: env.ADMIN_TOKEN, body });
  expect(bytesOf(itemsOf(PACK_BYTES_MAX))).toBe(PACK_BYTES_MAX);
  const made = await post({ packName: "Largest", items: itemsOf(PACK_BYTES_MAX) });
  expect(made.status).toBe(200);
  const refused = await post({ packName: "Larger", items: itemsOf(PACK_BYTES_MAX + 1) });
  expectError(refused, "invalid_request", "items");
  expect(refused.body.error.message).toContain("fewer or shorter match rules");
  const patch = { items: itemsOf(PACK_BYTES_MAX + 1) };
  const changed = await call("PATCH", `${path}/${made.body.packId}`, { key: env.ADMIN_TOKEN, body: patch });
  expectError(changed, "invalid_request", "items");
  const { results } = await env.DB.prepare("SELECT name, version FROM credit_packs WHERE app_id = ?")
    .bind(app.appId)
    .all();
  expect(results).toEqual([{ name: "Largest", version: 1 }]);
});
