import { auditStatement, isLatest, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, statement } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { AdminCtx } from "../runtime.ts";
import { makeSecret, presentEndpoint, requireEndpoint } from "./endpoint.ts";
import type { NewSecretOutput } from "./responses.ts";

const audit = auditStatement();
// A batch that is sent again finds its own secret.
const updateSecret = statement<{ webhookId: string; sealed: string; untilMs: number; appId: string; actId: string }>`
  UPDATE webhook_endpoints SET previous_secret = secret, previous_until_ms = CAST(:untilMs AS INTEGER), secret = :sealed
  WHERE id = :webhookId AND secret <> :sealed AND ${isLatest}`;

/** Gives an endpoint a new secret. The one before signs as well for a day. Throws `not_found`, `secrets_unavailable`. */
export async function rotateSecret(admin: AdminCtx, appId: string, webhookId: string): Promise<NewSecretOutput> {
  const row = await requireEndpoint(admin, appId, webhookId);
  const { secret, sealed } = await makeSecret(admin, row);
  const act = newAct(admin, { appId, action: "webhook.rotated", target: webhookId, details: { mode: row.mode } });
  await batch(admin.db, [audit(act), updateSecret({ ...act, webhookId, sealed, untilMs: act.atMs + DAY_MS })]);
  return { ...presentEndpoint(row), secret };
}
