import { and, eq, type SQL, sql } from "drizzle-orm";
import { fromSteps, toSteps } from "../../books/amounts/amount.ts";
import { readRules } from "../../books/amounts/match.ts";
import { insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditPackItems, creditPacks } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import { itemsOfPack, type Pack, readPacks, selectPackRows } from "./find.ts";
import type { PackOutput } from "./responses.ts";
import type { CreatePackInput } from "./schemas.ts";

const packNotFound = () =>
  new PurserError(
    "not_found",
    "The application has no pack with this id. Ids are compared exactly, and begin with `cpk_`.",
    { param: "packId" },
  );
export const packNameTaken = (cause: unknown) =>
  new PurserError("pack_name_taken", "Another pack of the application has this name.", { param: "packName", cause });

export type PackKey = { appId: string; packId: string };
export const ofPackKey = (value: ValueOf<PackKey>) =>
  and(eq(creditPacks.appId, value("appId")), eq(creditPacks.id, value("packId")));

/** The statement that reads one pack of an application, archived or not. */
export const selectPackById = query((value: ValueOf<PackKey>) =>
  selectPackRows().from(creditPacks).leftJoin(creditPackItems, itemsOfPack()).where(ofPackKey(value)),
);

/** Throws `not_found`. */
export async function readPack(root: SystemCtx, appId: string, packId: string): Promise<Pack> {
  const [pack] = readPacks(await all(root.db, selectPackById({ appId, packId })));
  if (pack === undefined) throw packNotFound();
  return pack;
}

/** An item in the form that the statements read from JSON. */
export function storedItem(item: CreatePackInput["items"][number], id: string) {
  const amountSteps = toSteps(item.unit, item.amount);
  assert(amountSteps !== null, "the schema accepts only exact amounts");
  return { id, amountSteps, unit: item.unit, matches: JSON.stringify(item.matches), priority: item.priority };
}

/** Inserts a pack's items, as `storedItem` gives them, where `where` is true. */
export function insertItemsWhere<Values extends PackKey>(
  where: (value: ValueOf<Values & { items: string | null }>) => SQL | undefined,
) {
  return query((value: ValueOf<Values & { items: string | null }>) =>
    insertFrom(
      creditPackItems,
      {
        appId: value("appId"),
        packId: value("packId"),
        position: sql`item.key`,
        id: sql`item.value ->> 'id'`,
        amountSteps: sql`item.value ->> 'amountSteps'`,
        unit: sql`item.value ->> 'unit'`,
        matches: sql`item.value ->> 'matches'`,
        priority: sql`item.value ->> 'priority'`,
      },
      sql`FROM json_each(${value("items")}) AS item WHERE ${where(value)}`,
    ),
  );
}

/** A pack as the API returns it. If it has items, unit, rules and priority are theirs; otherwise they are its own. */
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
    version: pack.version,
  };
}
