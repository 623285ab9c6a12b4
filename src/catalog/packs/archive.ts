import type { AdminCtx } from "../../runtime.ts";
import { changePack } from "./change.ts";
import type { PackOutput } from "./responses.ts";

/** Archives a pack: it cannot be granted, and its name is free. A repeat changes nothing. Throws `not_found`. */
export async function archivePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.archived", (pack) =>
    pack.archivedAtMs === null ? { pack: { ...pack, archivedAtMs: admin.now() }, items: null } : null,
  );
}
