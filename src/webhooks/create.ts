import { requireEnvironment } from "../catalog/apps/app.ts";
import { auditStatement, newAct } from "../catalog/audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { type EndpointRow, endpointColumns, makeSecret, presentEndpoint, syncEndpoints } from "./endpoint.ts";
import { wantsType } from "./message.ts";
import type { NewSecretOutput } from "./responses.ts";
import type { CreateWebhookInput } from "./schemas.ts";

const ENDPOINTS_MAX = 10;

// The second condition lets a batch that is sent again find its own endpoint.
const isPossible = fragment`(
  SELECT count(*) FROM webhook_endpoints WHERE environment_id = :environmentId
) < ${String(ENDPOINTS_MAX)} AND NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = :webhookId)`;

type Key = { environmentId: number; webhookId: string };

const audit = auditStatement<Key>(isPossible);
const insertEndpoint = statement<
  Key & {
    url: string;
    types: string | null;
    wantsExports: number;
    description: string | null;
    sealed: string;
    nowMs: number;
  }
>`
  INSERT INTO webhook_endpoints (id, environment_id, url, types, wants_exports, description, secret, created_at_ms)
  SELECT :webhookId, CAST(:environmentId AS INTEGER), :url, :types, CAST(:wantsExports AS INTEGER), :description, :sealed,
    CAST(:nowMs AS INTEGER)
  WHERE ${isPossible}`;
const selectEndpoint = statement<Key, EndpointRow>`
  SELECT ${endpointColumns} FROM webhook_endpoints AS w CROSS JOIN environments AS e ON e.id = w.environment_id
  WHERE w.id = :webhookId AND e.id = :environmentId`;

/** Makes an endpoint (H1). Throws `not_found`, `secrets_unavailable`, and `invalid_request` beyond the tenth. */
export async function createWebhook(
  admin: AdminCtx,
  appId: string,
  { mode, url, types = null, description = null }: CreateWebhookInput,
): Promise<NewSecretOutput> {
  const environment = await requireEnvironment(admin, appId, mode);
  const { secret, sealed } = await makeSecret(admin, environment);
  const key = { environmentId: environment.id, webhookId: admin.newId("whk_") };
  const act = newAct(admin, { appId, action: "webhook.created", target: key.webhookId, details: { mode } });
  const row = {
    ...{ ...key, url, description, sealed, nowMs: timesOf(environment.clock, admin).now() },
    types: types === null ? null : JSON.stringify(types),
    wantsExports: Number(wantsType(types, "person.exported")),
  };
  const [, , , [written]] = await batch(admin.db, [
    audit({ ...act, ...key }),
    insertEndpoint(row),
    syncEndpoints({ ids: JSON.stringify([environment.id]) }),
    selectEndpoint(key),
  ]);
  if (written !== undefined) return { ...presentEndpoint(written), secret };
  throw new PurserError("invalid_request", `An environment may have ${ENDPOINTS_MAX} endpoints. Delete one first.`, {
    details: { limit: ENDPOINTS_MAX },
  });
}
