import { creditPackItems, creditPacks } from "../db/schema.ts";
import { allColumns, batch, select, statement } from "../db/sql.ts";
import type { SystemCtx } from "../runtime.ts";
import type { PackItemRow, PackRow } from "./find.ts";
import { presentPack } from "./pack.ts";
import type { ListPacksOutput } from "./responses.ts";

const EVERY = -1;

const selectPacks = statement<{ appId: string; limit: number }, PackRow>`
  SELECT ${select(allColumns(creditPacks))} FROM credit_packs WHERE app_id = :appId ORDER BY id LIMIT :limit`;
const selectItems = statement<{ appId: string; limit: number }, PackItemRow>`
  SELECT ${select(allColumns(creditPackItems))} FROM credit_pack_items
  WHERE app_id = :appId
    AND pack_id IN (SELECT id FROM credit_packs WHERE app_id = :appId ORDER BY id LIMIT :limit)
  ORDER BY pack_id, position`;

/** The packs of an application, with archived ones, oldest first; at most `limit` if it is given. */
export async function listPacks(root: SystemCtx, appId: string, limit: number = EVERY): Promise<ListPacksOutput> {
  const [packs, items] = await batch(root.db, [selectPacks({ appId, limit }), selectItems({ appId, limit })]);
  const itemsOf = Map.groupBy(items, (item) => item.packId);
  return {
    packs: packs
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((pack) => presentPack({ ...pack, items: itemsOf.get(pack.id) ?? [] })),
  };
}
