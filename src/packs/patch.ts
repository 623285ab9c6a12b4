import { type SQL, sql } from "drizzle-orm";
import { constraintOf } from "../db/constraint.ts";
import { write } from "../db/statement.ts";
import { invalid, temporarilyUnavailable } from "../errors.ts";
import type { RootCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound, type Pack } from "./find.ts";
import { nameKey } from "./name.ts";
import { packNameTaken, packStatements, presentPack, readPack, storedItem } from "./pack.ts";
import { LEGACY_FIELDS, type PatchPackInput } from "./schemas.ts";

const ATTEMPTS_MAX = 5;

/**
 * Changes the parts of a pack that the input names; balances already issued stay as they are (C8). All or nothing, and
 * never over a change that somebody else made meanwhile: then it is decided anew on what stands.
 *
 * Throws `not_found`, `pack_name_taken`, `invalid_request` for what does not fit the pack as it is.
 */
export async function patchPack(
  root: RootCtx,
  appId: string,
  packId: string,
  input: PatchPackInput,
): Promise<PackOutput> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const pack = await readPack(root, appId, packId);
    const revision = root.newId("rev_");
    const changed = await land(root, pack, revision, decide(root, pack, input));
    if (changed?.revision === revision) return presentPack(changed);
  }
  throw temporarilyUnavailable("The pack is being changed by others; try again.");
}

interface Change {
  readonly pack: Pick<Pack, "name" | "nameKey" | "defaultExpiryDays" | "unit" | "matches" | "priority">;
  /** The whole new list, or null to leave the items alone. */
  readonly items: readonly ReturnType<typeof storedItem>[] | null;
}

function decide(root: RootCtx, pack: Pack, input: PatchPackInput): Change {
  const items = input.items === undefined ? null : keepIdentities(root, pack, input.items);
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

function keepIdentities(root: RootCtx, pack: Pack, items: NonNullable<PatchPackInput["items"]>) {
  const known = new Set(pack.items.map((item) => item.id));
  return items.map((item, index) => {
    // Taken out of the set, so that a second item of the same identity is unknown as well.
    if (item.packItemId !== undefined && !known.delete(item.packItemId)) {
      throw invalid(`items[${index}].packItemId`, "is no item of this pack, or is named twice");
    }
    return storedItem(item, item.packItemId ?? root.newId("cpi_"));
  });
}

/** One batch, held back unless the pack is still as it was read; answers the pack as it stands afterwards. */
async function land(root: RootCtx, pack: Pack, revision: string, change: Change): Promise<Pack | null> {
  // Named in full: json_each has an `id` of its own.
  const isIt = sql`credit_packs.app_id = ${pack.appId} AND credit_packs.id = ${pack.id} AND revision = ${pack.revision}`;
  const asRead = sql`EXISTS (SELECT 1 FROM credit_packs WHERE ${isIt})`;
  try {
    const results = await root.db.batch([
      ...itemStatements(root, pack, change.items, asRead),
      write(
        root.db,
        sql`
        UPDATE credit_packs
        SET name = value ->> 'name', name_key = value ->> 'nameKey', unit = value ->> 'unit',
          default_expiry_days = value ->> 'defaultExpiryDays', matches = value ->> 'matches',
          priority = value ->> 'priority', revision = ${revision}
        FROM json_each(${JSON.stringify([change.pack])}) WHERE ${isIt}`,
      ),
      ...packStatements(root, pack.appId, pack.id),
    ]);
    return chooseFound(pack.id, results[3], results[4]);
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}

function itemStatements(root: RootCtx, pack: Pack, items: Change["items"], asRead: SQL) {
  const replaced = items === null ? sql`0` : asRead;
  return [
    write(
      root.db,
      sql`DELETE FROM credit_pack_items WHERE app_id = ${pack.appId} AND pack_id = ${pack.id} AND ${replaced}`,
    ),
    write(
      root.db,
      sql`
      INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit, matches, priority)
      SELECT ${pack.appId}, ${pack.id}, key, value ->> 'id', value ->> 'amountSteps', value ->> 'unit',
        value ->> 'matches', value ->> 'priority'
      FROM json_each(${JSON.stringify(items ?? [])}) WHERE ${replaced}`,
    ),
  ] as const;
}
