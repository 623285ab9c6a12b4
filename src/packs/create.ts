import { sql } from "drizzle-orm";
import { constraintOf } from "../db/constraint.ts";
import { write } from "../db/statement.ts";
import { assert } from "../lib/assert.ts";
import type { RootCtx } from "../runtime.ts";
import type { PackOutput } from "./answers.ts";
import { chooseFound } from "./find.ts";
import { nameKey } from "./name.ts";
import { packNameTaken, packStatements, presentPack, storedItem } from "./pack.ts";
import type { CreatePackInput } from "./schemas.ts";

/** Makes a pack of an application that exists, with its items or with a unit of its own. Throws `pack_name_taken`. */
export async function createPack(root: RootCtx, appId: string, input: CreatePackInput): Promise<PackOutput> {
  const packId = root.newId("cpk_");
  const stored = {
    name: input.packName,
    nameKey: nameKey(input.packName),
    defaultExpiryDays: input.defaultExpiryDays ?? null,
    unit: input.unit ?? null,
    matches: JSON.stringify(input.matches ?? []),
    priority: input.priority ?? 100,
    createdAtMs: root.now(),
  };
  const items = input.items.map((item) => storedItem(item, root.newId("cpi_")));
  // Sent again after a lost answer, both find the pack there and leave it.
  const isNew = sql`NOT EXISTS (SELECT 1 FROM credit_packs WHERE app_id = ${appId} AND id = ${packId})`;
  try {
    const [, , packs, packItems] = await root.db.batch([
      write(
        root.db,
        sql`
        INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit, matches, priority)
        SELECT ${appId}, ${packId}, key, value ->> 'id', value ->> 'amountSteps', value ->> 'unit',
          value ->> 'matches', value ->> 'priority'
        FROM json_each(${JSON.stringify(items)}) WHERE ${isNew}`,
      ),
      write(
        root.db,
        sql`
        INSERT INTO credit_packs
          (app_id, id, name, name_key, default_expiry_days, unit, matches, priority, created_at_ms, revision)
        SELECT ${appId}, ${packId}, value ->> 'name', value ->> 'nameKey', value ->> 'defaultExpiryDays',
          value ->> 'unit', value ->> 'matches', value ->> 'priority', value ->> 'createdAtMs', ${root.newId("rev_")}
        FROM json_each(${JSON.stringify([stored])}) WHERE ${isNew}`,
      ),
      ...packStatements(root, appId, packId),
    ]);
    const created = chooseFound(packId, packs, packItems);
    assert(created !== null, "a pack that was written is there");
    return presentPack(created);
  } catch (error) {
    throw constraintOf(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}
