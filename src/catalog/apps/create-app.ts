import { eq, not, sql } from "drizzle-orm";
import { idIn } from "../../db/databases.ts";
import { drizzle, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { apps, environments } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { AdminCtx } from "../../runtime.ts";
import { insertAct, newAct } from "../audit/audit-statement.ts";
import type { AppOutput } from "./responses.ts";
import type { CreateAppInput } from "./schemas.ts";

const audit = insertAct((value) => not(hasRow(apps, eq(apps.id, value("appId")))));
const insertApp = query((value: ValueOf<{ appId: string; name: string; createdAtMs: number }>) =>
  drizzle
    .insert(apps)
    .values({ id: value("appId"), name: value("name"), createdAtMs: value("createdAtMs") })
    .onConflictDoNothing(),
);
const insertEnvironments = query((value: ValueOf<{ appId: string }>) =>
  insertFrom(
    environments,
    { appId: value("appId"), mode: sql`value` },
    sql`FROM json_each('["live", "test"]') WHERE ${not(hasRow(environments, eq(environments.appId, value("appId"))))}`,
  ),
);

/**
 * Makes an application with its two environments, live and test, in the database named or where new ones go (D1). It has no
 * keys yet. Throws `invalid_request` for a database that is not bound.
 */
export async function createApp(admin: AdminCtx, { name, database }: CreateAppInput): Promise<AppOutput> {
  const wanted = database ?? admin.settings.newAppsDatabase;
  const home = admin.databases.find((each) => each.name === wanted);
  if (home === undefined) {
    throw invalid("database", `must be one of ${admin.databases.map((each) => each.name).join(", ")}`);
  }
  const appId = idIn(home.index, admin.newId("app_"));
  const createdAtMs = admin.now();
  await batch(home.db, [
    audit(newAct(admin, { appId, action: "app.created", target: appId })),
    insertApp({ appId, name, createdAtMs }),
    insertEnvironments({ appId }),
  ]);
  return { appId, name, database: home.name, createdAt: iso(createdAtMs) };
}
