import { constraintOf } from "../db/constraint.ts";
import { type RowOf, select, statement } from "../db/sql.ts";
import { consentLog } from "../db/tables.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { personErased, personGuards } from "../tombstones/check.ts";
import { batchBehind, withTombstones } from "../tombstones/known.ts";
import type { ConsentEntry } from "./responses.ts";
import type { ConsentInput } from "./schemas.ts";

const columns = {
  id: consentLog.id,
  distinctId: consentLog.distinctId,
  purpose: consentLog.purpose,
  decision: consentLog.decision,
  method: consentLog.method,
  noticeVersion: consentLog.noticeVersion,
  source: consentLog.source,
  gpc: consentLog.gpc,
  occurredAtMs: consentLog.occurredAtMs,
  receivedAtMs: consentLog.receivedAtMs,
};

/** A row as SQLite stores it. */
export type ConsentRow = Omit<RowOf<typeof columns>, "gpc"> & { readonly gpc: 0 | 1 | null };

/** The columns of a `ConsentRow`. */
export const consentColumns = (alias?: string): string => select(columns, alias);

type NewConsent = {
  environmentId: number;
  distinctId: string;
  consentId: string;
  purpose: string;
  decision: string;
  method: string | null;
  noticeVersion: string | null;
  source: string | null;
  gpc: number | null;
  isByUser: number;
  occurredAtMs: number;
  receivedAtMs: number;
};

const ofId = "environment_id = :environmentId AND distinct_id = :distinctId";

const insertConsent = statement<NewConsent>`
  INSERT INTO consent_log (
    environment_id, distinct_id, seq, id, purpose, decision, method, notice_version, source, gpc, is_by_user,
    occurred_at_ms, received_at_ms
  )
  SELECT CAST(:environmentId AS INTEGER), :distinctId,
    1 + coalesce((SELECT seq FROM consent_log WHERE ${ofId} ORDER BY seq DESC LIMIT 1), 0), :consentId, :purpose,
    :decision, :method, :noticeVersion, :source, CAST(:gpc AS INTEGER), CAST(:isByUser AS INTEGER),
    CAST(:occurredAtMs AS INTEGER), CAST(:receivedAtMs AS INTEGER)
  WHERE NOT EXISTS (SELECT 1 FROM consent_log WHERE ${ofId} AND id = :consentId)`;

const findConsent = statement<{ environmentId: number; distinctId: string; consentId: string }, ConsentRow>`
  SELECT ${consentColumns()} FROM consent_log WHERE ${ofId} AND id = :consentId`;

/** Appends a decision to the consent log of a distinct id, which may be unknown (P5). Entries never change. Throws `person_erased`. */
export async function recordConsent(ctx: TenantCtx, input: ConsentInput): Promise<ConsentEntry> {
  const receivedAtMs = ctx.now();
  const key = { environmentId: ctx.environment.id, distinctId: input.distinctId, consentId: ctx.newId("con_") };
  const entry: NewConsent = {
    ...key,
    purpose: input.purpose,
    decision: input.decision,
    method: input.method ?? null,
    noticeVersion: input.noticeVersion ?? null,
    source: input.source ?? null,
    gpc: input.gpc === undefined ? null : Number(input.gpc),
    // The route has checked that the user token is for the same id.
    isByUser: Number(ctx.caller.kind === "publishable"),
    occurredAtMs: input.occurredAt ?? receivedAtMs,
    receivedAtMs,
  };
  const [, [row]] = await withTombstones(ctx, async (standing, guard) => {
    const guards = [guard, ...(await personGuards(ctx, standing, [input.distinctId]))];
    return batchBehind(ctx.db, guards, [insertConsent(entry), findConsent(key)] as const);
  }).catch(refuseErased);
  assert(row !== undefined, "a consent that was written is there");
  return presentConsent(row);
}

function refuseErased(error: unknown): never {
  throw constraintOf(error) === "guard_person" ? personErased("distinctId") : error;
}

export function presentConsent(row: ConsentRow): ConsentEntry {
  return {
    consentId: row.id,
    distinctId: row.distinctId,
    purpose: row.purpose,
    decision: row.decision,
    method: row.method,
    noticeVersion: row.noticeVersion,
    source: row.source,
    gpc: row.gpc === null ? null : row.gpc === 1,
    occurredAt: iso(row.occurredAtMs),
    receivedAt: iso(row.receivedAtMs),
  };
}
