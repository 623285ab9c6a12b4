import { writeKey } from "../access/key.ts";
import { keyIdOf } from "../access/key-session.ts";
import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { batch, statement } from "../db/sql.ts";
import { sha256 } from "../lib/hash.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import { requireEnvironment } from "./app.ts";
import type { CreateKeyOutput } from "./responses.ts";
import type { CreateKeyInput } from "./schemas.ts";

const HINT_CHARACTERS = 4;

const isNew = "NOT EXISTS (SELECT 1 FROM api_keys WHERE hash = :hash)";
const audit = auditStatement<{ hash: string }>(isNew);
const insertKey = statement<{
  hash: string;
  keyId: string;
  environmentId: number;
  kind: CreateKeyInput["kind"];
  hint: string;
  name: string | null;
  createdAtMs: number;
}>`
  INSERT INTO api_keys (hash, id, environment_id, kind, hint, name, created_at_ms)
  SELECT :hash, :keyId, CAST(:environmentId AS INTEGER), :kind, :hint, :name, CAST(:createdAtMs AS INTEGER)
  WHERE ${isNew}`;

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
