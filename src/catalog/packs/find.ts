import { and, eq, isNull, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { drizzle, fields, optional, query, type ValueOf } from "../../db/query.ts";
import { creditPackItems, creditPacks } from "../../db/schema.ts";
import type { RowsOf } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { nameKey } from "./name.ts";

type ItemRow = typeof creditPackItems.$inferSelect;
type PackItem = Pick<ItemRow, "position" | "id" | "amountSteps" | "unit" | "matches" | "priority">;

export interface Pack extends Readonly<typeof creditPacks.$inferSelect> {
  /** In their configured order. Empty for a legacy pack. */
  readonly items: readonly PackItem[];
}

/** Selects packs, a row for each of their items, and one for a pack without. Follow it with `joinItems`. */
export const selectPackRows = () =>
  drizzle.select({
    ...fields(creditPacks),
    ...optional(
      fields(creditPackItems, {
        position: "position",
        itemId: "id",
        amountSteps: "amountSteps",
        itemUnit: "unit",
        itemMatches: "matches",
        itemPriority: "priority",
      }),
    ),
  });
export const itemsOfPack = () =>
  and(eq(creditPackItems.appId, creditPacks.appId), eq(creditPackItems.packId, creditPacks.id));

/** A pack with one of its items, or none. */
export type PackRow = RowsOf<[ReturnType<typeof packsOf>]>[0][number];

/** The packs of some rows, in the order of the rows. */
export function readPacks(rows: readonly PackRow[]): Pack[] {
  const packs = new Map<string, Pack & { readonly items: PackItem[] }>();
  for (const { position, itemId, amountSteps, itemUnit, itemMatches, itemPriority, ...row } of rows) {
    const pack = packs.get(row.id) ?? { ...row, items: [] };
    packs.set(pack.id, pack);
    const item = { position, id: itemId, amountSteps, unit: itemUnit, matches: itemMatches, priority: itemPriority };
    // The join finds an item whole.
    if (itemId !== null) pack.items.push(item as PackItem);
  }
  for (const { items } of packs.values()) items.sort((a, b) => a.position - b.position);
  return [...packs.values()];
}

const named = alias(creditPacks, "named");
// Two searches, each in its own index. For an OR, SQLite would read every pack of the application.
const packsOf = query((value: ValueOf<{ appId: string; idOrName: string; nameKey: string }>) => {
  const ofName = drizzle
    .select(fields(named, "id"))
    .from(named)
    .where(and(eq(named.appId, value("appId")), eq(named.nameKey, value("nameKey")), isNull(named.archivedAtMs)));
  return selectPackRows()
    .from(creditPacks)
    .leftJoin(creditPackItems, itemsOfPack())
    .where(
      and(
        eq(creditPacks.appId, value("appId")),
        sql`${creditPacks.id} IN (SELECT ${value("idOrName")} UNION ALL ${ofName.getSQL()})`,
      ),
    );
});

/** The statement that finds a pack for `choosePack`: by id, archived or not, or by the name of a pack that is not archived. */
export function selectPack({ environment }: Pick<TenantCtx, "environment">, idOrName: string) {
  return packsOf({ appId: environment.appId, idOrName, nameKey: nameKey(idOrName) });
}

/** The pack with the id or the name `idOrName`; an id comes first (C7). Null when there is none. */
export function choosePack(idOrName: string, rows: readonly PackRow[]): Pack | null {
  const packs = readPacks(rows);
  return packs.find(({ id }) => id === idOrName) ?? packs[0] ?? null;
}
