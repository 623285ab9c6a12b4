import { and, asc, eq, inArray, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../context.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { nameKey } from "./name.ts";

export type PackRow = typeof creditPacks.$inferSelect;
export type PackItemRow = typeof creditPackItems.$inferSelect;

export interface Pack extends PackRow {
  /** In their configured order; empty for a legacy pack. */
  readonly items: readonly PackItemRow[];
}

/**
 * The two statements that find a pack by its id, archived or not, or by the name of one that is not archived: for one
 * batch with whatever else the caller reads. `chooseFound` makes a pack of their answers.
 */
export function findPackStatements(ctx: Pick<Ctx, "db" | "environment">, idOrName: string) {
  const { db, environment } = ctx;
  const hasId = and(eq(creditPacks.appId, environment.appId), eq(creditPacks.id, idOrName));
  const hasName = and(
    eq(creditPacks.appId, environment.appId),
    eq(creditPacks.nameKey, nameKey(idOrName)),
    isNull(creditPacks.archivedAtMs),
  );
  // Two searches, each in its own index: SQLite would read every pack of the application for an OR of them.
  const packs = db.select().from(creditPacks).where(hasId).unionAll(db.select().from(creditPacks).where(hasName));
  const packIds = sql`(SELECT ${idOrName} UNION ALL SELECT ${creditPacks.id} FROM ${creditPacks} WHERE ${hasName})`;
  const items = db
    .select()
    .from(creditPackItems)
    .where(and(eq(creditPackItems.appId, environment.appId), inArray(creditPackItems.packId, packIds)))
    .orderBy(asc(creditPackItems.packId), asc(creditPackItems.position));
  return [packs, items] as const;
}

/** The pack meant by `idOrName`: an id is tried before a name (C7). Null when there is none. */
export function chooseFound(idOrName: string, packs: readonly PackRow[], items: readonly PackItemRow[]): Pack | null {
  const pack = packs.find((row) => row.id === idOrName) ?? packs[0];
  return pack === undefined ? null : { ...pack, items: items.filter((item) => item.packId === pack.id) };
}
