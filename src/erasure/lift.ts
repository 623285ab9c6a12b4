import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import { computed, drizzle, fields, hasRow, query, scalar, type ValueOf } from "../db/query.ts";
import { environments, erasures, tombstones } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { fingerprintSecrets } from "../db/tombstones.ts";
import { invalid, PurserError } from "../errors.ts";
import type { AdminCtx, Mode, TenantCtx } from "../runtime.ts";
import type { ErasureKey } from "./page-rows.ts";
import { type ErasureOutput, erasureKey, isErasure, presentErasure, requireErasure } from "./receipt.ts";

export interface ForgetTombstonesOutput {
  readonly forgotten: number;
}

export interface ForgetTombstonesInput {
  readonly mode: Mode;
  readonly fingerprint: string;
}

const isUnlifted = (value: ValueOf<ErasureKey>) => and(isErasure(value), isNull(erasures.liftedAtMs));

const setLifted = query((value: ValueOf<ErasureKey & { nowMs: number }>) =>
  drizzle
    .update(erasures)
    .set({ liftedAtMs: value("nowMs", erasures.liftedAtMs) })
    .where(isUnlifted(value)),
);

const deleteTombstones = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .delete(tombstones)
    .where(and(eq(tombstones.environmentId, value("environmentId")), eq(tombstones.erasureId, value("erasureId")))),
);

/**
 * Writes the fingerprints of the secrets that still have tombstones, in order of their first erasures. It counts the lift, so that
 * the settings snapshot never equals an earlier text: an isolate would then use what it remembers of erased ids.
 */
const updateTombstonesFeature = query((value: ValueOf<{ environmentId: number }>) => {
  const { settingsSnapshot } = environments;
  const { fingerprint } = erasures;
  const fingerprints = sql`(
    SELECT nullif(json_group_array(${fingerprint}), '[]') FROM (
      SELECT ${fingerprint} FROM ${erasures}
      WHERE ${erasures.environmentId} = ${value("environmentId")} AND ${erasures.liftedAtMs} IS NULL
      GROUP BY ${fingerprint} ORDER BY min(${erasures.startedAtMs}), ${fingerprint}
    ) AS ${erasures}
  )`;
  const parts = sql`json_object('lifts', coalesce(${settingsSnapshot} ->> '$.lifts', 0) + 1, 'tombstones', json(${fingerprints}))`;
  return drizzle
    .update(environments)
    .set({ settingsSnapshot: sql`json_patch(${settingsSnapshot}, ${parts})` })
    .where(eq(environments.id, value("environmentId")));
});

const auditErasureLifted = insertAuditEntry<ErasureKey>((value) => hasRow(erasures, isUnlifted(value)));

/**
 * Allows writes for the ids of an erasure again (E4). Erased data stays erased. Throws `not_found`, and `changed_meanwhile`
 * while the erasure runs.
 */
export async function liftErasure(ctx: TenantCtx, erasureId: string): Promise<ErasureOutput> {
  const row = await requireErasure(ctx, erasureId);
  if (row.completedAtMs === null) {
    throw new PurserError("changed_meanwhile", "This erasure is still running. Lift it when it is completed.");
  }
  if (row.liftedAtMs !== null) return presentErasure(ctx, row);
  const { caller, environment } = ctx;
  const key = erasureKey(ctx, erasureId);
  const entry = {
    appId: environment.appId,
    action: "erasure.lifted" as const,
    target: erasureId,
    details: { mode: environment.mode },
  };
  await batch(ctx.db, [
    ...(caller.kind === "admin" ? [auditErasureLifted({ ...newAuditEntry({ ...ctx, caller }, entry), ...key })] : []),
    setLifted({ ...key, nowMs: ctx.realNow() }),
    deleteTombstones(key),
    updateTombstonesFeature({ environmentId: key.environmentId }),
  ]);
  return presentErasure(ctx, await requireErasure(ctx, erasureId));
}

type SecretKey = { environmentId: number; fingerprint: string };

const isOfSecret = (value: ValueOf<SecretKey>) =>
  and(eq(erasures.environmentId, value("environmentId")), eq(erasures.fingerprint, value("fingerprint")));
const isUnliftedOfSecret = (value: ValueOf<SecretKey>) => and(isOfSecret(value), isNull(erasures.liftedAtMs));
const isRunning = (value: ValueOf<SecretKey>) =>
  hasRow(erasures, and(isUnliftedOfSecret(value), isNull(erasures.completedAtMs)));

const isTombstoneOfSecret = (value: ValueOf<SecretKey>) =>
  and(
    eq(tombstones.environmentId, value("environmentId")),
    inArray(tombstones.erasureId, drizzle.select(fields(erasures, "id")).from(erasures).where(isOfSecret(value))),
  );

const selectState = query((value: ValueOf<SecretKey>) =>
  drizzle
    .select(
      computed({
        hasUnlifted: hasRow(erasures, isUnliftedOfSecret(value)).mapWith(Boolean),
        isRunning: isRunning(value).mapWith(Boolean),
        tombstones: scalar(
          drizzle
            .select(computed({ count: sql<number>`count(*)` }))
            .from(tombstones)
            .where(isTombstoneOfSecret(value)),
        ),
      }),
    )
    .from(sql`(SELECT 1)`),
);
const auditTombstonesForgotten = insertAuditEntry<SecretKey>(
  (value) => sql`${hasRow(erasures, isUnliftedOfSecret(value))} AND NOT ${isRunning(value)}`,
);
const setAllLifted = query((value: ValueOf<SecretKey & { nowMs: number }>) =>
  drizzle
    .update(erasures)
    .set({ liftedAtMs: value("nowMs", erasures.liftedAtMs) })
    .where(sql`${isUnliftedOfSecret(value)} AND NOT ${isRunning(value)}`),
);
const deleteTombstonesOfSecret = query((value: ValueOf<SecretKey>) =>
  drizzle.delete(tombstones).where(sql`${isTombstoneOfSecret(value)} AND NOT ${isRunning(value)}`),
);

/**
 * Deletes the tombstones of a lost secret, so that the environment accepts writes again (E4). Their ids can be used again, as
 * after a lift. Throws `not_found`, `invalid_request` while the secret is set, and `changed_meanwhile` while an erasure with
 * it runs.
 */
export async function forgetTombstones(
  admin: AdminCtx,
  appId: string,
  { mode, fingerprint }: ForgetTombstonesInput,
): Promise<ForgetTombstonesOutput> {
  const { id: environmentId } = await requireEnvironment(admin, appId, mode);
  if ((await fingerprintSecrets(admin)).includes(fingerprint)) {
    throw invalid("fingerprint", "belongs to a secret that is set. Lift its erasures one by one instead");
  }
  const key = { environmentId, fingerprint };
  const entry = newAuditEntry(admin, { appId, action: "tombstones.forgotten", target: fingerprint, details: { mode } });
  const [state] = await all(admin.db, selectState(key));
  if (state?.isRunning === true) throw stillRunning();
  if (state?.hasUnlifted !== true) return { forgotten: 0 };
  await batch(admin.db, [
    auditTombstonesForgotten({ ...entry, ...key }),
    setAllLifted({ ...key, nowMs: admin.now() }),
    deleteTombstonesOfSecret(key),
    updateTombstonesFeature({ environmentId }),
  ]);
  return { forgotten: state.tombstones ?? 0 };
}

const stillRunning = (): PurserError =>
  new PurserError("changed_meanwhile", "An erasure with this secret is still running. Try again when it is completed.");
