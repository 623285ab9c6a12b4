import { and, desc, eq, gt, gte, lt, lte, type SQL, sql } from "drizzle-orm";
import { auditOperator } from "../catalog/audit.ts";
import { findConstraint } from "../db/attempt.ts";
import { batchWithGuards, underName } from "../db/known-tombstones.ts";
import { asInteger, computed, drizzle, fields, hasRow, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { environments, exportAudit, linkEnds } from "../db/schema.ts";
import { all, type Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { encodeBase64url, signHmac } from "../lib/encoding.ts";
import { parseTimestamp } from "../lib/time.ts";
import type { CronCtx, CronPart, SystemCtx, TenantCtx } from "../runtime.ts";
import { type ExportClaims, type ExportPersonInput, exportSecrets, TOKEN_LIFE_MS } from "./create-link.ts";

export interface RevokeLinksOutput {
  readonly revoked: number;
}

/** Returns the keyed hash of an id for `link_ends`. Without the secret nobody can find out whose links were revoked. */
async function hashId({ appId, mode, distinctId }: Omit<ExportClaims, "expiresAt">, secret: string): Promise<string> {
  return encodeBase64url(await signHmac(secret, JSON.stringify(["link end", appId, mode, distinctId])));
}

type LinkIds = { appId: string; mode: "live" | "test"; hashes: string };

const isEnvironmentOf = (value: ValueOf<LinkIds>) =>
  and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));
const isEndOfId = (value: ValueOf<{ hashes: string }>) =>
  sql`${linkEnds.idHash} IN (SELECT value FROM json_each(${value("hashes")}))`;

type ExpiringLink = LinkIds & { endedFromMs: number };

/**
 * SQL: whether a link was revoked: the id has an end that is not older than the link, which was created 24 hours before it
 * expires.
 */
const isEnded = (value: ValueOf<ExpiringLink>): SQL =>
  hasRow(
    linkEnds,
    and(eq(linkEnds.environmentId, environments.id), isEndOfId(value), gte(linkEnds.endedAtMs, value("endedFromMs"))),
  );

const selectEnded = query((value: ValueOf<ExpiringLink>) =>
  drizzle
    .select(computed({ isEnded: isEnded(value).mapWith(Boolean) }))
    .from(environments)
    .where(isEnvironmentOf(value)),
);
const guardNotEnded = query((value: ValueOf<ExpiringLink>) =>
  insertFrom(
    guards,
    { name: sql`'link'`, holds: sql`NOT ${isEnded(value)}` },
    sql`FROM ${environments} WHERE ${isEnvironmentOf(value)}`,
  ),
);

async function linkValues(
  ctx: Pick<SystemCtx, "settings">,
  { expiresAt, ...subject }: ExportClaims,
): Promise<ExpiringLink> {
  const { appId, mode } = subject;
  // The time is valid, because it was parsed when the signature was checked.
  const endedFromMs = (parseTimestamp(expiresAt) ?? 0) - TOKEN_LIFE_MS;
  return { appId, mode, hashes: await selectLinkHashes(ctx, subject), endedFromMs };
}

/** Returns the id's hash with each secret that still opens links, as a JSON list. */
async function selectLinkHashes(
  ctx: Pick<SystemCtx, "settings">,
  subject: Omit<ExportClaims, "expiresAt">,
): Promise<string> {
  const { current, previous } = exportSecrets(ctx);
  const secrets = previous === null ? [current] : [current, previous];
  return JSON.stringify(await Promise.all(secrets.map((secret) => hashId(subject, secret))));
}

/** Returns whether a link was revoked (P14). */
export async function isLinkEnded(ctx: Pick<SystemCtx, "db" | "settings">, claims: ExportClaims): Promise<boolean> {
  const [row] = await all(ctx.db, selectEnded(await linkValues(ctx, claims)));
  // Links of a deleted application do not open either.
  return row?.isEnded !== false;
}

/** Aborts the batch when the link was revoked. `isEndOfLink` recognises the error. */
export async function guardLink(ctx: Pick<SystemCtx, "settings">, claims: ExportClaims): Promise<Statement> {
  return guardNotEnded(await linkValues(ctx, claims));
}
export const isEndOfLink = (error: unknown): boolean => findConstraint(error) === "guard_link";

type Revocation = LinkIds & { environmentId: number; distinctId: string; nowMs: number; endedByMs: number };

/** Counts the links that have neither expired nor been revoked. It ignores links that were created after this moment. */
const countValid = query((value: ValueOf<Revocation>) => {
  const endedBefore = drizzle
    .select(fields(linkEnds, "endedAtMs"))
    .from(linkEnds)
    .where(
      and(eq(linkEnds.environmentId, value("environmentId")), isEndOfId(value), lt(linkEnds.endedAtMs, value("nowMs"))),
    )
    .orderBy(desc(linkEnds.endedAtMs))
    .limit(1);
  return drizzle
    .select(computed({ links: sql<number>`count(*)` }))
    .from(exportAudit)
    .where(
      and(
        eq(exportAudit.environmentId, value("environmentId")),
        eq(exportAudit.distinctId, value("distinctId")),
        gte(exportAudit.expiresAtMs, value("nowMs")),
        lte(exportAudit.expiresAtMs, value("endedByMs")),
        gt(exportAudit.expiresAtMs, sql`coalesce(${endedBefore}, 0) + ${TOKEN_LIFE_MS}`),
      ),
    );
});

/** Adds the id's end under each of its hashes, so that it lasts when a change of the secret is undone. */
const insertEnds = query((value: ValueOf<{ environmentId: number; hashes: string; nowMs: number }>) => {
  const { environmentId, idHash, endedAtMs } = linkEnds;
  const row = { environmentId: value("environmentId"), idHash: sql`h.value`, endedAtMs: asInteger(value("nowMs")) };
  const insert = insertFrom(linkEnds, row, sql`FROM json_each(${value("hashes")}) AS h WHERE true`);
  return sql`${insert} ON CONFLICT (${names(environmentId, idHash, endedAtMs)}) DO NOTHING`;
});

/**
 * Revokes all existing export links of an id (P14). Downloads that have started continue. Throws `export_unavailable`.
 */
export async function revokeLinks(ctx: TenantCtx, { distinctId }: ExportPersonInput): Promise<RevokeLinksOutput> {
  const { id: environmentId, appId, mode } = ctx.environment;
  const hashes = await selectLinkHashes(ctx, { appId, mode, distinctId });
  const nowMs = ctx.realNow();
  const target = ctx.newId("exp_");
  return underName(
    ctx,
    distinctId,
    async (name, guards) => {
      const values = { environmentId, appId, mode, hashes, distinctId: name, nowMs, endedByMs: nowMs + TOKEN_LIFE_MS };
      const statements = [
        countValid(values),
        insertEnds({ environmentId, hashes, nowMs }),
        ...auditOperator(ctx, name, { action: "export_link.revoked", target }),
      ] as const;
      const [[row]] = await batchWithGuards(ctx.db, guards, statements);
      return { revoked: row?.links ?? 0 };
    },
    "audit",
  );
}

const ROWS_A_STEP = 1_000;

const deleteStep = query((value: ValueOf<{ beforeMs: number }>) => {
  const { environmentId, idHash, endedAtMs } = linkEnds;
  const old = sql`SELECT ${environmentId}, ${idHash}, ${endedAtMs} FROM ${linkEnds}
    WHERE ${endedAtMs} < ${value("beforeMs")} ORDER BY ${endedAtMs} LIMIT ${ROWS_A_STEP}`;
  return sql`DELETE FROM ${linkEnds} WHERE (${names(environmentId, idHash, endedAtMs)}) IN (${old})`;
});

/** Deletes ends whose links have all expired, a limited number in each run. */
async function deleteOldEnds({ db, now, allowance }: CronCtx): Promise<readonly unknown[]> {
  if (allowance.has(1)) await all(db, deleteStep({ beforeMs: now() - TOKEN_LIFE_MS }));
  return [];
}

export const oldLinkEndsPart: CronPart = {
  code: "link_ends_not_deleted",
  weight: 1,
  queriesOfStep: 1,
  work: deleteOldEnds,
};
