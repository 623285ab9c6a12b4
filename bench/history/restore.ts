/** A home that is restored to a moment before a move, while the bucket stays as it is: Time Travel knows one database, not R2. */
import { rmSync } from "node:fs";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { eraseObjects, homeRows, moveOne, type Row, readObject, type Stores } from "./objects.ts";

const EVENTS_OF_OBJECT = 50;
const OBJECTS_BEFORE = 5;
const OBJECTS_AFTER = 5;

/** Opens a database file with those methods of D1 that the experiment calls. */
function d1Of(file: string): D1Database {
  const db = new DatabaseSync(file);
  const prepare = (text: string, values: readonly unknown[] = []) => {
    // D1 numbers `?` and `?1` alike, and so does node:sqlite where all values are given in order.
    const all = () => db.prepare(text).all(...(values as SQLInputValue[]));
    return {
      bind: (...given: unknown[]) => prepare(text, given),
      all: async () => ({ results: all() }),
      run: async () => ({ results: all() }),
      first: async () => all()[0] ?? null,
      now: all,
    };
  };
  const batch = async (statements: readonly { readonly now: () => unknown }[]) => {
    db.exec("BEGIN");
    for (const statement of statements) statement.now();
    db.exec("COMMIT");
    return [];
  };
  return { prepare, batch } as unknown as D1Database;
}

async function keysOf(bucket: R2Bucket, accountId: number): Promise<string[]> {
  const { objects } = await bucket.list({ prefix: `${accountId}/` });
  return objects.map(({ key }) => key);
}

/** Counts an account's events at home and in the objects that the home names, each id once, and objects without a row. */
async function countAll(stores: Stores, accountId: number) {
  const seen: string[] = [];
  let missing = 0;
  const rows = await homeRows(stores, accountId);
  for (const row of rows) {
    const contents = await readObject(stores, row).catch(() => null);
    if (contents === null) missing += 1;
    else seen.push(...contents.events.map(({ event_id: id }) => String(id)));
  }
  const read = stores.db.prepare("SELECT event_id FROM usage_events WHERE account_id = ?").bind(accountId);
  seen.push(...(await read.all<Row>()).results.map(({ event_id: id }) => String(id)));
  const named = new Set(rows.map(({ key }) => key));
  const orphans = (await keysOf(stores.bucket, accountId)).filter((key) => !named.has(key));
  return { events: seen.length, once: new Set(seen).size, missing, orphans };
}

const move = async (stores: Stores, accountId: number, objects: number) => {
  for (let made = 0; made < objects; made++) await moveOne(stores, accountId, EVENTS_OF_OBJECT);
};

/**
 * Moves objects, copies the home, moves further ones, and opens the copy beside the same bucket. Then the mover goes on from there, and a
 * sweep deletes objects that no row names. At last an erasure runs on the first home, and the copy is read again. Returns lines.
 */
export async function measureRestore(stores: Stores, file: string, accountId: number): Promise<string[]> {
  const copyFile = `${file}.copy`;
  await move(stores, accountId, OBJECTS_BEFORE);
  const copyHome = () => {
    rmSync(copyFile, { force: true });
    new DatabaseSync(file).exec(`VACUUM INTO '${copyFile}'`);
  };
  copyHome();
  await move(stores, accountId, OBJECTS_AFTER);
  const restored = { ...stores, db: d1Of(copyFile) };
  const told = ({ events, once, missing, orphans }: Awaited<ReturnType<typeof countAll>>) =>
    `${events} events, ${once} different, ${missing} objects missing, ${orphans.length} that no row names`;
  const lines = [
    `Before the restore: ${told(await countAll(stores, accountId))}`,
    `Restored to before ${OBJECTS_AFTER} moves: ${told(await countAll(restored, accountId))}`,
  ];
  await move(restored, accountId, OBJECTS_AFTER);
  const again = await countAll(restored, accountId);
  lines.push(`Moved again from there: ${told(again)}`);
  for (const key of again.orphans) await stores.bucket.delete(key);
  lines.push(`Swept: ${told(await countAll(restored, accountId))}`);
  // The restored home goes on as the only one. It is copied again, an erasure swaps its objects, and the copy is read.
  const later = `${copyFile}.later`;
  rmSync(later, { force: true });
  new DatabaseSync(copyFile).exec(`VACUUM INTO '${later}'`);
  await eraseObjects(restored, accountId, (row) => ({ ...row, properties: null }));
  const lost = await countAll({ ...stores, db: d1Of(later) }, accountId);
  lines.push(`Restored to before an erasure that deleted what it replaced: ${told(lost)}`);
  return lines;
}
