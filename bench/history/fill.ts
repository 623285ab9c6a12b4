/** Events of an account as the API writes them: its first list by the API, the others by SQL in the shape of those rows. */
import { createHash, randomBytes } from "node:crypto";

/** The most events of a list, and how many one batch of SQL writes: D1 allows 2 MB for a value. */
const OF_LIST = 100;
const OF_BATCH = 10_000;
/** A stored fingerprint begins with 22 characters of a hash and 6 of a random id. The marks of the body's fields follow. */
const MARKS_FROM = 29;

export const usage = { event: "chat.completed", model: "small-2", quantities: { tokens: 120, cents: 0.036 } };

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Ids as callers make them, which do not compress. */
export const uuid = (index: number): string => {
  const digits = digest(String(index)).toString("hex");
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20, 32)}`;
};

export const eventIdOf = (userId: string, index: number): string => `${userId}_${uuid(index)}`;

export interface Filler {
  readonly db: D1Database;
  readonly post: (path: string, body: object) => Promise<unknown>;
  /**
   * Runs statements as one batch inside a Worker. Miniflare's `db` keeps every statement with its values until Node collects them,
   * in an isolate whose heap a million events would fill.
   */
  readonly write: (statements: readonly (readonly [sql: string, ...values: (string | number)[]])[]) => Promise<unknown>;
}

export const grantCents = ({ post }: Filler, userId: string) =>
  post("/api/v1/credits/grant", { userId, packId: "cents", externalRef: `first_${userId}` });

export async function accountOf({ db }: Filler, userId: string): Promise<number> {
  const row = await db.prepare("SELECT id FROM accounts WHERE user_id = ?").bind(userId).first<{ id: number }>();
  if (row === null) throw new Error(`${userId} has no account`);
  return row.id;
}

/** Grants to a new user and records events in lists of 100. */
export async function fillByApi(filler: Filler, userId: string, events: number, properties?: object): Promise<number> {
  await grantCents(filler, userId);
  for (let from = 0; from < events; from += OF_LIST) {
    const list = Array.from({ length: Math.min(OF_LIST, events - from) }, (_, index) => ({
      ...{ ...usage, userId, eventId: eventIdOf(userId, from + index) },
      ...(properties && { properties }),
    }));
    await filler.post("/api/v1/usage/events", list);
  }
  return accountOf(filler, userId);
}

// Each event has one debit of the account's first balance. The triggers of the ledger move that balance, as with the API.
const INSERT_EVENTS = `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, model, count_minor, tokens_minor,
    seconds_minor, cents_minor, properties, occurred_at_ms, received_after_ms, request_hash, debits)
  SELECT first.account_id, CAST(?2 AS INTEGER) + key, first.environment_id, value ->> 0, first.event, first.model, first.count_minor,
    first.tokens_minor, first.seconds_minor, first.cents_minor, first.properties, first.occurred_at_ms + (CAST(?2 AS INTEGER) + key) / ${OF_LIST},
    first.received_after_ms, (value ->> 1) || substr(first.request_hash, ${MARKS_FROM}),
    json_set(first.debits, '$[0][3]', balance.remaining_minor - first.cents_minor * (key + 1))
  FROM json_each(?3), usage_events AS first, credit_balances AS balance
  WHERE first.account_id = ?1 AND first.seq = 1 AND balance.account_id = ?1 AND balance.grant_seq = 1`;

const INSERT_ENTRIES = `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind,
    written_by, event_seq, occurred_at_ms)
  SELECT event.account_id, event.seq + 1, first.grant_seq, first.delta_minor, event.debits ->> '$[0][3]', event.seq, first.kind,
    first.written_by, event.seq, event.occurred_at_ms
  FROM usage_events AS event, credit_ledger AS first
  WHERE event.account_id = ?1 AND event.seq BETWEEN ?2 AND ?3 AND first.account_id = ?1 AND first.seq = 2
  ORDER BY event.seq`;

/** Like `fillByApi`, but only the first list is sent to the API. */
export async function fillBySql(filler: Filler, userId: string, events: number): Promise<number> {
  const accountId = await fillByApi(filler, userId, Math.min(events, OF_LIST));
  for (let from = OF_LIST; from < events; from += OF_BATCH) {
    const rows = Array.from({ length: Math.min(OF_BATCH, events - from) }, (_, index) => {
      const eventId = eventIdOf(userId, from + index);
      const writeId = randomBytes(5).toString("base64url").slice(0, 6);
      return [eventId, digest(eventId).toString("base64url").slice(0, 22) + writeId];
    });
    await filler.write([
      [INSERT_EVENTS, accountId, from + 1, JSON.stringify(rows)],
      [INSERT_ENTRIES, accountId, from + 1, from + rows.length],
    ]);
  }
  return accountId;
}

const COMPARED: Readonly<Record<string, string>> = {
  accounts: "id",
  credit_balances: "account_id",
  credit_ledger: "account_id",
  usage_events: "account_id",
  usage_to_sum: "account_id",
};

/** Throws unless both fillings leave the same rows, but for ids, times, and the hash and random id of fingerprints. */
export async function compareFillings(filler: Filler): Promise<number> {
  const events = 3 * OF_LIST + 1;
  const sides = [
    ["by-api", await fillByApi(filler, "by-api", events)],
    ["by-sql", await fillBySql(filler, "by-sql", events)],
  ] as const;
  const rowsOf = async (table: string, column: string, [userId, accountId]: (typeof sides)[number]) => {
    const { results } = await filler.db.prepare(`SELECT * FROM ${table} WHERE ${column} = ?`).bind(accountId).all();
    const plain = results.map((row) => ({
      ...row,
      ...Object.fromEntries(
        Object.keys(row).flatMap((name) => (name.endsWith("_ms") ? [[name, typeof row[name]]] : [])),
      ),
      ...{ [column]: "", ...(table === "credit_balances" && { id: "" }) },
      // The Worker writes it some seconds after the requests.
      ...(table === "accounts" && { last_active_day: null }),
      ...("request_hash" in row && {
        request_hash: [String(row.request_hash).length, String(row.request_hash).slice(MARKS_FROM + 1)],
      }),
    }));
    return JSON.stringify(plain).replaceAll(userId, "user");
  };
  for (const [table, column] of Object.entries(COMPARED)) {
    const [byApi, bySql] = await Promise.all(sides.map((side) => rowsOf(table, column, side)));
    if (byApi !== bySql) throw new Error(`${table} differs:\n${byApi?.slice(0, 2_000)}\n${bySql?.slice(0, 2_000)}`);
  }
  return events;
}
