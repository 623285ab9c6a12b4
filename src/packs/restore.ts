import type { AdminCtx } from "../runtime.ts";
import { changePack } from "./change.ts";
import type { PackOutput } from "./responses.ts";

/**
 * Undoes an archiving: the pack can be granted again, and has its name again. A pack that is not archived stays as it is.
 * Throws `not_found`, and `pack_name_taken` when the name was given to another pack meanwhile.
 */
export async function restorePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.restored", (pack) =>
    pack.archivedAtMs === null ? null : { pack: { ...pack, archivedAtMs: null }, items: null },
  );
}
