import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { batch, statement } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import type { AppOutput } from "./answers.ts";
import type { CreateAppInput } from "./schemas.ts";

const audit = auditStatement("NOT EXISTS (SELECT 1 FROM apps WHERE id = :appId)");
const insertApp = statement<{ appId: string; name: string; createdAtMs: number }>`
  INSERT INTO apps (id, name, created_at_ms) VALUES (:appId, :name, :createdAtMs) ON CONFLICT DO NOTHING`;
const insertEnvironments = statement<{ appId: string }>`
  INSERT INTO environments (app_id, mode) VALUES (:appId, 'live'), (:appId, 'test') ON CONFLICT DO NOTHING`;

/** Makes an application with its two environments, live and test. It has no keys yet. */
export async function createApp(admin: AdminCtx, { name }: CreateAppInput): Promise<AppOutput> {
  const appId = admin.newId("app_");
  const createdAtMs = admin.now();
  await batch(admin.db, [
    audit(newAct(admin, { appId, action: "app.created", target: appId })),
    insertApp({ appId, name, createdAtMs }),
    insertEnvironments({ appId }),
  ]);
  return { appId, name, createdAt: iso(createdAtMs) };
}
