import { constraintOf } from "../db/constraint.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { invalid, temporarilyUnavailable } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound, type Pack } from "./find.ts";
import { nameKey } from "./name.ts";
import { packNameTaken, presentPack, readPack, selectPackById, storedItem } from "./pack.ts";
import { LEGACY_FIELDS, type PatchPackInput } from "./schemas.ts";

const ATTEMPTS_MAX = 5;

/**
 * Changes the parts of a pack that the input names; balances already issued stay as they are (C8). All or nothing, and
 * never over a change that somebody else made meanwhile: then it is decided anew on what stands.
 *
 * Throws `not_found`, `pack_name_taken`, `invalid_request` for what does not fit the pack as it is.
 */
export async function patchPack(
  admin: AdminCtx,
  appId: string,
  packId: string,
  input: PatchPackInput,
): Promise<PackOutput> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const pack = await readPack(admin, appId, packId);
    const revision = admin.newId("rev_");
    const changed = await land(admin, pack, revision, decide(admin, pack, input));
    if (changed?.revision === revision) return presentPack(changed);
  }
  throw temporarilyUnavailable("The pack is being changed by others; try again.");
}

interface Change {
  readonly pack: Pick<Pack, "name" | "nameKey" | "defaultExpiryDays" | "unit" | "matches" | "priority">;
  /** The whole new list, or null to leave the items alone. */
  readonly items: readonly ReturnType<typeof storedItem>[] | null;
}

function decide(admin: AdminCtx, pack: Pack, input: PatchPackInput): Change {
  const items = input.items === undefined ? null : keepIdentities(admin, pack, input.items);
  const willHaveItems = (items ?? pack.items).length > 0;
  const name = input.packName ?? pack.name;
  const common = {
    name,
    nameKey: nameKey(name),
    defaultExpiryDays: input.defaultExpiryDays === undefined ? pack.defaultExpiryDays : input.defaultExpiryDays,
  };
  if (willHaveItems) {
    const misplaced = LEGACY_FIELDS.find((field) => input[field] !== undefined);
    if (misplaced !== undefined) throw invalid(misplaced, "belongs to the items of a pack that has some");
    return { pack: { ...common, unit: null, matches: "[]", priority: 100 }, items };
  }
  const unit = input.unit ?? pack.unit;
  if (unit === null) throw invalid("unit", "is needed by a pack without items");
  const matches = input.matches === undefined ? pack.matches : JSON.stringify(input.matches);
  return { pack: { ...common, unit, matches, priority: input.priority ?? pack.priority }, items };
}

function keepIdentities(admin: AdminCtx, pack: Pack, items: NonNullable<PatchPackInput["items"]>) {
  const known = new Set(pack.items.map((item) => item.id));
  return items.map((item, index) => {
    // Taken out of the set, so that a second item of the same identity is unknown as well.
    if (item.packItemId !== undefined && !known.delete(item.packItemId)) {
      throw invalid(`items[${index}].packItemId`, "is no item of this pack, or is named twice");
    }
    return storedItem(item, item.packItemId ?? admin.newId("cpi_"));
  });
}

const isAsRead = fragment`app_id = :appId AND id = :packId AND revision = :revisionRead`;
const wasAsRead = fragment`EXISTS (SELECT 1 FROM credit_packs WHERE ${isAsRead})`;

/** A type, for an interface is no record of values. */
type PackAsRead = {
  readonly appId: string;
  readonly packId: string;
  readonly revisionRead: string;
};

/** `items` null: they stay as they are. */
const deleteItems = statement<PackAsRead & { items: string | null }>`
  DELETE FROM credit_pack_items
  WHERE app_id = :appId AND pack_id = :packId AND :items IS NOT NULL AND ${wasAsRead}`;
const insertItems = statement<PackAsRead & { items: string | null }>`
  INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit, matches, priority)
  SELECT :appId, :packId, item.key, item.value ->> 'id', item.value ->> 'amountSteps', item.value ->> 'unit',
    item.value ->> 'matches', item.value ->> 'priority'
  FROM json_each(:items) AS item WHERE ${wasAsRead}`;
const updatePack = statement<PackAsRead & { pack: string; revision: string }>`
  UPDATE credit_packs
  SET name = :pack ->> 'name', name_key = :pack ->> 'nameKey', unit = :pack ->> 'unit',
    default_expiry_days = :pack ->> 'defaultExpiryDays', matches = :pack ->> 'matches',
    priority = :pack ->> 'priority', revision = :revision
  WHERE ${isAsRead}`;

/** One batch, held back unless the pack is still as it was read; answers the pack as it stands afterwards. */
async function land(admin: AdminCtx, read: Pack, revision: string, change: Change): Promise<Pack | null> {
  const asRead = { appId: read.appId, packId: read.id, revisionRead: read.revision };
  const items = change.items === null ? null : JSON.stringify(change.items);
  try {
    const [, , , packs, packItems] = await batch(admin.db, [
      deleteItems({ ...asRead, items }),
      insertItems({ ...asRead, items }),
      updatePack({ ...asRead, pack: JSON.stringify(change.pack), revision }),
      ...selectPackById(read.appId, read.id),
    ]);
    return chooseFound(read.id, packs, packItems);
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}
