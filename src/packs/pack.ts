import { fromSteps, toSteps } from "../amounts/amount.ts";
import { readRules } from "../amounts/match.ts";
import { all } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { type Pack, queryPacks, readPackRow } from "./find.ts";
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

/** The statement that reads one pack of an application, archived or not. */
export const selectPackById = queryPacks`
  FROM credit_packs AS p WHERE p.app_id = :appId AND p.id = :packId`;

/** Throws `not_found`. */
export async function readPack(root: SystemCtx, appId: string, packId: string): Promise<Pack> {
  const [row] = await all(root.db, selectPackById({ appId, packId }));
  if (row === undefined) throw packNotFound();
  return readPackRow(row);
}

/** An item in the form that the statements read from JSON. */
export function storedItem(item: CreatePackInput["items"][number], id: string) {
  const amountSteps = toSteps(item.unit, item.amount);
  assert(amountSteps !== null, "the schema accepts only exact amounts");
  return { id, amountSteps, unit: item.unit, matches: JSON.stringify(item.matches), priority: item.priority };
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
