import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { browse, queryOf } from "../../support/browse.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { entriesSql, liveBalancesSql } from "../../support/seed.ts";
import { isSoak, soakPart, timeoutOf } from "../../support/soak.ts";
import { bound, Clock, makeClient } from "../../support/world.ts";

const DB = env.CROWDED;

/** The number of users, of people and of acts: a million in `npm run soak`, otherwise enough to tell a scan from a page. */
const USERS = isSoak ? 1_000_000 : 6_000;
/** The number of balances of the user `whale`. */
const BALANCES = isSoak ? 36_000 : 1_200;
const AT_ONCE = isSoak ? 20_000 : 2_000;
const DAY = Math.floor(Date.UTC(2026, 0, 15) / DAY_MS);

/** The most rows that most pages may read. */
const ROWS_MAX = 4_000;
/** The most rows that a page about one user may read. Its totals add up at most 10,000 balances. */
const ROWS_OF_USER_MAX = 25_000;
/** The page of usage adds up 10,000 sums by user and 2,000 sums of all users, and reads its largest users' balances and 2,000 entries. */
const ROWS_OF_USAGE_MAX = 17_000;
/** A search reads an index entry and a row of 10,000 users, as much of people, and all packs and keys. */
const ROWS_OF_SEARCH_MAX = 38_000;
/** A page of a verification reads 10,000 entries and their balances. */
const ROWS_OF_VERIFICATION_MAX = Math.min(13_000 + 2.2 * BALANCES, 65_000);

const UNTIL = "(WITH RECURSIVE n(i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?3) SELECT i FROM n)";

/** Inserts users with a balance under a reference, and people with a day of activity. `?1` is the environment. */
const FILL = [
  `INSERT INTO accounts (environment_id, user_id, last_active_day)
   SELECT CAST(?1 AS INTEGER), 'user-' || i, ${DAY} - i % 90 FROM ${UNTIL}`,
  `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor,
     remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
   SELECT a.id, 'crb_rows_' || a.id, 'cpk_rows', 'Seed', 1, 0, 'tokens', '[]', 100, 1000, 1000, 1, 0, 'order-' || i, 0,
     9007199254740991, 1, 1
   FROM ${UNTIL} AS n CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = 'user-' || n.i`,
  `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms,
     last_active_day)
   SELECT CAST(?1 AS INTEGER), 'user-' || i, 0, 1, 1, 1, ${DAY} - i % 90 FROM ${UNTIL}`,
];
/** Inserts sums of each user on two days, more than a page adds up. */
const FILL_USAGE = [DAY - 1, DAY].map(
  (
    day,
  ) => `INSERT INTO usage_days (environment_id, day, account_id, event, model, events, count_high, count_low, tokens_high,
     tokens_low, seconds_high, seconds_low, cents_high, cents_low)
   SELECT a.environment_id, ${day}, a.id, 'chat', 'model-' || i % 5, 1 + i % 7, 0, 0, 0, 1000 * (i + 1), 0, 0, 0, 0
   FROM ${UNTIL} AS n CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = 'user-' || n.i`,
);
/** Inserts more sums of all users together than a page adds up. */
const FILL_TOTALS = [DAY - 1, DAY].map(
  (
    day,
  ) => `INSERT INTO usage_totals (environment_id, day, event, model, events, count_high, count_low, tokens_high, tokens_low,
     seconds_high, seconds_low, cents_high, cents_low)
   SELECT CAST(?1 AS INTEGER), ${day}, 'event-' || i, 'large', 1, 0, 0, 0, 1000, 0, 0, 0, 0 FROM ${UNTIL}`,
);
/** Inserts an expiring balance of each user, and a link to each user's export. */
const FILL_FIGURES = [
  `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor,
     remaining_minor, has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq)
   SELECT a.id, 'crb_expiring_' || a.id, 'cpk_rows', 'Seed', 1, 0, 'tokens', '[]', 100, 1000, 1000, 1, 0,
     ${DAY * DAY_MS}, ${DAY * DAY_MS} + i % 9, 2, 2
   FROM ${UNTIL} AS n CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = 'user-' || n.i`,
  `INSERT INTO export_audit (environment_id, distinct_id, seq, id, action, token_hash, occurred_at_ms)
   SELECT CAST(?1 AS INTEGER), 'user-' || i, 1, 'exp_' || i, 'minted', 'hash', 1 FROM ${UNTIL}`,
];
const ACTS = `INSERT INTO admin_audit (app_id, seq, id, at_ms, actor, action, target, details)
  SELECT ?1, 1 + coalesce((SELECT seq FROM admin_audit WHERE app_id = ?1 ORDER BY seq DESC LIMIT 1), 0) + i - ?2, 'aud_' || i, 1,
    'api', 'pack.changed', 'cpk_' || i % 7, '{}' FROM ${UNTIL}`;

async function fill(appId: string, environmentId: number): Promise<void> {
  const tell = soakPart("rows of the dashboard's pages", USERS, "users");
  for (let from = 0; from < USERS; from += AT_ONCE) {
    const to = Math.min(USERS, from + AT_ONCE);
    await DB.batch([
      ...[...FILL, ...FILL_FIGURES, ...FILL_USAGE].map((sql) => DB.prepare(sql).bind(environmentId, from, to)),
      DB.prepare(ACTS).bind(appId, from, to),
    ]);
    tell(to - from);
  }
  for (const sql of FILL_TOTALS) await DB.prepare(sql).bind(environmentId, 0, 1_500).run();
  const whale = { environmentId, userId: "whale" };
  for (const sql of [...liveBalancesSql(whale, BALANCES), ...entriesSql(whale, BALANCES, 2)]) {
    await DB.prepare(sql).run();
  }
}

describe(`with ${USERS.toLocaleString("en")} users`, () => {
  it("every page of the dashboard reads a bounded number of rows", { timeout: timeoutOf(USERS, 4) }, async () => {
    const clock = new Clock();
    const counting = countingD1(DB);
    const bindings = { DB: counting.d1 };
    await applyD1Migrations(DB, env.TEST_MIGRATIONS);
    const call = makeClient(clock, bindings);
    const admin = async (path: string, body: object) =>
      (await call("POST", `/api/v1/admin/apps${path}`, { key: env.ADMIN_TOKEN, body })).body;
    const { appId } = await admin("", { name: "Crowded" });
    const { key } = await admin(`/${appId}/keys`, { kind: "secret", mode: "live" });
    const { packId } = await admin(`/${appId}/packs`, { packName: "Any", items: [], unit: "tokens" });
    const environmentId = await DB.prepare("SELECT id FROM environments WHERE app_id = ? AND mode = 'live'")
      .bind(appId)
      .first<number>("id");
    await fill(appId, environmentId ?? 0);
    const post = (path: string, body: unknown) => call("POST", `/api/v1/${path}`, { key, body });
    const granted = await post("credits/grant", { userId: "ana", packId, quantity: 5, externalRef: "order-1" });
    const { balanceId } = granted.body;
    for (let n = 0; n < 300; n++)
      await post("usage/events", {
        eventId: `e-${n}`,
        userId: `user-${n}`,
        event: "none",
        quantities: { count: 0, cents: 9 },
      });
    await flushActivity(bound(bindings));

    const browser = browse(clock, bindings);
    await browser.signIn();
    const whale = queryOf({ userId: "whale" });
    const ordinary = [
      "overview",
      "rejections?kind=shortage",
      "rejections?kind=usage_limit",
      ...["granted", "spent", "refunded", "expired", "expiring", "minted", "opened"].flatMap((figure) => [
        `figures${queryOf({ figure, from: "2020-01-01", to: "2030-01-01" })}`,
        `figures${queryOf({ figure, from: "2026-01-15", to: "2026-01-15" })}`,
      ]),
      "packs",
      `packs/${packId}`,
      "users",
      "users?by=id",
      `users${queryOf({ q: "user-" })}`,
      `users${queryOf({ q: "order-" })}`,
      `users${queryOf({ q: "nobody" })}`,
      `users${queryOf({ userId: "ana" })}`,
      `users/balance${queryOf({ balanceId })}`,
      `users/grant${queryOf({ userId: "ana" })}`,
      "people",
      "people?by=id",
      `people${queryOf({ q: "user-" })}`,
      `people${queryOf({ distinctId: "user-1" })}`,
      "recurring",
      "recurring?state=suspended",
      "usage-limits/reached",
      "people/erasures",
      "payments",
      "keys",
      "alerts",
      "webhooks",
      "limits",
      "statements",
      "audit",
      `audit${queryOf({ by: "nobody" })}`,
      `audit${queryOf({ target: "cpk_1" })}`,
    ];
    const ofWhale = [
      `users${whale}`,
      `users${queryOf({ userId: "whale", event: "chat.x", tokens: "5" })}`,
      `users${queryOf({ userId: "whale", reason: "reservation_held" })}`,
      `users${queryOf({ userId: "whale", before: `${DAY * DAY_MS}` })}`,
      `users/balances${whale}`,
      `users/balances${queryOf({ userId: "whale", reference: "none" })}`,
      `users/as-of${queryOf({ userId: "whale", asOf: "2025-01-01T00:00" })}`,
      `users/grant/confirm${queryOf({ userId: "whale", packId, quantity: "5", notes: "why" })}`,
      `users/revoke${queryOf({ balanceId })}`,
      `people${queryOf({ distinctId: "whale" })}`,
    ];
    const read: Record<string, number> = {};
    for (const [pages, most] of [
      [ordinary, ROWS_MAX],
      [ofWhale, ROWS_OF_USER_MAX],
      [["usage?from=2026-01-01&to=2026-01-15"], ROWS_OF_USAGE_MAX],
      [[`search${queryOf({ q: "ser-1" })}`, `search${queryOf({ q: "a@example.com" })}`], ROWS_OF_SEARCH_MAX],
      [[`users/verify${whale}`], ROWS_OF_VERIFICATION_MAX],
    ] as const) {
      for (const path of pages) {
        counting.spent();
        const answer = await browser.get(`/admin/apps/${appId}/live/${path}`);
        const text = await answer.text();
        if (path.startsWith("usage?")) {
          expect(text).toMatch(/The lists of users (begin on|have only a part of) 2026-01-15/);
          expect(text).toContain("The figures of all users begin on 2026-01-15");
        }
        read[path] = counting.spent().rowsRead;
        expect([200, 303, 400], path).toContain(answer.status);
        expect(read[path], path).toBeLessThanOrEqual(most);
      }
    }
    const [[path, rows] = ["", 0]] = Object.entries(read).toSorted(([, a], [, b]) => b - a);
    console.log(`soak: rows of the dashboard's pages: at most ${rows} rows read, by ${path}`);
    if (isSoak) console.log(JSON.stringify(read));
  });
});
