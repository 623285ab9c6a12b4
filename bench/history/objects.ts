/**
 * The experiment of docs/scale.md, "History in objects": an account's oldest rows as immutable objects of gzip NDJSON. No code of
 * Purser uses it. At home stay a row for each object and a stub for each id, by which a repeat is found.
 */
export interface Stores {
  readonly db: D1Database;
  readonly bucket: R2Bucket;
  /** Called between any two steps. A test of kills throws here. */
  readonly step?: () => void;
}

export type Row = Record<string, unknown>;

/** The rows of one object. */
export interface Contents {
  readonly ledger: readonly Row[];
  readonly events: readonly Row[];
  readonly reservations: readonly Row[];
}

/** The row at home of an object. */
export interface HomeRow {
  readonly number: number;
  readonly key: string;
  readonly sha256: string;
  readonly pending_key: string | null;
  readonly old_key: string | null;
  readonly first_seq: number;
  readonly last_seq: number;
  readonly first_event: number;
  readonly last_event: number;
  readonly events: number;
  readonly sums: string;
  readonly balances: string;
}

/** The additions of the experiment to the schema. It drops the triggers that keep the books append-only. */
export const SCHEMA = [
  `CREATE TABLE history_objects (account_id INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT, sha256 TEXT, pending_key TEXT,
     old_key TEXT, first_seq INTEGER, last_seq INTEGER, first_event INTEGER, last_event INTEGER, events INTEGER, sums TEXT,
     balances TEXT, PRIMARY KEY (account_id, number)) STRICT, WITHOUT ROWID`,
  // A mover finds what a killed one left without reading the row of each object.
  `CREATE INDEX history_objects_pending ON history_objects (account_id, number)
     WHERE pending_key IS NOT NULL OR old_key IS NOT NULL`,
  `CREATE TABLE history_stubs (environment_id INTEGER NOT NULL, id_hash BLOB NOT NULL, account_id INTEGER NOT NULL,
     number INTEGER NOT NULL, PRIMARY KEY (environment_id, id_hash)) STRICT, WITHOUT ROWID`,
  "DROP TRIGGER credit_ledger_no_delete",
  "DROP TRIGGER usage_events_no_delete",
  "DROP TRIGGER reservations_no_delete",
];

const UNITS = ["count", "tokens", "seconds", "cents"] as const;

const hex = (bytes: ArrayBuffer): string => Buffer.from(bytes).toString("hex");
const digest = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", bytes));

async function bytesOf(stream: ReadableStream): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The first 16 bytes of the SHA-256 of an id, as a stub names it. */
async function hashOf(id: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id))).slice(0, 16);
}

async function pack({ ledger, events, reservations }: Contents): Promise<Uint8Array<ArrayBuffer>> {
  const line = (kind: string) => (row: Row) => `${JSON.stringify([kind, row])}\n`;
  const text = [...ledger.map(line("l")), ...events.map(line("e")), ...reservations.map(line("r"))].join("");
  return bytesOf(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip")));
}

async function unpack(bytes: Uint8Array<ArrayBuffer>): Promise<Contents> {
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const rows = { l: [] as Row[], e: [] as Row[], r: [] as Row[] };
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [kind, row] = JSON.parse(line) as ["l" | "e" | "r", Row];
    rows[kind].push(row);
  }
  return { ledger: rows.l, events: rows.e, reservations: rows.r };
}

/** Reads an object, and compares its bytes with the hash at home. */
export async function readObject({ bucket }: Stores, { key, sha256 }: HomeRow): Promise<Contents> {
  const object = await bucket.get(key);
  if (object === null) throw new Error(`the object ${key} is missing`);
  const bytes = new Uint8Array(await object.arrayBuffer());
  if ((await digest(bytes)) !== sha256) throw new Error(`the object ${key} is not what was written`);
  return unpack(bytes);
}

export async function homeRows({ db }: Stores, accountId: number): Promise<HomeRow[]> {
  const read = db.prepare("SELECT * FROM history_objects WHERE account_id = ? AND key IS NOT NULL ORDER BY number");
  return (await read.bind(accountId).all<HomeRow & Row>()).results;
}

/**
 * The account's oldest events, `limit` at most, with the ledger's entries up to the last of them. Each event of the experiment has as
 * many entries: one debit, or a hold, its return and the debit.
 */
async function readOldest({ db }: Stores, accountId: number, limit: number, entriesOfEvent: number): Promise<Contents> {
  const all = async (sql: string, ...values: number[]) =>
    (
      await db
        .prepare(sql)
        .bind(...values)
        .all<Row>()
    ).results;
  const events = await all("SELECT * FROM usage_events WHERE account_id = ? ORDER BY seq LIMIT ?", accountId, limit);
  const ledger = await all(
    "SELECT * FROM credit_ledger WHERE account_id = ? ORDER BY seq LIMIT ?",
    accountId,
    events.length * entriesOfEvent,
  );
  const lastSeq = Number(ledger.at(-1)?.seq ?? 0);
  const reservations = await all(
    "SELECT * FROM reservations WHERE account_id = ? AND settled_seq <= ?",
    accountId,
    lastSeq,
  );
  return { ledger, events, reservations };
}

const key = (accountId: number) => `${accountId}/${crypto.randomUUID()}`;

/** The facts that an object's row holds about its contents, so that totals and past balances need not open it. */
function factsOf({ ledger, events }: Contents) {
  const sums = UNITS.map((unit) =>
    String(events.reduce((sum, row) => sum + BigInt(Number(row[`${unit}_minor`] ?? 0)), 0n)),
  );
  const balances = Object.fromEntries(ledger.map((row) => [String(row.grant_seq), row.balance_after_minor]));
  return {
    firstSeq: Number(ledger[0]?.seq),
    lastSeq: Number(ledger.at(-1)?.seq),
    firstEvent: Number(events[0]?.seq),
    lastEvent: Number(events.at(-1)?.seq),
    events: events.length,
    sums: JSON.stringify(sums),
    balances: JSON.stringify(balances),
  };
}

/**
 * Moves one object of the account's oldest rows, and returns how many events it has. It can be killed between any two steps and
 * called again: a key stands at home before its object is put, and one batch deletes the rows and makes the object count.
 */
export async function moveOne(stores: Stores, accountId: number, limit: number, entriesOfEvent = 1): Promise<number> {
  const { db, bucket, step } = stores;
  await dropPending(stores, accountId);
  const contents = await readOldest(stores, accountId, limit, entriesOfEvent);
  if (contents.events.length === 0) return 0;
  const bytes = await pack(contents);
  const facts = factsOf(contents);
  const newKey = key(accountId);
  step?.();
  const home = await db
    .prepare(
      `INSERT INTO history_objects (account_id, number, pending_key)
       SELECT ?1, coalesce(max(number), 0) + 1, ?2 FROM history_objects WHERE account_id = ?1 RETURNING number`,
    )
    .bind(accountId, newKey)
    .first<Pick<HomeRow, "number">>();
  step?.();
  await bucket.put(newKey, bytes);
  step?.();
  const environmentId = Number(contents.events[0]?.environment_id);
  const ids = [...contents.events.map((row) => row.event_id), ...contents.reservations.map((row) => row.id)];
  const hashes = await Promise.all(ids.map(async (id) => hex(new Uint8Array(await hashOf(String(id))).buffer)));
  const { firstSeq, lastSeq, firstEvent, lastEvent } = facts;
  await db.batch([
    db
      .prepare(
        `UPDATE history_objects SET key = pending_key, pending_key = NULL, sha256 = ?3, first_seq = ?4, last_seq = ?5,
           first_event = ?6, last_event = ?7, events = ?8, sums = ?9, balances = ?10
         WHERE account_id = ?1 AND number = ?11 AND pending_key = ?2`,
      )
      .bind(
        ...[accountId, newKey, await digest(bytes), firstSeq, lastSeq, firstEvent, lastEvent],
        ...[facts.events, facts.sums, facts.balances, home?.number ?? 0],
      ),
    db
      .prepare(
        `INSERT INTO history_stubs SELECT ?1, unhex(value), ?2,
           (SELECT number FROM history_objects WHERE account_id = ?2 AND number = ?5 AND key = ?3) FROM json_each(?4)`,
      )
      .bind(environmentId, accountId, newKey, JSON.stringify(hashes), home?.number ?? 0),
    db.prepare("DELETE FROM usage_events WHERE account_id = ? AND seq <= ?").bind(accountId, lastEvent),
    db.prepare("DELETE FROM credit_ledger WHERE account_id = ? AND seq <= ?").bind(accountId, lastSeq),
    db.prepare("DELETE FROM reservations WHERE account_id = ? AND settled_seq <= ?").bind(accountId, lastSeq),
  ]);
  step?.();
  return facts.events;
}

/** Removes objects that a killed mover or erasure left, and the keys that named them. */
async function dropPending({ db, bucket, step }: Stores, accountId: number): Promise<void> {
  const read = db.prepare(
    `SELECT number, key, pending_key, old_key FROM history_objects INDEXED BY history_objects_pending
     WHERE account_id = ? AND (pending_key IS NOT NULL OR old_key IS NOT NULL)`,
  );
  for (const row of (await read.bind(accountId).all<HomeRow & Row>()).results) {
    step?.();
    for (const left of [row.pending_key, row.old_key]) if (left !== null) await bucket.delete(left);
    step?.();
    const done =
      row.key === null
        ? "DELETE FROM history_objects WHERE account_id = ? AND number = ?"
        : "UPDATE history_objects SET pending_key = NULL, old_key = NULL WHERE account_id = ? AND number = ?";
    await db.prepare(done).bind(accountId, row.number).run();
  }
}

/** Takes what names the person out of every object of an account: a new object is put in place of each, and the old one deleted. */
export async function eraseObjects(stores: Stores, accountId: number, withoutNames: (row: Row) => Row): Promise<void> {
  const { db, bucket, step } = stores;
  await dropPending(stores, accountId);
  for (const row of await homeRows(stores, accountId)) {
    const contents = await readObject(stores, row);
    const { ledger, events, reservations } = contents;
    if ([...events, ...reservations].every((one) => withoutNames(one) === one)) continue;
    const clean = { ledger, events: events.map(withoutNames), reservations: reservations.map(withoutNames) };
    const bytes = await pack(clean);
    const newKey = key(accountId);
    step?.();
    await db
      .prepare("UPDATE history_objects SET pending_key = ? WHERE account_id = ? AND number = ?")
      .bind(newKey, accountId, row.number)
      .run();
    step?.();
    await bucket.put(newKey, bytes);
    step?.();
    await db
      .prepare(
        `UPDATE history_objects SET old_key = key, key = pending_key, pending_key = NULL, sha256 = ?3
         WHERE account_id = ?1 AND number = ?2`,
      )
      .bind(accountId, row.number, await digest(bytes))
      .run();
    step?.();
  }
  await dropPending(stores, accountId);
}

/** The object that holds an id, in one query: what an insert of a repeat asks in the same statement. */
export async function findStub({ db }: Stores, environmentId: number, id: string) {
  const hash = await hashOf(id);
  return db
    .prepare("SELECT account_id, number FROM history_stubs WHERE environment_id = ? AND id_hash = ?")
    .bind(environmentId, hash)
    .first<{ account_id: number; number: number }>();
}
