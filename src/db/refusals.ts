import { and, desc, eq, not, sql } from "drizzle-orm";
import type { PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import { asInteger, assignments, drizzle, fields, hasRow, insertFrom, names, query, type ValueOf } from "./query.ts";
import { environments, erasureIds, refusals, tombstones } from "./schema.ts";
import { databaseAt } from "./session.ts";
import { all, type StatementRow } from "./sql.ts";
import { hashesOf } from "./tombstones.ts";

/**
 * Recent refusals: the user, what was refused, and why. Like the daily figures, they are written after responses and may be
 * incomplete. Equal refusals of a user share a row. Only the newest of an environment are kept.
 */
const REFUSAL_KINDS = ["shortage", "usage_limit", "failed_grant"] as const;
export type RefusalKind = (typeof REFUSAL_KINDS)[number];

/** How many rows of a kind an environment keeps, and how many an isolate notes between two writes. */
const KEPT_REFUSALS_MAX = 200;
/** How many days refusals are kept. */
const REFUSAL_DAYS = 30;
/** The most characters of an event, a model or a pack that are kept. */
const REFUSED_NAME_MAX = 200;

interface NotedRefusal {
  readonly environment: Environment;
  readonly kind: RefusalKind;
  readonly userId: string;
  readonly subject: string;
  readonly model: string;
  reason: string;
  times: number;
  lastAtMs: number;
}

let notedRefusals = new Map<string, NotedRefusal>();

/** The refused request: its user, and the event and model of a usage or the pack of a grant. */
export interface RefusedOperation {
  readonly userId: string;
  readonly subject: string;
  readonly model?: string | null | undefined;
}

/** The reason of a refusal. Each kind has its own fields. */
export interface RefusalReason {
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

function reasonOfRefusal(kind: RefusalKind, { code, param, details = {} }: PurserError): object {
  if (kind === "failed_grant") return { code, param };
  if (kind === "usage_limit") {
    const { name, unit, amount, used, asked } = details;
    return { limit: { name, unit, amount, used, asked } };
  }
  // `insufficientCredits` writes this list.
  const skipped = (details.skipped ?? []) as readonly { readonly reason: string }[];
  return { uncovered: details.uncovered, skipped: [...new Set(skipped.map(({ reason }) => reason))] };
}

/** Notes a refusal, without the id of an erased user. */
export function noteRefusal(
  { environment, realNow }: Pick<TenantCtx, "environment" | "realNow">,
  kind: RefusalKind,
  refusal: PurserError,
  request: RefusedOperation,
): void {
  const lastAtMs = realNow();
  const userId = refusal.code === "person_erased" ? "" : request.userId;
  const subject = request.subject.slice(0, REFUSED_NAME_MAX);
  const model = (request.model ?? "").slice(0, REFUSED_NAME_MAX);
  const reason = JSON.stringify(reasonOfRefusal(kind, refusal));
  const key = JSON.stringify([environment.database, environment.id, kind, userId, subject, model]);
  const noted = notedRefusals.get(key);
  if (noted !== undefined) Object.assign(noted, { reason, times: noted.times + 1, lastAtMs });
  else if (notedRefusals.size < KEPT_REFUSALS_MAX)
    notedRefusals.set(key, { environment, kind, userId, subject, model, reason, times: 1, lastAtMs });
}

type RefusalRows = { rows: string };

/** `r` is a row as JSON. */
const isBeingErased = () =>
  hasRow(
    erasureIds,
    and(eq(erasureIds.environmentId, sql`r.value ->> 0`), eq(erasureIds.distinctId, sql`r.value ->> 1`)),
  );

/** Skips ids that were erased after the refusal: an erasure adds the tombstone before it deletes rows. */
const addRefusals = query((value: ValueOf<RefusalRows>) => {
  const row = {
    environmentId: sql`r.value ->> 0`,
    userId: sql`r.value ->> 1`,
    kind: sql`r.value ->> 2`,
    subject: sql`r.value ->> 3`,
    model: sql`r.value ->> 4`,
    reason: sql`r.value ->> 5`,
    times: sql`r.value ->> 6`,
    lastAtMs: sql`r.value ->> 7`,
  };
  const from = sql`FROM json_each(${value("rows")}) AS r WHERE NOT EXISTS (
    SELECT 1 FROM json_each(r.value, '$[8]') AS h CROSS JOIN ${tombstones}
    WHERE ${tombstones.environmentId} = r.value ->> 0 AND ${tombstones.hash} = h.value AND ${tombstones.blocks} = 1
  ) AND ${not(isBeingErased())}`;
  const { reason, times, lastAtMs } = refusals;
  const set = assignments(refusals, {
    reason: sql`excluded.${names(reason)}`,
    times: sql`${times} + excluded.${names(times)}`,
    lastAtMs: sql`excluded.${names(lastAtMs)}`,
  });
  return sql`${insertFrom(refusals, row, from)} ON CONFLICT DO UPDATE SET ${set}`;
});

/** A write for an id deletes its tombstone if that tombstone does not block (E4). */
const deleteNonBlockingOfRefusals = query(
  (value: ValueOf<RefusalRows>) => sql`
    DELETE FROM ${tombstones} WHERE ${tombstones.blocks} = 0 AND (${tombstones.environmentId}, ${tombstones.hash}) IN (
      SELECT r.value ->> 0, h.value FROM json_each(${value("rows")}) AS r CROSS JOIN json_each(r.value, '$[8]') AS h
      WHERE ${not(isBeingErased())}
    )`,
);

const deleteOldest = query((value: ValueOf<RefusalRows>) => {
  const { environmentId, userId, kind, subject, model, lastAtMs } = refusals;
  const isSameKind = sql`${environmentId} = written.${names(environmentId)} AND ${kind} = written.${names(kind)}`;
  return sql`
    DELETE FROM ${refusals} WHERE (${environmentId}, ${userId}, ${kind}, ${subject}, ${model}) IN (
      SELECT ${environmentId}, ${userId}, ${kind}, ${subject}, ${model}
      FROM (SELECT DISTINCT value ->> 0 AS ${names(environmentId)}, value ->> 2 AS ${names(kind)} FROM json_each(${value("rows")})) AS written
      CROSS JOIN ${refusals} INDEXED BY refusals_latest ON ${isSameKind} AND ${lastAtMs} < (
        SELECT ${lastAtMs} FROM ${refusals} WHERE ${isSameKind} ORDER BY ${lastAtMs} DESC LIMIT 1 OFFSET ${KEPT_REFUSALS_MAX - 1}
      )
    )`;
});

/** Deletes the refusals whose last time is older than 30 days. */
export const deleteOldRefusals = query((value: ValueOf<{ nowMs: number }>) => {
  const { environmentId, userId, kind, subject, model, lastAtMs } = refusals;
  return sql`
    DELETE FROM ${refusals} WHERE (${environmentId}, ${userId}, ${kind}, ${subject}, ${model}) IN (
      SELECT ${environmentId}, ${userId}, ${kind}, ${subject}, ${model}
      FROM ${environments} CROSS JOIN json_each(${JSON.stringify(REFUSAL_KINDS)}) AS k
      CROSS JOIN ${refusals} INDEXED BY refusals_latest ON ${environmentId} = ${environments.id} AND ${kind} = k.value
        AND ${lastAtMs} < ${asInteger(value("nowMs"))} - ${REFUSAL_DAYS * DAY_MS}
    )`;
});

/** Writes the noted refusals. If the write fails, they are missing. */
export async function flushRefusals(env: object): Promise<void> {
  const settings = readSettings(env);
  const groups = Map.groupBy(notedRefusals.values(), ({ environment }) => environment.database);
  notedRefusals = new Map();
  await Promise.all(
    [...groups].map(async ([index, group]) => {
      const rows = group.map(async ({ environment, userId, ...row }) => {
        const hashes = userId === "" ? [] : await hashesOf({ settings, environment }, userId);
        return [environment.id, userId, row.kind, row.subject, row.model, row.reason, row.times, row.lastAtMs, hashes];
      });
      const values = { rows: JSON.stringify(await Promise.all(rows)) };
      const database = databaseAt(env, index)?.d1;
      const statements = [addRefusals(values), deleteNonBlockingOfRefusals(values), deleteOldest(values)];
      await database?.batch(statements.map(({ text, params }) => database.prepare(text).bind(...params)));
    }),
  );
}

const REFUSAL_FIELDS = ["kind", "userId", "subject", "model", "reason", "times", "lastAtMs"] as const;

const selectRefusals = query((value: ValueOf<{ environmentId: number; kind: RefusalKind }>) =>
  drizzle
    .select(fields(refusals, ...REFUSAL_FIELDS))
    .from(sql`${refusals} INDEXED BY refusals_latest`)
    .where(and(eq(refusals.environmentId, value("environmentId")), eq(refusals.kind, value("kind"))))
    .orderBy(desc(refusals.lastAtMs))
    .limit(KEPT_REFUSALS_MAX),
);

/** Returns the recent refusals that isolates have written, the latest first. */
export async function readRefusals(ctx: TenantCtx, kind: RefusalKind) {
  return (await all(ctx.db, selectRefusals({ environmentId: ctx.environment.id, kind }))).map(presentRefusalRow);
}

const selectRefusalsOfUser = query((value: ValueOf<{ environmentId: number; userId: string }>) =>
  drizzle
    .select(fields(refusals, ...REFUSAL_FIELDS))
    .from(refusals)
    .where(and(eq(refusals.environmentId, value("environmentId")), eq(refusals.userId, value("userId"))))
    .orderBy(desc(refusals.lastAtMs)),
);

/** Returns a user's recent refusals of every kind, the latest first. */
export async function readRefusalsOfUser(ctx: TenantCtx, userId: string) {
  if (userId === "") return [];
  return (await all(ctx.db, selectRefusalsOfUser({ environmentId: ctx.environment.id, userId }))).map(
    presentRefusalRow,
  );
}

type RefusalRow = StatementRow<typeof selectRefusals>;

const presentRefusalRow = ({ reason, lastAtMs, userId, model, ...row }: RefusalRow) => ({
  ...row,
  /** Null for a person who was erased. */
  userId: userId === "" ? null : userId,
  model: model === "" ? null : model,
  // `noteRefusal` wrote this JSON.
  reason: JSON.parse(reason) as RefusalReason,
  lastAt: iso(lastAtMs),
});
