import type { AdminCtx } from "../../runtime.ts";
import { changePack } from "./change.ts";
import type { PackOutput } from "./responses.ts";

/**
 * Restores an archived pack: it can be granted again, under its name. A pack that is not archived does not change. Throws
 * `not_found`, and `pack_name_taken` if another pack has the name now.
 */
export async function restorePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.restored", (pack) =>
    pack.archivedAtMs === null ? null : { pack: { ...pack, archivedAtMs: null }, items: null },
  );
}
