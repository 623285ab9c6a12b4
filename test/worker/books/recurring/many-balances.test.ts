import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { USER_BALANCES_MAX } from "../../../../src/books/credits/grant.ts";
import { ENTRY_KINDS } from "../../../../src/db/schema.ts";
import { creditsWorld } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RECURRING } from "../../../support/paths.ts";
import { isSoak } from "../../../support/soak.ts";
import { makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** A recurring grant whose balances never expire, with `count` of them. All but `spendable` are depleted. */
async function manyBalances(count: number, spendable: number) {
  const { app, call } = await creditsWorld();
  const key = app.keys.sk_live;
  const environmentId = app.environments.live.id;
  await makePack(app.appId, "Free", [{ amountMinor: 1_000, unit: "tokens" }]);
  const body = { recurringId: "rec_many", userId: "u", packId: "Free", every: "day", rolloverPeriods: null };
  expect((await call("POST", RECURRING, { key, body })).status).toBe(200);
  const account = "(SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = 'u')";
  const issue = env.DB.prepare(
    `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor,
       remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
     WITH RECURSIVE n (i) AS (SELECT CAST(?2 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
     SELECT account_id, 'crb_' || account_id || printf('_%018d', i), pack_id, pack_name, pack_number, item_number, unit, matches, priority,
       initial_minor, remaining_minor, 1, source_number, 'recurring:rec_many:' || i, granted_at_ms, expires_at_ms,
       (SELECT max(seq) FROM credit_ledger WHERE account_id = ${account}) + 1 + i - CAST(?2 AS INTEGER),
       (SELECT max(seq) FROM credit_ledger WHERE account_id = ${account}) + 1 + i - CAST(?2 AS INTEGER)
     FROM n CROSS JOIN (SELECT * FROM credit_balances WHERE account_id = ${account} ORDER BY grant_seq LIMIT 1)`,
  );
  const depleted = count - spendable;
  if (depleted > 0) {
    await env.DB.batch([
      issue.bind(environmentId, 2, depleted + 1),
      env.DB.prepare(
        `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, occurred_at_ms)
         SELECT account_id, last_seq + CAST(?2 AS INTEGER), grant_seq, -remaining_minor, 0, last_seq, ${ENTRY_KINDS.adjustment}, 0, granted_at_ms
         FROM credit_balances WHERE account_id = ${account} AND grant_seq > 1 ORDER BY grant_seq`,
      ).bind(environmentId, depleted),
    ]);
  }
  await issue.bind(environmentId, depleted + 2, count).run();
  const post = (path: string, body: object) => call("POST", path, { key, body });
  return {
    ...{ post, environmentId },
    cancel: () => post(`${RECURRING}/rec_many/cancel`, { at: "now", reason: "left" }),
    unrevoked: () =>
      env.DB.prepare(
        `SELECT count(*) AS count, coalesce(sum(remaining_minor), 0) AS minor FROM credit_balances
         WHERE account_id = ${account} AND revoked_at_ms IS NULL`,
      )
        .bind(environmentId)
        .first(),
  };
}

it("a cancellation now revokes 29,000 balances, whose ids are more than one value of D1 can have, in one write", {
  timeout: 300_000,
}, async () => {
  const world = await manyBalances(29_000, 29_000);
  const answer = await world.cancel();
  expect([answer.status, answer.body.status]).toEqual([200, "ended"]);
  expect(await world.unrevoked()).toEqual({ count: 0, minor: 0 });
});

it.runIf(isSoak)(
  "a cancellation now revokes more than 40,000 balances in several writes: first those that can be spent",
  { timeout: 600_000 },
  async () => {
    const world = await manyBalances(USER_BALANCES_MAX + 2, 5);
    expect(await world.unrevoked()).toEqual({ count: USER_BALANCES_MAX + 2, minor: 5_000 });
    expect((await world.cancel()).body.status).toBe("ended");
    expect(await world.unrevoked()).toEqual({ count: 0, minor: 0 });
    const taken = await env.DB.prepare(
      `SELECT count(*) AS entries, min(iif(delta_minor = 0, seq, NULL)) > max(iif(delta_minor < 0, seq, NULL)) AS in_order
       FROM credit_ledger WHERE account_id = (SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = 'u') AND note = 'left'`,
    )
      .bind(world.environmentId)
      .first();
    expect(taken).toEqual({ entries: USER_BALANCES_MAX + 2, in_order: 1 });
  },
);
