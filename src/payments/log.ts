import { and, eq, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  assignments,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  names,
  query,
  type ValueOf,
} from "../db/query.ts";
import { stripeCustomers, stripeLog, stripeSettings } from "../db/schema.ts";
import { all, batch, type Statement } from "../db/sql.ts";
import { beginningOf } from "../lib/code-points.ts";
import { DAY_MS } from "../lib/time.ts";
import type { CronCtx, CronPart, TenantCtx } from "../runtime.ts";
import type { PaymentOutcome } from "./outcomes.ts";
import { OUTCOMES } from "./outcomes.ts";
import type { LogReason } from "./reasons.ts";

/** How many ignored events of an environment are kept. */
const IGNORED_MAX = 10_000;
/** How long ignored events are kept. */
const IGNORED_KEPT_MS = 30 * DAY_MS;

/** The result of an event, for the log. */
export interface LogEntry {
  readonly eventId: string;
  readonly type: string;
  readonly outcome: PaymentOutcome;
  /** Null unless `unmatched` or `ignored`. */
  readonly reason: LogReason | null;
  readonly objectId: string | null;
  readonly asked: { readonly pack: string | null; readonly user: string | null };
  readonly hint: string | null;
  readonly paymentKey: string | null;
}

/** A session that names a customer's user. It is logged only if it is the customer's newest session. */
interface NewestLink {
  readonly customer: string;
  readonly at: number;
}

type LogValues = Omit<LogEntry, "asked"> & {
  environmentId: number;
  nowMs: number;
  requestedPack: string | null;
  requestedUser: string | null;
};

const newestOfLog = (environmentId: SQL, outcome: SQL) => sql`coalesce((
  SELECT max(${stripeLog.atMs}) FROM ${stripeLog}
  WHERE ${stripeLog.environmentId} = ${environmentId} AND ${stripeLog.outcome} = ${outcome}
), 0)`;
/** Returns SQL for the time when the environment's newest event arrived; 0 if there is none. */
export const newestAt = (environmentId: SQL) => {
  const each = OUTCOMES.map((outcome) => newestOfLog(environmentId, sql`${outcome}`));
  return sql<number>`max(${sql.join(each, sql`, `)})`;
};

/** Returns SQL for the rank of an outcome. If an event has two outcomes, the lower rank stays. */
const outcomeRank = (outcome: SQL) => sql`instr(${OUTCOMES.join(" ")}, ${outcome})`;

const excluded = (column: SQLiteColumn) => sql`excluded.${names(column)}`;
/** Returns a condition: a repeated event has a more important outcome than before. */
const isMoreImportant = (): SQL => {
  const { outcome, reason, hint } = stripeLog;
  const [before, after] = [outcomeRank(sql`${outcome}`), outcomeRank(excluded(outcome))];
  return sql`${after} < ${before} OR ${after} = ${before} AND ${excluded(reason)} <> 'nothing_new'
    AND (${excluded(reason)}, ${excluded(hint)}) IS NOT (${reason}, ${hint})`;
};
const logUpdates = () => {
  const { atMs, ordinal, outcome, reason, requestedPack, requestedUser, hint, paymentKey } = stripeLog;
  return {
    ...{
      atMs: excluded(atMs),
      ordinal: excluded(ordinal),
      outcome: excluded(outcome),
      reason: excluded(reason),
      hint: excluded(hint),
    },
    ...{ requestedPack: excluded(requestedPack), requestedUser: excluded(requestedUser) },
    paymentKey: sql`coalesce(${excluded(paymentKey)}, ${paymentKey})`,
  };
};

const upsert = query((value: ValueOf<LogValues>) =>
  drizzle
    .insert(stripeLog)
    .values({
      environmentId: value("environmentId"),
      eventId: value("eventId"),
      type: value("type"),
      atMs: value("nowMs"),
      ordinal: 0,
      outcome: value("outcome"),
      reason: value("reason"),
      objectId: value("objectId"),
      requestedPack: value("requestedPack"),
      requestedUser: value("requestedUser"),
      hint: value("hint"),
      paymentKey: value("paymentKey"),
    })
    .onConflictDoUpdate({
      target: [stripeLog.environmentId, stripeLog.eventId],
      set: logUpdates(),
      setWhere: isMoreImportant(),
    }),
);

/** Returns the same upsert with a condition, as INSERT from a SELECT. */
const upsertWhere = (value: ValueOf<LogValues>, { atMs, ordinal, where }: { atMs: SQL; ordinal: SQL; where: SQL }) => {
  const row = {
    environmentId: asInteger(value("environmentId")),
    eventId: sql`${value("eventId")}`,
    type: sql`${value("type")}`,
    ...{ atMs, ordinal },
    outcome: sql`${value("outcome")}`,
    reason: sql`${value("reason")}`,
    objectId: sql`${value("objectId")}`,
    requestedPack: sql`${value("requestedPack")}`,
    requestedUser: sql`${value("requestedUser")}`,
    hint: sql`${value("hint")}`,
    paymentKey: sql`${value("paymentKey")}`,
  };
  return sql`${insertFrom(stripeLog, row, sql`WHERE ${where}`)} ON CONFLICT (${names(stripeLog.environmentId, stripeLog.eventId)})
    DO UPDATE SET ${assignments(stripeLog, logUpdates())} WHERE ${isMoreImportant()}`;
};
/** Each ignored event gets a later time than the previous one, so that ordinals and times have the same order. */
const upsertIgnored = query((value: ValueOf<LogValues>) => {
  const { environmentId, atMs, ordinal, outcome } = stripeLog;
  const before = sql`(SELECT ${ordinal} FROM ${stripeLog} WHERE ${environmentId} = ${value("environmentId")}
    AND ${outcome} = 'ignored' ORDER BY ${atMs} DESC LIMIT 1)`;
  const newest = newestOfLog(sql`${value("environmentId")}`, sql`'ignored'`);
  return upsertWhere(value, {
    atMs: sql`max(${asInteger(value("nowMs"))}, 1 + ${newest})`,
    ordinal: sql`1 + coalesce(${before}, 0)`,
    where: sql`true`,
  });
});
const upsertLink = query((value: ValueOf<LogValues & NewestLink>) => {
  const { environmentId, customer, atSeconds } = stripeCustomers;
  const isNewest = hasRow(
    stripeCustomers,
    and(eq(environmentId, value("environmentId")), eq(customer, value("customer")), eq(atSeconds, value("at"))),
  );
  return upsertWhere(value, { atMs: asInteger(value("nowMs")), ordinal: sql`0`, where: isNewest });
});

const deleteSurplus = query((value: ValueOf<{ environmentId: number; kept: number }>) => {
  const { environmentId, eventId, atMs, ordinal, outcome } = stripeLog;
  const ofIgnored = sql`${environmentId} = ${value("environmentId")} AND ${outcome} = 'ignored'`;
  const newest = sql`(SELECT ${ordinal} FROM ${stripeLog} WHERE ${ofIgnored} ORDER BY ${atMs} DESC LIMIT 1)`;
  return drizzle.delete(stripeLog).where(
    sql`${environmentId} = ${value("environmentId")} AND ${eventId} IN (
      SELECT ${eventId} FROM ${stripeLog} WHERE ${ofIgnored} ORDER BY ${atMs} LIMIT 2
    ) AND ${ordinal} <= ${newest} - ${value("kept")}`,
  );
});

const TEXT_MAX = 200;
const truncate = (text: string | null): string | null => (text === null ? null : beginningOf(text, TEXT_MAX));

/** Returns the statement that logs an event's outcome. An earlier outcome stays if it is more important. */
export function logStatement(ctx: TenantCtx, { asked, ...entry }: LogEntry, link?: NewestLink): Statement {
  const isIgnored = entry.outcome === "ignored";
  const values = {
    ...entry,
    environmentId: ctx.environment.id,
    nowMs: ctx.realNow(),
    objectId: truncate(entry.objectId),
    // Ignored events store nothing that a caller chose (S5).
    requestedPack: isIgnored ? null : truncate(asked.pack),
    requestedUser: isIgnored ? null : asked.user,
  };
  if (link !== undefined) return upsertLink({ ...values, ...link });
  return isIgnored ? upsertIgnored(values) : upsert(values);
}

/** Logs an ignored event, and deletes the oldest ignored events beyond the limit. */
export async function logIgnored(
  ctx: TenantCtx,
  entry: Omit<LogEntry, "outcome">,
  kept: number = IGNORED_MAX,
): Promise<void> {
  await batch(ctx.db, [
    logStatement(ctx, { ...entry, outcome: "ignored" }),
    deleteSurplus({ environmentId: ctx.environment.id, kept }),
  ]);
}

/** Selects an event in the log. A repeat of a logged event is not logged again. */
export const selectLogged = query((value: ValueOf<{ environmentId: number; eventId: string }>) =>
  drizzle
    .select(fields(stripeLog, "outcome"))
    .from(stripeLog)
    .where(and(eq(stripeLog.environmentId, value("environmentId")), eq(stripeLog.eventId, value("eventId")))),
);

const OLD_A_STEP = 500;
const deleteOld = query((value: ValueOf<{ beforeMs: number }>) => {
  const { environmentId, eventId, atMs, outcome } = stripeLog;
  return drizzle.delete(stripeLog).where(
    sql`(${names(environmentId, eventId)}) IN (
      SELECT ${environmentId}, ${eventId} FROM ${stripeSettings}
      CROSS JOIN ${stripeLog} INDEXED BY stripe_log_at ON ${environmentId} = ${stripeSettings.environmentId}
      AND ${outcome} = 'ignored' AND ${atMs} < ${value("beforeMs")} LIMIT ${OLD_A_STEP}
    )`,
  );
});

/** Deletes ignored events after 30 days, a bounded number in each run. */
async function deleteOldEvents({ db, now }: CronCtx): Promise<readonly unknown[]> {
  await all(db, deleteOld({ beforeMs: now() - IGNORED_KEPT_MS }));
  return [];
}

export const oldStripeEventsPart: CronPart = {
  code: "stripe_events_not_deleted",
  weight: 1,
  queriesOfStep: 1,
  work: deleteOldEvents,
};
