import { desc, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { drizzle, fields, query, read, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Attempt } from "./responses.ts";

/** How many of its newest messages decide an endpoint's health. */
const judgedMessagesMax = 50;

const newestMessages = alias(webhookDeliveries, "newest");

const selectNewest = query((value: ValueOf<{ environmentId: number }>) => {
  const list = {
    ...fields(webhookEndpoints, "id", "url", "isEnabled", "failingSinceMs"),
    ...fields(newestMessages, "status", "attempts"),
  };
  const ofEndpoint = drizzle
    .select(fields(webhookDeliveries, "messageId"))
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.endpointId, webhookEndpoints.id))
    .orderBy(desc(webhookDeliveries.messageId))
    .limit(judgedMessagesMax);
  return read(
    list,
    (columns) => sql`SELECT ${columns} FROM ${webhookEndpoints}
      LEFT JOIN ${webhookDeliveries} AS ${newestMessages} ON ${newestMessages.endpointId} = ${webhookEndpoints.id}
        AND ${newestMessages.messageId} IN ${ofEndpoint}
      WHERE ${webhookEndpoints.environmentId} = ${value("environmentId")}
      ORDER BY ${webhookEndpoints.createdAtMs}, ${webhookEndpoints.id}`,
  );
});

/** The health of an endpoint, from the attempts at its newest messages. */
export interface EndpointHealth {
  readonly webhookId: string;
  readonly url: string;
  readonly isEnabled: boolean;
  /** Since when every attempt has failed. Null when the last one succeeded or none was made. */
  readonly failingSince: string | null;
  /** How many of its newest messages were attempted, and how many of them failed at the latest attempt. */
  readonly attempted: number;
  readonly failed: number;
  /** The latest successful and the latest failed attempt at its newest messages. */
  readonly lastSuccessAt: string | null;
  readonly lastFailure: Attempt | null;
}

const isSuccess = ({ status }: Attempt): boolean => status !== null && status >= 200 && status < 300;
const latestOf = (attempts: readonly Attempt[]): Attempt | null =>
  attempts.reduce<Attempt | null>((last, each) => (last === null || each.at > last.at ? each : last), null);

/** The health of each endpoint of an environment, oldest first. */
export async function readHealth(ctx: TenantCtx): Promise<readonly EndpointHealth[]> {
  const rows = await all(ctx.db, selectNewest({ environmentId: ctx.environment.id }));
  return [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((ofEndpoint) => {
    const [first] = ofEndpoint;
    if (first === undefined) return [];
    // Purser wrote this JSON. It is null when the endpoint has no message.
    const messages = ofEndpoint.map(({ attempts }) => JSON.parse(attempts ?? "[]") as readonly Attempt[]);
    const attempts = messages.flat();
    const lasts = messages.map(latestOf).filter((last) => last !== null);
    return {
      webhookId: first.id,
      url: first.url,
      isEnabled: first.isEnabled,
      failingSince: first.failingSinceMs === null ? null : iso(first.failingSinceMs),
      attempted: lasts.length,
      failed: lasts.filter((last) => !isSuccess(last)).length,
      lastSuccessAt: latestOf(attempts.filter(isSuccess))?.at ?? null,
      lastFailure: latestOf(attempts.filter((attempt) => !isSuccess(attempt))),
    };
  });
}
