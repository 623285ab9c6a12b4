import { and, eq, isNull, not, sql } from "drizzle-orm";
import { hintOf, writeAdminKey } from "../../auth/key.ts";
import { inDatabaseOf } from "../../auth/require-admin.ts";
import { asInteger, drizzle, fields, hasRow, insertFrom, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { adminKeys } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { sha256 } from "../../lib/hash.ts";
import { iso } from "../../lib/time.ts";
import type { AdminCtx, SystemCtx } from "../../runtime.ts";
import { requireApp } from "../apps/apps.ts";
import { insertAct, NO_APP, newAct } from "../audit/audit-statement.ts";
import type { AdminKeyOutput, CreateAdminKeyOutput, ListAdminKeysOutput } from "./responses.ts";
import type { CreateAdminKeyInput } from "./schemas.ts";

const keyFields = () =>
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
function presentKey(row: RowOf<ReturnType<typeof keyFields>>): AdminKeyOutput {
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

const isNew = (value: ValueOf<{ hash: string }>) => not(hasRow(adminKeys, eq(adminKeys.hash, value("hash"))));
const auditCreated = insertAct<{ hash: string }>(isNew);
type NewKey = Omit<typeof adminKeys.$inferSelect, "revokedAtMs">;
const insertKey = query((value: ValueOf<NewKey>) =>
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
    sql`WHERE ${isNew(value)}`,
  ),
);

/**
 * Creates an administration key and returns its text, for the only time. `random` is 22 characters of base62; a repeat with the
 * same ones makes one key. Throws `not_found` for an application that does not exist.
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
  const row = { hash, id: `adk_${hash.slice(0, 22)}`, hint: hintOf(key), name, scopes, apps, modes };
  const createdAtMs = admin.now();
  const details = { scopes, apps, modes };
  const act = newAct(admin, { appId: NO_APP, action: "admin_key.created", target: row.id, details });
  await batch(admin.db, [auditCreated({ ...act, hash }), insertKey({ ...row, createdAtMs })]);
  const { id: adminKeyId, hint } = row;
  return { adminKeyId, key, hint, name, scopes, apps, modes, createdAt: iso(createdAtMs) };
}

const selectKeys = query((_: ValueOf<Record<never, never>>) =>
  drizzle.select(keyFields()).from(adminKeys).orderBy(adminKeys.createdAtMs, adminKeys.id),
);

/** Returns all administration keys, revoked ones too, oldest first, without their texts. */
export async function listAdminKeys(root: SystemCtx): Promise<ListAdminKeysOutput> {
  return { keys: (await all(root.db, selectKeys({}))).map(presentKey) };
}

type KeyId = { adminKeyId: string };
const ofId = (value: ValueOf<KeyId>) => eq(adminKeys.id, value("adminKeyId"));
const isInForce = (value: ValueOf<KeyId>) => and(ofId(value), isNull(adminKeys.revokedAtMs));
const auditRevoked = insertAct<KeyId>((value) => hasRow(adminKeys, isInForce(value)));
const revoke = query((value: ValueOf<KeyId & { nowMs: number }>) =>
  drizzle
    .update(adminKeys)
    .set({ revokedAtMs: value("nowMs", adminKeys.revokedAtMs) })
    .where(isInForce(value)),
);
const selectKey = query((value: ValueOf<KeyId>) => drizzle.select(keyFields()).from(adminKeys).where(ofId(value)));

/** Revokes an administration key, at once (W3a). A repeat changes nothing. Throws `not_found`. */
export async function revokeAdminKey(admin: AdminCtx, adminKeyId: string): Promise<AdminKeyOutput> {
  const act = newAct(admin, { appId: NO_APP, action: "admin_key.revoked", target: adminKeyId });
  const [, , [row]] = await batch(admin.db, [
    auditRevoked({ ...act, adminKeyId }),
    revoke({ adminKeyId, nowMs: admin.now() }),
    selectKey({ adminKeyId }),
  ]);
  if (row !== undefined) return presentKey(row);
  throw new PurserError("not_found", "There is no such administration key.", { param: "adminKeyId" });
}
