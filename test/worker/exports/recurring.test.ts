import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { creditsWorld } from "../../support/credits.ts";
import { documentOf, linkTo, open } from "../../support/exports.ts";
import { RECURRING } from "../../support/paths.ts";
import { send } from "../../support/people.ts";
import { makePack } from "../../support/world.ts";

async function world() {
  const credits = await creditsWorld();
  const { app, call, clock } = credits;
  const key = app.keys.sk_live;
  await makePack(app.appId, "Free", [{ amountMinor: 100_000, unit: "tokens" }]);
  const make = async (userId: string, body: object) => {
    const answer = await call("POST", RECURRING, { key, body: { userId, packId: "Free", every: "month", ...body } });
    expect(answer.status).toBe(200);
    return answer.body;
  };
  const listOf = async (userId: string) =>
    (await call("GET", `${RECURRING}?userId=${userId}`, { key })).body.recurring as object[];
  const exported = async (userId: string) => (await documentOf(app, userId, clock)).person?.credits.recurring;
  return { ...credits, key, make, listOf, exported };
}

it("an export has a user's recurring grants, including ended ones, as in the list", async () => {
  const { app, call, clock, key, make, listOf, exported } = await world();
  expect((await documentOf(app, "u", clock)).person).toBeNull();
  await make("u", { recurringId: "rec_z", quantity: undefined });
  await make("u", { recurringId: "rec_a", every: "week" });
  await call("POST", `${RECURRING}/rec_z/cancel`, { key, body: { at: "now" } });
  expect(await exported("u")).toHaveLength(2);
  expect(await exported("u")).toEqual(await listOf("u"));
});

it("an export has a person who has only a recurring grant that has not begun", async () => {
  const { make, listOf, exported } = await world();
  await make("u", { startsAt: "2026-03-01T00:00Z" });
  expect(await exported("u")).toHaveLength(1);
  expect(await exported("u")).toEqual(await listOf("u"));
});

it("an export has only written data: a period that is due but not granted yet is not in it", async () => {
  const { clock, make, listOf, exported } = await world();
  const grant = await make("u", {});
  clock.advance(40 * DAY_MS);
  expect(await exported("u")).toMatchObject([{ nextAt: grant.nextAt }]);
  expect(await listOf("u")).toMatchObject([{ nextAt: "2026-03-15T12:00:00.000Z" }]);
});

it.each([2, 200])(
  "an export has the recurring grants of all %i ids of a person, one id after another",
  async (count) => {
    const { app, call, clock, key, make, listOf } = await world();
    const names = Array.from({ length: count - 1 }, (_, index) => `old ${String(index).padStart(3, "0")}`);
    const identify = (name: string) => ({
      ...{ event: "$identify", distinct_id: "u" },
      properties: { $anon_distinct_id: name },
    });
    await send(call, key, names.map(identify));
    const ids = ["u", ...names.filter((_, index) => index % 50 === 0)];
    for (const id of ids) await make(id, {});
    const document = await documentOf(app, "u", clock);
    expect(document.person?.distinctIds).toHaveLength(count);
    const lists = await Promise.all(ids.map(listOf));
    expect(document.person?.credits.recurring).toEqual(lists.flat());
  },
);

it("an export has the recurring grants of all ids of a person if together they are more than a row of D1 can have", async () => {
  const { app, clock, make } = await world();
  await make("u", { recurringId: "rec_first" });
  // 200 ids with 50 recurring grants each, of some 300 bytes.
  await env.DB.batch(
    [
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
         claimed_via, claimed_at_ms, claim_is_verified)
       WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
       SELECT CAST(?1 AS INTEGER), iif(i = 0, 'u', 'old ' || i), i > 0, 1, 1, iif(i = 0, NULL, 'u'), iif(i = 0, NULL, 'alias'),
         iif(i = 0, NULL, i), i > 0 FROM n`,
      `INSERT INTO accounts (environment_id, user_id) SELECT environment_id, distinct_id FROM distinct_ids
       WHERE environment_id = ?1 AND distinct_id <> 'u'`,
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
       INSERT INTO recurring_grants (account_id, ordinal, environment_id, id, pack_id, pack_name, every, anchor_ms,
         time_zone, anchor_local_ms, utc_offset_ms, rollover_periods, id_seed, state, last_n, final_n, counted_balances, created_at_ms, request_hash)
       SELECT a.id, n.i, a.environment_id, 'rec_' || a.id || '_' || n.i, r.pack_id, r.pack_name, r.every, r.anchor_ms,
         r.time_zone, r.anchor_local_ms, r.utc_offset_ms, r.rollover_periods, r.id_seed, 'ended', 1, 1, 1, r.created_at_ms, r.request_hash
       FROM accounts AS a CROSS JOIN n JOIN recurring_grants AS r ON r.environment_id = a.environment_id AND r.id = 'rec_first'
       WHERE a.environment_id = ?1 AND a.user_id <> 'u' ORDER BY a.id, n.i`,
    ].map((text) => env.DB.prepare(text).bind(app.environments.live.id)),
  );
  const { person } = await documentOf(app, "u", clock);
  expect(person?.credits.recurring).toHaveLength(1 + 200 * 50);
  expect(JSON.stringify(person?.credits.recurring).length).toBeGreaterThan(2_000_000);
});

it("an export has all ids of a person if 4,000 of them are more than a row of D1 can have", async () => {
  const { app, clock } = await world();
  await env.DB.prepare(
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
       claimed_via, claimed_at_ms)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
     SELECT CAST(?1 AS INTEGER), iif(i = 0, 'u', ?2 || i), i > 0, 1, 1, iif(i = 0, NULL, 'u'), iif(i = 0, NULL, 'alias'),
       iif(i = 0, NULL, i) FROM n`,
  )
    .bind(app.environments.live.id, "\u{1f4b8}".repeat(190))
    .run();
  const { person } = await documentOf(app, "u", clock);
  expect(person?.distinctIds).toHaveLength(4_001);
});

it("an export has no recurring grants after an erasure, which ends them", async () => {
  const { app, call, clock, key, make } = await world();
  await make("u", {});
  expect((await call("POST", "/api/v1/erase-person", { key, body: { distinctId: "u" } })).status).toBe(200);
  expect((await documentOf(app, "u", clock)).person).toBeNull();
  const { results } = await env.DB.prepare(
    "SELECT r.state FROM recurring_grants AS r JOIN accounts AS a ON a.id = r.account_id WHERE a.environment_id = ?",
  )
    .bind(app.environments.live.id)
    .all();
  expect(results).toEqual([{ state: "ended" }]);
});

it.each([
  { count: 2_500, status: 200 },
  { count: 9_000, status: 503 },
])(
  "an export of $count recurring grants of one user answers $status, and never fails of their size",
  async ({ count, status }) => {
    const { app, clock, make } = await world();
    await make("u", { recurringId: "rec_first" });
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO recurring_grants (account_id, ordinal, environment_id, id, pack_id, pack_name, every, anchor_ms,
         time_zone, anchor_local_ms, utc_offset_ms, rollover_periods, id_seed, state, last_n, final_n, counted_balances, created_at_ms, request_hash)
       SELECT account_id, n.i, environment_id, 'rec_' || n.i, pack_id, pack_name, every, anchor_ms, time_zone,
         anchor_local_ms, utc_offset_ms, rollover_periods, id_seed, 'ended', 1, 1, 1, created_at_ms, request_hash
       FROM n CROSS JOIN recurring_grants WHERE environment_id = CAST(?1 AS INTEGER) AND id = 'rec_first' ORDER BY n.i`,
    )
      .bind(app.environments.live.id, count)
      .run();
    const answer = await open(await linkTo(app, "u", clock), clock);
    expect(answer.status).toBe(status);
    const body = (await answer.json()) as {
      person?: { credits: { recurring: object[] } };
      error?: { code: string; details: object };
    };
    if (status === 200) expect(body.person?.credits.recurring).toHaveLength(count);
    else expect(body.error).toMatchObject({ code: "export_unavailable", details: { reason: "too_large" } });
  },
);
