import { and, eq, isNull, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { fromMinor, toMinor, type Unit } from "../books/amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../books/amounts/match.ts";
import { asInteger, drizzle, fields, insertFrom, optional, query, type ValueOf } from "../db/query.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { all, type StatementRow } from "../db/sql.ts";
import { assert, PurserError } from "../errors.ts";
import { nearest } from "../http/wrong-names.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx, TenantCtx } from "../runtime.ts";

export interface PackOutput {
  readonly packId: string;
  readonly packName: string;
  readonly defaultExpiryDays: number | null;
  readonly items: {
    readonly packItemId: string;
    readonly amount: number;
    readonly unit: Unit;
    readonly matches: MatchRule[];
    readonly priority: number;
  }[];
  readonly unit: Unit | null;
  readonly matches: MatchRule[] | null;
  readonly priority: number | null;
  readonly createdAt: string;
  readonly archivedAt: string | null;
  readonly version: number;
}

/** The most bytes of a pack's items, or of its rules, as JSON: a batch may carry those of several packs. */
export const PACK_BYTES_MAX = 65_536;

export const OPEN_AMOUNT_FIELDS = ["unit", "matches", "priority"] as const;

export interface CreatePackInput {
  readonly packName: string;
  readonly items: {
    readonly amount: number;
    readonly unit: Unit;
    readonly matches: MatchRule[];
    readonly priority: number;
  }[];
  readonly unit?: Unit | undefined;
  readonly matches?: MatchRule[] | undefined;
  readonly priority?: number | undefined;
  readonly defaultExpiryDays?: number | null | undefined;
}

export interface ListPacksOutput {
  readonly packs: PackOutput[];
}

/** Returns the key by which pack names are compared (C7): NFKC, then lower case. `STRASSE` and `straße` are two names. */
export function nameKey(name: string): string {
  return name.normalize("NFKC").toLowerCase();
}

type ItemRow = typeof creditPackItems.$inferSelect;
type PackItem = Pick<ItemRow, "position" | "itemNumber" | "id" | "amountMinor" | "unit" | "matches" | "priority">;

export interface Pack extends Readonly<typeof creditPacks.$inferSelect> {
  /** In their configured order. Empty for an open-amount pack. */
  readonly items: readonly PackItem[];
}

/** Selects a row for each item of the packs, and one row for a pack without items. Follow it with `joinItems`. */
const selectPackRows = () =>
  drizzle.select({
    ...fields(creditPacks),
    ...optional(
      fields(creditPackItems, {
        position: "position",
        itemNumber: "itemNumber",
        itemId: "id",
        amountMinor: "amountMinor",
        itemUnit: "unit",
        itemMatches: "matches",
        itemPriority: "priority",
      }),
    ),
  });
const itemsOfPack = () => and(eq(creditPackItems.appId, creditPacks.appId), eq(creditPackItems.packId, creditPacks.id));

/** A pack with one of its items, or none. */
export type PackRow = StatementRow<typeof packsOfRows>;

/** Returns the packs of some rows, in the order of the rows. */
export function readPacks(rows: readonly PackRow[]): Pack[] {
  const packs = new Map<string, Pack & { readonly items: PackItem[] }>();
  for (const { position, itemNumber, itemId, amountMinor, itemUnit, itemMatches, itemPriority, ...row } of rows) {
    const pack = packs.get(row.id) ?? { ...row, items: [] };
    packs.set(pack.id, pack);
    const rest = { amountMinor, unit: itemUnit, matches: itemMatches, priority: itemPriority };
    const item = { position, itemNumber, id: itemId, ...rest };
    // The join returns all fields of an item, or none.
    if (itemId !== null) pack.items.push(item as PackItem);
  }
  for (const { items } of packs.values()) items.sort((a, b) => a.position - b.position);
  return [...packs.values()];
}

const packByName = alias(creditPacks, "named");
// Two searches, each with its own index. For an OR, SQLite would read every pack of the application.
const packsOfRows = query((value: ValueOf<{ appId: string; idOrName: string; nameKey: string }>) => {
  const idsByName = drizzle
    .select(fields(packByName, "id"))
    .from(packByName)
    .where(
      and(
        eq(packByName.appId, value("appId")),
        eq(packByName.nameKey, value("nameKey")),
        isNull(packByName.archivedAtMs),
      ),
    );
  return selectPackRows()
    .from(creditPacks)
    .leftJoin(creditPackItems, itemsOfPack())
    .where(
      and(
        eq(creditPacks.appId, value("appId")),
        sql`${creditPacks.id} IN (SELECT ${value("idOrName")} UNION ALL ${idsByName.getSQL()})`,
      ),
    );
});

/**
 * Returns the statement that finds a pack for `choosePack`: by id, archived or not, or by the name of a pack that is not
 * archived.
 */
export function selectPack({ environment }: Pick<TenantCtx, "environment">, idOrName: string) {
  return packsOfRows({ appId: environment.appId, idOrName, nameKey: nameKey(idOrName) });
}

/** Returns the pack with the id or the name `idOrName`; an id takes precedence (C7). Null when there is none. */
export function choosePack(idOrName: string, rows: readonly PackRow[]): Pack | null {
  const packs = readPacks(rows);
  return packs.find(({ id }) => id === idOrName) ?? packs[0] ?? null;
}

const SEARCHED_NAMES_MAX = 500;
const selectNames = query((value: ValueOf<{ appId: string }>) =>
  drizzle
    .select(fields(creditPacks, "name"))
    .from(creditPacks)
    .where(and(eq(creditPacks.appId, value("appId")), isNull(creditPacks.archivedAtMs)))
    .limit(SEARCHED_NAMES_MAX),
);

/** Returns at most three names of packs that resemble an unknown name. */
export async function nearestPackNames({ db, environment }: TenantCtx, name: string): Promise<string[]> {
  const rows = await all(db, selectNames({ appId: environment.appId }));
  return nearest(
    name,
    rows.map((row) => row.name),
    3,
  );
}

const packNotFound = () =>
  new PurserError(
    "not_found",
    "The application has no pack with this id. Ids are compared exactly, and begin with `cpk_`.",
    { param: "packId" },
  );
export const packNameTaken = (cause: unknown) =>
  new PurserError("pack_name_taken", "Another pack of the application has this name. Choose another name.", {
    param: "packName",
    cause,
  });

export type PackKey = { appId: string; packId: string };
export const ofPackKey = (value: ValueOf<PackKey>) =>
  and(eq(creditPacks.appId, value("appId")), eq(creditPacks.id, value("packId")));

/** Returns the statement that reads one pack of an application, archived or not. */
export const selectPackById = query((value: ValueOf<PackKey>) =>
  selectPackRows().from(creditPacks).leftJoin(creditPackItems, itemsOfPack()).where(ofPackKey(value)),
);

/** Reads a pack. Throws `not_found`. */
export async function readPack(root: SystemCtx, appId: string, packId: string): Promise<Pack> {
  const [pack] = readPacks(await all(root.db, selectPackById({ appId, packId })));
  if (pack === undefined) throw packNotFound();
  return pack;
}

/** Returns an item in the form that the statements read from JSON. Its number gives its id. */
export function storedItem(item: CreatePackInput["items"][number], itemNumber: number) {
  const amountMinor = toMinor(item.unit, item.amount);
  assert(amountMinor !== null, "the schema accepts only exact amounts");
  return { itemNumber, amountMinor, unit: item.unit, matches: JSON.stringify(item.matches), priority: item.priority };
}

/** Inserts a pack's items, in the form of `storedItem`, where `where` is true. */
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
        itemNumber: sql`item.value ->> 'itemNumber'`,
        amountMinor: sql`item.value ->> 'amountMinor'`,
        unit: sql`item.value ->> 'unit'`,
        matches: sql`item.value ->> 'matches'`,
        priority: sql`item.value ->> 'priority'`,
      },
      sql`FROM json_each(${value("items")}) AS item WHERE ${where(value)}`,
    ),
  );
}

/** Returns a pack in the form of the API. Each item has a unit, rules and a priority; a pack without items has its own. */
export function presentPack(pack: Pack): PackOutput {
  const isOpenAmount = pack.items.length === 0;
  return {
    packId: pack.id,
    packName: pack.name,
    defaultExpiryDays: pack.defaultExpiryDays,
    items: pack.items.map((item) => ({
      packItemId: item.id,
      amount: fromMinor(item.unit, item.amountMinor),
      unit: item.unit,
      matches: [...readStoredRules(item.matches)],
      priority: item.priority,
    })),
    unit: isOpenAmount ? pack.unit : null,
    matches: isOpenAmount ? [...readStoredRules(pack.matches)] : null,
    priority: isOpenAmount ? pack.priority : null,
    createdAt: iso(pack.createdAtMs),
    archivedAt: pack.archivedAtMs === null ? null : iso(pack.archivedAtMs),
    version: pack.version,
  };
}

const EVERY_PACK = -1;

// The limit counts packs, not rows.
const selectPacks = query((value: ValueOf<{ appId: string; limit: number }>) => {
  const ofApp = eq(creditPacks.appId, value("appId"));
  const page = sql`SELECT * FROM ${creditPacks} WHERE ${ofApp} ORDER BY ${creditPacks.id} LIMIT ${asInteger(value("limit"))}`;
  return selectPackRows().from(sql`(${page}) AS ${creditPacks}`).leftJoin(creditPackItems, itemsOfPack());
});

/** Returns the packs of an application, archived ones included, oldest first; at most `limit` if it is given. */
export async function listPacks(root: SystemCtx, appId: string, limit: number = EVERY_PACK): Promise<ListPacksOutput> {
  const rows = await all(root.db, selectPacks({ appId, limit }));
  return {
    packs: readPacks(rows)
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map(presentPack),
  };
}
