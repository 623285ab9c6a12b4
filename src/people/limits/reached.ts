import { meetSql } from "../../books/amounts/filter-sql.ts";
import { fragment, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { messageIdAt } from "../../webhooks/message.ts";
import { deliveryTimes, intoDeliveries, intoMessages, noteMessages } from "../../webhooks/outbox.ts";
import { type AnalyticsLimit, daySql } from "./analytics-limits.ts";

type Reached = { environmentId: number; limit: AnalyticsLimit; nowMs: number; messageId: string };

const isReached = fragment`EXISTS (
  SELECT 1 FROM limits_reached WHERE environment_id = :environmentId AND day = ${daySql} AND limit_name = :limit
)`;
/** The endpoints of the environment that want `limits.reached`. They are read here, because nothing else of a capture needs them. */
const endpoints = fragment`environments AS e CROSS JOIN json_each(e.features -> 'webhooks') AS w
  ON e.id = :environmentId AND (w.value ->> 'types' IS NULL OR EXISTS (
    SELECT 1 FROM json_each(w.value -> 'types') AS t WHERE ${meetSql("'limits.reached'", "t.value")}
  ))`;

const insertMessage = statement<Reached>`
  ${intoMessages}
  SELECT DISTINCT :messageId, e.id, 'limits.reached', ${nowMsSql}, NULL, json_object('limit', :limit, 'environment', e.mode)
  FROM ${endpoints} WHERE NOT ${isReached}`;

const insertDeliveries = statement<Reached & { atMs: number; dueAtMs: number }>`
  ${intoDeliveries}
  SELECT w.value ->> 'id', m.id, 'pending', CAST(:atMs AS INTEGER), CAST(:dueAtMs AS INTEGER)
  FROM ${endpoints} CROSS JOIN webhook_messages AS m ON m.id = :messageId
  WHERE NOT ${isReached}`;

const insertReached = statement<Reached>`
  INSERT INTO limits_reached (environment_id, day, limit_name, reached_at_ms)
  SELECT CAST(:environmentId AS INTEGER), ${daySql}, :limit, ${nowMsSql} WHERE NOT ${isReached}`;

/** What each isolate knows to be recorded. It saves a write, and nothing rests on it. */
const recorded = new WeakMap<object, Set<string>>();
const RECORDED_MAX = 1_000;

/** Limits that were met, to be recorded and told once a day each (L3). */
export interface ReachedWrites {
  readonly statements: readonly Statement[];
  /** To be called when they have landed. */
  readonly landed: () => void;
}

/** The statements that record and tell which limits were met. None for what this isolate has recorded. */
export function reachedWrites(ctx: TenantCtx, limits: Iterable<AnalyticsLimit>, nowMs: number): ReachedWrites {
  const known = recorded.get(ctx.isolate) ?? new Set();
  recorded.set(ctx.isolate, known);
  const fresh = [...new Set(limits)]
    .map((limit) => ({ limit, record: recordOf(ctx, limit, nowMs), id: ctx.newId(messageIdAt(ctx.realNow())) }))
    .filter(({ record }) => !known.has(record));
  const statements = fresh.flatMap(({ limit, id }) => {
    const values = { environmentId: ctx.environment.id, limit, nowMs, messageId: id };
    // The row that says that it was told comes last.
    return [insertMessage(values), insertDeliveries({ ...values, ...deliveryTimes(ctx) }), insertReached(values)];
  });
  const landed = () => {
    if (known.size >= RECORDED_MAX) known.clear();
    for (const { record } of fresh) known.add(record);
    noteMessages(ctx, fresh);
  };
  return { statements, landed };
}

const recordOf = ({ environment }: TenantCtx, limit: AnalyticsLimit, nowMs: number): string =>
  `${environment.appId} ${environment.mode} ${Math.floor(nowMs / DAY_MS)} ${limit}`;
