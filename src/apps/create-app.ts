import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { idIn } from "../db/databases.ts";
import { batch, statement } from "../db/sql.ts";
import { invalid } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import type { AppOutput } from "./responses.ts";
import type { CreateAppInput } from "./schemas.ts";

const audit = auditStatement("NOT EXISTS (SELECT 1 FROM apps WHERE id = :appId)");
const insertApp = statement<{ appId: string; name: string; createdAtMs: number }>`
  INSERT INTO apps (id, name, created_at_ms) VALUES (:appId, :name, :createdAtMs) ON CONFLICT DO NOTHING`;
const insertEnvironments = statement<{ appId: string }>`
  INSERT INTO environments (app_id, mode)
  SELECT :appId, value FROM json_each('["live", "test"]')
  WHERE NOT EXISTS (SELECT 1 FROM environments WHERE app_id = :appId)`;

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
