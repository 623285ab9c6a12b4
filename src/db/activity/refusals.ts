import { and, desc, eq, not, sql } from "drizzle-orm";
import type { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { Environment, TenantCtx } from "../../runtime.ts";
import { readSettings } from "../../settings.ts";
import { assignments, drizzle, fields, hasRow, insertFrom, names, query, type ValueOf } from "../query.ts";
import { erasureIds, refusals, tombstones } from "../schema.ts";
import { databaseAt } from "../session.ts";
import { all } from "../sql.ts";
import { hashesOf } from "../tombstones/check.ts";

/**
 * Recent refusals: who asked for what, and why it was refused. They are written after responses, like the daily figures, and may
 * be incomplete like them. Equal refusals of a user share a row. An environment keeps its newest.
 */
export type RefusalKind = "shortage" | "failed_grant";

/** How many rows of a kind an environment keeps, and how many an isolate notes between two writes. */
const refusalsMax = 200;
const SUBJECT_MAX = 200;

interface Noted {
  readonly environment: Environment;
  readonly kind: RefusalKind;
  readonly userId: string;
  readonly subject: string;
  reason: string;
  times: number;
  lastAtMs: number;
}

let notedRefusals = new Map<string, Noted>();

/** Who asked, and for what: the event of a usage, or the pack of a grant. */
export interface RefusedAsk {
  readonly userId: string;
  readonly subject: string;
}

/** Notes a refusal. The name of an erased user is left out. */
export function noteRefusal(
  { environment, realNow }: Pick<TenantCtx, "environment" | "realNow">,
  kind: RefusalKind,
  { code, param, details }: PurserError,
  about: RefusedAsk,
): void {
  const lastAtMs = realNow();
  const userId = code === "person_erased" ? "" : about.userId;
  const subject = about.subject.slice(0, SUBJECT_MAX);
  const reason = JSON.stringify(kind === "shortage" ? details?.uncovered : { code, param });
  const key = JSON.stringify([environment.database, environment.id, kind, userId, subject]);
  const known = notedRefusals.get(key);
  if (known !== undefined) Object.assign(known, { reason, times: known.times + 1, lastAtMs });
  else if (notedRefusals.size < refusalsMax)
    notedRefusals.set(key, { environment, kind, userId, subject, reason, times: 1, lastAtMs });
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
    reason: sql`r.value ->> 4`,
    times: sql`r.value ->> 5`,
    lastAtMs: sql`r.value ->> 6`,
  };
  const from = sql`FROM json_each(${value("rows")}) AS r WHERE NOT EXISTS (
    SELECT 1 FROM json_each(r.value, '$[7]') AS h CROSS JOIN ${tombstones}
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

/** A write for an id ends its tombstone if that only removes mentions (E4). */
const endRefusedCuts = query(
  (value: ValueOf<RefusalRows>) => sql`
    DELETE FROM ${tombstones} WHERE ${tombstones.blocks} = 0 AND (${tombstones.environmentId}, ${tombstones.hash}) IN (
      SELECT r.value ->> 0, h.value FROM json_each(${value("rows")}) AS r CROSS JOIN json_each(r.value, '$[7]') AS h
      WHERE ${not(isBeingErased())}
    )`,
);

const deleteOldest = query((value: ValueOf<RefusalRows>) => {
  const { environmentId, userId, kind, subject, lastAtMs } = refusals;
  const ofKind = sql`${environmentId} = written.place AND ${kind} = written.sort`;
  return sql`
    DELETE FROM ${refusals} WHERE (${environmentId}, ${userId}, ${kind}, ${subject}) IN (
      SELECT ${environmentId}, ${userId}, ${kind}, ${subject}
      FROM (SELECT DISTINCT value ->> 0 AS place, value ->> 2 AS sort FROM json_each(${value("rows")})) AS written
      CROSS JOIN ${refusals} INDEXED BY refusals_latest ON ${ofKind} AND ${lastAtMs} < (
        SELECT ${lastAtMs} FROM ${refusals} WHERE ${ofKind} ORDER BY ${lastAtMs} DESC LIMIT 1 OFFSET ${refusalsMax - 1}
      )
    )`;
});

/** Writes the noted refusals. After a failed write they are missing. */
export async function flushRefusals(env: object): Promise<void> {
  const settings = readSettings(env);
  const groups = Map.groupBy(notedRefusals.values(), ({ environment }) => environment.database);
  notedRefusals = new Map();
  await Promise.all(
    [...groups].map(async ([index, group]) => {
      const rows = group.map(async ({ environment, userId, ...row }) => {
        const hashes = userId === "" ? [] : await hashesOf({ settings, environment }, userId);
        return [environment.id, userId, row.kind, row.subject, row.reason, row.times, row.lastAtMs, hashes];
      });
      const values = { rows: JSON.stringify(await Promise.all(rows)) };
      const database = databaseAt(env, index)?.d1;
      const statements = [addRefusals(values), endRefusedCuts(values), deleteOldest(values)];
      await database?.batch(statements.map(({ text, params }) => database.prepare(text).bind(...params)));
    }),
  );
}

const selectRefusals = query((value: ValueOf<{ environmentId: number; kind: RefusalKind }>) =>
  drizzle
    .select(fields(refusals, "userId", "subject", "reason", "times", "lastAtMs"))
    .from(sql`${refusals} INDEXED BY refusals_latest`)
    .where(and(eq(refusals.environmentId, value("environmentId")), eq(refusals.kind, value("kind"))))
    .orderBy(desc(refusals.lastAtMs))
    .limit(refusalsMax),
);

/** Recent refusals, the latest first, as far as isolates have written them. */
export async function readRefusals(ctx: TenantCtx, kind: RefusalKind) {
  const rows = await all(ctx.db, selectRefusals({ environmentId: ctx.environment.id, kind }));
  return rows.map(({ reason, lastAtMs, userId, ...row }) => ({
    ...row,
    /** Null for a person who was erased. */
    userId: userId === "" ? null : userId,
    // `noteRefusal` wrote this JSON.
    reason: JSON.parse(reason) as Readonly<Record<string, unknown>>,
    lastAt: iso(lastAtMs),
  }));
}
