import { and, eq, not, sql } from "drizzle-orm";
import { asInteger, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { environments, limitsReached, webhookDeliveries, webhookMessages } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { rememberPerObject } from "../../lib/bounded-memory.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliveryTimes, messageIdAt, newDelivery, noteMessages } from "../../webhooks/outbox.ts";
import { wantingEndpoints } from "../../webhooks/wanting-endpoints.ts";
import { dayOf, type ReachedLimit } from "./daily-limits.ts";

type ReachedValues = { environmentId: number; limit: ReachedLimit; nowMs: number; dayMs: number; messageId: string };

const isUnrecorded = (value: ValueOf<ReachedValues>) => {
  const { environmentId, day, limitName } = limitsReached;
  const isSame = and(eq(environmentId, value("environmentId")), eq(day, dayOf(value)), eq(limitName, value("limit")));
  return not(hasRow(limitsReached, isSame));
};
const insertReachedMessage = query((value: ValueOf<ReachedValues>) => {
  const message = {
    id: value("messageId"),
    environmentId: environments.id,
    type: sql`'limits.reached'`,
    atMs: asInteger(value("nowMs")),
    data: sql`json_object('limit', ${value("limit")}, 'environment', ${environments.mode})`,
  };
  return insertFrom(
    webhookMessages,
    message,
    sql`FROM ${wantingEndpoints(value, "limits.reached")} WHERE ${isUnrecorded(value)} LIMIT 1`,
  );
});

const insertReachedDeliveries = query((value: ValueOf<ReachedValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: webhookMessages.id, ...newDelivery(value) };
  const written = sql`${webhookMessages} ON ${webhookMessages.id} = ${value("messageId")}`;
  return insertFrom(
    webhookDeliveries,
    delivery,
    sql`FROM ${wantingEndpoints(value, "limits.reached")} CROSS JOIN ${written} WHERE ${isUnrecorded(value)}`,
  );
});

const insertReached = query((value: ValueOf<ReachedValues>) => {
  const reached = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    limitName: value("limit"),
    reachedAtMs: asInteger(value("dayMs")),
  };
  return insertFrom(limitsReached, reached, sql`WHERE ${isUnrecorded(value)}`);
});

/** The limits that this isolate knows to be recorded. It only saves repeated writes. */
const recordedLimitsOf = rememberPerObject(() => new Set<string>());
const RECORDED_MAX = 1_000;

/** Statements that record reached limits and write their messages, once a day for each limit (L3). */
export interface ReachedWrites {
  readonly statements: readonly Statement[];
  /** Call it after the statements have succeeded. */
  readonly onWritten: () => void;
}

/**
 * Returns the statements that record reached limits and write their messages. It skips limits that this isolate has recorded.
 */
export function reachedWrites(ctx: TenantCtx, limits: Iterable<ReachedLimit>, nowMs: number): ReachedWrites {
  const dayMs = ctx.realNow();
  const recorded = recordedLimitsOf(ctx.isolate);
  const unrecorded = [...new Set(limits)]
    .map((limit) => ({ limit, recordKey: limitRecordKey(ctx, limit, dayMs), id: ctx.newId(messageIdAt(dayMs)) }))
    .filter(({ recordKey }) => !recorded.has(recordKey));
  const statements = unrecorded.flatMap(({ limit, id }) => {
    const values = { environmentId: ctx.environment.id, limit, nowMs, dayMs, messageId: id };
    // The last statement inserts the row that prevents a second message.
    return [
      insertReachedMessage(values),
      insertReachedDeliveries({ ...values, ...deliveryTimes(ctx) }),
      insertReached(values),
    ];
  });
  const onWritten = () => {
    if (recorded.size >= RECORDED_MAX) recorded.clear();
    for (const { recordKey } of unrecorded) recorded.add(recordKey);
    noteMessages(ctx, unrecorded);
  };
  return { statements, onWritten };
}

const limitRecordKey = ({ environment }: TenantCtx, limit: ReachedLimit, dayMs: number): string =>
  `${environment.appId} ${environment.mode} ${Math.floor(dayMs / DAY_MS)} ${limit}`;
