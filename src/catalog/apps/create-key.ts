import { eq, not, sql } from "drizzle-orm";
import { writeKey } from "../../auth/key.ts";
import { keyIdOf } from "../../auth/key-session.ts";
import { asInteger, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { apiKeys } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { sha256 } from "../../lib/hash.ts";
import { iso } from "../../lib/time.ts";
import type { AdminCtx } from "../../runtime.ts";
import { insertAct, newAct } from "../audit/audit-statement.ts";
import { requireEnvironment } from "./app.ts";
import type { CreateKeyOutput } from "./responses.ts";
import type { CreateKeyInput } from "./schemas.ts";

const HINT_CHARACTERS = 4;

const isNew = (value: ValueOf<{ hash: string }>) => not(hasRow(apiKeys, eq(apiKeys.hash, value("hash"))));
const audit = insertAct<{ hash: string }>(isNew);
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
    sql`WHERE ${isNew(value)}`,
  ),
);

/**
 * Makes a key and answers it, for the only time: its SHA-256 is what stays. `random` is 22 characters of base62: with the
 * same ones again it is the same key, made once. Throws `not_found`.
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
    keyId: keyIdOf(hash),
    environmentId: environment.id,
    kind: input.kind,
    hint: `${key.slice(0, key.lastIndexOf("_") + 1)}…${key.slice(-HINT_CHARACTERS)}`,
    name: input.name ?? null,
    createdAtMs: admin.now(),
  };
  const { kind, mode } = input;
  const act = newAct(admin, { appId, action: "key.created", target: row.keyId, details: { kind, mode } });
  await batch(admin.db, [audit({ ...act, hash: row.hash }), insertKey(row)]);
  return {
    keyId: row.keyId,
    key,
    hint: row.hint,
    kind,
    mode,
    createdAt: iso(row.createdAtMs),
  };
}
