import { and, desc, eq, gte, isNotNull, not, type SQL, sql } from "drizzle-orm";
import { attempt, findConstraint } from "../db/attempt.ts";
import { batchWithGuards, withTombstones } from "../db/known-tombstones.ts";
import { presenter, wire } from "../db/presenter.ts";
import {
  asInteger,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOf,
  scalar,
  type ValueOf,
} from "../db/query.ts";
import { consentLog } from "../db/schema.ts";
import { findDayStart, readClock } from "../db/settings-snapshot.ts";
import { personErased, personGuards } from "../db/tombstones.ts";
import { analyticsCounts } from "../db/views.ts";
import { assert, invalid, PurserError } from "../errors.ts";
import { warn } from "../http/warnings.ts";
import { DAY_MS, MINUTE_MS } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { dayOf } from "./limits/daily-limits.ts";

export interface ConsentEntry {
  readonly consentId: string;
  readonly distinctId: string;
  readonly purpose: string;
  readonly decision: "denied" | "granted" | "withdrawn";
  readonly method: string | null;
  readonly noticeVersion: string | null;
  readonly source: string | null;
  readonly gpc: boolean | null;
  readonly isDevice: boolean;
  readonly occurredAt: string;
  readonly receivedAt: string;
}

export interface ConsentInput {
  readonly distinctId: string;
  readonly purpose: string;
  readonly decision: "granted" | "denied" | "withdrawn";
  readonly method?: string | undefined;
  readonly noticeVersion?: string | undefined;
  readonly source?: string | undefined;
  readonly gpc?: boolean | undefined;
  readonly isDevice?: boolean | undefined;
  readonly occurredAt?: number | undefined;
}

/** The public fields of a consent. */
export const consentFields = () =>
  fields(
    consentLog,
    "id",
    ...(["distinctId", "purpose", "decision", "method", "noticeVersion", "source", "gpc", "isDevice"] as const),
    ...(["occurredAtMs", "receivedAtMs"] as const),
  );

const consentColumns = wire(consentLog);
/** A consent in responses, in the dashboard and in exports. */
export const consentWireFields = {
  consentId: consentColumns.plain("id"),
  distinctId: consentColumns.plain("distinctId"),
  purpose: consentColumns.plain("purpose"),
  decision: consentColumns.plain("decision"),
  method: consentColumns.plain("method"),
  noticeVersion: consentColumns.plain("noticeVersion"),
  source: consentColumns.plain("source"),
  gpc: consentColumns.flag("gpc"),
  isDevice: consentColumns.flag("isDevice"),
  occurredAt: consentColumns.time("occurredAtMs"),
  receivedAt: consentColumns.time("receivedAtMs"),
};
export const presentConsent: (row: RowOf<ReturnType<typeof consentFields>>) => ConsentEntry =
  presenter(consentWireFields);

type ConsentKey = { environmentId: number; distinctId: string; consentId: string };
type NewConsent = ConsentKey & {
  /** The most entries that publishable keys may have sent for the id today. Null for a secret key, whose entries do not count. */
  entriesADayMax: number | null;
  dayStartMs: number;
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
const consentsOfId = (value: ValueOf<ConsentKey>) => and(ofId(value), eq(consentLog.id, value("consentId")));

const lastConsentSeq = (value: ValueOf<ConsentKey>) =>
  scalar(
    drizzle
      .select(fields(consentLog, "seq"))
      .from(consentLog)
      .where(ofId(value))
      .orderBy(desc(consentLog.seq))
      .limit(1),
  );

/** SQL: how many entries publishable keys sent for the id on this UTC day. Their last one has its place on its day. */
function publicEntriesToday(value: ValueOf<NewConsent>): SQL {
  const last = drizzle
    .select(fields(consentLog, "seq"))
    .from(sql`${consentLog} INDEXED BY consent_log_public`)
    .where(and(ofId(value), isNotNull(consentLog.dayPlace)))
    .orderBy(desc(consentLog.seq))
    .limit(1);
  const place = drizzle
    .select(fields(consentLog, "dayPlace"))
    .from(consentLog)
    .where(
      and(ofId(value), sql`${consentLog.seq} = ${scalar(last)}`, gte(consentLog.receivedAtMs, value("dayStartMs"))),
    );
  return sql`coalesce(${scalar(place)}, 0)`;
}

/** WHERE: the entry is not stored yet, and its id has not reached today's limit. */
function isNewEntryWithinLimit(value: ValueOf<NewConsent>): SQL {
  const max = value("entriesADayMax");
  const isWithinLimit = sql`(${max} IS NULL OR ${publicEntriesToday(value)} < ${max})`;
  return sql`WHERE ${not(hasRow(consentLog, consentsOfId(value)))} AND ${isWithinLimit}`;
}

const insertConsent = query((value: ValueOf<NewConsent>) => {
  const row = {
    environmentId: value("environmentId"),
    distinctId: value("distinctId"),
    seq: sql`1 + coalesce(${lastConsentSeq(value)}, 0)`,
    id: value("consentId"),
    purpose: value("purpose"),
    decision: value("decision"),
    method: value("method"),
    noticeVersion: value("noticeVersion"),
    source: value("source"),
    gpc: value("gpc", consentLog.gpc),
    isDevice: value("isDevice", consentLog.isDevice),
    dayPlace: sql`iif(${value("entriesADayMax")} IS NULL, NULL, 1 + ${publicEntriesToday(value)})`,
    occurredAtMs: value("occurredAtMs"),
    receivedAtMs: value("receivedAtMs"),
  };
  return insertFrom(consentLog, row, isNewEntryWithinLimit(value));
});

/**
 * Counts an entry for the environment's day, before it is inserted. Aborts the batch with `limit_consents` when the day is
 * full.
 */
const countConsent = query((value: ValueOf<NewConsent & { dayMs: number }>) => {
  const ofEvents = { events: sql`0`, bytes: sql`0`, idEvents: sql`0`, idBytes: sql`0` };
  const otherCounts = { ...ofEvents, unmarkedEvents: sql`0`, unmarkedBytes: sql`0`, isShareFull: sql`1` };
  const counts = {
    environmentId: asInteger(value("environmentId")),
    day: dayOf(value),
    ...otherCounts,
    consents: sql`1`,
  };
  return insertFrom(analyticsCounts, counts, isNewEntryWithinLimit(value));
});

const findConsent = query((value: ValueOf<ConsentKey>) =>
  drizzle.select(consentFields()).from(consentLog).where(consentsOfId(value)),
);

/** The most entries of an id in a UTC day by publishable keys (P5). The last ones are reserved for withdrawals. */
const ENTRIES_A_DAY_MAX = 100;
const GRANTED_A_DAY_MAX = 80;

/**
 * Appends a decision to the consent log of a distinct id, which may be unknown (P5). Entries never change. Throws `person_erased`,
 * `invalid_request` when `isDevice` or a distant `occurredAt` comes without a secret key, and `rate_limited` for publishable keys.
 */
export async function recordConsent(ctx: TenantCtx, input: ConsentInput): Promise<ConsentEntry> {
  if (input.isDevice === true && ctx.caller.kind !== "secret") {
    throw invalid("isDevice", "needs a secret key, because a user token names a user");
  }
  const receivedAtMs = ctx.now();
  // The day of the limit is a day in real time (D3).
  const dayMs = ctx.realNow();
  const key = { environmentId: ctx.environment.id, distinctId: input.distinctId, consentId: ctx.newId("con_") };
  const isCounted = ctx.caller.kind !== "secret";
  const entry: NewConsent = {
    ...key,
    entriesADayMax: isCounted ? (input.decision === "granted" ? GRANTED_A_DAY_MAX : ENTRIES_A_DAY_MAX) : null,
    dayStartMs: findDayStart(ctx.clock === null ? null : readClock(ctx.clock), dayMs),
    purpose: input.purpose,
    decision: input.decision,
    method: input.method ?? null,
    noticeVersion: input.noticeVersion ?? null,
    source: input.source ?? null,
    gpc: input.gpc ?? null,
    isDevice: input.isDevice ?? false,
    occurredAtMs: chooseOccurredAt(ctx, input, receivedAtMs),
    receivedAtMs,
  };
  const write = () =>
    withTombstones(ctx, async (fingerprints, guard) => {
      const guards = [guard, ...(await personGuards(ctx, fingerprints, [input.distinctId]))];
      const counts = isCounted ? [countConsent({ ...entry, dayMs })] : [];
      return batchWithGuards(ctx.db, [...guards, ...counts], [insertConsent(entry), findConsent(key)] as const);
    });
  const reject = (error: unknown): never => {
    if (findConstraint(error) === "limit_consents") throw tooManyConsents(ENVIRONMENT_LIMIT_MESSAGE, dayMs);
    throw findConstraint(error) === "guard_person" ? personErased("distinctId") : error;
  };
  const [, [row]] = await attempt(ctx, () => write().catch(reject));
  if (row === undefined && isCounted) throw tooManyConsents(ID_LIMIT_MESSAGE, dayMs);
  assert(row !== undefined, "a written consent is found");
  return presentConsent(row);
}

/** How far from its arrival the time of a decision may be when a publishable key sends it (P5). */
const AGE_MAX_MS = DAY_MS;
const AHEAD_MAX_MS = 5 * MINUTE_MS;

/**
 * Returns when the decision was given. A user token only proves who decides now, so a publishable key names a time near the arrival.
 * A rejection of consent with another time is kept, at its arrival, with a warning: it must never be lost.
 */
function chooseOccurredAt(ctx: TenantCtx, { occurredAt, decision }: ConsentInput, receivedAtMs: number): number {
  if (occurredAt === undefined || ctx.caller.kind === "secret") return occurredAt ?? receivedAtMs;
  if (occurredAt >= receivedAtMs - AGE_MAX_MS && occurredAt <= receivedAtMs + AHEAD_MAX_MS) return occurredAt;
  if (decision === "granted") {
    throw invalid(
      "occurredAt",
      "must be at most a day ago and 5 minutes ahead with a publishable key. A server with a secret key may send any time",
    );
  }
  warn(ctx, "consent_time_replaced");
  return receivedAtMs;
}

const ID_LIMIT_MESSAGE = `An id has at most ${ENTRIES_A_DAY_MAX} consent entries a day when a publishable key sends them. The last ones are reserved for "denied" and "withdrawn".`;
const ENVIRONMENT_LIMIT_MESSAGE =
  "The environment has as many consent entries by publishable keys today as its limit of analytics events allows.";

function tooManyConsents(message: string, dayMs: number): PurserError {
  const seconds = Math.ceil((DAY_MS - (dayMs % DAY_MS)) / 1_000);
  return new PurserError("rate_limited", message, { headers: { "Retry-After": String(seconds) } });
}
