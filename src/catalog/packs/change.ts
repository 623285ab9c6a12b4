import { and, eq, sql } from "drizzle-orm";
import { type Constraint, constraintOf } from "../../db/constraint.ts";
import { drizzle, query, type ValueOf } from "../../db/query.ts";
import { retryOnConflict } from "../../db/retry-on-conflict.ts";
import { creditPackItems, creditPacks } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { assert } from "../../lib/assert.ts";
import type { AdminCtx } from "../../runtime.ts";
import { type Action, type ActKey, actIsNew, insertAct, newAct } from "../audit/audit-statement.ts";
import { type Pack, readPacks } from "./find.ts";
import {
  insertItemsWhere,
  ofPackKey,
  type PackKey,
  packNameTaken,
  presentPack,
  readPack,
  selectPackById,
  type storedItem,
} from "./pack.ts";
import type { PackOutput } from "./responses.ts";

/** A pack after a change. */
export interface ChangedPack {
  /** The fields that a change may set. */
  readonly pack: Pick<
    Pack,
    "name" | "nameKey" | "defaultExpiryDays" | "unit" | "matches" | "priority" | "archivedAtMs"
  >;
  /** The whole new list. Null leaves the items unchanged. */
  readonly items: readonly ReturnType<typeof storedItem>[] | null;
  /** The names of the changed fields, for the audit log. */
  readonly fields?: readonly string[];
  /** What these were before. */
  readonly before?: Readonly<Record<string, unknown>>;
}

/** Decides the change of a stored pack. Null when nothing changes. May throw a refusal. */
export type Decide = (pack: Pack) => ChangedPack | null;

const CONFLICTS: ReadonlySet<Constraint> = new Set(["credit_packs_version"]);

/**
 * Changes a pack: reads it, decides, and writes one batch. If the pack was changed after the read, the database refuses the
 * batch, and all of it is done again. Throws `not_found` and `pack_name_taken`.
 */
export async function changePack(
  admin: AdminCtx,
  appId: string,
  packId: string,
  action: Action,
  decide: Decide,
): Promise<PackOutput> {
  const act = newAct(admin, { appId, action, target: packId });
  return retryOnConflict(CONFLICTS, act.actId, async () => {
    const read = await readPack(admin, appId, packId);
    const changed = decide(read);
    if (changed === null) return presentPack(read);
    const { fields, before } = changed;
    const version = read.version + 1;
    const details = JSON.stringify({ version, ...(fields === undefined ? {} : { fields, before }) });
    return presentPack(await writeChange(admin, { ...act, details }, read, changed));
  });
}

type ChangeKey = PackKey & ActKey;

/** If `items` is null, the items do not change. */
const deleteItems = query((value: ValueOf<ChangeKey & { items: string | null }>) =>
  drizzle
    .delete(creditPackItems)
    .where(
      and(
        eq(creditPackItems.appId, value("appId")),
        eq(creditPackItems.packId, value("packId")),
        sql`${value("items")} IS NOT NULL`,
        actIsNew(value),
      ),
    ),
);
const insertItems = insertItemsWhere<ChangeKey>(actIsNew);
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
      version: value("version", creditPacks.version),
    })
    .where(and(ofPackKey(value), actIsNew(value))),
);
const audit = insertAct();

/** Writes one batch, which is refused if the pack changed after the read. A repeat of the batch changes nothing. */
async function writeChange(
  admin: AdminCtx,
  act: ReturnType<typeof newAct>,
  read: Pack,
  changed: ChangedPack,
): Promise<Pack> {
  const keyed = { appId: read.appId, packId: read.id, actId: act.actId };
  const items = changed.items === null ? null : JSON.stringify(changed.items);
  try {
    const [, , , , rows] = await batch(admin.db, [
      deleteItems({ ...keyed, items }),
      insertItems({ ...keyed, items }),
      updatePack({ ...changed.pack, ...keyed, version: read.version + 1 }),
      audit(act),
      selectPackById({ appId: read.appId, packId: read.id }),
    ]);
    const [pack] = readPacks(rows);
    assert(pack !== undefined, "a pack is never deleted");
    return pack;
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}
