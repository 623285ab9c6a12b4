import { invalid, PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { type ChangedPack, changePack } from "./change.ts";
import type { Pack } from "./find.ts";
import { nameKey } from "./name.ts";
import { storedItem } from "./pack.ts";
import type { PackOutput } from "./responses.ts";
import { LEGACY_FIELDS, type PatchPackInput } from "./schemas.ts";

/**
 * Changes the parts of a pack that the input names; balances already issued stay as they are (C8). All or nothing, and
 * never over a change that somebody else made meanwhile: then it is decided anew on what stands.
 *
 * Throws `not_found`, `changed_meanwhile` for a `version` that is no longer the pack's, `pack_name_taken`, and
 * `invalid_request` for what does not fit the pack as it is.
 */
export async function patchPack(
  admin: AdminCtx,
  appId: string,
  packId: string,
  input: PatchPackInput,
): Promise<PackOutput> {
  return changePack(admin, appId, packId, "pack.changed", (pack) => {
    assertVersion(pack, input.version);
    const patched = patch(admin, pack, input);
    const fields = changedFields(pack, patched);
    return fields.length === 0 ? null : { ...patched, fields };
  });
}

function assertVersion(pack: Pack, version: number | undefined): void {
  if (version === undefined || version === pack.version) return;
  throw new PurserError("changed_meanwhile", "The pack was changed after this version was read.", {
    param: "version",
    details: { version: pack.version },
  });
}

function patch(admin: AdminCtx, pack: Pack, input: PatchPackInput): ChangedPack {
  const items = input.items === undefined ? null : keepIdentities(admin, pack, input.items);
  const willHaveItems = (items ?? pack.items).length > 0;
  const name = input.packName ?? pack.name;
  const common = {
    name,
    nameKey: nameKey(name),
    defaultExpiryDays: input.defaultExpiryDays === undefined ? pack.defaultExpiryDays : input.defaultExpiryDays,
    archivedAtMs: pack.archivedAtMs,
  };
  if (willHaveItems) {
    const misplaced = LEGACY_FIELDS.find((field) => input[field] !== undefined);
    if (misplaced !== undefined) throw invalid(misplaced, "is allowed only for a pack without items");
    return { pack: { ...common, unit: null, matches: "[]", priority: 100 }, items };
  }
  const unit = input.unit ?? pack.unit;
  if (unit === null) throw invalid("unit", "is required for a pack without items");
  const matches = input.matches === undefined ? pack.matches : JSON.stringify(input.matches);
  return { pack: { ...common, unit, matches, priority: input.priority ?? pack.priority }, items };
}

function keepIdentities(admin: AdminCtx, pack: Pack, items: NonNullable<PatchPackInput["items"]>) {
  const known = new Set(pack.items.map((item) => item.id));
  return items.map((item, index) => {
    // Taken out of the set, so that a second item of the same identity is unknown as well.
    if (item.packItemId !== undefined && !known.delete(item.packItemId)) {
      throw invalid(`items[${index}].packItemId`, "is not an item of this pack, or is given twice");
    }
    return storedItem(item, item.packItemId ?? admin.newId("cpi_"));
  });
}

/** The fields, by their names on the wire, in which a change leaves the pack other than it is. */
function changedFields(pack: Pack, { pack: after, items }: ChangedPack): string[] {
  const fields = (["defaultExpiryDays", ...LEGACY_FIELDS] as const).filter((field) => pack[field] !== after[field]);
  const before = pack.items.map(({ id, amountSteps, unit, matches, priority }) => ({
    id,
    amountSteps,
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
