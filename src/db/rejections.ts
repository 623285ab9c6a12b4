import { and, desc, eq, not, sql } from "drizzle-orm";
import type { PurserError } from "../errors.ts";
import { beginningOf } from "../lib/code-points.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import { asInteger, assignments, drizzle, fields, hasRow, insertFrom, names, query, type ValueOf } from "./query.ts";
import { environments, erasureIds, rejections, tombstones } from "./schema.ts";
import { databaseAt } from "./session.ts";
import { all, type StatementRow } from "./sql.ts";
import { hashForTombstones } from "./tombstones.ts";

/**
 * Recent rejections: the user, what was rejected, and why. Like the daily figures, they are written after responses and may be
 * incomplete. Equal rejections of a user share a row. Only the newest of an environment are kept.
 */
const REJECTION_KINDS = ["shortage", "usage_limit", "failed_grant"] as const;
export type RejectionKind = (typeof REJECTION_KINDS)[number];

/** How many rows of a kind an environment keeps, and how many an isolate notes between two writes. */
const KEPT_REJECTIONS_MAX = 200;
/** How many days rejections are kept. */
const REJECTION_DAYS = 30;
/** The most characters of an event, a model or a pack that are kept. */
const REJECTED_NAME_MAX = 200;

interface NotedRejection {
  readonly environment: Environment;
  readonly kind: RejectionKind;
  readonly userId: string;
  /** Empty for none. */
  readonly memberId: string;
  readonly subject: string;
  readonly model: string;
  reason: string;
  times: number;
  lastAtMs: number;
}

let notedRejections = new Map<string, NotedRejection>();

/** The rejected request: its user, and the event and model of a usage or the pack of a grant. */
export interface RejectedOperation {
  readonly userId: string;
  readonly memberId?: string | undefined;
  readonly subject: string;
  readonly model?: string | null | undefined;
}

/** The reason of a rejection. Each kind has its own fields. */
export interface RejectionReason {
  /** For a shortage: the quantities that no balance covered. */
  readonly uncovered?: Readonly<Record<string, number>>;
  /** For a shortage: why balances did not pay (U12). Empty when the user had none to spend. */
  readonly skipped?: readonly string[];
  /** For a usage limit (Q4). */
  readonly limit?: Readonly<Record<"name" | "unit", string> & Record<"amount" | "used" | "asked", number>>;
  /** For a grant: the error. */
  readonly code?: string;
  readonly param?: string;
}

function reasonOfRejection(kind: RejectionKind, { code, param, details = {} }: PurserError): object {
  if (kind === "failed_grant") return { code, param };
  if (kind === "usage_limit") {
    const { name, unit, amount, used, asked } = details;
    return { limit: { name, unit, amount, used, asked } };
  }
  // `insufficientCredits` writes this list.
  const skipped = (details.skipped ?? []) as readonly { readonly reason: string }[];
  return { uncovered: details.uncovered, skipped: [...new Set(skipped.map(({ reason }) => reason))] };
}

/** Notes a rejection, without the id of an erased user. */
export function noteRejection(
  { environment, realNow }: Pick<TenantCtx, "environment" | "realNow">,
  kind: RejectionKind,
  rejection: PurserError,
  request: RejectedOperation,
): void {
  const lastAtMs = realNow();
  const isErased = rejection.code === "person_erased";
  const userId = isErased ? "" : request.userId;
  const memberId = isErased ? "" : (request.memberId ?? "");
  const subject = beginningOf(request.subject, REJECTED_NAME_MAX);
  const model = beginningOf(request.model ?? "", REJECTED_NAME_MAX);
  const reason = JSON.stringify(reasonOfRejection(kind, rejection));
  const key = JSON.stringify([environment.database, environment.id, kind, userId, memberId, subject, model]);
  const noted = notedRejections.get(key);
  if (noted !== undefined) Object.assign(noted, { reason, times: noted.times + 1, lastAtMs });
  else if (notedRejections.size < KEPT_REJECTIONS_MAX)
    notedRejections.set(key, { environment, kind, userId, memberId, subject, model, reason, times: 1, lastAtMs });
}

type RejectionRows = { rows: string };

/** `r` is a row as JSON. */
const isBeingErased = () =>
  hasRow(
    erasureIds,
    and(
      eq(erasureIds.environmentId, sql`r.value ->> 0`),
      sql`${erasureIds.distinctId} IN (r.value ->> 1, r.value ->> 9)`,
    ),
  );

/** Skips ids that were erased after the rejection: an erasure adds the tombstone before it deletes rows. */
const addRejections = query((value: ValueOf<RejectionRows>) => {
  const row = {
    environmentId: sql`r.value ->> 0`,
    userId: sql`r.value ->> 1`,
    kind: sql`r.value ->> 2`,
    subject: sql`r.value ->> 3`,
    model: sql`r.value ->> 4`,
    reason: sql`r.value ->> 5`,
    times: sql`r.value ->> 6`,
    lastAtMs: sql`r.value ->> 7`,
    memberId: sql`r.value ->> 9`,
  };
  const from = sql`FROM json_each(${value("rows")}) AS r WHERE NOT EXISTS (
    SELECT 1 FROM json_each(r.value, '$[8]') AS h CROSS JOIN ${tombstones}
    WHERE ${tombstones.environmentId} = r.value ->> 0 AND ${tombstones.hash} = h.value AND ${tombstones.blocks} = 1
  ) AND ${not(isBeingErased())}`;
  const { reason, times, lastAtMs } = rejections;
  const set = assignments(rejections, {
    reason: sql`excluded.${names(reason)}`,
    times: sql`${times} + excluded.${names(times)}`,
    lastAtMs: sql`excluded.${names(lastAtMs)}`,
  });
  return sql`${insertFrom(rejections, row, from)} ON CONFLICT DO UPDATE SET ${set}`;
});

/** A write for an id deletes its tombstone if that tombstone does not block (E4). */
const deleteNonBlockingOfRejections = query(
  (value: ValueOf<RejectionRows>) => sql`
    DELETE FROM ${tombstones} WHERE ${tombstones.blocks} = 0 AND (${tombstones.environmentId}, ${tombstones.hash}) IN (
      SELECT r.value ->> 0, h.value FROM json_each(${value("rows")}) AS r CROSS JOIN json_each(r.value, '$[8]') AS h
      WHERE ${not(isBeingErased())}
    )`,
);

const deleteOldest = query((value: ValueOf<RejectionRows>) => {
  const { environmentId, userId, memberId, kind, subject, model, lastAtMs } = rejections;
  const isSameKind = sql`${environmentId} = written.${names(environmentId)} AND ${kind} = written.${names(kind)}`;
  return sql`
    DELETE FROM ${rejections} WHERE (${environmentId}, ${userId}, ${memberId}, ${kind}, ${subject}, ${model}) IN (
      SELECT ${environmentId}, ${userId}, ${memberId}, ${kind}, ${subject}, ${model}
      FROM (SELECT DISTINCT value ->> 0 AS ${names(environmentId)}, value ->> 2 AS ${names(kind)} FROM json_each(${value("rows")})) AS written
      CROSS JOIN ${rejections} INDEXED BY rejections_latest ON ${isSameKind} AND ${lastAtMs} < (
        SELECT ${lastAtMs} FROM ${rejections} WHERE ${isSameKind} ORDER BY ${lastAtMs} DESC LIMIT 1 OFFSET ${KEPT_REJECTIONS_MAX - 1}
      )
    )`;
});

/** Deletes the rejections whose last time is older than 30 days. */
export const deleteOldRejections = query((value: ValueOf<{ nowMs: number }>) => {
  const { environmentId, userId, memberId, kind, subject, model, lastAtMs } = rejections;
  return sql`
    DELETE FROM ${rejections} WHERE (${environmentId}, ${userId}, ${memberId}, ${kind}, ${subject}, ${model}) IN (
      SELECT ${environmentId}, ${userId}, ${memberId}, ${kind}, ${subject}, ${model}
      FROM ${environments} CROSS JOIN json_each(${JSON.stringify(REJECTION_KINDS)}) AS k
      CROSS JOIN ${rejections} INDEXED BY rejections_latest ON ${environmentId} = ${environments.id} AND ${kind} = k.value
        AND ${lastAtMs} < ${asInteger(value("nowMs"))} - ${REJECTION_DAYS * DAY_MS}
    )`;
});

/** Writes the noted rejections. If the write fails, they are missing. */
export async function flushRejections(env: object): Promise<void> {
  const settings = readSettings(env);
  const groups = Map.groupBy(notedRejections.values(), ({ environment }) => environment.database);
  notedRejections = new Map();
  await Promise.all(
    [...groups].map(async ([index, group]) => {
      const rows = group.map(async ({ environment, userId, ...row }) => {
        const { memberId } = row;
        const ids = [userId, memberId].filter((id) => id !== "");
        const hashes = (await Promise.all(ids.map((id) => hashForTombstones({ settings, environment }, id)))).flat();
        const named = [environment.id, userId, row.kind, row.subject, row.model];
        return [...named, row.reason, row.times, row.lastAtMs, hashes, memberId];
      });
      const values = { rows: JSON.stringify(await Promise.all(rows)) };
      const database = databaseAt(env, index)?.d1;
      const statements = [addRejections(values), deleteNonBlockingOfRejections(values), deleteOldest(values)];
      await database?.batch(statements.map(({ text, params }) => database.prepare(text).bind(...params)));
    }),
  );
}

const REJECTION_FIELDS = ["kind", "userId", "memberId", "subject", "model", "reason", "times", "lastAtMs"] as const;

const selectRejections = query((value: ValueOf<{ environmentId: number; kind: RejectionKind }>) =>
  drizzle
    .select(fields(rejections, ...REJECTION_FIELDS))
    .from(sql`${rejections} INDEXED BY rejections_latest`)
    .where(and(eq(rejections.environmentId, value("environmentId")), eq(rejections.kind, value("kind"))))
    .orderBy(desc(rejections.lastAtMs))
    .limit(KEPT_REJECTIONS_MAX),
);

/** Returns the recent rejections that isolates have written, the latest first. */
export async function readRejections(ctx: TenantCtx, kind: RejectionKind) {
  return (await all(ctx.db, selectRejections({ environmentId: ctx.environment.id, kind }))).map(presentRejectionRow);
}

const selectRejectionsOfUser = query((value: ValueOf<{ environmentId: number; userId: string }>) =>
  drizzle
    .select(fields(rejections, ...REJECTION_FIELDS))
    .from(rejections)
    .where(and(eq(rejections.environmentId, value("environmentId")), eq(rejections.userId, value("userId"))))
    .orderBy(desc(rejections.lastAtMs)),
);

/** Returns a user's recent rejections of every kind, the latest first. */
export async function readRejectionsOfUser(ctx: TenantCtx, userId: string) {
  if (userId === "") return [];
  return (await all(ctx.db, selectRejectionsOfUser({ environmentId: ctx.environment.id, userId }))).map(
    presentRejectionRow,
  );
}

type RejectionRow = StatementRow<typeof selectRejections>;

const presentRejectionRow = ({ reason, lastAtMs, userId, memberId, model, ...row }: RejectionRow) => ({
  ...row,
  /** Null for a person who was erased. */
  userId: userId === "" ? null : userId,
  memberId: memberId === "" ? null : memberId,
  model: model === "" ? null : model,
  // `noteRejection` wrote this JSON.
  reason: JSON.parse(reason) as RejectionReason,
  lastAt: iso(lastAtMs),
});
