import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { constraintOf } from "../db/constraint.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import type { AdminCtx } from "../runtime.ts";
import { readPackRow } from "./find.ts";
import { nameKey } from "./name.ts";
import { packNameTaken, presentPack, selectPackById, storedItem } from "./pack.ts";
import type { PackOutput } from "./responses.ts";
import type { CreatePackInput } from "./schemas.ts";

/** If the batch is repeated after a lost answer, the pack exists, and no statement changes it. */
const isNew = fragment`NOT EXISTS (SELECT 1 FROM credit_packs WHERE app_id = :appId AND id = :packId)`;

const audit = auditStatement<{ packId: string }>(isNew);
const insertPack = statement<{ appId: string; packId: string; pack: string }>`
  INSERT INTO credit_packs
    (app_id, id, name, name_key, default_expiry_days, unit, matches, priority, created_at_ms)
  SELECT :appId, :packId, :pack ->> 'name', :pack ->> 'nameKey', :pack ->> 'defaultExpiryDays', :pack ->> 'unit',
    :pack ->> 'matches', :pack ->> 'priority', :pack ->> 'createdAtMs'
  WHERE ${isNew}`;

/** After the pack, which they refer to. A pack that has changed since, in a repeat, keeps the items that it has. */
const insertItems = statement<{ appId: string; packId: string; items: string }>`
  INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit, matches, priority)
  SELECT :appId, :packId, key, value ->> 'id', value ->> 'amountSteps', value ->> 'unit', value ->> 'matches',
    value ->> 'priority'
  FROM json_each(:items) WHERE EXISTS (
    SELECT 1 FROM credit_packs WHERE app_id = :appId AND id = :packId AND version = 1
  ) AND NOT EXISTS (SELECT 1 FROM credit_pack_items WHERE app_id = :appId AND pack_id = :packId)`;

/** Creates a pack of an existing application, with items or with a unit of its own. Throws `pack_name_taken`. */
export async function createPack(admin: AdminCtx, appId: string, input: CreatePackInput): Promise<PackOutput> {
  const packId = admin.newId("cpk_");
  const pack = JSON.stringify({
    name: input.packName,
    nameKey: nameKey(input.packName),
    defaultExpiryDays: input.defaultExpiryDays ?? null,
    unit: input.unit ?? null,
    matches: JSON.stringify(input.matches ?? []),
    priority: input.priority ?? 100,
    createdAtMs: admin.now(),
  });
  const items = JSON.stringify(input.items.map((item) => storedItem(item, admin.newId("cpi_"))));
  const act = newAct(admin, { appId, action: "pack.created", target: packId, details: { version: 1 } });
  try {
    const [, , , [created]] = await batch(admin.db, [
      audit({ ...act, packId }),
      insertPack({ appId, packId, pack }),
      insertItems({ appId, packId, items }),
      selectPackById({ appId, packId }),
    ]);
    assert(created !== undefined, "a pack that was written is there");
    return presentPack(readPackRow(created));
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}
