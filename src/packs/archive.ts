import type { AdminCtx } from "../runtime.ts";
import { changePack } from "./change.ts";
import type { PackOutput } from "./responses.ts";

/** Takes a pack out of sale and frees its name; balances issued from it stay. Again: as it was. Throws `not_found`. */
export async function archivePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.archived", (pack) =>
    pack.archivedAtMs === null ? { pack: { ...pack, archivedAtMs: admin.now() }, items: null } : null,
  );
}
