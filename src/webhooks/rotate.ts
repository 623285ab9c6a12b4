import { and, eq, ne, sql } from "drizzle-orm";
import { type ActKey, actIsLatest, insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { drizzle, query, type ValueOf } from "../db/query.ts";
import { webhookEndpoints } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import { makeSecret, presentEndpoint, requireEndpoint } from "./endpoint.ts";
import type { NewSecretOutput } from "./responses.ts";

const audit = insertAct();
// A batch that is sent again finds its own secret.
const updateSecret = query((value: ValueOf<ActKey & { webhookId: string; sealed: string; untilMs: number }>) => {
  const { id, secret, previousUntilMs } = webhookEndpoints;
  return drizzle
    .update(webhookEndpoints)
    .set({
      previousSecret: sql`${secret}`,
      previousUntilMs: value("untilMs", previousUntilMs),
      secret: value("sealed", secret),
    })
    .where(and(eq(id, value("webhookId")), ne(secret, value("sealed")), actIsLatest(value)));
});

/** Gives an endpoint a new secret. The one before signs as well for a day. Throws `not_found`, `secrets_unavailable`. */
export async function rotateSecret(admin: AdminCtx, appId: string, webhookId: string): Promise<NewSecretOutput> {
  const row = await requireEndpoint(admin, appId, webhookId);
  const { secret, sealed } = await makeSecret(admin, row);
  const act = newAct(admin, { appId, action: "webhook.rotated", target: webhookId, details: { mode: row.mode } });
  await batch(admin.db, [audit(act), updateSecret({ ...act, webhookId, sealed, untilMs: act.atMs + DAY_MS })]);
  return { ...presentEndpoint(row), secret };
}
