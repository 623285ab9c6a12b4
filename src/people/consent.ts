import { constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { type RowOf, select, statement } from "../db/sql.ts";
import { consentLog } from "../db/tables.ts";
import { personErased, personGuards } from "../db/tombstones/check.ts";
import { batchBehind, withTombstones } from "../db/tombstones/known.ts";
import { invalid } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
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
  isDevice: consentLog.isDevice,
  occurredAtMs: consentLog.occurredAtMs,
  receivedAtMs: consentLog.receivedAtMs,
};

/** A row as SQLite stores it. */
export type ConsentRow = Omit<RowOf<typeof columns>, "gpc" | "isDevice"> & {
  readonly gpc: 0 | 1 | null;
  readonly isDevice: 0 | 1;
};

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
  isDevice: number;
  occurredAtMs: number;
  receivedAtMs: number;
};

const ofId = "environment_id = :environmentId AND distinct_id = :distinctId";

const insertConsent = statement<NewConsent>`
  INSERT INTO consent_log (
    environment_id, distinct_id, seq, id, purpose, decision, method, notice_version, source, gpc, is_device,
    occurred_at_ms, received_at_ms
  )
  SELECT CAST(:environmentId AS INTEGER), :distinctId,
    1 + coalesce((SELECT seq FROM consent_log WHERE ${ofId} ORDER BY seq DESC LIMIT 1), 0), :consentId, :purpose,
    :decision, :method, :noticeVersion, :source, CAST(:gpc AS INTEGER), CAST(:isDevice AS INTEGER),
    CAST(:occurredAtMs AS INTEGER), CAST(:receivedAtMs AS INTEGER)
  WHERE NOT EXISTS (SELECT 1 FROM consent_log WHERE ${ofId} AND id = :consentId)`;

const findConsent = statement<{ environmentId: number; distinctId: string; consentId: string }, ConsentRow>`
  SELECT ${consentColumns()} FROM consent_log WHERE ${ofId} AND id = :consentId`;

const beingErased = new Set(["tombstones_being_erased"] as const);

/**
 * Appends a decision to the consent log of a distinct id, which may be unknown (P5). Entries never change. Throws `person_erased`, and
 * `invalid_request` where not a secret key says that the id is a mere device's.
 */
export async function recordConsent(ctx: TenantCtx, input: ConsentInput): Promise<ConsentEntry> {
  if (input.isDevice === true && ctx.caller.kind !== "secret") {
    throw invalid("isDevice", "must come with a secret key: a user token names a user");
  }
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
    isDevice: Number(input.isDevice ?? false),
    occurredAtMs: input.occurredAt ?? receivedAtMs,
    receivedAtMs,
  };
  const write = () =>
    withTombstones(ctx, async (standing, guard) => {
      const guards = [guard, ...(await personGuards(ctx, standing, [input.distinctId]))];
      return batchBehind(ctx.db, guards, [insertConsent(entry), findConsent(key)] as const);
    });
  const [, [row]] = await retryOnConflict(beingErased, key.consentId, write).catch(refuseErased);
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
    isDevice: row.isDevice === 1,
    occurredAt: iso(row.occurredAtMs),
    receivedAt: iso(row.receivedAtMs),
  };
}
