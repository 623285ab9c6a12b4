import { and, eq, inArray, isNull, not, sql } from "drizzle-orm";
import { makeKeyId } from "../auth/key-session.ts";
import { keyHint, writeKey } from "../db/key-form.ts";
import {
  asInteger,
  boundLimit,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOf,
  read,
  type ValueOf,
} from "../db/query.ts";
import { apiKeys, environments } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalidCursor, PurserError } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { sha256 } from "../lib/encoding.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { AdminCtx, Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { requireApp, requireEnvironment } from "./apps.ts";
import { insertAuditEntry, newAuditEntry } from "./audit.ts";

export interface CreateKeyOutput {
  readonly keyId: string;
  readonly key: string;
  readonly hint: string;
  readonly kind: "publishable" | "relay" | "secret";
  readonly mode: Mode;
  readonly createdAt: string;
}

export interface KeyOutput {
  readonly keyId: string;
  readonly name: string | null;
  readonly hint: string;
  readonly kind: "publishable" | "relay" | "secret";
  readonly mode: Mode;
  readonly createdAt: string;
  readonly revokedAt: string | null;
  readonly lastUsedOn: string | null;
}

export interface CreateKeyInput {
  readonly kind: "publishable" | "relay" | "secret";
  readonly mode: Mode;
  readonly name?: string | undefined;
}

export interface ListKeysOutput {
  readonly keys: KeyOutput[];
  readonly nextCursor: string | null;
}

export interface ListKeysInput {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Returns the visible fields of a key, for a SELECT from `api_keys` and `environments`. */
const keyFields = () => ({
  ...fields(apiKeys, {
    keyId: "id",
    name: "name",
    hint: "hint",
    kind: "kind",
    createdAtMs: "createdAtMs",
    revokedAtMs: "revokedAtMs",
    lastUsedDay: "lastUsedDay",
  }),
  ...fields(environments, "mode"),
});
type KeyRow = RowOf<ReturnType<typeof keyFields>>;

/** Returns a key in the form of the API, without the key's text. */
function presentKey({ createdAtMs, revokedAtMs, lastUsedDay, ...shown }: KeyRow): KeyOutput {
  return {
    ...shown,
    createdAt: iso(createdAtMs),
    revokedAt: revokedAtMs === null ? null : iso(revokedAtMs),
    lastUsedOn: lastUsedDay === null ? null : iso(lastUsedDay * DAY_MS).slice(0, 10),
  };
}

const isNewKey = (value: ValueOf<{ hash: string }>) => not(hasRow(apiKeys, eq(apiKeys.hash, value("hash"))));
const auditKeyCreated = insertAuditEntry<{ hash: string }>(isNewKey);
type NewKey = Pick<typeof apiKeys.$inferSelect, "hash" | "environmentId" | "kind" | "hint" | "name" | "createdAtMs">;
const insertKey = query((value: ValueOf<NewKey & { keyId: string }>) =>
  insertFrom(
    apiKeys,
    {
      hash: value("hash"),
      id: value("keyId"),
      environmentId: asInteger(value("environmentId")),
      kind: value("kind"),
      hint: value("hint"),
      name: value("name"),
      createdAtMs: asInteger(value("createdAtMs")),
    },
    sql`WHERE ${isNewKey(value)}`,
  ),
);

/**
 * Creates a key and returns its text. No other call returns the text, because Purser stores only its SHA-256. `random` is 22
 * characters of base62. A repeat with the same `random` returns the same key and creates no second one. Throws `not_found`.
 */
export async function createKey(
  admin: AdminCtx,
  appId: string,
  input: CreateKeyInput,
  random = admin.newId(""),
): Promise<CreateKeyOutput> {
  const environment = await requireEnvironment(admin, appId, input.mode);
  const key = writeKey(input.kind, environment, random);
  const hash = await sha256(key);
  const row = {
    hash,
    keyId: makeKeyId(hash),
    environmentId: environment.id,
    kind: input.kind,
    hint: keyHint(key),
    name: input.name ?? null,
    createdAtMs: admin.now(),
  };
  const { kind, mode } = input;
  const auditEntry = newAuditEntry(admin, { appId, action: "key.created", target: row.keyId, details: { kind, mode } });
  await batch(admin.db, [auditKeyCreated({ ...auditEntry, hash: row.hash }), insertKey(row)]);
  return {
    keyId: row.keyId,
    key,
    hint: row.hint,
    kind,
    mode,
    createdAt: iso(row.createdAtMs),
  };
}

/** Returns a key of an application, of either mode. */
const selectKey = query((value: ValueOf<{ appId: string; keyId: string }>) =>
  drizzle
    .select(keyFields())
    .from(environments)
    .innerJoin(apiKeys, eq(apiKeys.environmentId, environments.id))
    .where(and(eq(environments.appId, value("appId")), eq(apiKeys.id, value("keyId")))),
);

const noSuchKey = (): PurserError =>
  new PurserError("not_found", "The application has no such key.", { param: "keyId" });

/** Returns a key without its text. Throws `not_found`. */
export async function readKeyOfApp(root: SystemCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const [row] = await all(root.db, selectKey({ appId, keyId }));
  if (row === undefined) throw noSuchKey();
  return presentKey(row);
}

type KeyOfApp = { appId: string; keyId: string };
const isInForce = (value: ValueOf<KeyOfApp>) => {
  const environmentIds = drizzle
    .select(fields(environments, "id"))
    .from(environments)
    .where(eq(environments.appId, value("appId")));
  return and(
    inArray(apiKeys.environmentId, environmentIds),
    eq(apiKeys.id, value("keyId")),
    isNull(apiKeys.revokedAtMs),
  );
};
const auditKeyRevoked = insertAuditEntry<KeyOfApp>((value) => hasRow(apiKeys, isInForce(value)));
const updateRevokedKey = query((value: ValueOf<KeyOfApp & { nowMs: number }>) =>
  drizzle
    .update(apiKeys)
    .set({ revokedAtMs: value("nowMs", apiKeys.revokedAtMs) })
    .where(isInForce(value)),
);

/**
 * Revokes a key. This takes effect at once for reads from the primary, and for a replica once it has the change (W3a). A repeat
 * changes nothing. Throws `not_found`.
 */
export async function revokeKey(admin: AdminCtx, appId: string, keyId: string): Promise<KeyOutput> {
  const [, , [row]] = await batch(admin.db, [
    auditKeyRevoked({ ...newAuditEntry(admin, { appId, action: "key.revoked", target: keyId }), keyId }),
    updateRevokedKey({ appId, keyId, nowMs: admin.now() }),
    selectKey({ appId, keyId }),
  ]);
  if (row !== undefined) return presentKey(row);
  await requireApp(admin, appId);
  throw noSuchKey();
}

type KeysPage = { appId: string; mode: Mode | null; afterMs: number; afterId: string; limit: number };

/** Selects up to `limit` keys of one mode. Uses an index, so that it reads no more rows than `limit`. */
const selectKeysOfMode = (value: ValueOf<KeysPage>, mode: Mode) => {
  const position = sql`(${apiKeys.createdAtMs}, ${apiKeys.id}) > (${asInteger(value("afterMs"))}, ${value("afterId")})`;
  const page = drizzle
    .select(keyFields())
    .from(environments)
    .crossJoin(apiKeys)
    .where(
      and(
        eq(environments.appId, value("appId")),
        eq(environments.mode, mode),
        sql`coalesce(${value("mode")}, ${mode}) = ${mode}`,
        eq(apiKeys.environmentId, environments.id),
        position,
      ),
    )
    .orderBy(apiKeys.createdAtMs, apiKeys.id)
    .limit(boundLimit(value("limit")));
  return sql`SELECT * FROM ${page}`;
};
const selectKeys = query((value: ValueOf<KeysPage>) =>
  read(
    keyFields(),
    () =>
      sql`${selectKeysOfMode(value, "live")} UNION ALL ${selectKeysOfMode(value, "test")} ORDER BY "createdAtMs", "keyId" LIMIT ${asInteger(value("limit"))}`,
  ),
);

interface KeyPosition {
  readonly afterMs: number;
  readonly afterId: string;
}

const FIRST_POSITION: KeyPosition = { afterMs: -1, afterId: "" };

function openPosition(cursor: string | undefined, scope: readonly string[]): KeyPosition {
  if (cursor === undefined) return FIRST_POSITION;
  const text = decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // The cursor's checksum proves that `listKeys` wrote it.
  const [afterMs, afterId] = JSON.parse(text) as [number, string];
  return { afterMs, afterId };
}

const selectKeyNames = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select(fields(apiKeys, "id", "name"))
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.environmentId, value("environmentId")),
        sql`${apiKeys.id} IN (SELECT value FROM json_each(${value("ids")}))`,
      ),
    ),
);

/** Returns the names of some keys by id. A key without a name is left out. */
export async function namesOfKeys(ctx: TenantCtx, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await all(ctx.db, selectKeyNames({ environmentId: ctx.environment.id, ids: JSON.stringify(ids) }));
  return new Map(rows.flatMap(({ id, name }) => (name === null ? [] : [[id, name] as const])));
}

/**
 * Returns a page of an application's keys, of one mode or of both, revoked ones included, oldest first, without their texts.
 * Throws `not_found`, and `invalid_request` for a cursor of another list.
 */
export async function listKeys(
  root: SystemCtx,
  appId: string,
  { limit, cursor }: ListKeysInput,
  mode: Mode | null = null,
): Promise<ListKeysOutput> {
  await requireApp(root, appId);
  const scope = ["api_keys", appId, mode ?? ""];
  const position = openPosition(cursor, scope);
  const rows = await all(root.db, selectKeys({ appId, mode, ...position, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    keys: page.map(presentKey),
    nextCursor: last === undefined ? null : encodeTextCursor(JSON.stringify([last.createdAtMs, last.keyId]), scope),
  };
}
