import { sql } from "drizzle-orm";
import { computed, drizzle, query, type ValueOf } from "../../db/query.ts";
import { databaseSize } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { assert } from "../../lib/assert.ts";
import type { CronCtx, CronPart, TenantCtx } from "../../runtime.ts";

/** The file grows only when its freed bytes are used up, so their count starts again at 0. */
const updateSize = query((value: ValueOf<{ bytes: number }>) =>
  drizzle
    .update(databaseSize)
    .set({ bytes: value("bytes", databaseSize.bytes), freedBytes: 0 })
    .where(sql`${databaseSize.id} = 1 AND ${databaseSize.bytes} <> ${value("bytes")}`),
);

/** Stores the size of the database's file, which limits analytics (L3). */
async function measureSize({ db, database, databases }: CronCtx): Promise<readonly unknown[]> {
  const open = databases.find(({ index }) => index === database);
  assert(open !== undefined, "a part of the cron works in one database");
  await all(db, updateSize({ bytes: await open.readSize() }));
  return [];
}

export const sizePart: CronPart = { code: "size_not_measured", weight: 1, queriesOfStep: 2, work: measureSize };

const selectSize = query((_value: ValueOf<Record<never, never>>) =>
  drizzle
    .select(computed({ bytes: sql<number>`${databaseSize.bytes} - ${databaseSize.freedBytes}` }))
    .from(databaseSize)
    .where(sql`${databaseSize.id} = 1`),
);

/** How full the environment's database is, as the cron last measured it. 1 is full. */
export async function readFullness({ db, settings }: Pick<TenantCtx, "db" | "settings">): Promise<number> {
  const [size] = await all(db, selectSize({}));
  return (size?.bytes ?? 0) / settings.databaseBytesMax;
}
