import { and, eq, not, sql } from "drizzle-orm";
import { meet } from "../../books/amounts/match.ts";
import { asInteger, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { environments, limitsReached, webhookDeliveries, webhookMessages } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { rememberPerObject } from "../../lib/memory.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliveryTimes, messageIdAt, newDelivery, noteMessages } from "../../webhooks/outbox.ts";
import { dayOf, type ReachedLimit } from "./count.ts";

type ReachedValues = { environmentId: number; limit: ReachedLimit; nowMs: number; dayMs: number; messageId: string };

const isNew = (value: ValueOf<ReachedValues>) => {
  const { environmentId, day, limitName } = limitsReached;
  const isSame = and(eq(environmentId, value("environmentId")), eq(day, dayOf(value)), eq(limitName, value("limit")));
  return not(hasRow(limitsReached, isSame));
};
/** The endpoints of the environment that want `limits.reached`. Only this part of a capture reads them. */
const endpoints = (value: ValueOf<ReachedValues>) => sql`
  ${environments} CROSS JOIN json_each(${environments.features} -> 'webhooks') AS w
  ON ${environments.id} = ${value("environmentId")} AND (w.value ->> 'types' IS NULL OR EXISTS (
    SELECT 1 FROM json_each(w.value -> 'types') AS t WHERE ${meet(sql`'limits.reached'`, sql`t.value`)}
  ))`;

const insertReachedMessage = query((value: ValueOf<ReachedValues>) => {
  const message = {
    id: value("messageId"),
    environmentId: environments.id,
    type: sql`'limits.reached'`,
    atMs: asInteger(value("nowMs")),
    data: sql`json_object('limit', ${value("limit")}, 'environment', ${environments.mode})`,
  };
  return insertFrom(webhookMessages, message, sql`FROM ${endpoints(value)} WHERE ${isNew(value)} LIMIT 1`);
});

const insertReachedDeliveries = query((value: ValueOf<ReachedValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: webhookMessages.id, ...newDelivery(value) };
  const written = sql`${webhookMessages} ON ${webhookMessages.id} = ${value("messageId")}`;
  return insertFrom(
    webhookDeliveries,
    delivery,
    sql`FROM ${endpoints(value)} CROSS JOIN ${written} WHERE ${isNew(value)}`,
  );
});

const insertReached = query((value: ValueOf<ReachedValues>) => {
  const reached = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    limitName: value("limit"),
    reachedAtMs: asInteger(value("dayMs")),
  };
  return insertFrom(limitsReached, reached, sql`WHERE ${isNew(value)}`);
});

/** Limits that this isolate knows to be recorded. Only saves repeated writes. */
const recordedLimitsOf = rememberPerObject(() => new Set<string>());
const RECORDED_MAX = 1_000;

/** Statements that record reached limits and send their messages, once a day each (L3). */
export interface ReachedWrites {
  readonly statements: readonly Statement[];
  /** Call it after the statements have succeeded. */
  readonly onWritten: () => void;
}

/** The statements that record reached limits and send their messages. None for those that this isolate has recorded. */
export function reachedWrites(ctx: TenantCtx, limits: Iterable<ReachedLimit>, nowMs: number): ReachedWrites {
  const dayMs = ctx.realNow();
  const known = recordedLimitsOf(ctx.isolate);
  const fresh = [...new Set(limits)]
    .map((limit) => ({ limit, record: recordOf(ctx, limit, dayMs), id: ctx.newId(messageIdAt(dayMs)) }))
    .filter(({ record }) => !known.has(record));
  const statements = fresh.flatMap(({ limit, id }) => {
    const values = { environmentId: ctx.environment.id, limit, nowMs, dayMs, messageId: id };
    // The row that prevents a second message comes last.
    return [
      insertReachedMessage(values),
      insertReachedDeliveries({ ...values, ...deliveryTimes(ctx) }),
      insertReached(values),
    ];
  });
  const onWritten = () => {
    if (known.size >= RECORDED_MAX) known.clear();
    for (const { record } of fresh) known.add(record);
    noteMessages(ctx, fresh);
  };
  return { statements, onWritten };
}

const recordOf = ({ environment }: TenantCtx, limit: ReachedLimit, dayMs: number): string =>
  `${environment.appId} ${environment.mode} ${Math.floor(dayMs / DAY_MS)} ${limit}`;
