import { creditPackItems, creditPacks } from "../db/schema.ts";
import { allColumns, fragment, select, statement } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import { nameKey } from "./name.ts";

export type PackRow = typeof creditPacks.$inferSelect;
export type PackItemRow = typeof creditPackItems.$inferSelect;

export interface Pack extends PackRow {
  /** In their configured order. Empty for a legacy pack. */
  readonly items: readonly PackItemRow[];
}

/** A type, because an interface is not assignable to `Values`. */
type IdOrName = {
  readonly appId: string;
  readonly idOrName: string;
  readonly nameKey: string;
};

// Two searches, each in its own index. For an OR, SQLite would read every pack of the application.
const ids = fragment`(
  SELECT :idOrName
  UNION ALL
  SELECT id FROM credit_packs WHERE app_id = :appId AND name_key = :nameKey AND archived_at_ms IS NULL
)`;
const selectPackRows = statement<IdOrName, PackRow>`
  SELECT ${select(allColumns(creditPacks))} FROM credit_packs WHERE app_id = :appId AND id IN ${ids}`;
const selectItemRows = statement<IdOrName, PackItemRow>`
  SELECT ${select(allColumns(creditPackItems))} FROM credit_pack_items WHERE app_id = :appId AND pack_id IN ${ids}`;

/**
 * Two statements that find a pack: by id, archived or not, or by the name of a pack that is not archived. The caller adds
 * them to its batch, and `choosePack` makes a pack from their rows.
 */
export function selectPack(ctx: Pick<TenantCtx, "environment">, idOrName: string) {
  const values = { appId: ctx.environment.appId, idOrName, nameKey: nameKey(idOrName) };
  return [selectPackRows(values), selectItemRows(values)] as const;
}

/** The pack with the id or the name `idOrName`; an id comes first (C7). Null when there is none. */
export function choosePack(idOrName: string, packs: readonly PackRow[], items: readonly PackItemRow[]): Pack | null {
  const pack = packs.find((row) => row.id === idOrName) ?? packs[0];
  if (pack === undefined) return null;
  const own = items.filter((item) => item.packId === pack.id);
  return { ...pack, items: own.sort((a, b) => a.position - b.position) };
}
