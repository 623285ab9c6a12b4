import { all, batch, statement } from "../db/sql.ts";
import { sealedTexts, sealMarkOf } from "../lib/seal.ts";
import type { CronCtx, CronPart, SystemCtx } from "../runtime.ts";
import { openSecret, type SecretPlace, sealSecret } from "./stored-secret.ts";

/** Of each database. Each is a query. */
const TEXTS_A_RUN_MAX = 100;
const TEXTS_A_STEP = 20;

interface Stored extends Pick<SecretPlace["environment"], "appId" | "mode"> {
  readonly column: keyof typeof updates;
  readonly id: number | string;
  readonly text: string;
}

/** `mark`: how a text begins that the secret before sealed. */
const selectOld = statement<{ mark: string; limit: number; offset: number }, Stored>`
  SELECT 'end_user_auth' AS "column", e.app_id AS appId, e.mode AS mode, e.id AS id, e.end_user_auth AS text
  FROM environments AS e WHERE instr(e.end_user_auth, :mark)
  UNION ALL SELECT 'stripe', e.app_id, e.mode, e.id, s.setting
  FROM stripe_settings AS s CROSS JOIN environments AS e ON e.id = s.environment_id WHERE instr(s.setting, :mark)
  UNION ALL SELECT 'webhook', e.app_id, e.mode, w.id, w.secret
  FROM webhook_endpoints AS w CROSS JOIN environments AS e ON e.id = w.environment_id WHERE instr(w.secret, :mark)
  UNION ALL SELECT 'webhook_previous', e.app_id, e.mode, w.id, w.previous_secret
  FROM webhook_endpoints AS w CROSS JOIN environments AS e ON e.id = w.environment_id WHERE instr(w.previous_secret, :mark)
  LIMIT CAST(:limit AS INTEGER) OFFSET CAST(:offset AS INTEGER)`;

/** Nothing that was set anew meanwhile is touched. */
const update = (table: string, key: string, column: string) => statement<Pick<Stored, "id" | "text"> & { now: string }>`
  UPDATE ${table} SET ${column} = :now WHERE ${key} = :id AND ${column} = :text`;
const updates = {
  end_user_auth: update("environments", "id", "end_user_auth"),
  stripe: update("stripe_settings", "environment_id", "setting"),
  webhook: update("webhook_endpoints", "id", "secret"),
  webhook_previous: update("webhook_endpoints", "id", "previous_secret"),
};

/**
 * Seals with `SETTINGS_SECRET` what `SETTINGS_SECRET_PREVIOUS` sealed, for the cron: up to so many stored texts a run. Costs
 * nothing when there is none before. Returns errors: a text that does not open leaves the others.
 */
export async function resealSecrets(root: CronCtx, textsMax = TEXTS_A_RUN_MAX): Promise<readonly unknown[]> {
  const { db, database, allowance, settings } = root;
  const previous = settings.settingsSecrets?.previous ?? null;
  if (previous === null) return [];
  const failures: unknown[] = [];
  const mark = await sealMarkOf(previous);
  const limit = Math.min(textsMax, TEXTS_A_STEP);
  let [count, isLast] = [0, false];
  while (!isLast && count < textsMax && allowance.has(limit + 1)) {
    // Behind what did not open.
    const found = await all(db, selectOld({ mark, limit, offset: failures.length }));
    const made = await Promise.allSettled(found.map((stored) => resealed(root, stored, mark)));
    const changes = made.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    if (changes.length > 0) await batch(db, changes);
    count += changes.length;
    isLast = found.length < limit;
    failures.push(...made.flatMap((one) => (one.status === "rejected" ? [one.reason] : [])));
  }
  const isDone = isLast && failures.length === 0;
  if (count > 0) console.info(JSON.stringify({ level: "info", code: "secrets_sealed_anew", database, count, isDone }));
  return failures;
}

export const oldSealsPart: CronPart = {
  code: "secrets_not_sealed_anew",
  weight: 1,
  queriesOfStep: TEXTS_A_STEP + 1,
  work: resealSecrets,
};

async function resealed(root: SystemCtx, { column, id, text, ...environment }: Stored, mark: string) {
  const purpose = column === "webhook_previous" ? "webhook" : column;
  const place = { purpose, environment } satisfies SecretPlace;
  let now = text;
  for (const [sealed] of text.matchAll(sealedTexts)) {
    if (sealed.startsWith(mark))
      now = now.replace(sealed, await sealSecret(root, place, await openSecret(root, place, sealed)));
  }
  return updates[column]({ id, text, now });
}
