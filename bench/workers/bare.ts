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

const statement = (db: D1Database, sql: string, ...values: unknown[]) => db.prepare(sql).bind(...values);
const newId = (prefix: string) => prefix + crypto.randomUUID().replaceAll("-", "");
const ACCOUNT = "(SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = ?2)";
const lastSeqOf = (account: string) =>
  `coalesce((SELECT seq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1), 0)`;
const ACTIVE = `SELECT * FROM credit_balances WHERE account_id = ${ACCOUNT} AND has_remaining = 1 AND expires_at_ms > ?3`;

const NEW_USAGE_EVENT = `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor,
    tokens_minor, occurred_at_ms, received_after_ms, reservation_id, request_hash, debits)
  SELECT CAST(?2 AS INTEGER), coalesce(last.seq, 0) + 1,
    CAST(?1 AS INTEGER), ?3, ?4, 0, CAST(?5 AS INTEGER), CAST(?6 AS INTEGER), 0, ?7, '', ?8
  FROM (SELECT 1) LEFT JOIN (SELECT seq FROM usage_events WHERE account_id = ?2 ORDER BY seq DESC LIMIT 1) AS last`;
const NEW_ENTRY = `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by,
    event_seq, reservation_number, occurred_at_ms)
  SELECT account_id, ${lastSeqOf("?1")} + 1, grant_seq, CAST(?3 AS INTEGER), remaining_minor + CAST(?3 AS INTEGER), last_seq,
    iif(?4 = 'event_committed', 0, 1), 0, (SELECT seq FROM usage_events WHERE environment_id = ${ENVIRONMENT_ID} AND event_id = ?5),
    iif(?4 = 'event_committed', NULL, (SELECT reservation_number FROM reservations WHERE environment_id = ${ENVIRONMENT_ID} AND id = ?6)), CAST(?7 AS INTEGER)
  FROM credit_balances WHERE account_id = ?1 AND id = ?2`;
const NEW_BALANCES = `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
    initial_minor, remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
  SELECT ${ACCOUNT}, value ->> 'id', ?3, value ->> 'name', value ->> 'pack', value ->> 'number', value ->> 'unit', value ->> 'matches',
    value ->> 'priority', value ->> 'minor', value ->> 'minor', 1, 1, ?4, CAST(?5 AS INTEGER), ${NEVER_MS},
    last.seq + 1 + key, last.seq + 1 + key
  FROM json_each(?6), (SELECT ${lastSeqOf(ACCOUNT)} AS seq) AS last ORDER BY key`;
const NEW_RESERVATION = `INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms,
    expires_at_ms, request_hash)
  SELECT CAST(?1 AS INTEGER), ?2, CAST(?3 AS INTEGER),
    1 + coalesce((SELECT reservation_number FROM reservations WHERE account_id = ?3 ORDER BY reservation_number DESC LIMIT 1), 0),
    ?4, ?5, ?6, 'open', CAST(?7 AS INTEGER), CAST(?8 AS INTEGER), ''`;
/** The database returns the held credits. */
const SETTLE = `UPDATE reservations SET state = 'committed', settled_at_ms = CAST(? AS INTEGER), settled_event_seq =
      1 + coalesce((SELECT seq FROM usage_events AS u WHERE u.account_id = reservations.account_id ORDER BY seq DESC LIMIT 1), 0),
    settled_seq = 1 + (SELECT seq FROM credit_ledger AS l WHERE l.account_id = reservations.account_id ORDER BY seq DESC LIMIT 1)
  WHERE environment_id = ? AND id = ?`;

const inOrder = (a: Row, b: Row) =>
  a.priority - b.priority ||
  a.expires_at_ms - b.expires_at_ms ||
  a.granted_at_ms - b.granted_at_ms ||
  (a.id < b.id ? -1 : 1);

/** The balances that can pay, in the order of spending. */
async function activeBalances(db: D1Database, userId: string | null): Promise<Row[]> {
  const { results } = await statement(db, ACTIVE, ENVIRONMENT_ID, userId, Date.now()).all<Row>();
  return results.sort(inOrder);
}

async function list(db: D1Database, url: URL): Promise<Response> {
  const credits = (await activeBalances(db, url.searchParams.get("userId"))).map((row) => ({
    balanceId: row.id,
    packId: row.pack_id,
    packName: row.pack_name,
    packItemId: row.pack_item_id,
    kind: row.matches === "[]" ? "generic" : "per_type",
    unit: row.unit,
    remaining: row.remaining_minor / PER_UNIT,
    initial: row.initial_minor / PER_UNIT,
    grantedAt: new Date(row.granted_at_ms).toISOString(),
    expiresAt: row.expires_at_ms === NEVER_MS ? null : new Date(row.expires_at_ms).toISOString(),
    status: "active",
    matches: JSON.parse(row.matches),
    priority: row.priority,
  }));
  return Response.json({ credits });
}

async function history(db: D1Database, url: URL): Promise<Response> {
  const sql = `SELECT l.seq, l.delta_minor, l.reason, l.cause, l.written_by, l.occurred_at_ms, l.note, b.id AS balance_id, b.pack_id,
      b.unit, u.event_id, r.id AS reservation_id
    FROM credit_ledger AS l JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
    LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
    LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number
    WHERE l.account_id = ${ACCOUNT} ORDER BY l.seq DESC LIMIT ?3`;
  const [userId, limit] = [url.searchParams.get("userId"), Number(url.searchParams.get("limit") ?? 50)];
  const { results } = await statement(db, sql, ENVIRONMENT_ID, userId, limit).all<Row>();
  const entries = results.map((row) => ({
    id: `led_${row.balance_id.slice(4)}_${row.seq}`,
    balanceId: row.balance_id,
    packId: row.pack_id,
    delta: row.delta_minor / PER_UNIT,
    unit: row.unit,
    reason: row.reason,
    cause: row.cause,
    eventId: row.event_id,
    reservationId: row.reservation_id,
    occurredAt: new Date(row.occurred_at_ms).toISOString(),
    note: row.note,
    by: `${row.written_by}`,
  }));
  return Response.json({ entries, nextCursor: String(results.at(-1)?.seq ?? "") });
}

async function grant({ DB: db, APP_ID: appId }: BareEnv, { userId, packId, externalRef }: Row): Promise<Response> {
  const items = `SELECT p.name, p.pack_number AS pack, i.item_number AS number, i.id AS item, i.unit, i.matches, i.priority, i.amount_minor AS minor
    FROM credit_packs AS p JOIN credit_pack_items AS i ON i.app_id = p.app_id AND i.pack_id = p.id
    WHERE p.app_id = ? AND p.id = ? ORDER BY i.position`;
  const { results } = await statement(db, items, appId, packId).all<Row>();
  const issued = results.map((item) => ({ ...item, id: newId("crb_") }));
  const account = `INSERT INTO accounts (environment_id, user_id) SELECT CAST(?1 AS INTEGER), ?2 WHERE ${ACCOUNT} IS NULL`;
  await db.batch([
    statement(db, account, ENVIRONMENT_ID, userId),
    statement(db, NEW_BALANCES, ENVIRONMENT_ID, userId, packId, externalRef, Date.now(), JSON.stringify(issued)),
  ]);
  const balances = issued.map(({ id, item, minor }) => ({
    ...{ balanceId: id, packItemId: item, remaining: minor / PER_UNIT, expiresAt: null },
  }));
  return Response.json({ balances, ...balances[0] });
}

/** A part of a response: what a balance pays or holds. */
const partOf = ({ id, pack_id, unit }: Row, minor: number, remainingMinor: number) => ({
  ...{ balanceId: id, packId: pack_id, unit },
  ...{ amount: minor / PER_UNIT, remaining: remainingMinor / PER_UNIT },
});

/** Debits an amount of tokens for an event, in a batch after `first`. */
async function debit(db: D1Database, balance: Row, input: Row, first: readonly D1PreparedStatement[] = []) {
  const { account_id: accountId, id: balanceId } = balance;
  const { eventId, event, reservationId = null } = input;
  const minor = Math.round(input.quantities.tokens * PER_UNIT);
  const debits = [partOf(balance, minor, balance.remaining_minor - minor)];
  const nowMs = Date.now();
  const usage = [accountId, eventId, event, minor, nowMs, reservationId, JSON.stringify(debits)];
  await db.batch([
    ...first,
    statement(db, NEW_USAGE_EVENT, ENVIRONMENT_ID, ...usage),
    statement(db, NEW_ENTRY, accountId, balanceId, -minor, "event_committed", eventId, reservationId, nowMs),
  ]);
  return Response.json({ eventId, debits, uncovered: null });
}

/** The first balance pays all, because the accounts of the benchmark have enough. */
async function usageEvent(db: D1Database, input: Row): Promise<Response> {
  const [payer] = await activeBalances(db, input.userId);
  return debit(db, payer, input);
}

async function reserve(db: D1Database, { userId, reservationId, event, quantities }: Row): Promise<Response> {
  const [balance] = await activeBalances(db, userId);
  const { account_id: accountId, id: balanceId, pack_id: packId, unit } = balance;
  const minor = Math.round(quantities.tokens * PER_UNIT);
  const nowMs = Date.now();
  const expiresAtMs = nowMs + 300_000;
  const remainingMinor = balance.remaining_minor - minor;
  const legs = JSON.stringify([{ balanceId, packId, unit, amountMinor: minor, remainingMinor }]);
  const reservation = [reservationId, accountId, event, JSON.stringify(quantities), legs, nowMs, expiresAtMs];
  await db.batch([
    statement(db, NEW_RESERVATION, ENVIRONMENT_ID, ...reservation),
    statement(db, NEW_ENTRY, accountId, balanceId, -minor, "reservation_held", null, reservationId, nowMs),
  ]);
  const holds = [partOf(balance, minor, remainingMinor)];
  return Response.json({ reservationId, expiresAt: new Date(expiresAtMs).toISOString(), holds });
}

async function commit(db: D1Database, reservationId: string, { eventId, quantities }: Row): Promise<Response> {
  const select = "SELECT * FROM reservations WHERE environment_id = ? AND id = ?";
  const { account_id, event, legs } = await statement(db, select, ENVIRONMENT_ID, reservationId).first<Row>();
  const { balanceId, packId, unit, amountMinor, remainingMinor } = JSON.parse(legs)[0];
  const balance = { account_id, id: balanceId, pack_id: packId, unit, remaining_minor: remainingMinor + amountMinor };
  const settle = statement(db, SETTLE, Date.now(), ENVIRONMENT_ID, reservationId);
  return debit(db, balance, { eventId, event, quantities, reservationId }, [settle]);
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
