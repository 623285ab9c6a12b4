import { batch, statement } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound } from "./find.ts";
import { packNotFound, presentPack, selectPackById } from "./pack.ts";

const archive = statement<{ appId: string; packId: string; nowMs: number; revision: string }>`
  UPDATE credit_packs SET archived_at_ms = :nowMs, revision = :revision
  WHERE app_id = :appId AND id = :packId AND archived_at_ms IS NULL`;

/** Takes a pack out of sale and frees its name; balances issued from it stay. Again: as it was. Throws `not_found`. */
export async function archivePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  const [, packs, items] = await batch(admin.db, [
    archive({ appId, packId, nowMs: admin.now(), revision: admin.newId("rev_") }),
    ...selectPackById(appId, packId),
  ]);
  const pack = chooseFound(packId, packs, items);
  if (pack === null) throw packNotFound();
  return presentPack(pack);
}
