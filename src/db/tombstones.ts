import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { PurserError } from "../errors.ts";
import { encodeBase64url } from "../lib/encoding.ts";
import { jsonChunks } from "../lib/json.ts";
import type { Environment, Runtime, TenantCtx } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import { fields, insertFrom, query, read, type ValueOf } from "./query.ts";
import { environments, tombstones } from "./schema.ts";
import { readSettingsSnapshot } from "./settings-snapshot.ts";
import { all, type Db, type Statement } from "./sql.ts";
import { guards, tombstoneEnds } from "./views.ts";

export type HasSettings = { readonly settings: Pick<Settings, "erasureSecrets"> };

/** A secret that hashes tombstones. */
export interface ErasureSecret {
  readonly key: CryptoKey;
  /** Identifies the secret without revealing it. */
  readonly fingerprint: string;
}

/**
 * The imported keys of this isolate. It stores no promises, because a request must not wait for the promise of another
 * request.
 */
const importedSecrets = new Map<string, ErasureSecret>();
const IMPORTED_SECRETS_MAX = 4;
const FINGERPRINT_LENGTH = 12;

async function importSecret(secret: string): Promise<ErasureSecret> {
  const cached = importedSecrets.get(secret);
  if (cached !== undefined) return cached;
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["sign"]);
  const imported = { key, fingerprint: (await hmac(key, ["fingerprint"])).slice(0, FINGERPRINT_LENGTH) };
  if (importedSecrets.size >= IMPORTED_SECRETS_MAX) importedSecrets.clear();
  importedSecrets.set(secret, imported);
  return imported;
}

async function hmac(key: CryptoKey, parts: readonly string[]): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(parts));
  return encodeBase64url(new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes)));
}

/** Returns the configured secrets, the current one first. Throws `erasure_unavailable` when there is none (E4). */
export async function erasureSecrets({ settings }: HasSettings): Promise<readonly [ErasureSecret, ...ErasureSecret[]]> {
  if (settings.erasureSecrets === null) throw erasureUnavailable();
  const { current, previous } = settings.erasureSecrets;
  return [await importSecret(current), ...(previous === null ? [] : [await importSecret(previous)])];
}

/** Returns the fingerprints of the configured secrets. */
export async function fingerprintSecrets(ctx: HasSettings): Promise<readonly string[]> {
  return ctx.settings.erasureSecrets === null ? [] : (await erasureSecrets(ctx)).map(({ fingerprint }) => fingerprint);
}

/** Returns the keyed hash of an erased id, of a reference in the books of its account, of its Stripe customer, or of an id of its usage. */
export function hashName(
  { key }: ErasureSecret,
  { appId, mode }: Pick<Environment, "appId" | "mode">,
  kind: "id" | "reference" | "customer" | "usage",
  name: string,
): Promise<string> {
  return hmac(key, [kind, appId, mode, name]);
}

/** Returns the keyed hash under which a Stripe customer is kept after an erasure (S6). No id of Stripe begins with `#`. */
export const hashCustomer = async (
  secret: ErasureSecret,
  environment: Pick<Environment, "appId" | "mode">,
  customer: string,
): Promise<string> => `#${await hashName(secret, environment, "customer", customer)}`;

/** Returns `erasure_unavailable` (503): the deployment lacks a secret that hashes tombstones. */
function erasureUnavailable(): PurserError {
  const message =
    "This deployment has no `ERASURE_SECRET` (32 characters or more), or lacks the secret that hashed the erased ids.";
  return new PurserError("erasure_unavailable", message, { headers: { "Retry-After": "60" }, fault: "not_set_up" });
}

/** The part of a context that a look-up of tombstones needs. */
export interface TombstoneCtx extends Runtime, Pick<TenantCtx, "clock"> {
  readonly db: Db;
  readonly settings: Settings;
  readonly environment: Pick<Environment, "appId" | "mode"> & Partial<Pick<Environment, "id">>;
}

/** The part `tombstones` of an environment's settings snapshot: fingerprints of the secrets that hashed its tombstones. */
export type TombstoneSecrets = readonly string[];

const NO_TOMBSTONES: TombstoneSecrets = [];

/** Returns the fingerprints in an environment's settings snapshot. Empty when no id of the environment is erased. */
export function tombstoneSecretsIn(settingsSnapshot: string | null): TombstoneSecrets {
  // Only src/erasure writes this part.
  return (readSettingsSnapshot(settingsSnapshot).tombstones as TombstoneSecrets | undefined) ?? NO_TOMBSTONES;
}

/** Throws `erasure_unavailable` when a secret that hashed tombstones is not set. */
export async function requireSecrets(ctx: TombstoneCtx, fingerprints: TombstoneSecrets): Promise<void> {
  if (fingerprints.length === 0) return;
  const secrets = await erasureSecrets(ctx);
  const configured = new Set(secrets.map(({ fingerprint }) => fingerprint));
  if (!fingerprints.every((fingerprint) => configured.has(fingerprint))) throw erasureUnavailable();
}

/** Returns the hash of an id with each configured secret. */
export async function hashForTombstones(
  ctx: Pick<TombstoneCtx, "settings" | "environment">,
  id: string,
): Promise<string[]> {
  const secrets = ctx.settings.erasureSecrets === null ? [] : await erasureSecrets(ctx);
  return Promise.all(secrets.map((secret) => hashName(secret, ctx.environment, "id", id)));
}

/**
 * SQL: whether one of `hashes`, a JSON list, belongs to a blocking tombstone. It reads no row when the settings snapshot has no tombstones.
 */
export const isBlocked = (
  value: ValueOf<{ environmentId: number }>,
  settingsSnapshot: SQL | SQLiteColumn,
  hashes: SQL,
) =>
  sql<0 | 1>`(${settingsSnapshot} ->> '$.tombstones' IS NOT NULL AND EXISTS (
    SELECT 1 FROM json_each(${hashes}) AS h CROSS JOIN ${tombstones}
    WHERE ${tombstones.environmentId} = ${value("environmentId")} AND ${tombstones.hash} = h.value
      AND ${tombstones.blocks} = 1
  ))`;

type Hashes = { appId: string; mode: Environment["mode"]; hashes: string };

const fromTombstones = (value: ValueOf<Hashes>) => sql`FROM json_each(${value("hashes")}) AS h
  CROSS JOIN ${environments} ON ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
  CROSS JOIN ${tombstones} ON ${tombstones.environmentId} = ${environments.id} AND ${tombstones.hash} = h.value`;

const guardPerson = (write: (value: ValueOf<Hashes>) => SQL) =>
  query((value: ValueOf<Hashes>) =>
    insertFrom(guards, { name: sql`'person'`, holds: sql`NOT EXISTS (SELECT 1 ${write(value)})` }, sql``),
  );
/** Aborts the batch with `guard_person` when one of the hashes belongs to a blocking tombstone. */
const guardWritten = guardPerson((value) => sql`${fromTombstones(value)} WHERE ${tombstones.blocks} = 1`);
/** Aborts the batch with `guard_person` when one of the hashes belongs to any tombstone. */
const guardMentioned = guardPerson(fromTombstones);

/** Deletes the tombstones that do not block, because new data is now stored for their ids. */
const deleteNonBlockingOf = query((value: ValueOf<Hashes>) =>
  insertFrom(
    tombstoneEnds,
    { environmentId: tombstones.environmentId, hash: tombstones.hash },
    sql`${fromTombstones(value)} WHERE ${tombstones.blocks} = 0`,
  ),
);

const selectErased = query((value: ValueOf<Hashes>) =>
  read(fields(tombstones, "hash", "blocks"), (list) => sql`SELECT ${list} ${fromTombstones(value)}`),
);

/** Returns a map from each hash to its id. */
async function idsByHash(ctx: TombstoneCtx, ids: Iterable<string>): Promise<Map<string, string>> {
  const idOf = new Map<string, string>();
  for (const id of new Set(ids)) for (const hash of await hashForTombstones(ctx, id)) idOf.set(hash, id);
  return idOf;
}

/**
 * Returns the guards of a batch that writes for some ids and mentions others (E4). The batch aborts with `guard_person` when
 * a written id is blocked or a mentioned id is erased. It deletes the non-blocking tombstones of the written ids, or aborts
 * with `tombstones_being_erased` while their erasure runs. Without tombstones there are no guards.
 */
export async function personGuards(
  ctx: TombstoneCtx,
  fingerprints: TombstoneSecrets,
  ids: Iterable<string>,
  mentioned: Iterable<string> = [],
): Promise<Statement[]> {
  if (fingerprints.length === 0) return [];
  await requireSecrets(ctx, fingerprints);
  const { appId, mode } = ctx.environment;
  const written = new Set(ids);
  const mentionedOnly = new Set([...mentioned].filter((id) => !written.has(id)));
  const hashesOfIds = async (names: ReadonlySet<string>) => jsonChunks([...(await idsByHash(ctx, names)).keys()]);
  return [
    ...(await hashesOfIds(mentionedOnly)).map((hashes) => guardMentioned({ appId, mode, hashes })),
    ...(await hashesOfIds(written)).flatMap((hashes) => [
      guardWritten({ appId, mode, hashes }),
      deleteNonBlockingOf({ appId, mode, hashes }),
    ]),
  ];
}

/** An erased id: its tombstone's hash, and whether the tombstone blocks. Otherwise only mentions are removed. */
export interface ErasedId {
  readonly hash: string;
  readonly blocks: boolean;
}

/** Returns which of these ids are erased. Sends no query when the environment has no tombstones. */
export async function findErased(
  ctx: TombstoneCtx,
  fingerprints: TombstoneSecrets,
  ids: Iterable<string>,
): Promise<ReadonlyMap<string, ErasedId>> {
  const erased = new Map<string, ErasedId>();
  if (fingerprints.length === 0) return erased;
  await requireSecrets(ctx, fingerprints);
  const { appId, mode } = ctx.environment;
  const idOf = await idsByHash(ctx, ids);
  for (const hashes of jsonChunks([...idOf.keys()])) {
    for (const { hash, blocks } of await all(ctx.db, selectErased({ appId, mode, hashes }))) {
      const id = idOf.get(hash);
      if (id !== undefined) erased.set(id, { hash, blocks: blocks === 1 || erased.get(id)?.blocks === true });
    }
  }
  return erased;
}

/** Returns `person_erased` (409), for every write for an erased id and for its pseudonymous books. */
export function personErased(param?: string, details?: { readonly field: "memberId" }): PurserError {
  const message =
    "This person was erased, so Purser stores nothing more about them. `POST /api/v1/erasures/{erasureId}/lift` lets their ids be used again.";
  return new PurserError("person_erased", message, {
    ...(param === undefined ? {} : { param }),
    ...(details === undefined ? {} : { details }),
  });
}
