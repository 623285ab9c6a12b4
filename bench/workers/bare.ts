/**
 * The Worker that Purser is compared with: the same operations on the same tables, written by hand, with the fewest
 * statements that read before they write. No framework, validation, keys, replays, races or expired holds.
 */
interface BareEnv {
  readonly DB: D1Database;
  readonly APP_ID: string;
}

const ENVIRONMENT_ID = 1;
const NEVER_MS = Number.MAX_SAFE_INTEGER;
const PER_UNIT = 1_000;

// biome-ignore lint/suspicious/noExplicitAny: a hand-written Worker that trusts its own tables
type Row = any;

const newId = (prefix: string) => prefix + crypto.randomUUID().replaceAll("-", "");
const ACCOUNT = "(SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = ?2)";
const lastSeqOf = (account: string) =>
  `coalesce((SELECT seq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1), 0)`;
const ACTIVE = `SELECT * FROM credit_balances WHERE account_id = ${ACCOUNT} AND has_remaining = 1 AND expires_at_ms > ?3`;

const inOrder = (a: Row, b: Row) =>
  a.priority - b.priority ||
  a.expires_at_ms - b.expires_at_ms ||
  a.granted_at_ms - b.granted_at_ms ||
  (a.id < b.id ? -1 : 1);

async function list(db: D1Database, url: URL): Promise<Response> {
  const { results } = await db
    .prepare(ACTIVE)
    .bind(ENVIRONMENT_ID, url.searchParams.get("userId"), Date.now())
    .all<Row>();
  const credits = results.sort(inOrder).map((row) => ({
    balanceId: row.id,
    packId: row.pack_id,
    packName: row.pack_name,
    packItemId: row.pack_item_id,
    kind: row.matches === "[]" ? "generic" : "per_type",
    unit: row.unit,
    remaining: row.remaining_steps / PER_UNIT,
    initial: row.initial_steps / PER_UNIT,
    grantedAt: new Date(row.granted_at_ms).toISOString(),
    expiresAt: row.expires_at_ms === NEVER_MS ? null : new Date(row.expires_at_ms).toISOString(),
    status: "active",
    matches: JSON.parse(row.matches),
    priority: row.priority,
  }));
  return Response.json({ credits });
}

async function history(db: D1Database, url: URL): Promise<Response> {
  const { results } = await db
    .prepare(`SELECT * FROM credit_ledger WHERE account_id = ${ACCOUNT} ORDER BY seq DESC LIMIT ?3`)
    .bind(ENVIRONMENT_ID, url.searchParams.get("userId"), Number(url.searchParams.get("limit") ?? 50))
    .all<Row>();
  const entries = results.map((row) => ({
    id: `led_${row.balance_id}_${row.seq}`,
    balanceId: row.balance_id,
    packId: row.pack_id,
    delta: row.delta_steps / PER_UNIT,
    unit: row.unit,
    reason: row.reason,
    eventId: row.event_id,
    reservationId: row.reservation_id,
    occurredAt: new Date(row.occurred_at_ms).toISOString(),
    note: row.note,
  }));
  return Response.json({ entries, nextCursor: String(results.at(-1)?.seq ?? "") });
}

async function grant({ DB: db, APP_ID: appId }: BareEnv, input: Row): Promise<Response> {
  const { results: items } = await db
    .prepare(
      `SELECT p.name, i.* FROM credit_packs AS p JOIN credit_pack_items AS i ON i.app_id = p.app_id AND i.pack_id = p.id
       WHERE p.app_id = ? AND p.id = ? ORDER BY i.position`,
    )
    .bind(appId, input.packId)
    .all<Row>();
  const issued = items.map((item) => ({
    id: newId("crb_"),
    name: item.name,
    item: item.id,
    unit: item.unit,
    matches: item.matches,
    priority: item.priority,
    steps: item.amount_steps,
  }));
  const account = db
    .prepare(`INSERT INTO accounts (environment_id, user_id) SELECT CAST(?1 AS INTEGER), ?2 WHERE ${ACCOUNT} IS NULL`)
    .bind(ENVIRONMENT_ID, input.userId);
  const issue = db
    .prepare(
      `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_item_id, unit, matches, priority,
         initial_steps, remaining_steps, has_remaining, source, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
       SELECT ${ACCOUNT}, value ->> 'id', ?3, value ->> 'name', value ->> 'item', value ->> 'unit',
         value ->> 'matches', value ->> 'priority', value ->> 'steps', value ->> 'steps', 1, 'purchase', ?4,
         CAST(?5 AS INTEGER), ${NEVER_MS}, last.seq + 1 + key, last.seq + 1 + key
       FROM json_each(?6), (SELECT ${lastSeqOf(ACCOUNT)} AS seq) AS last ORDER BY key`,
    )
    .bind(ENVIRONMENT_ID, input.userId, input.packId, input.externalRef, Date.now(), JSON.stringify(issued));
  await db.batch([account, issue]);
  const balances = issued.map((one) => ({
    balanceId: one.id,
    packItemId: one.item,
    remaining: one.steps / PER_UNIT,
    expiresAt: null,
  }));
  return Response.json({ balances, ...balances[0] });
}

/** The first balance pays all, because the accounts of the benchmark have enough. */
async function payer(db: D1Database, userId: string): Promise<Row> {
  const { results } = await db.prepare(ACTIVE).bind(ENVIRONMENT_ID, userId, Date.now()).all<Row>();
  return results.sort(inOrder)[0];
}

/** A part of a response: what a balance pays or holds. */
const partOf = ({ id, pack_id, unit }: Row, steps: number, remainingSteps: number) => ({
  ...{ balanceId: id, packId: pack_id, unit },
  ...{ amount: steps / PER_UNIT, remaining: remainingSteps / PER_UNIT },
});

interface Entry {
  readonly accountId: number;
  readonly balanceId: string;
  readonly steps: number;
  readonly reason: string;
  readonly eventId?: string;
  readonly reservationId?: string;
}

function entry(db: D1Database, { accountId, balanceId, steps, reason, eventId, reservationId }: Entry) {
  return db
    .prepare(
      `INSERT INTO credit_ledger (account_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps,
         previous_seq, reason, cause, written_by, event_id, reservation_id, occurred_at_ms)
       SELECT account_id, ${lastSeqOf("?1")} + 1, id, pack_id, unit, CAST(?3 AS INTEGER),
         remaining_steps + CAST(?3 AS INTEGER), last_seq, ?4, iif(?4 = 'event_committed', 'usage', 'hold'), 'cron', ?5, ?6, CAST(?7 AS INTEGER)
       FROM credit_balances WHERE account_id = ?1 AND id = ?2`,
    )
    .bind(accountId, balanceId, steps, reason, eventId ?? null, reservationId ?? null, Date.now());
}

function usageRow(
  db: D1Database,
  accountId: number,
  eventId: string,
  event: string,
  steps: number,
  reservation: string | null,
  debits: unknown,
) {
  return db
    .prepare(
      `INSERT INTO usage_events (account_id, occurred_by_ms, seq, environment_id, event_id, event, count_steps, tokens_steps,
         occurred_at_ms, received_at_ms, reservation_id, request_hash, debits)
       SELECT CAST(?2 AS INTEGER), max(CAST(?6 AS INTEGER), coalesce(last.occurred_by_ms, 0)), coalesce(last.seq, 0) + 1,
         CAST(?1 AS INTEGER), ?3, ?4, 0, CAST(?5 AS INTEGER), CAST(?6 AS INTEGER), CAST(?6 AS INTEGER), ?7, '', ?8
       FROM (SELECT 1) LEFT JOIN (SELECT occurred_by_ms, seq FROM usage_events WHERE account_id = ?2
         ORDER BY occurred_by_ms DESC, seq DESC LIMIT 1) AS last`,
    )
    .bind(ENVIRONMENT_ID, accountId, eventId, event, steps, Date.now(), reservation, JSON.stringify(debits));
}

async function usageEvent(db: D1Database, input: Row): Promise<Response> {
  const { userId, eventId } = input;
  const balance = await payer(db, userId);
  const steps = Math.round(input.quantities.tokens * PER_UNIT);
  const debits = [partOf(balance, steps, balance.remaining_steps - steps)];
  const { account_id: accountId, id: balanceId } = balance;
  await db.batch([
    usageRow(db, accountId, eventId, input.event, steps, null, debits),
    entry(db, { accountId, balanceId, steps: -steps, reason: "event_committed", eventId }),
  ]);
  return Response.json({ eventId, debits, uncovered: null });
}

async function reserve(db: D1Database, input: Row): Promise<Response> {
  const { userId, reservationId, event, quantities } = input;
  const balance = await payer(db, userId);
  const { account_id: accountId, id: balanceId, pack_id: packId, unit } = balance;
  const steps = Math.round(quantities.tokens * PER_UNIT);
  const nowMs = Date.now();
  const expiresAtMs = nowMs + 300_000;
  const remainingSteps = balance.remaining_steps - steps;
  const legs = JSON.stringify([{ balanceId, packId, unit, amountSteps: steps, remainingSteps }]);
  await db.batch([
    db
      .prepare(
        `INSERT INTO reservations (environment_id, id, account_id, event, quantities, legs, state, created_at_ms, expires_at_ms,
           request_hash) VALUES (CAST(? AS INTEGER), ?, CAST(? AS INTEGER), ?, ?, ?, 'open', CAST(? AS INTEGER), CAST(? AS INTEGER), '')`,
      )
      .bind(ENVIRONMENT_ID, reservationId, accountId, event, JSON.stringify(quantities), legs, nowMs, expiresAtMs),
    entry(db, { accountId, balanceId, steps: -steps, reason: "reservation_held", reservationId }),
  ]);
  const holds = [partOf(balance, steps, remainingSteps)];
  return Response.json({ reservationId, expiresAt: new Date(expiresAtMs).toISOString(), holds });
}

async function commit(db: D1Database, reservationId: string, input: Row): Promise<Response> {
  const held = await db
    .prepare("SELECT * FROM reservations WHERE environment_id = ? AND id = ?")
    .bind(ENVIRONMENT_ID, reservationId)
    .first<Row>();
  const { account_id: accountId } = held;
  const { eventId } = input;
  const { balanceId, packId, unit, amountSteps, remainingSteps } = JSON.parse(held.legs)[0];
  const steps = Math.round(input.quantities.tokens * PER_UNIT);
  const debits = [partOf({ id: balanceId, pack_id: packId, unit }, steps, remainingSteps + amountSteps - steps)];
  await db.batch([
    db
      .prepare(
        // The database returns the held credits.
        `UPDATE reservations SET state = 'committed', settled_at_ms = CAST(? AS INTEGER), settled_event_id = ?, settled_by = 'cron',
           settled_seq = 1 + (SELECT seq FROM credit_ledger AS l WHERE l.account_id = reservations.account_id ORDER BY seq DESC LIMIT 1)
         WHERE environment_id = ? AND id = ?`,
      )
      .bind(Date.now(), eventId, ENVIRONMENT_ID, reservationId),
    usageRow(db, accountId, eventId, held.event, steps, reservationId, debits),
    entry(db, { accountId, balanceId, steps: -steps, reason: "event_committed", eventId, reservationId }),
  ]);
  return Response.json({ eventId, debits, uncovered: null });
}

export default {
  async fetch(request: Request, env: BareEnv): Promise<Response> {
    const url = new URL(request.url);
    if (request.method === "GET") return url.pathname.endsWith("/history") ? history(env.DB, url) : list(env.DB, url);
    const input: Row = await request.json();
    if (url.pathname.endsWith("/grant")) return grant(env, input);
    if (url.pathname.endsWith("/events")) return usageEvent(env.DB, input);
    if (url.pathname.endsWith("/reservations")) return reserve(env.DB, input);
    return commit(env.DB, url.pathname.split("/").at(-2) ?? "", input);
  },
};
