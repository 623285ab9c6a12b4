import { and, asc, eq } from "drizzle-orm";
import { fromSteps, toSteps } from "../amounts/amount.ts";
import { readRules } from "../amounts/match.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound, type Pack } from "./find.ts";
import type { CreatePackInput } from "./schemas.ts";

export const packNotFound = () => new PurserError("not_found", "There is no such pack.", { param: "packId" });
export const packNameTaken = (cause: unknown) =>
  new PurserError("pack_name_taken", "Another pack of the application has this name.", { param: "packName", cause });

export const isPack = (appId: string, packId: string) => and(eq(creditPacks.appId, appId), eq(creditPacks.id, packId));

/** The two statements that read one pack of an application, archived or not. */
export function packStatements(root: RootCtx, appId: string, packId: string) {
  return [
    root.db.select().from(creditPacks).where(isPack(appId, packId)),
    root.db
      .select()
      .from(creditPackItems)
      .where(and(eq(creditPackItems.appId, appId), eq(creditPackItems.packId, packId)))
      .orderBy(asc(creditPackItems.position)),
  ] as const;
}

/** Throws `not_found`. */
export async function readPack(root: RootCtx, appId: string, packId: string): Promise<Pack> {
  const [packs, items] = await root.db.batch(packStatements(root, appId, packId));
  const pack = chooseFound(packId, packs, items);
  if (pack === null) throw packNotFound();
  return pack;
}

/** An item as the statements that write it read it from JSON. */
export function storedItem(item: CreatePackInput["items"][number], id: string) {
  const amountSteps = toSteps(item.unit, item.amount);
  assert(amountSteps !== null, "the schema admits exact amounts alone");
  return { id, amountSteps, unit: item.unit, matches: JSON.stringify(item.matches), priority: item.priority };
}

/** A pack on the wire: unit, rules and priority are its items', or its own when it has none. */
export function presentPack(pack: Pack): PackOutput {
  const isLegacy = pack.items.length === 0;
  return {
    packId: pack.id,
    packName: pack.name,
    defaultExpiryDays: pack.defaultExpiryDays,
    items: pack.items.map((item) => ({
      packItemId: item.id,
      amount: fromSteps(item.unit, item.amountSteps),
      unit: item.unit,
      matches: [...readRules(item.matches)],
      priority: item.priority,
    })),
    unit: isLegacy ? pack.unit : null,
    matches: isLegacy ? [...readRules(pack.matches)] : null,
    priority: isLegacy ? pack.priority : null,
    createdAt: iso(pack.createdAtMs),
    archivedAt: pack.archivedAtMs === null ? null : iso(pack.archivedAtMs),
  };
}
