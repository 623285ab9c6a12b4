import { openDb } from "../db/client.ts";
import { apiKeys, environments } from "../db/schema.ts";
import { all, type RowOf, select, statement } from "../db/sql.ts";
import { sha256 } from "../lib/hash.ts";
import type { Environment } from "../runtime.ts";

/** A key in force, with all that a request needs to know of its application. */
export interface KnownKey {
  readonly keyId: string;
  readonly kind: "secret" | "publishable";
  readonly environment: Environment;
  /** The end-user token setting as stored: JSON, or null when there is none. */
  readonly endUserAuth: string | null;
  /** The latest state of the database that this isolate saw for the key. */
  bookmark: string | null;
}

/** `sk_live_…`, `pk_test_…`: what a key looks like before the database is asked. */
const KEY = /^(sk|pk)_(live|test)_[0-9A-Za-z]{20,64}$/;

const ofKey = { keyId: apiKeys.id, kind: apiKeys.kind };
const ofEnvironment = {
  environmentId: environments.id,
  appId: environments.appId,
  mode: environments.mode,
  endUserAuth: environments.endUserAuth,
};
const selectKey = statement<{ hash: string }, RowOf<typeof ofKey & typeof ofEnvironment>>`
  SELECT ${select(ofKey, "k")}, ${select(ofEnvironment, "e")}
  FROM api_keys AS k JOIN environments AS e ON e.id = k.environment_id
  WHERE k.hash = :hash AND k.revoked_at_ms IS NULL`;

/** How long an isolate may go on believing what it read of a key: the bound on revocation that decisions.md gives. */
const BELIEVED_MS = 30_000;
const KEYS_MAX = 5_000;

/** By the key itself, which this isolate sees with every request anyway: hashing it took longer than looking it up. */
let known = new Map<string, { readonly key: KnownKey; readonly untilMs: number }>();

/** Makes this isolate ask again: called when a key or a token setting changes here. What is being asked is forgotten too. */
export function forgetKeys(): void {
  known = new Map();
}

/**
 * The key's record, or null when it is unknown, revoked or malformed. Asked of the primary once per isolate and 30
 * seconds; unknown keys are not remembered.
 */
export async function findKey(d1: D1Database, key: string, nowMs: number): Promise<KnownKey | null> {
  if (!KEY.test(key)) return null;
  const memory = known;
  const remembered = memory.get(key);
  if (remembered !== undefined && remembered.untilMs > nowMs) return remembered.key;

  const { db, bookmark } = openDb(d1, "first-primary");
  const [row] = await all(db, selectKey({ hash: await sha256(key) }));
  if (row === undefined) {
    memory.delete(key);
    return null;
  }
  const found: KnownKey = {
    keyId: row.keyId,
    kind: row.kind,
    environment: { id: row.environmentId, appId: row.appId, mode: row.mode },
    endUserAuth: row.endUserAuth,
    bookmark: bookmark(),
  };
  if (memory.size >= KEYS_MAX) memory.clear();
  memory.set(key, { key: found, untilMs: nowMs + BELIEVED_MS });
  return found;
}
