import { and, isNull, sql } from "drizzle-orm";
import { creditPacks } from "../db/schema.ts";
import type { RootCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound } from "./find.ts";
import { isPack, packNotFound, packStatements, presentPack } from "./pack.ts";

/** Takes a pack out of sale and frees its name; balances issued from it stay. Again: as it was. Throws `not_found`. */
export async function archivePack(root: RootCtx, appId: string, packId: string): Promise<PackOutput> {
  const [, packs, items] = await root.db.batch([
    root.db
      .update(creditPacks)
      .set({ archivedAtMs: sql`CAST(${root.now()} AS INTEGER)`, revision: root.newId("rev_") })
      .where(and(isPack(appId, packId), isNull(creditPacks.archivedAtMs))),
    ...packStatements(root, appId, packId),
  ]);
  const pack = chooseFound(packId, packs, items);
  if (pack === null) throw packNotFound();
  return presentPack(pack);
}
