import { fragment, query, type RowOf } from "../db/sql.ts";
import { creditPackItems, creditPacks } from "../db/tables.ts";
import type { TenantCtx } from "../runtime.ts";
import { nameKey } from "./name.ts";

const itemColumns = {
  position: creditPackItems.position,
  id: creditPackItems.id,
  amountSteps: creditPackItems.amountSteps,
  unit: creditPackItems.unit,
  matches: creditPackItems.matches,
  priority: creditPackItems.priority,
};
type PackItem = RowOf<typeof itemColumns>;

const packColumns = {
  appId: creditPacks.appId,
  id: creditPacks.id,
  name: creditPacks.name,
  nameKey: creditPacks.nameKey,
  defaultExpiryDays: creditPacks.defaultExpiryDays,
  unit: creditPacks.unit,
  matches: creditPacks.matches,
  priority: creditPacks.priority,
  createdAtMs: creditPacks.createdAtMs,
  archivedAtMs: creditPacks.archivedAtMs,
  version: creditPacks.version,
};

/** A pack's row with its items as JSON. */
export type PackRow = RowOf<typeof packColumns> & { readonly itemsJson: string };

export interface Pack extends Omit<PackRow, "itemsJson"> {
  /** In their configured order. Empty for a legacy pack. */
  readonly items: readonly PackItem[];
}

const itemFields = Object.entries(itemColumns).map(([field, column]) => `'${field}', i.${column}`);
/** Reads packs, each with its items: one query, because each statement of a batch takes time. `p` is the pack. */
export const queryPacks = query<PackRow>({
  ...packColumns,
  itemsJson: fragment`(
    SELECT json_group_array(json_object(${itemFields.join(", ")}))
    FROM credit_pack_items AS i WHERE i.app_id = p.app_id AND i.pack_id = p.id
  ) || ''`,
});

export function readPackRow({ itemsJson, ...pack }: PackRow): Pack {
  // `queryPacks` made it of these columns.
  const items = JSON.parse(itemsJson) as PackItem[];
  return { ...pack, items: items.sort((a, b) => a.position - b.position) };
}

// Two searches, each in its own index. For an OR, SQLite would read every pack of the application.
const packsOf = queryPacks`
  FROM credit_packs AS p WHERE p.app_id = :appId AND p.id IN (
    SELECT :idOrName
    UNION ALL
    SELECT id FROM credit_packs WHERE app_id = :appId AND name_key = :nameKey AND archived_at_ms IS NULL
  )`;

/** The statement that finds a pack for `choosePack`: by id, archived or not, or by the name of a pack that is not archived. */
export function selectPack({ environment }: Pick<TenantCtx, "environment">, idOrName: string) {
  return packsOf({ appId: environment.appId, idOrName, nameKey: nameKey(idOrName) });
}

/** The pack with the id or the name `idOrName`; an id comes first (C7). Null when there is none. */
export function choosePack(idOrName: string, packs: readonly PackRow[]): Pack | null {
  const row = packs.find(({ id }) => id === idOrName) ?? packs[0];
  return row === undefined ? null : readPackRow(row);
}
