import { and, eq, isNull, not, sql } from "drizzle-orm";
import { inDatabaseOf } from "../auth/system-ctx.ts";
import { keyHint, writeAdminKey } from "../db/key-form.ts";
import { asInteger, drizzle, fields, hasRow, insertFrom, query, type RowOf, type ValueOf } from "../db/query.ts";
import { adminKeys } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { sha256 } from "../lib/encoding.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx, Mode, Scope, SystemCtx } from "../runtime.ts";
import { requireApp } from "./apps.ts";
import { insertAuditEntry, NO_APP, newAuditEntry } from "./audit.ts";

export interface CreateAdminKeyOutput extends Omit<AdminKeyOutput, "revokedAt"> {
  readonly key: string;
}

export interface AdminKeyOutput {
  readonly revokedAt: string | null;
  readonly adminKeyId: string;
  readonly hint: string;
  readonly name: string;
  readonly scopes: Scope[];
  readonly apps: string[] | null;
  readonly modes: Mode[] | null;
  readonly createdAt: string;
}

export interface CreateAdminKeyInput {
  readonly name: string;
  readonly scopes: Scope[];
  readonly apps?: string[] | undefined;
  readonly modes?: Mode[] | undefined;
}

export interface ListAdminKeysOutput {
  readonly keys: AdminKeyOutput[];
}

const shownAdminKeyFields = () =>
  fields(adminKeys, {
    adminKeyId: "id",
    hint: "hint",
    name: "name",
    scopes: "scopes",
    apps: "apps",
    modes: "modes",
    createdAtMs: "createdAtMs",
    revokedAtMs: "revokedAtMs",
  });

/** Returns a key in the form of the API, without its text. */
function presentAdminKey(row: RowOf<ReturnType<typeof shownAdminKeyFields>>): AdminKeyOutput {
  const { scopes, apps, modes, createdAtMs, revokedAtMs, ...shown } = row;
  return {
    ...shown,
    scopes: [...scopes],
    apps: apps && [...apps],
    modes: modes && [...modes],
    createdAt: iso(createdAtMs),
    revokedAt: revokedAtMs === null ? null : iso(revokedAtMs),
  };
}

const isNewAdminKey = (value: ValueOf<{ hash: string }>) => not(hasRow(adminKeys, eq(adminKeys.hash, value("hash"))));
const auditAdminKeyCreated = insertAuditEntry<{ hash: string }>(isNewAdminKey);
type NewAdminKey = Omit<typeof adminKeys.$inferSelect, "revokedAtMs">;
const insertAdminKey = query((value: ValueOf<NewAdminKey>) =>
  insertFrom(
    adminKeys,
    {
      hash: value("hash"),
      id: value("id"),
      hint: value("hint"),
      name: value("name"),
      scopes: value("scopes", adminKeys.scopes),
      apps: value("apps", adminKeys.apps),
      modes: value("modes", adminKeys.modes),
      createdAtMs: asInteger(value("createdAtMs")),
    },
    sql`WHERE ${isNewAdminKey(value)}`,
  ),
);

/**
 * Creates an administration key and returns its text. No other call returns the text. `random` is 22 characters of base62. A
 * repeat with the same `random` creates no second key. Throws `not_found` for an application that does not exist.
 */
export async function createAdminKey(
  admin: AdminCtx,
  { name, scopes, ...limits }: CreateAdminKeyInput,
  random = admin.newId(""),
): Promise<CreateAdminKeyOutput> {
  const apps = limits.apps ?? null;
  const modes = limits.modes ?? null;
  await Promise.all((apps ?? []).map((appId) => requireApp(inDatabaseOf(admin, appId), appId)));
  const key = writeAdminKey(random);
  const hash = await sha256(key);
  const row = { hash, id: `adk_${hash.slice(0, 22)}`, hint: keyHint(key), name, scopes, apps, modes };
  const createdAtMs = admin.now();
  const details = { scopes, apps, modes };
  const auditEntry = newAuditEntry(admin, { appId: NO_APP, action: "admin_key.created", target: row.id, details });
  await batch(admin.db, [auditAdminKeyCreated({ ...auditEntry, hash }), insertAdminKey({ ...row, createdAtMs })]);
  const { id: adminKeyId, hint } = row;
  return { adminKeyId, key, hint, name, scopes, apps, modes, createdAt: iso(createdAtMs) };
}

const selectAdminKeys = query((_: ValueOf<Record<never, never>>) =>
  drizzle.select(shownAdminKeyFields()).from(adminKeys).orderBy(adminKeys.createdAtMs, adminKeys.id),
);

/** Returns all administration keys, revoked ones too, oldest first, without their texts. */
export async function listAdminKeys(root: SystemCtx): Promise<ListAdminKeysOutput> {
  return { keys: (await all(root.db, selectAdminKeys({}))).map(presentAdminKey) };
}

async function readAdminKeyNames(root: SystemCtx): Promise<ReadonlyMap<string, string>> {
  const { keys } = await listAdminKeys({ ...root, db: root.databases[0]?.db ?? root.db });
  return new Map(keys.map(({ adminKeyId, name }) => [`ak:${adminKeyId}`, name]));
}

/**
 * Returns a function that adds an administration key's name to the entries of that key, as in `Deploys (ak:adk_…)`. It reads the
 * keys from the first database once, and only if a key wrote an entry.
 */
export function nameActors(root: SystemCtx) {
  let names: ReturnType<typeof readAdminKeyNames> | undefined;
  return async <Entry extends { readonly by: string }>(entries: readonly Entry[]): Promise<readonly Entry[]> => {
    if (!entries.some(({ by }) => by.startsWith("ak:"))) return entries;
    names ??= readAdminKeyNames(root);
    const namesByActor = await names;
    return entries.map((entry) => {
      const name = namesByActor.get(entry.by);
      return name === undefined ? entry : { ...entry, by: `${name} (${entry.by})` };
    });
  };
}

type KeyId = { adminKeyId: string };
const adminKeyOfId = (value: ValueOf<KeyId>) => eq(adminKeys.id, value("adminKeyId"));
const isAdminKeyInForce = (value: ValueOf<KeyId>) => and(adminKeyOfId(value), isNull(adminKeys.revokedAtMs));
const auditAdminKeyRevoked = insertAuditEntry<KeyId>((value) => hasRow(adminKeys, isAdminKeyInForce(value)));
const revokeAdminKeyRow = query((value: ValueOf<KeyId & { nowMs: number }>) =>
  drizzle
    .update(adminKeys)
    .set({ revokedAtMs: value("nowMs", adminKeys.revokedAtMs) })
    .where(isAdminKeyInForce(value)),
);
const selectAdminKey = query((value: ValueOf<KeyId>) =>
  drizzle.select(shownAdminKeyFields()).from(adminKeys).where(adminKeyOfId(value)),
);

/** Revokes an administration key, at once (W3a). A repeat changes nothing. Throws `not_found`. */
export async function revokeAdminKey(admin: AdminCtx, adminKeyId: string): Promise<AdminKeyOutput> {
  const auditEntry = newAuditEntry(admin, { appId: NO_APP, action: "admin_key.revoked", target: adminKeyId });
  const [, , [row]] = await batch(admin.db, [
    auditAdminKeyRevoked({ ...auditEntry, adminKeyId }),
    revokeAdminKeyRow({ adminKeyId, nowMs: admin.now() }),
    selectAdminKey({ adminKeyId }),
  ]);
  if (row !== undefined) return presentAdminKey(row);
  throw new PurserError("not_found", "There is no such administration key.", { param: "adminKeyId" });
}
