import { type Action, auditStatement, isNotDone, newAct } from "../audit/audit-statement.ts";
import { type Constraint, constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import type { AdminCtx } from "../runtime.ts";
import { type Pack, readPackRow } from "./find.ts";
import { packNameTaken, presentPack, readPack, selectPackById, type storedItem } from "./pack.ts";
import type { PackOutput } from "./responses.ts";

/** The fields of a pack that a change may set. */
const CHANGEABLE = ["name", "nameKey", "defaultExpiryDays", "unit", "matches", "priority", "archivedAtMs"] as const;

/** A pack after a change. */
export interface ChangedPack {
  readonly pack: Pick<Pack, (typeof CHANGEABLE)[number]>;
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

/** A type, because an interface is not assignable to `Values`. */
type ActKey = { appId: string; packId: string; actId: string };

/** If `items` is null, the items do not change. */
const deleteItems = statement<ActKey & { items: string | null }>`
  DELETE FROM credit_pack_items
  WHERE app_id = :appId AND pack_id = :packId AND :items IS NOT NULL AND ${isNotDone}`;
const insertItems = statement<ActKey & { items: string | null }>`
  INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit, matches, priority)
  SELECT :appId, :packId, item.key, item.value ->> 'id', item.value ->> 'amountSteps', item.value ->> 'unit',
    item.value ->> 'matches', item.value ->> 'priority'
  FROM json_each(:items) AS item WHERE ${isNotDone}`;
const updatePack = statement<ActKey & { pack: string; version: number }>`
  UPDATE credit_packs
  SET name = :pack ->> 'name', name_key = :pack ->> 'nameKey', unit = :pack ->> 'unit',
    default_expiry_days = :pack ->> 'defaultExpiryDays', matches = :pack ->> 'matches',
    priority = :pack ->> 'priority', archived_at_ms = :pack ->> 'archivedAtMs', version = :version
  WHERE app_id = :appId AND id = :packId AND ${isNotDone}`;
const audit = auditStatement();

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
    const [, , , , [pack]] = await batch(admin.db, [
      deleteItems({ ...keyed, items }),
      insertItems({ ...keyed, items }),
      updatePack({ ...keyed, pack: JSON.stringify(changed.pack, [...CHANGEABLE]), version: read.version + 1 }),
      audit(act),
      selectPackById({ appId: read.appId, packId: read.id }),
    ]);
    assert(pack !== undefined, "a pack is never deleted");
    return readPackRow(pack);
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}
