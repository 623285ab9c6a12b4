import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { requireClock } from "../db/clock.ts";
import { changeFeature, featuresSql, guardFeatures } from "../db/features.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type Statement, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { hashesOf, requireSecrets, type Standing, standingIn } from "../tombstones/check.ts";
import { erasureSecrets } from "../tombstones/secret.ts";
import { continueErasure, type ErasureBudget } from "./continue.ts";
import { readCounts } from "./counts.ts";
import { beginIds, guardIds, selectCounts, selectIds } from "./ids.ts";
import { presentProgress, requireErasure, selectErasureOf } from "./receipt.ts";
import type { ErasePersonOutput } from "./responses.ts";
import { type ErasePersonInput, idsListedMax } from "./schemas.ts";

/** The constraints that fail when the person, or the environment, changed after it was read. */
const CONFLICTS = new Set([
  "guard_environment",
  "guard_people",
  "erasures_kept",
  "erasure_ids_kept",
  "tombstones_stand",
] as const);

const selectFeatures = statement<
  { environmentId: number },
  { features: string | null }
>`SELECT ${featuresSql} AS features`;

const insertErasure = statement<{
  environmentId: number;
  erasureId: string;
  reason: string | null;
  keepConsent: number;
  by: string;
  fingerprint: string;
  isCollected: number;
  nowMs: number;
}>`
  INSERT INTO erasures (environment_id, id, reason, keep_consent, actor, fingerprint, is_collected, started_at_ms)
  VALUES (CAST(:environmentId AS INTEGER), :erasureId, :reason, CAST(:keepConsent AS INTEGER), :by, :fingerprint,
    CAST(:isCollected AS INTEGER), CAST(:nowMs AS INTEGER))`;

/**
 * Erases a person (E1 to E3), or says what that would do. Ordinary people are done when it answers. The same again goes on with
 * what is not done. Throws `erasure_unavailable`, and `changed_meanwhile` when the person has other ids than those given.
 */
export async function erasePerson(
  ctx: TenantCtx,
  input: ErasePersonInput,
  budget?: ErasureBudget,
): Promise<{ readonly output: ErasePersonOutput; readonly replayed: boolean }> {
  await erasureSecrets(ctx);
  const erasureId = ctx.newId("era_");
  const hashes = JSON.stringify(await hashesOf(ctx, input.distinctId));
  const begun = await retryOnConflict(CONFLICTS, ctx.newId(""), () => begin(ctx, input, erasureId, hashes));
  if (!("id" in begun)) return { output: begun, replayed: false };
  await continueErasure(ctx, begun.id, budget);
  const progress = presentProgress(await requireErasure(ctx, begun.id));
  const replayed = begun.id !== erasureId;
  return { output: replayed ? progress : { ...progress, distinctIds: begun.distinctIds }, replayed };
}

type Begun = { readonly id: string; readonly distinctIds: string[] };

/** The answer of a dry run, or the erasure that was begun now or before. */
async function begin(
  ctx: TenantCtx,
  input: ErasePersonInput,
  erasureId: string,
  hashes: string,
): Promise<ErasePersonOutput | Begun> {
  const { id: environmentId, appId, mode } = ctx.environment;
  const { distinctId, dryRun, keepConsent } = input;
  const key = { appId, mode, distinctId };
  const [[stored], ids, [held], [before]] = await batch(ctx.db, [
    selectFeatures({ environmentId }),
    selectIds(key),
    selectCounts(key),
    selectErasureOf({ environmentId, hashes }),
  ] as const);
  const features = stored?.features ?? null;
  requireClock(ctx, features);
  const standing = standingIn(features);
  await requireSecrets(ctx, standing);
  const found = ids.slice(0, idsListedMax).map((row) => row.distinctId);
  // An id that is being erased is nobody's.
  const distinctIds = found.length === 0 || before !== undefined ? [distinctId] : found;
  if (before !== undefined && !dryRun) return { id: before.id, distinctIds };
  const isWhole = ids.length <= idsListedMax;
  if (input.distinctIds !== undefined && !(isWhole && isSame(input.distinctIds, distinctIds))) {
    throw new PurserError("changed_meanwhile", "The person has other ids by now. Look at them, and send those.", {
      param: "distinctIds",
      details: { distinctIds },
    });
  }
  if (dryRun) {
    const distinctIdCount = Math.max(1, held?.ids ?? 0);
    return { distinctIds, distinctIdCount, ...readCounts(`[${held?.counts ?? ""}]`, keepConsent) };
  }
  await batch(ctx.db, [
    guardFeatures({ environmentId, features }),
    ...(await beginning(ctx, input, { erasureId, distinctIds, isWhole, standing })),
  ]);
  return { id: erasureId, distinctIds };
}

const isSame = (given: readonly string[], ids: readonly string[]): boolean => {
  const set = new Set(given);
  return set.size === ids.length && ids.every((id) => set.has(id));
};

const audit = auditStatement();

async function beginning(
  ctx: TenantCtx,
  { distinctId, keepConsent, reason }: ErasePersonInput,
  at: {
    readonly erasureId: string;
    readonly distinctIds: readonly string[];
    readonly isWhole: boolean;
    readonly standing: Standing;
  },
): Promise<Statement[]> {
  const { caller, environment } = ctx;
  const { erasureId, distinctIds, isWhole, standing } = at;
  const { id: environmentId, appId, mode } = environment;
  const [secret] = await erasureSecrets(ctx);
  const { fingerprint } = secret;
  const key = { environmentId, erasureId, appId, mode, distinctId };
  const act = { appId, action: "person.erased" as const, target: erasureId, details: { mode } };
  return [
    insertErasure({
      environmentId,
      erasureId,
      reason: reason ?? null,
      keepConsent: Number(keepConsent),
      by: caller.kind === "admin" ? caller.by : "keyId" in caller ? caller.keyId : caller.kind,
      fingerprint,
      isCollected: Number(isWhole),
      nowMs: ctx.realNow(),
    }),
    ...(await beginIds(ctx, secret, erasureId, distinctIds, isWhole ? [guardIds(key)] : [])),
    ...(standing.includes(fingerprint) ? [] : [changeFeature(environmentId, "tombstones", [...standing, fingerprint])]),
    ...(caller.kind === "admin" ? [audit(newAct({ ...ctx, caller }, act))] : []),
  ];
}
