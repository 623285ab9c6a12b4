import { desc, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, query, read, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { JsonObject } from "../lib/json.ts";
import { iso } from "../lib/time.ts";
import type { Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import type { EndpointRow } from "./endpoint.ts";
import { messageText, messageTimeOf } from "./outbox.ts";

export interface Attempt {
  readonly at: string;
  readonly status: number | null;
  readonly durationMs: number;
  readonly error: "secrets_unavailable" | "timeout" | "unreachable" | null;
}

/** An attempt for the dashboard, with the beginning of a failed response (H4). */
export interface ShownAttempt extends Attempt {
  readonly answer?: string;
}

/** A message as endpoints receive it. */
export interface MessageOutput {
  readonly id: string;
  readonly type: string;
  readonly timestamp: string;
  readonly appId: string;
  readonly mode: Mode;
  readonly data: JsonObject;
}

export interface ListDeliveriesOutput<Shown extends Attempt = Attempt> {
  readonly deliveries: {
    readonly messageId: string;
    readonly type: string;
    readonly timestamp: string;
    readonly status: "delivered" | "failed" | "pending";
    readonly nextAttemptAt: string | null;
    readonly message: MessageOutput;
    readonly attempts: Shown[];
  }[];
  readonly nextCursor: string | null;
}

export interface ListDeliveriesInput {
  readonly limit: number;
  readonly status?: "delivered" | "failed" | "pending" | undefined;
  readonly cursor?: string | undefined;
}

/** How many deliveries a page of one status reads, because no index has the status. */
export const SEARCHED_DELIVERIES_MAX = 2_000;

type DeliveriesBefore = { webhookId: string; before: string };
const deliveriesBefore = (value: ValueOf<DeliveriesBefore>) => {
  const { endpointId, messageId } = webhookDeliveries;
  return sql`SELECT * FROM ${webhookDeliveries}
    WHERE ${endpointId} = ${value("webhookId")} AND ${messageId} < ${value("before")} ORDER BY ${messageId} DESC`;
};

type DeliveryFilter = DeliveriesBefore & { readMax: number; status: string | null; isEnabled: boolean; limit: number };
const selectDeliveries = query((value: ValueOf<DeliveryFilter>) => {
  const { messageId, status } = webhookDeliveries;
  // Pending deliveries of a disabled endpoint are shown as failed, because the cron will fail them.
  const shown = sql<
    typeof status._.data
  >`iif(${status} = 'pending' AND NOT ${value("isEnabled", webhookEndpoints.isEnabled)}, 'failed', ${status})`;
  return read(
    {
      ...fields(webhookMessages, "id", "type", "atMs", "data"),
      ...computed({ status: shown }),
      ...fields(webhookDeliveries, "nextAttemptAtMs", "attempts"),
    },
    (list) => sql`
      SELECT ${list} FROM (${deliveriesBefore(value)} LIMIT ${asInteger(value("readMax"))}) AS ${webhookDeliveries}
      CROSS JOIN ${webhookMessages} ON ${webhookMessages.id} = ${messageId}
      WHERE coalesce(${shown} = ${value("status")}, 1) ORDER BY ${messageId} DESC LIMIT ${asInteger(value("limit"))}`,
  );
});
/** The last delivery that a page of one status reads. */
const selectLast = query((value: ValueOf<DeliveriesBefore & { offset: number }>) =>
  read(
    fields(webhookDeliveries, { id: "messageId" }),
    (list) =>
      sql`SELECT ${list} FROM (${deliveriesBefore(value)} LIMIT 1 OFFSET ${value("offset")}) AS ${webhookDeliveries}`,
  ),
);

/** Sorts after every message id. */
const END = "n";

/** Returns a page as `readDeliveryPage`, for the API. */
export async function listDeliveries(
  root: SystemCtx,
  row: EndpointRow,
  input: ListDeliveriesInput,
): Promise<ListDeliveriesOutput> {
  const { deliveries, nextCursor } = await readDeliveryPage(root, row, input);
  const withoutAnswer = ({ answer: _, ...attempt }: ShownAttempt): Attempt => attempt;
  return {
    deliveries: deliveries.map((delivery) => ({ ...delivery, attempts: delivery.attempts.map(withoutAnswer) })),
    nextCursor,
  };
}

/**
 * Returns the messages to an endpoint, newest first (H8). A page of one status may have fewer than `limit` entries, or none,
 * although more follow. Throws `not_found`, and `invalid_request` for another list's cursor.
 */
export async function readDeliveryPage(
  root: SystemCtx,
  { id: webhookId, appId, mode, isEnabled }: EndpointRow,
  { status: wanted, limit, cursor }: ListDeliveriesInput,
): Promise<ListDeliveriesOutput<ShownAttempt>> {
  const scope = ["deliveries", webhookId, wanted ?? ""];
  const before = cursor === undefined ? END : decodeTextCursor(cursor, scope);
  if (before === null) throw invalidCursor();
  const readMax = wanted === undefined ? limit + 1 : SEARCHED_DELIVERIES_MAX;
  const position = { webhookId, before };
  const [rows, [lastRead]] = await batch(root.db, [
    selectDeliveries({ ...position, readMax, status: wanted ?? null, isEnabled, limit: limit + 1 }),
    selectLast({ ...position, offset: readMax - 1 }),
  ]);
  const { page, last = lastRead } = cutPage(rows, limit);
  return {
    deliveries: page.map((row) => ({
      messageId: row.id,
      type: row.type,
      timestamp: iso(row.atMs),
      status: row.status,
      nextAttemptAt: row.status === "pending" ? iso(row.nextAttemptAtMs) : null,
      // Purser wrote both JSON texts.
      message: JSON.parse(messageText({ ...row, appId, mode })) as MessageOutput,
      attempts: JSON.parse(row.attempts) as ShownAttempt[],
    })),
    nextCursor: last === undefined ? null : encodeTextCursor(last.id, scope),
  };
}

/** How many of the newest messages to an endpoint determine its health. */
const HEALTH_MESSAGES_MAX = 50;

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
    .limit(HEALTH_MESSAGES_MAX);
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
  /** Since when every attempt has failed. Null when the last attempt succeeded or none was made. */
  readonly failingSince: string | null;
  /** How many of its newest messages were attempted, and how many of them failed at the latest attempt. */
  readonly attempted: number;
  readonly failed: number;
  /** The latest successful and the latest failed attempt at its newest messages. */
  readonly lastSuccessAt: string | null;
  readonly lastFailure: ShownAttempt | null;
  /** How many of its newest messages failed without an attempt, because it was switched off. */
  readonly unsent: number;
}

/** The latest delivered message of each endpoint, for one whose newest messages all failed. */
const selectDelivered = query((value: ValueOf<{ environmentId: number }>) => {
  const { endpointId, messageId, status } = webhookDeliveries;
  const searched = sql`SELECT * FROM ${webhookDeliveries} WHERE ${endpointId} = ${webhookEndpoints.id}
    ORDER BY ${messageId} DESC LIMIT ${SEARCHED_DELIVERIES_MAX}`;
  const attempts = sql<string | null>`(
    SELECT ${webhookDeliveries.attempts} FROM (${searched}) AS ${webhookDeliveries} WHERE ${status} = 'delivered' LIMIT 1
  )`;
  return drizzle
    .select({ ...fields(webhookEndpoints, "id"), ...computed({ attempts }) })
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.environmentId, value("environmentId")));
});

const isSuccess = ({ status }: Attempt): boolean => status !== null && status >= 200 && status < 300;
const latestOf = (attempts: readonly ShownAttempt[]): ShownAttempt | null =>
  attempts.reduce<ShownAttempt | null>((last, each) => (last === null || each.at > last.at ? each : last), null);

/** Returns the health of each endpoint of an environment, the oldest endpoint first. */
export async function readHealth(ctx: TenantCtx): Promise<readonly EndpointHealth[]> {
  const environmentId = ctx.environment.id;
  const [rows, delivered] = await batch(ctx.db, [selectNewest({ environmentId }), selectDelivered({ environmentId })]);
  return [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((ofEndpoint) => {
    const [first] = ofEndpoint;
    if (first === undefined) return [];
    // Purser wrote this JSON. It is null when the endpoint has no message.
    const messages = ofEndpoint.map(({ attempts }) => JSON.parse(attempts ?? "[]") as readonly ShownAttempt[]);
    const older = delivered.find(({ id }) => id === first.id)?.attempts ?? "[]";
    const attempts = [...messages.flat(), ...(JSON.parse(older) as readonly ShownAttempt[])];
    const latestAttempts = messages.map(latestOf).filter((last) => last !== null);
    return {
      webhookId: first.id,
      url: first.url,
      isEnabled: first.isEnabled,
      failingSince: first.failingSinceMs === null ? null : iso(first.failingSinceMs),
      attempted: latestAttempts.length,
      failed: latestAttempts.filter((last) => !isSuccess(last)).length,
      lastSuccessAt: latestOf(attempts.filter(isSuccess))?.at ?? null,
      lastFailure: latestOf(attempts.filter((attempt) => !isSuccess(attempt))),
      unsent: ofEndpoint.filter(({ status, attempts: sent }) => status === "failed" && sent === "[]").length,
    };
  });
}

/** The count of an endpoint's pending deliveries stops above this number. */
export const COUNTED_DELIVERIES_MAX = 1_000;

const selectLag = query((value: ValueOf<{ environmentId: number }>) => {
  const { id, environmentId, createdAtMs } = webhookEndpoints;
  const { endpointId, messageId, status } = webhookDeliveries;
  const waiting = sql`(
    SELECT json_array(count(*), min(${messageId})) FROM (
      SELECT ${messageId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
      WHERE ${endpointId} = ${id} AND ${status} = 'pending' LIMIT ${COUNTED_DELIVERIES_MAX + 1}
    ) AS ${webhookDeliveries}
  )`;
  return read(
    {
      ...fields(webhookEndpoints, { webhookId: "id", url: "url", isEnabled: "isEnabled" }),
      ...computed({ waiting: sql<number>`waiting ->> 0`, oldestId: sql<string | null>`waiting ->> 1` }),
    },
    (list) => sql`
      SELECT ${list} FROM (
        SELECT ${webhookEndpoints}.*, ${waiting} AS waiting FROM ${webhookEndpoints}
        WHERE ${environmentId} = ${value("environmentId")} ORDER BY ${createdAtMs}, ${id}
      ) AS ${webhookEndpoints}`,
  );
});

/** Returns the number of pending messages for each endpoint, and when the oldest was written, in real time. */
export async function readLag(ctx: TenantCtx) {
  const rows = await all(ctx.db, selectLag({ environmentId: ctx.environment.id }));
  return rows.map(({ oldestId, ...row }) => ({
    ...row,
    oldestAtMs: oldestId === null ? null : messageTimeOf(oldestId),
  }));
}
