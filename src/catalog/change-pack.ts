import { and, eq, sql } from "drizzle-orm";
import type { Unit } from "../books/amounts/amount.ts";
import type { MatchRule } from "../books/amounts/match.ts";
import { attempt, findConstraint } from "../db/attempt.ts";
import { drizzle, query, type ValueOf } from "../db/query.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { assert, invalid, PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { type Action, type AuditEntryKey, auditEntryIsNew, insertAuditEntry, newAuditEntry } from "./audit.ts";
import {
  insertItemsWhere,
  nameKey,
  OPEN_AMOUNT_FIELDS,
  ofPackKey,
  type Pack,
  type PackKey,
  type PackOutput,
  packNameTaken,
  presentPack,
  readPack,
  readPacks,
  selectPackById,
  storedItem,
} from "./pack.ts";

export interface PatchPackInput {
  readonly unit?: Unit | undefined;
  readonly matches?: MatchRule[] | undefined;
  readonly priority?: number | undefined;
  readonly version?: number | undefined;
  readonly packName?: string | undefined;
  readonly defaultExpiryDays?: number | null | undefined;
  readonly items?:
    | {
        readonly amount: number;
        readonly unit: Unit;
        readonly matches: MatchRule[];
        readonly priority: number;
        readonly packItemId?: string | undefined;
      }[]
    | undefined;
}

/** A pack after a change. */
export interface ChangedPack {
  /** The fields that a change may set. */
  readonly pack: Pick<
    Pack,
    "lastItemNumber" | "name" | "nameKey" | "defaultExpiryDays" | "unit" | "matches" | "priority" | "archivedAtMs"
  >;
  /** The whole new list. Null leaves the items unchanged. */
  readonly items: readonly ReturnType<typeof storedItem>[] | null;
  /** The names of the changed fields, for the audit log. */
  readonly fields?: readonly string[];
  /** The values of the changed fields before the change. */
  readonly before?: Readonly<Record<string, unknown>>;
}

/** Decides how to change a stored pack. Returns null when nothing changes. May throw a rejection. */
export type Decide = (pack: Pack) => ChangedPack | null;

/**
 * Changes a pack: reads it, decides, and writes one batch. If the pack changed after the read, the database rejects the batch,
 * and all steps run again. Throws `not_found` and `pack_name_taken`.
 */
async function changePack(
  admin: AdminCtx,
  appId: string,
  packId: string,
  action: Action,
  decide: Decide,
): Promise<PackOutput> {
  const auditEntry = newAuditEntry(admin, { appId, action, target: packId });
  return attempt(admin, async () => {
    const read = await readPack(admin, appId, packId);
    const changed = decide(read);
    if (changed === null) return presentPack(read);
    const { fields, before } = changed;
    const version = read.version + 1;
    const details = JSON.stringify({ version, ...(fields === undefined ? {} : { fields, before }) });
    return presentPack(await writeChange(admin, { ...auditEntry, details }, read, changed));
  });
}

type ChangeKey = PackKey & AuditEntryKey;

/** Deletes the items. If `items` is null, the items do not change. */
const deleteItems = query((value: ValueOf<ChangeKey & { items: string | null }>) =>
  drizzle
    .delete(creditPackItems)
    .where(
      and(
        eq(creditPackItems.appId, value("appId")),
        eq(creditPackItems.packId, value("packId")),
        sql`${value("items")} IS NOT NULL`,
        auditEntryIsNew(value),
      ),
    ),
);
const insertChangedItems = insertItemsWhere<ChangeKey>(auditEntryIsNew);
const updatePack = query((value: ValueOf<ChangeKey & ChangedPack["pack"] & { version: number }>) =>
  drizzle
    .update(creditPacks)
    .set({
      name: value("name", creditPacks.name),
      nameKey: value("nameKey", creditPacks.nameKey),
      unit: value("unit", creditPacks.unit),
      defaultExpiryDays: value("defaultExpiryDays", creditPacks.defaultExpiryDays),
      matches: value("matches", creditPacks.matches),
      priority: value("priority", creditPacks.priority),
      archivedAtMs: value("archivedAtMs", creditPacks.archivedAtMs),
      lastItemNumber: value("lastItemNumber", creditPacks.lastItemNumber),
      version: value("version", creditPacks.version),
    })
    .where(and(ofPackKey(value), auditEntryIsNew(value))),
);
const auditPackChanged = insertAuditEntry();

/** Writes one batch, which is rejected if the pack changed after the read. A repeat of the batch changes nothing. */
async function writeChange(
  admin: AdminCtx,
  auditEntry: ReturnType<typeof newAuditEntry>,
  read: Pack,
  changed: ChangedPack,
): Promise<Pack> {
  const keyed = { appId: read.appId, packId: read.id, auditEntryId: auditEntry.auditEntryId };
  const items = changed.items === null ? null : JSON.stringify(changed.items);
  try {
    const [, , , , rows] = await batch(admin.db, [
      deleteItems({ ...keyed, items }),
      insertChangedItems({ ...keyed, items }),
      updatePack({ ...changed.pack, ...keyed, version: read.version + 1 }),
      auditPackChanged(auditEntry),
      selectPackById({ appId: read.appId, packId: read.id }),
    ]);
    const [pack] = readPacks(rows);
    assert(pack !== undefined, "a pack is never deleted");
    return pack;
  } catch (error) {
    throw findConstraint(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}

/**
 * Changes the fields of a pack that the input has; existing balances do not change (C8). Decides again on a conflict. Throws
 * `not_found`, `pack_name_taken`, `changed_meanwhile` if `version` is not the current one, and `invalid_request` if the input
 * does not fit the pack.
 */
export async function patchPack(
  admin: AdminCtx,
  appId: string,
  packId: string,
  input: PatchPackInput,
): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.changed", (pack) => {
    assertVersion(pack, input.version);
    const patched = patch(pack, input);
    const fields = changedFields(pack, patched);
    return fields.length === 0 ? null : { ...patched, fields, before: shownBefore(pack, fields) };
  });
}

function assertVersion(pack: Pack, version: number | undefined): void {
  if (version === undefined || version === pack.version) return;
  throw new PurserError(
    "changed_meanwhile",
    "The pack was changed after this version was read. Read it again, and send its new `version`.",
    {
      param: "version",
      details: { version: pack.version },
    },
  );
}

function patch(pack: Pack, input: PatchPackInput): ChangedPack {
  const items = input.items === undefined ? null : keepIdentities(pack, input.items);
  const willHaveItems = (items ?? pack.items).length > 0;
  const name = input.packName ?? pack.name;
  const common = {
    lastItemNumber: Math.max(pack.lastItemNumber, ...(items ?? []).map((item) => item.itemNumber)),
    name,
    nameKey: nameKey(name),
    defaultExpiryDays: input.defaultExpiryDays === undefined ? pack.defaultExpiryDays : input.defaultExpiryDays,
    archivedAtMs: pack.archivedAtMs,
  };
  if (willHaveItems) {
    const misplaced = OPEN_AMOUNT_FIELDS.find((field) => input[field] !== undefined);
    if (misplaced !== undefined) throw invalid(misplaced, "is allowed only for a pack without items");
    return { pack: { ...common, unit: null, matches: "[]", priority: 100 }, items };
  }
  const unit = input.unit ?? pack.unit;
  if (unit === null) throw invalid("unit", "is required for a pack without items");
  const matches = input.matches === undefined ? pack.matches : JSON.stringify(input.matches);
  return { pack: { ...common, unit, matches, priority: input.priority ?? pack.priority }, items };
}

function keepIdentities(pack: Pack, items: NonNullable<PatchPackInput["items"]>) {
  const numbers = new Map(pack.items.map(({ id, itemNumber }) => [id, itemNumber]));
  let last = pack.lastItemNumber;
  return items.map((item, index) => {
    if (item.packItemId === undefined) return storedItem(item, ++last);
    const number = numbers.get(item.packItemId);
    // The id is removed from the map, so that a second item with the same id is rejected.
    if (number === undefined || !numbers.delete(item.packItemId)) {
      throw invalid(`items[${index}].packItemId`, "is not an item of this pack, or is given twice");
    }
    return storedItem(item, number);
  });
}

/** Longer values are left out of the audit, because one of its pages has 500 rows. */
const BEFORE_CHARACTERS_MAX = 10_000;

/**
 * Returns the old values of the changed fields as the API returns them, for the pack's history. Omits the name, which may be any
 * text.
 */
function shownBefore(pack: Pack, fields: readonly string[]): Readonly<Record<string, unknown>> {
  const before = Object.fromEntries(
    Object.entries(presentPack(pack)).filter(([field]) => field !== "packName" && fields.includes(field)),
  );
  return JSON.stringify(before).length > BEFORE_CHARACTERS_MAX ? {} : before;
}

/** Returns the API names of the fields whose value the change alters. */
function changedFields(pack: Pack, { pack: after, items }: ChangedPack): string[] {
  const fields = (["defaultExpiryDays", ...OPEN_AMOUNT_FIELDS] as const).filter(
    (field) => pack[field] !== after[field],
  );
  const before = pack.items.map(({ itemNumber, amountMinor, unit, matches, priority }) => ({
    itemNumber,
    amountMinor,
    unit,
    matches,
    priority,
  }));
  return [
    ...(pack.name === after.name ? [] : ["packName"]),
    ...fields,
    ...(items === null || JSON.stringify(items) === JSON.stringify(before) ? [] : ["items"]),
  ];
}

/** Archives a pack: it can no longer be granted, and its name is free. A repeat changes nothing. Throws `not_found`. */
export async function archivePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.archived", (pack) =>
    pack.archivedAtMs === null ? { pack: { ...pack, archivedAtMs: admin.now() }, items: null } : null,
  );
}

/**
 * Restores an archived pack: it can be granted again, under its name. Does not change a pack that is not archived. Throws
 * `not_found`, and `pack_name_taken` if another pack now has the name.
 */
export async function restorePack(admin: AdminCtx, appId: string, packId: string): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.restored", (pack) =>
    pack.archivedAtMs === null ? null : { pack: { ...pack, archivedAtMs: null }, items: null },
  );
}
