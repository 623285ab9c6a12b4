import { and, eq, not, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps/app.ts";
import { insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { computed, drizzle, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { environments, webhookEndpoints } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { endpointFields, makeSecret, presentEndpoint, syncEndpoints } from "./endpoint.ts";
import { wantsType } from "./message.ts";
import type { NewSecretOutput } from "./responses.ts";
import type { CreateWebhookInput } from "./schemas.ts";

const ENDPOINTS_MAX = 10;

type Key = { environmentId: number; webhookId: string };

// The second condition lets a batch that is sent again find its own endpoint.
const isPossible = (value: ValueOf<Key>) => {
  const { environmentId, id } = webhookEndpoints;
  const ofEnvironment = eq(environmentId, value("environmentId"));
  const count = drizzle
    .select(computed({ count: sql<number>`count(*)` }))
    .from(webhookEndpoints)
    .where(ofEnvironment);
  return sql`${count} < ${ENDPOINTS_MAX} AND ${not(hasRow(webhookEndpoints, eq(id, value("webhookId"))))}`;
};

type NewEndpoint = Key & {
  url: string;
  types: readonly string[] | null;
  wantsExports: boolean;
  description: string | null;
  sealed: string;
  nowMs: number;
};

const audit = insertAct<Key>(isPossible);
const insertEndpoint = query((value: ValueOf<NewEndpoint>) =>
  insertFrom(
    webhookEndpoints,
    {
      id: value("webhookId"),
      environmentId: value("environmentId"),
      url: value("url"),
      types: value("types", webhookEndpoints.types),
      wantsExports: value("wantsExports", webhookEndpoints.wantsExports),
      description: value("description"),
      secret: value("sealed"),
      createdAtMs: value("nowMs"),
    },
    sql`WHERE ${isPossible(value)}`,
  ),
);
const selectEndpoint = query((value: ValueOf<Key>) =>
  drizzle
    .select(endpointFields())
    .from(webhookEndpoints)
    .crossJoin(environments)
    .where(
      and(
        eq(webhookEndpoints.id, value("webhookId")),
        eq(environments.id, webhookEndpoints.environmentId),
        eq(environments.id, value("environmentId")),
      ),
    ),
);

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
    types,
    wantsExports: wantsType(types, "person.exported"),
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
