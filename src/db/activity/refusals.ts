import type { PurserError } from "../../errors.ts";
import type { Environment, TenantCtx } from "../../runtime.ts";
import { readSettings } from "../../settings.ts";
import { databaseAt } from "../databases.ts";
import { fragment, statement } from "../sql.ts";
import { hashesOf } from "../tombstones/check.ts";

/**
 * What was refused of late: who asked for what, and why it was refused. Written behind the answers like the day's figures, by
 * which it is as near as these. A user's refusals of one thing are one row; the newest of an environment are kept.
 */
export type RefusalKind = "shortage" | "failed_grant";

/** How many rows of a kind an environment keeps, and how many an isolate notes between two writes. */
export const refusalsMax = 200;
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

let noted = new Map<string, Noted>();

/** Who asked, and for what: the event of a usage, or the pack of a grant. */
export interface RefusedAsk {
  readonly userId: string;
  readonly subject: string;
}

/** Notes a refusal. Nobody is named who was erased. */
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
  const known = noted.get(key);
  if (known !== undefined) Object.assign(known, { reason, times: known.times + 1, lastAtMs });
  else if (noted.size < refusalsMax) noted.set(key, { environment, kind, userId, subject, reason, times: 1, lastAtMs });
}

type Rows = { rows: string };

const isBeingErased = fragment`EXISTS (
    SELECT 1 FROM erasure_ids WHERE environment_id = r.value ->> 0 AND distinct_id = r.value ->> 1
  )`;

/** An id that was erased since its refusal is not written: its tombstone stands before its rows are deleted. */
const addRefusals = statement<Rows>`
  INSERT INTO refusals (environment_id, user_id, kind, subject, reason, times, last_at_ms)
  SELECT r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6
  FROM json_each(:rows) AS r
  WHERE NOT EXISTS (
    SELECT 1 FROM json_each(r.value, '$[7]') AS h CROSS JOIN tombstones AS t
    WHERE t.environment_id = r.value ->> 0 AND t.hash = h.value AND t.blocks = 1
  ) AND NOT ${isBeingErased}
  ON CONFLICT DO UPDATE SET reason = excluded.reason, times = times + excluded.times, last_at_ms = excluded.last_at_ms`;

/** What is written for an id ends a tombstone that only cuts (E4). */
const endCuts = statement<Rows>`
  DELETE FROM tombstones WHERE blocks = 0 AND (environment_id, hash) IN (
    SELECT r.value ->> 0, h.value FROM json_each(:rows) AS r CROSS JOIN json_each(r.value, '$[7]') AS h WHERE NOT ${isBeingErased}
  )`;

const deleteOldest = statement<Rows>`
  DELETE FROM refusals WHERE (environment_id, user_id, kind, subject) IN (
    SELECT r.environment_id, r.user_id, r.kind, r.subject
    FROM (SELECT DISTINCT value ->> 0 AS environment_id, value ->> 2 AS kind FROM json_each(:rows)) AS written
    CROSS JOIN refusals AS r INDEXED BY refusals_latest
      ON r.environment_id = written.environment_id AND r.kind = written.kind AND r.last_at_ms < (
        SELECT last_at_ms FROM refusals WHERE environment_id = written.environment_id AND kind = written.kind
        ORDER BY last_at_ms DESC LIMIT 1 OFFSET ${`${refusalsMax - 1}`}
      )
  )`;

/** Writes what was noted. What a write that fails had is missing. */
export async function flushRefusals(env: object): Promise<void> {
  const settings = readSettings(env);
  const groups = Map.groupBy(noted.values(), ({ environment }) => environment.database);
  noted = new Map();
  await Promise.all(
    [...groups].map(async ([index, group]) => {
      const rows = group.map(async ({ environment, userId, ...row }) => {
        const hashes = userId === "" ? [] : await hashesOf({ settings, environment }, userId);
        return [environment.id, userId, row.kind, row.subject, row.reason, row.times, row.lastAtMs, hashes];
      });
      const values = { rows: JSON.stringify(await Promise.all(rows)) };
      const database = databaseAt(env, index)?.d1;
      const statements = [addRefusals(values), endCuts(values), deleteOldest(values)];
      await database?.batch(statements.map(({ text, params }) => database.prepare(text).bind(...params)));
    }),
  );
}
