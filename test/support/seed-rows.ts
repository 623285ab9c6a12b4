import { env } from "cloudflare:workers";
import { UNITS } from "../../src/books/amounts/amount.ts";
import { ENTRY_KINDS } from "../../src/db/schema.ts";
import { randomId } from "../../src/lib/ids.ts";
import type { Environment } from "../../src/runtime.ts";

const AT_MS = Date.UTC(2025, 10, 3, 9, 15);

async function run(sql: string, ...values: unknown[]): Promise<void> {
  await env.DB.prepare(sql)
    .bind(...values)
    .run();
}

const counter = (from: number, to: number): string =>
  `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})`;

/** Inserts a user's account if it does not exist. Returns its integer id. */
export async function makeAccount(environmentId: number, userId: string): Promise<number> {
  const of = "environment_id = CAST(?1 AS INTEGER) AND user_id = ?2";
  const [, account] = await env.DB.batch<{ id: number }>([
    env.DB.prepare(
      `INSERT INTO accounts (environment_id, user_id)
       SELECT CAST(?1 AS INTEGER), ?2 WHERE NOT EXISTS (SELECT 1 FROM accounts WHERE ${of})`,
    ).bind(environmentId, userId),
    env.DB.prepare(`SELECT id FROM accounts WHERE ${of}`).bind(environmentId, userId),
  ]);
  const id = account?.results[0]?.id;
  if (id === undefined) throw new Error("The account was not inserted.");
  return id;
}

export interface SeededPerson {
  readonly properties?: string;
  readonly isIdentified?: boolean;
}

/** Inserts a person. The first id claims the others by verified claims, in order. */
export async function seedPerson(
  { id: environmentId }: Environment,
  { properties, isIdentified = true }: SeededPerson,
  distinctIds: readonly string[],
): Promise<void> {
  await run(
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, is_identified, is_user, first_seen_at_ms,
       last_seen_at_ms, claimed_by, claimed_via, claimed_at_ms, claim_is_verified, claim_version)
     SELECT CAST(?1 AS INTEGER), value, 0, 1, iif(key = 0, CAST(?2 AS INTEGER), 0), 1, ${AT_MS} + key, ${AT_MS} + 1 + key,
       iif(key = 0, NULL, ?3), iif(key = 0, NULL, 'identify'), iif(key = 0, NULL, ${AT_MS} + key), key > 0, key > 0
     FROM json_each(?4)`,
    environmentId,
    isIdentified ? 1 : 0,
    distinctIds[0] ?? "",
    JSON.stringify(distinctIds),
  );
  if (properties === undefined) return;
  await run(
    "INSERT INTO id_properties (environment_id, distinct_id, properties) VALUES (CAST(? AS INTEGER), ?, ?)",
    environmentId,
    distinctIds[0] ?? "",
    properties,
  );
}

/** Inserts an analytics event for each JSON text of properties. They are anonymous, unless the id belongs to a person. */
export async function seedAnalytics(
  { id: environmentId }: Environment,
  distinctId: string,
  properties: readonly string[],
): Promise<void> {
  const row = await env.DB.prepare(
    "SELECT event_count AS count FROM distinct_ids WHERE environment_id = ? AND distinct_id = ?",
  )
    .bind(environmentId, distinctId)
    .first<{ count: number }>();
  if (row === null) {
    await run(
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms)
       VALUES (CAST(? AS INTEGER), ?, 0, ${AT_MS}, ${AT_MS})`,
      environmentId,
      distinctId,
    );
  }
  // D1 allows at most 2 MB for a value.
  for (let index = 0, size = 0, batch: string[] = []; index < properties.length; index++) {
    const text = properties[index] ?? "{}";
    batch.push(text);
    size += text.length;
    if (size < 500_000 && index + 1 < properties.length) continue;
    const before = (row?.count ?? 0) + index + 1 - batch.length;
    await run(
      `INSERT INTO analytics_events (
         environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties
       )
       SELECT CAST(? AS INTEGER), ?, CAST(? AS INTEGER) + 1 + key, ? || key, 'seen', ${AT_MS} + key, ${AT_MS} + key, value
       FROM json_each(?)`,
      environmentId,
      distinctId,
      before,
      randomId("uuid-"),
      JSON.stringify(batch),
    );
    [batch, size] = [[], 0];
  }
  await run(
    `UPDATE distinct_ids SET event_count = event_count + CAST(? AS INTEGER), event_bytes = event_bytes + CAST(? AS INTEGER)
     WHERE environment_id = ? AND distinct_id = ?`,
    properties.length,
    properties.reduce((sum, text) => sum + text.length, 0),
    environmentId,
    distinctId,
  );
}

/** Inserts usage events without debits, from seq `from` to `to`. */
export async function seedUsage(
  { id: environmentId }: Environment,
  userId: string,
  to: number,
  from = 1,
): Promise<void> {
  await run(
    `INSERT INTO usage_events (
       account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms, received_after_ms,
       request_hash, debits, uncovered
     )
     ${counter(from, to)}
     SELECT CAST(? AS INTEGER), i, CAST(? AS INTEGER), ? || i, 'chat.completed', 1000, ${AT_MS} + i / 3, i - i / 3,
       'hash', '[]', '{"count":1}'
     FROM n`,
    await makeAccount(environmentId, userId),
    environmentId,
    randomId("evt-"),
  );
}

/** Inserts consents, from seq `from` to `to`. */
export async function seedConsents({ id: environmentId }: Environment, distinctId: string, to: number, from = 1) {
  await run(
    `INSERT INTO consent_log (
       environment_id, distinct_id, seq, id, purpose, decision, occurred_at_ms, received_at_ms
     )
     ${counter(from, to)} SELECT CAST(? AS INTEGER), ?, i, ? || i, 'analytics', 'granted', ${AT_MS} + i, ${AT_MS} + i FROM n`,
    environmentId,
    distinctId,
    randomId("con_"),
  );
}

/** Inserts balances of 1,000,000 steps each. Returns their ids. */
export async function seedBalances(
  { id: environmentId }: Environment,
  userId: string,
  count: number,
): Promise<string[]> {
  const balanceIds = Array.from({ length: count }, () => randomId("crb_"));
  await run(
    `INSERT INTO credit_balances (
       account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
       has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq
     )
     SELECT CAST(?1 AS INTEGER), value, 'cpk_1', 'Starter', 1, 1, 'cents', '[]', 100, 1000000, 1000000, 1, 0,
       ${AT_MS}, ${Number.MAX_SAFE_INTEGER}, last.seq + 1 + key, last.seq + 1 + key
     FROM json_each(?2), (SELECT coalesce(max(seq), 0) AS seq FROM credit_ledger WHERE account_id = ?1) AS last
     ORDER BY key`,
    await makeAccount(environmentId, userId),
    JSON.stringify(balanceIds),
  );
  return balanceIds;
}

/** Inserts balances for many users who have none yet. */
export async function seedBalancesOfMany(
  { id: environmentId }: Environment,
  counts: ReadonlyMap<string, number>,
): Promise<void> {
  // D1 allows at most 2 MB for a value.
  const users = [...counts];
  for (let start = 0; start < users.length; start += 500) {
    const batch = JSON.stringify(users.slice(start, start + 500));
    await run(
      "INSERT INTO accounts (environment_id, user_id) SELECT CAST(? AS INTEGER), value ->> 0 FROM json_each(?)",
      environmentId,
      batch,
    );
    await run(
      `INSERT INTO credit_balances (
         account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
         has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq
       )
       ${counter(1, Math.max(...counts.values()))}
       SELECT a.id, 'crb_' || a.id || '_' || n.i, 'cpk_1', 'Starter', 1, 1, 'cents', '[]', 100, 1000000, 1000000, 1,
         0, ${AT_MS}, ${Number.MAX_SAFE_INTEGER}, n.i, n.i
       FROM json_each(?2) AS user
       CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = user.value ->> 0
       CROSS JOIN n ON n.i <= user.value ->> 1
       ORDER BY a.id, n.i`,
      environmentId,
      batch,
    );
  }
}

/**
 * Inserts open reservations of users who have one balance each, a number for each user. Each holds `steps` of the balance, which
 * are `quantities`. The first ends at `expiresAtMs`, and each further one of a user `intervalMs` later.
 */
export async function seedHolds(
  { id: environmentId }: Environment,
  counts: ReadonlyMap<string, number>,
  held: {
    readonly minor: number;
    readonly quantities: object;
    readonly onExpiry?: "return" | "charge";
    readonly createdAtMs: number;
    readonly expiresAtMs: number;
    readonly intervalMs?: number;
  },
): Promise<void> {
  const { minor, quantities, onExpiry = "return", createdAtMs, expiresAtMs, intervalMs = 0 } = held;
  const each = `FROM json_each(?2) AS user
    CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = user.value ->> 0
    CROSS JOIN credit_balances AS b ON b.account_id = a.id
    CROSS JOIN n ON n.i <= user.value ->> 1
    ORDER BY a.id, n.i`;
  const id = "'res_' || a.id || '_' || n.i";
  const reservations = `INSERT INTO reservations (
       environment_id, id, account_id, reservation_number, created_at_seq, event, quantities, legs, state, created_at_ms, expires_at_ms, request_hash,
       is_charged
     )
     ${counter(1, Math.max(...counts.values()))}
     SELECT a.environment_id, ${id}, a.id, n.i, b.last_seq + n.i - 1, 'chat.completed', '${JSON.stringify(quantities)}',
       json_array(json_array(b.grant_seq, (SELECT key FROM json_each('${JSON.stringify(UNITS)}') WHERE value = b.unit), ${minor}, b.remaining_minor - ${minor} * n.i)),
       'open', ${createdAtMs}, ${expiresAtMs} + ${intervalMs} * (n.i - 1), 'hash', ${Number(onExpiry === "charge")}
     ${each}`;
  const entries = `INSERT INTO credit_ledger (
       account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, reservation_number,
       occurred_at_ms
     )
     ${counter(1, Math.max(...counts.values()))}
     SELECT a.id, b.last_seq + n.i, b.grant_seq, -${minor}, b.remaining_minor - ${minor} * n.i, b.last_seq + n.i - 1,
       ${ENTRY_KINDS.hold}, 0, n.i, ${createdAtMs}
     ${each}`;
  const users = JSON.stringify([...counts]);
  await env.DB.batch([reservations, entries].map((sql) => env.DB.prepare(sql).bind(environmentId, users)));
}

/** Debits one step from a balance, `entries` times. */
export async function seedEntries(
  { id: environmentId }: Pick<Environment, "id">,
  userId: string,
  balanceId: string,
  entries: number,
): Promise<void> {
  await run(
    `INSERT INTO credit_ledger (
       account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, event_seq, occurred_at_ms
     )
     ${counter(1, entries)}
     SELECT b.account_id, last.seq + i, b.grant_seq, -1, b.remaining_minor - i,
       iif(i = 1, b.last_seq, last.seq + i - 1), ${ENTRY_KINDS.usage}, 0, i, ${AT_MS} + i
     FROM (
       SELECT max(seq) AS seq FROM credit_ledger WHERE account_id = ?1
     ) AS last, (
       SELECT * FROM credit_balances WHERE account_id = ?1 AND id = ?2 LIMIT 1
     ) AS b, n
     ORDER BY i`,
    await makeAccount(environmentId, userId),
    balanceId,
  );
}
