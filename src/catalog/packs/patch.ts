import { invalid, PurserError } from "../../errors.ts";
import type { AdminCtx } from "../../runtime.ts";
import { type ChangedPack, changePack } from "./change.ts";
import type { Pack } from "./find.ts";
import { nameKey } from "./name.ts";
import { presentPack, storedItem } from "./pack.ts";
import type { PackOutput } from "./responses.ts";
import { LEGACY_FIELDS, type PatchPackInput } from "./schemas.ts";

/**
 * Changes the fields of a pack that the input has; existing balances do not change (C8). On a conflict it is decided again.
 * Throws `not_found`, `pack_name_taken`, `changed_meanwhile` if `version` is not the current one, and `invalid_request` if
 * the input does not fit the pack.
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
    return fields.length === 0 ? null : { ...patched, fields, before: shownBefore(pack, fields) };
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
  const ids = new Set(pack.items.map((item) => item.id));
  return items.map((item, index) => {
    // The id is removed from the set, so that a second item with the same id is refused.
    if (item.packItemId !== undefined && !ids.delete(item.packItemId)) {
      throw invalid(`items[${index}].packItemId`, "is not an item of this pack, or is given twice");
    }
    return storedItem(item, item.packItemId ?? admin.newId("cpi_"));
  });
}

/** Larger ones are left out of the audit: a page of it has 500 rows. */
const BEFORE_CHARACTERS_MAX = 10_000;

/** What the changed fields were, as the API returns them: a pack's history. But for its name, which may be any text. */
function shownBefore(pack: Pack, fields: readonly string[]): Readonly<Record<string, unknown>> {
  const before = Object.fromEntries(
    Object.entries(presentPack(pack)).filter(([field]) => field !== "packName" && fields.includes(field)),
  );
  return JSON.stringify(before).length > BEFORE_CHARACTERS_MAX ? {} : before;
}

/** The API names of the fields that the change sets to another value. */
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
