import { and, asc, eq, gt, sql } from "drizzle-orm";
import { apiKeys, environments } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { KeyOutput, ListKeysOutput } from "./answers.ts";
import { requireApp } from "./app.ts";

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

const byTime = (a: KeyRow, b: KeyRow): number => a.createdAtMs - b.createdAtMs || (a.keyId < b.keyId ? -1 : 1);

/**
 * A page of an environment's keys, revoked ones too, after the key `after`; `next` continues it, null when there are no
 * more. Pages go by id, which an index has; each is oldest first.
 */
export async function keysPage(root: RootCtx, environmentId: number, limit: number, after = "") {
  const rows = await selectKeys(root)
    .where(and(eq(environments.id, environmentId), gt(apiKeys.id, after)))
    .orderBy(asc(apiKeys.id))
    .limit(limit + 1);
  const shown = rows.slice(0, limit);
  const next = rows.length > limit ? (shown.at(-1)?.keyId ?? null) : null;
  return { keys: shown.toSorted(byTime).map(presentKey), next };
}

/** Every key of an application, revoked ones too, oldest first; never a key itself. Throws `not_found`. */
export async function listKeys(root: RootCtx, appId: string): Promise<ListKeysOutput> {
  await requireApp(root, appId);
  const rows = await selectKeys(root).where(eq(environments.appId, appId));
  return { keys: rows.toSorted(byTime).map(presentKey) };
}
