import { and, desc, eq, not, sql } from "drizzle-orm";
import { constraintOf } from "../db/constraint.ts";
import { drizzle, fields, hasRow, insertFrom, query, type RowOf, scalar, type ValueOf } from "../db/query.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { consentLog } from "../db/schema.ts";
import { personErased, personGuards } from "../db/tombstones/check.ts";
import { batchBehind, withTombstones } from "../db/tombstones/known.ts";
import { invalid } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ConsentEntry } from "./responses.ts";
import type { ConsentInput } from "./schemas.ts";

/** The fields of a consent that are shown. */
export const consentFields = () =>
  fields(
    consentLog,
    "id",
    ...(["distinctId", "purpose", "decision", "method", "noticeVersion", "source", "gpc", "isDevice"] as const),
    ...(["occurredAtMs", "receivedAtMs"] as const),
  );
export type ConsentRow = RowOf<ReturnType<typeof consentFields>>;

type ConsentKey = { environmentId: number; distinctId: string; consentId: string };
type NewConsent = ConsentKey & {
  purpose: string;
  decision: string;
  method: string | null;
  noticeVersion: string | null;
  source: string | null;
  gpc: boolean | null;
  isDevice: boolean;
  occurredAtMs: number;
  receivedAtMs: number;
};

const ofId = (value: ValueOf<ConsentKey>) =>
  and(eq(consentLog.environmentId, value("environmentId")), eq(consentLog.distinctId, value("distinctId")));
const ofKey = (value: ValueOf<ConsentKey>) => and(ofId(value), eq(consentLog.id, value("consentId")));

const insertConsent = query((value: ValueOf<NewConsent>) => {
  const { seq } = consentLog;
  const last = drizzle
    .select(fields(consentLog, "seq"))
    .from(consentLog)
    .where(ofId(value))
    .orderBy(desc(seq))
    .limit(1);
  const row = {
    environmentId: value("environmentId"),
    distinctId: value("distinctId"),
    seq: sql`1 + coalesce(${scalar(last)}, 0)`,
    id: value("consentId"),
    purpose: value("purpose"),
    decision: value("decision"),
    method: value("method"),
    noticeVersion: value("noticeVersion"),
    source: value("source"),
    gpc: value("gpc", consentLog.gpc),
    isDevice: value("isDevice", consentLog.isDevice),
    occurredAtMs: value("occurredAtMs"),
    receivedAtMs: value("receivedAtMs"),
  };
  return insertFrom(consentLog, row, sql`WHERE ${not(hasRow(consentLog, ofKey(value)))}`);
});

const findConsent = query((value: ValueOf<ConsentKey>) =>
  drizzle.select(consentFields()).from(consentLog).where(ofKey(value)),
);

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
    gpc: input.gpc ?? null,
    isDevice: input.isDevice ?? false,
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
    gpc: row.gpc,
    isDevice: row.isDevice,
    occurredAt: iso(row.occurredAtMs),
    receivedAt: iso(row.receivedAtMs),
  };
}
