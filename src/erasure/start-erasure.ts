import { and, eq, sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import { attempt } from "../db/attempt.ts";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { erasures, tombstones } from "../db/schema.ts";
import { guardSettingsSnapshot, requireClock } from "../db/settings-snapshot.ts";
import { all, batch, type Statement } from "../db/sql.ts";
import { erasureSecrets, hashForTombstones, requireSecrets, tombstoneSecretsIn } from "../db/tombstones.ts";
import { invalid, PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ErasureCounts, readCounts } from "./counts.ts";
import { continueErasure, type ErasureBudget, selectErasureSettingsSnapshot } from "./erase-running.ts";
import { type FoundId, guardIds, LISTED_IDS_MAX, selectCounts, selectIds, selectIdsAmong } from "./ids-to-erase.ts";
import type { ErasureKey } from "./page-rows.ts";
import { type ErasureRow, presentProgress, requireErasure, selectErasureOf } from "./receipt.ts";
import { type IdToErase, requireTombstoneSecret, startErasingIds } from "./start-erasing-ids.ts";

export interface ErasePersonOutput extends ErasureCounts {
  readonly distinctIdCount: number;
  readonly erasureId?: string | undefined;
  readonly status?: "completed" | "running" | undefined;
  readonly distinctIds?: string[] | undefined;
  readonly notErased?: string[] | undefined;
}

export interface ErasePersonInput {
  readonly distinctId: string;
  readonly dryRun: boolean;
  readonly keepConsent: boolean;
  readonly distinctIds?: string[] | undefined;
  readonly distinctIdCount?: number | undefined;
  readonly blockIds?: string[] | undefined;
  readonly reason?:
    | "consent_withdrawn"
    | "legal_duty"
    | "not_needed"
    | "objection"
    | "request"
    | "unlawful"
    | undefined;
}

type NewErasure = Pick<
  ErasureRow,
  "environmentId" | "id" | "reason" | "keepConsent" | "actor" | "fingerprint" | "isCollected" | "startedAtMs"
>;
const insertErasure = query((value: ValueOf<NewErasure>) =>
  drizzle.insert(erasures).values({
    environmentId: value("environmentId"),
    id: value("id"),
    reason: value("reason"),
    keepConsent: value("keepConsent"),
    actor: value("actor"),
    fingerprint: value("fingerprint"),
    isCollected: value("isCollected"),
    startedAtMs: value("startedAtMs"),
  }),
);

/**
 * Erases a person (E1 to E3), or in a dry run counts what would be erased. One call is enough for most people. A repeated call
 * continues the erasure, and blocks further `blockIds`. Throws `erasure_unavailable`, `changed_meanwhile` when the person has other
 * ids than the request, and `invalid_request` when `blockIds` has an id that is not erased.
 */
export async function erasePerson(
  ctx: TenantCtx,
  input: ErasePersonInput,
  budget?: ErasureBudget,
): Promise<{ readonly output: ErasePersonOutput; readonly replayed: boolean }> {
  await erasureSecrets(ctx);
  const erasureId = ctx.newId("era_");
  const hashes = JSON.stringify(await hashForTombstones(ctx, input.distinctId));
  const started = await attempt(ctx, () => startErasure(ctx, input, erasureId, hashes));
  if (!("id" in started)) return { output: started, replayed: false };
  await continueErasure(ctx, started.id, budget);
  const progress = presentProgress(await requireErasure(ctx, started.id));
  const replayed = started.id !== erasureId;
  const { distinctIds, notErased } = started;
  return { output: replayed ? progress : { ...progress, distinctIds, ...notErased }, replayed };
}

interface StartedErasure {
  readonly id: string;
  readonly distinctIds: string[];
  readonly notErased: { readonly notErased?: string[] };
}

/** Returns the response of a dry run, or the erasure that this call or an earlier call started. */
async function startErasure(
  ctx: TenantCtx,
  input: ErasePersonInput,
  erasureId: string,
  hashes: string,
): Promise<ErasePersonOutput | StartedErasure> {
  const { id: environmentId, appId, mode } = ctx.environment;
  const { distinctId, dryRun, keepConsent, blockIds = [] } = input;
  const key = { appId, mode, distinctId };
  const expectedIds = input.distinctIds === undefined ? null : JSON.stringify(input.distinctIds);
  const [[stored], ids, [counted], [earlier]] = await batch(ctx.db, [
    selectErasureSettingsSnapshot({ environmentId }),
    selectIds(key),
    selectCounts({ ...key, expectedIds }),
    selectErasureOf({ environmentId, hashes }),
  ] as const);
  const settingsSnapshot = stored?.settingsSnapshot ?? null;
  requireClock(ctx, settingsSnapshot);
  await requireSecrets(ctx, tombstoneSecretsIn(settingsSnapshot));
  // An id that is being erased belongs to no person.
  const hasNoPerson = ids.length === 0 || earlier !== undefined;
  const foundIds: readonly FoundId[] = hasNoPerson ? [{ distinctId, isVerified: true }] : ids.slice(0, LISTED_IDS_MAX);
  const person = foundIds.map((id) => id.distinctId);
  if (earlier !== undefined && !dryRun) {
    await blockMore(ctx, earlier.id, blockIds);
    return { id: earlier.id, distinctIds: person, notErased: {} };
  }
  const isWhole = ids.length <= LISTED_IDS_MAX;
  const { erased, notErased } = divideIds(input, foundIds);
  const distinctIds = erased.map((id) => id.distinctId);
  const distinctIdCount = Math.max(1, counted?.ids ?? 0);
  if (input.distinctIdCount !== undefined && input.distinctIdCount !== distinctIdCount) {
    throw new PurserError(
      "changed_meanwhile",
      "The number of the person's ids has changed. Count them again in a dry run.",
      {
        param: "distinctIdCount",
        details: { distinctIdCount },
      },
    );
  }
  if (input.distinctIds !== undefined && !(isWhole && haveSameIds(input.distinctIds, distinctIds))) {
    throw new PurserError(
      "changed_meanwhile",
      "The person's ids have changed. List them again in a dry run, and send the new list.",
      {
        param: "distinctIds",
        details: { distinctIds: person },
      },
    );
  }
  const furtherIds = isWhole ? [] : await all(ctx.db, selectIdsAmong({ ...key, ids: JSON.stringify(blockIds) }));
  const isVerifiedById = new Map([...erased, ...furtherIds].map((id) => [id.distinctId, id.isVerified]));
  if (!blockIds.every((id) => isVerifiedById.has(id))) throw notAmongErased();
  if (dryRun) {
    return { distinctIds, distinctIdCount, ...notErased, ...readCounts(`[${counted?.counts ?? ""}]`, keepConsent) };
  }
  const blocked = new Set(blockIds);
  const idsToErase = Array.from(isVerifiedById, ([id, isVerified]) => ({
    distinctId: id,
    blocks: isVerified || blocked.has(id),
  }));
  await batch(ctx.db, [
    guardSettingsSnapshot({ environmentId, settingsSnapshot }),
    ...(await startStatements(ctx, input, { erasureId, ids: idsToErase, isWhole, settingsSnapshot })),
  ]);
  return { id: erasureId, distinctIds, notErased };
}

/**
 * Splits the ids into those to erase and the others. An id is not erased if `distinctIds` lacks it and only unverified claims
 * reach it.
 */
function divideIds({ distinctIds }: ErasePersonInput, foundIds: readonly FoundId[]) {
  if (distinctIds === undefined) return { erased: foundIds, notErased: {} };
  const named = new Set(distinctIds);
  const isErased = ({ distinctId, isVerified }: FoundId) => isVerified || named.has(distinctId);
  const notErased = foundIds.filter((id) => !isErased(id)).map(({ distinctId }) => distinctId);
  return { erased: foundIds.filter(isErased), notErased: { notErased } };
}

const notAmongErased = () => invalid("blockIds", "must be among the ids that are erased");

type BlockedHashes = ErasureKey & { hashes: string };
const isTombstoneOf = (value: ValueOf<BlockedHashes>) =>
  and(
    eq(tombstones.environmentId, value("environmentId")),
    eq(tombstones.erasureId, value("erasureId")),
    sql`${tombstones.hash} IN (SELECT value FROM json_each(${value("hashes")}))`,
  );

const selectTombstones = query((value: ValueOf<BlockedHashes>) =>
  drizzle.select(fields(tombstones, "hash")).from(tombstones).where(isTombstoneOf(value)),
);

const raiseTombstones = query((value: ValueOf<BlockedHashes>) =>
  drizzle
    .update(tombstones)
    .set({ blocks: 1 })
    .where(and(isTombstoneOf(value), eq(tombstones.blocks, 0))),
);

/** Makes non-blocking tombstones of an erasure blocking. Throws `invalid_request` for an id without a tombstone of the erasure. */
async function blockMore(ctx: TenantCtx, erasureId: string, blockIds: readonly string[]): Promise<void> {
  if (blockIds.length === 0) return;
  const hashesOfEach: string[][] = [];
  for (const id of blockIds) hashesOfEach.push(await hashForTombstones(ctx, id));
  const values = { environmentId: ctx.environment.id, erasureId, hashes: JSON.stringify(hashesOfEach.flat()) };
  const tombstoneHashes = new Set((await all(ctx.db, selectTombstones(values))).map(({ hash }) => hash));
  if (!hashesOfEach.every((hashes) => hashes.some((hash) => tombstoneHashes.has(hash)))) throw notAmongErased();
  await batch(ctx.db, [raiseTombstones(values)]);
}

/** Returns the person's ids that only unverified claims reach. Their tombstones do not block unless `blockIds` names them. */
export async function findUnverifiedIds(ctx: TenantCtx, distinctId: string): Promise<string[]> {
  const { appId, mode } = ctx.environment;
  const ids = await all(ctx.db, selectIds({ appId, mode, distinctId }));
  return ids.filter(({ isVerified }) => !isVerified).map((id) => id.distinctId);
}

const haveSameIds = (expectedIds: readonly string[], ids: readonly string[]): boolean => {
  const set = new Set(expectedIds);
  return set.size === ids.length && ids.every((id) => set.has(id));
};

const auditErasureStarted = insertAuditEntry();

async function startStatements(
  ctx: TenantCtx,
  { distinctId, keepConsent, reason }: ErasePersonInput,
  start: {
    readonly erasureId: string;
    readonly ids: readonly IdToErase[];
    readonly isWhole: boolean;
    readonly settingsSnapshot: string | null;
  },
): Promise<Statement[]> {
  const { caller, environment } = ctx;
  const { erasureId, ids, isWhole, settingsSnapshot } = start;
  const { id: environmentId, appId, mode } = environment;
  const [secret] = await erasureSecrets(ctx);
  const { fingerprint } = secret;
  const key = { environmentId, erasureId, appId, mode, distinctId };
  const entry = { appId, action: "person.erased" as const, target: erasureId, details: { mode } };
  return [
    insertErasure({
      environmentId,
      id: erasureId,
      reason: reason ?? null,
      keepConsent,
      actor: caller.kind === "admin" ? caller.by : "keyId" in caller ? caller.keyId : caller.kind,
      fingerprint,
      isCollected: Number(isWhole),
      startedAtMs: ctx.realNow(),
    }),
    ...(await startErasingIds(ctx, secret, erasureId, ids, isWhole ? [guardIds(key)] : [])),
    ...requireTombstoneSecret(ctx, settingsSnapshot, secret),
    ...(caller.kind === "admin" ? [auditErasureStarted(newAuditEntry({ ...ctx, caller }, entry))] : []),
  ];
}
