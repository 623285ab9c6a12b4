import { eq, sql } from "drizzle-orm";
import type { RootCtx } from "../context.ts";
import { apiKeys, environments } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import { requireApp } from "./apps.ts";
import type { KeyOutput, ListKeysOutput } from "./schemas.ts";

/** A statement that reads keys with their mode, for `presentKey`. */
export function selectKeys(root: RootCtx) {
  return root.db
    .select({
      keyId: sql<string>`${apiKeys.id}`.as("key_id"),
      name: apiKeys.name,
      hint: apiKeys.hint,
      kind: apiKeys.kind,
      mode: environments.mode,
      createdAtMs: apiKeys.createdAtMs,
      revokedAtMs: apiKeys.revokedAtMs,
    })
    .from(environments)
    .innerJoin(apiKeys, eq(apiKeys.environmentId, environments.id))
    .$dynamic();
}

type KeyRow = Awaited<ReturnType<typeof selectKeys>>[number];

export function presentKey(row: KeyRow): KeyOutput {
  const { createdAtMs, revokedAtMs, ...shown } = row;
  return { ...shown, createdAt: iso(createdAtMs), revokedAt: revokedAtMs === null ? null : iso(revokedAtMs) };
}

/** Every key of an application, revoked ones too, oldest first; never a key itself. Throws `not_found`. */
export async function listKeys(root: RootCtx, appId: string): Promise<ListKeysOutput> {
  await requireApp(root, appId);
  const rows = await selectKeys(root).where(eq(environments.appId, appId));
  const sorted = rows.toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.keyId < b.keyId ? -1 : 1));
  return { keys: sorted.map(presentKey) };
}
