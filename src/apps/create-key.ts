import { apiKeys } from "../db/schema.ts";
import { sha256 } from "../lib/hash.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { CreateKeyOutput } from "./answers.ts";
import { requireEnvironment } from "./app.ts";
import type { CreateKeyInput } from "./schemas.ts";

const HINT_CHARACTERS = 4;

/** Makes a key and answers it, for the only time: its SHA-256 is what stays. Throws `not_found`. */
export async function createKey(root: RootCtx, appId: string, input: CreateKeyInput): Promise<CreateKeyOutput> {
  const environment = await requireEnvironment(root, appId, input.mode);
  const prefix = `${input.kind === "secret" ? "sk" : "pk"}_${input.mode}_`;
  const key = root.newId(prefix);
  const row = {
    hash: await sha256(key),
    id: root.newId("key_"),
    environmentId: environment.id,
    kind: input.kind,
    hint: `${prefix}…${key.slice(-HINT_CHARACTERS)}`,
    name: input.name ?? null,
    createdAtMs: root.now(),
  };
  await root.db.insert(apiKeys).values(row).onConflictDoNothing();
  return {
    keyId: row.id,
    key,
    hint: row.hint,
    kind: input.kind,
    mode: input.mode,
    createdAt: iso(row.createdAtMs),
  };
}
