import { batch, type Db, fragment, statement } from "../db/sql.ts";
import { claimCountsSql, type PersonKey, personWalk } from "../people/person-walk.ts";
import { type AuditRow, insertAuditRow, type Subject } from "./audit.ts";
import { type BalancePageRow, firstBalances } from "./balances.ts";
import { pageRowsMin } from "./budget.ts";
import { type FirstRow, firstEntries } from "./entries.ts";
import type { ListName } from "./lists.ts";
import type { EntryRow } from "./position.ts";
import type { Bound, Reading } from "./reading.ts";

/** An id of the person, and the last seq of each of its lists. Null where it has no row. */
export interface IdRow {
  readonly distinctId: string;
  /** Null if the id has no record: it never sent an event and is not linked. */
  readonly firstSeenAtMs: number | null;
  readonly lastSeenAtMs: number;
  readonly isSender: 0 | 1;
  readonly isIdentified: 0 | 1;
  readonly claimedBy: string | null;
  readonly via: "identify" | "alias" | null;
  readonly claimedAtMs: number | null;
  readonly isVerified: 0 | 1;
  readonly analyticsBytes: number | null;
  readonly analytics: number | null;
  readonly metering: number | null;
  readonly ledger: number | null;
  readonly consent: number | null;
  readonly exports: number | null;
}
/** `isClaimed` is set only for the requested id: whether another id claims it by a claim that counts. */
type IdAnswer = IdRow & { readonly environmentId: number; readonly isClaimed: 0 | 1 };

/** A person at one moment: all data that can change, and the last seq and the first rows of each append-only list. */
export interface Snapshot {
  readonly reading: Reading;
  /** Whether the requested id belongs to a person (P3). If not, its events are anonymous and left out. */
  readonly isPerson: boolean;
  /** The requested id, then the ids that it claims, nearest first. */
  readonly ids: readonly IdRow[];
  /** The properties of the ids that have some, in the same order, as JSON objects. */
  readonly properties: readonly string[];
  readonly bounds: Readonly<Record<ListName, readonly Bound[]>>;
  readonly first: Readonly<Record<ListName, EntryRow[]>>;
  readonly firstBalances: readonly BalancePageRow[];
  /** The number of ids whose first rows were read. */
  readonly firstIds: number;
}

/** The most ids whose first rows are read with the snapshot. Each costs a row in every list's statement. */
const FIRST_IDS_MAX = 32;
/** Limits of what an isolate keeps in memory besides a page. */
const IDS_MAX = 50_000;
const PROPERTIES_BYTES_MAX = 16_000_000;

const firstWalk = personWalk({ idsMax: FIRST_IDS_MAX + 1, fanMax: FIRST_IDS_MAX });
const walk = personWalk({ idsMax: IDS_MAX + 1 });
const walkOfRecords = personWalk({
  idsMax: IDS_MAX + 1,
  columns: [
    ...["first_seen_at_ms", "last_seen_at_ms", "is_sender", "is_identified", "is_device_form", "claimed_by"],
    ...["claimed_via", "claimed_at_ms", "claim_is_verified", "event_bytes", "event_count"],
  ],
});

const findFirstIds = statement<
  PersonKey,
  { distinctId: string }
>`${firstWalk} SELECT distinct_id AS distinctId FROM person`;

const last = (table: string): string => fragment`(
    SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id
    ORDER BY seq DESC LIMIT 1)`;
const lastOfAccount = (table: string, order = "seq DESC"): string => fragment`(
    SELECT seq FROM ${table} WHERE account_id = a.id ORDER BY ${order} LIMIT 1)`;

const findIds = statement<PersonKey, IdAnswer>`${walkOfRecords}
  SELECT i.environment_id AS environmentId, i.distinct_id AS distinctId, i.first_seen_at_ms AS firstSeenAtMs,
    i.last_seen_at_ms AS lastSeenAtMs, i.is_sender AS isSender, i.is_identified AS isIdentified,
    i.claimed_by AS claimedBy, i.claimed_via AS via, i.claimed_at_ms AS claimedAtMs, i.claim_is_verified AS isVerified,
    iif(i.distinct_id = :distinctId AND i.claimed_by IS NOT NULL, ${claimCountsSql("i")}, 0) AS isClaimed,
    i.event_bytes AS analyticsBytes, i.event_count AS analytics,
    ${lastOfAccount("usage_events", "occurred_by_ms DESC, seq DESC")} AS metering,
    ${lastOfAccount("credit_ledger")} AS ledger,
    ${last("consent_log")} AS consent,
    ${last("export_audit")} AS exports
  FROM person AS i
  LEFT JOIN accounts AS a ON a.environment_id = i.environment_id AND a.user_id = i.distinct_id`;

/** Properties that would not fit are null. */
const findProperties = statement<PersonKey, { properties: string | null }>`${walk}
  SELECT iif(s.bytes <= ${`${PROPERTIES_BYTES_MAX}`}, (SELECT properties FROM id_properties WHERE rowid = s.id), NULL)
    AS properties
  FROM (
    SELECT p.rowid AS id, sum(octet_length(p.properties)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM person AS i CROSS JOIN id_properties AS p
    WHERE p.environment_id = i.environment_id AND p.distinct_id = i.distinct_id
  ) AS s`;

/**
 * Writes the audit row of the opening and takes the snapshot, in one batch, which D1 runs alone. Null when there is no such
 * application; then no row is written. "too large" when the data does not fit into one download.
 */
export async function takeSnapshot(db: Db, subject: Subject, opened: AuditRow): Promise<Snapshot | "too large" | null> {
  const { appId, mode, distinctId } = subject;
  const key = { appId, mode, distinctId };
  const [, firstIds, ids, properties, ledger, exports, analytics, metering, consent, balances] = await batch(db, [
    insertAuditRow(subject, opened),
    findFirstIds(key),
    findIds(key),
    findProperties(key),
    firstEntries("ledger", firstWalk, key),
    firstEntries("exports", firstWalk, key),
    firstEntries("analytics", firstWalk, key),
    firstEntries("metering", firstWalk, key),
    firstEntries("consent", firstWalk, key),
    firstBalances(firstWalk, key),
  ]);
  const [own] = ids;
  if (own === undefined) return null;
  const texts = properties.flatMap((row) => row.properties ?? []);
  if (ids.length > IDS_MAX || texts.length < properties.length) return "too large";
  const isPerson = own.isSender === 1 || own.isClaimed === 1 || ids.length > 1;
  const bounds = boundsOf(ids, isPerson);
  const bytes = ids.reduce((sum, row) => sum + (row.analyticsBytes ?? 0), 0);
  const rowsMin = pageRowsMin(bounds, bytes);
  if (rowsMin === null) return "too large";
  // If an id claims too many ids, the first rows belong to other ids than the lists continue with.
  const areFirst = firstIds.every((row, index) => row.distinctId === ids[index]?.distinctId);
  const firstOf = (name: ListName, rows: readonly FirstRow[]): EntryRow[] => {
    const isOf = areFirst && bounds[name].length > 0;
    return isOf ? rows.map((row) => [row.seq, row.text, row.position]) : [];
  };
  const { environmentId, firstSeenAtMs } = own;
  return {
    reading: { db, environmentId, distinctId, firstSeenAtMs, pageRowsMin: rowsMin },
    isPerson,
    ids,
    properties: texts,
    bounds,
    first: {
      ledger: firstOf("ledger", ledger),
      exports: firstOf("exports", exports),
      analytics: firstOf("analytics", analytics),
      metering: firstOf("metering", metering),
      consent: firstOf("consent", consent),
    },
    firstBalances: areFirst ? balances : [],
    firstIds: areFirst ? firstIds.length : 0,
  };
}

/** Analytics of an id that belongs to no person are anonymous, and never exported (P3). */
function boundsOf(ids: readonly IdRow[], isPerson: boolean): Snapshot["bounds"] {
  const of = (name: ListName): Bound[] =>
    ids.flatMap((row) => {
      const last = row[name] ?? 0;
      return last > 0 ? [{ id: row.distinctId, last }] : [];
    });
  return {
    ledger: of("ledger"),
    exports: of("exports"),
    analytics: isPerson ? of("analytics") : [],
    metering: of("metering"),
    consent: of("consent"),
  };
}
