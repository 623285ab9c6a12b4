import { type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { persons } from "../db/schema.ts";
import { rows } from "../db/statement.ts";
import { assert } from "../lib/assert.ts";
import { type AuditRow, audited, type Subject } from "./audit.ts";
import { type BalancePageRow, firstBalances } from "./balances.ts";
import { firstEntries } from "./entries.ts";
import type { ListName } from "./lists.ts";
import type { EntryRow } from "./place.ts";
import { type Bound, columnsOf, type Reading } from "./reading.ts";

interface IdRow {
  readonly distinctId: string;
  readonly via: string | null;
  readonly linkedAtMs: number | null;
  /** How far each of its lists reached; null where it has no row. */
  readonly analytics: number | null;
  readonly metering: number | null;
  readonly ledger: number | null;
  readonly consent: number | null;
  readonly exports: number | null;
}

type PersonRow = typeof persons.$inferSelect;

/** One moment of a person: all that can change, how far each append-only list reached, and the first rows of each. */
export interface Snapshot {
  readonly reading: Reading;
  /** Null when the id that was asked for belongs to nobody. */
  readonly person: PersonRow | null;
  /** The person's ids in their own order; the id that was asked for alone where no person is known. */
  readonly ids: readonly IdRow[];
  readonly bounds: Readonly<Record<ListName, readonly Bound[]>>;
  readonly first: Readonly<Record<ListName, EntryRow[]>>;
  readonly firstBalances: readonly BalancePageRow[];
}

/** Of how many ids the first rows are read with the snapshot: each costs a row in every list's statement. */
export const firstIdsMax = 32;

/**
 * The application, the id that was asked for if it belongs to a person, and that person's ids. The index is named: left
 * to itself, the planner may read every id of the application.
 */
const fromIds = ({ appId, mode, distinctId }: Subject): SQL => sql`
  FROM environments AS e
  LEFT JOIN person_distinct_ids AS asked
    ON asked.environment_id = e.id AND asked.distinct_id = ${distinctId} AND asked.person_id IS NOT NULL
  LEFT JOIN person_distinct_ids AS d INDEXED BY person_distinct_ids_person
    ON d.environment_id = asked.environment_id AND d.person_id = asked.person_id
  WHERE e.app_id = ${appId} AND e.mode = ${mode}`;

function idsStatement(db: Db, subject: Subject) {
  const last = (table: string, idColumn: string, order = "seq DESC"): SQL => sql`(
    SELECT seq FROM ${sql.raw(table)}
    WHERE environment_id = e.id AND ${sql.raw(idColumn)} = coalesce(d.distinct_id, ${subject.distinctId})
    ORDER BY ${sql.raw(order)} LIMIT 1)`;
  return rows<IdRow>(
    db,
    sql`SELECT coalesce(d.distinct_id, ${subject.distinctId}) AS distinctId, d.via AS via, d.linked_at_ms AS linkedAtMs,
      d.event_count AS analytics,
      ${last("usage_events", "user_id", "occurred_by_ms DESC, seq DESC")} AS metering,
      ${last("credit_ledger", "user_id")} AS ledger,
      ${last("consent_log", "distinct_id")} AS consent,
      ${last("export_audit", "distinct_id")} AS exports
    ${fromIds(subject)}
    ORDER BY d.distinct_id`,
  );
}

function headStatement(db: Db, { appId, mode, distinctId }: Subject) {
  return rows<{ environment: number; personId: string | null } & PersonRow>(
    db,
    sql`SELECT e.id AS environment, asked.person_id AS personId, ${columnsOf(persons, "p")}
    FROM environments AS e
    LEFT JOIN person_distinct_ids AS asked ON asked.environment_id = e.id AND asked.distinct_id = ${distinctId}
    LEFT JOIN persons AS p ON p.environment_id = asked.environment_id AND p.id = asked.person_id
    WHERE e.app_id = ${appId} AND e.mode = ${mode}`,
  );
}

/**
 * Notes the opening in the audit and takes the snapshot: one batch, which D1 runs alone. Null when there is no such
 * application, in which case nothing is noted.
 */
export async function takeSnapshot(db: Db, subject: Subject, opened: AuditRow): Promise<Snapshot | null> {
  const ids = sql`SELECT e.id AS environment_id, coalesce(d.distinct_id, ${subject.distinctId}) AS distinct_id
    ${fromIds(subject)} ORDER BY d.distinct_id LIMIT ${sql.raw(`${firstIdsMax}`)}`;
  // Analytics of an id that belongs to nobody are anonymous: never exported.
  const linkedIds = sql`SELECT e.id AS environment_id, d.distinct_id AS distinct_id
    ${fromIds(subject)} AND d.distinct_id IS NOT NULL ORDER BY d.distinct_id LIMIT ${sql.raw(`${firstIdsMax}`)}`;
  const [, [head], idRows, ledger, exports, analytics, metering, consent, balances] = await db.batch([
    audited(db, subject, opened),
    headStatement(db, subject),
    idsStatement(db, subject),
    firstEntries(db, "ledger", ids),
    firstEntries(db, "exports", ids),
    firstEntries(db, "analytics", linkedIds),
    firstEntries(db, "metering", ids),
    firstEntries(db, "consent", ids),
    firstBalances(db, ids),
  ]);
  if (head === undefined) return null;
  assert(head.personId === null || head.id !== null, "an id is linked to a person that is there");
  const person = head.personId === null ? null : { ...head, isIdentified: Boolean(head.isIdentified) };
  const isStillThere =
    person === null
      ? sql`1`
      : sql`EXISTS (SELECT 1 FROM person_distinct_ids WHERE environment_id = ${head.environment}
          AND distinct_id = ${subject.distinctId} AND person_id IS NOT NULL)`;
  return {
    reading: { db, environmentId: head.environment, isStillThere },
    person,
    ids: idRows,
    bounds: boundsOf(idRows),
    first: {
      ledger: ledger.map(asEntry),
      exports: exports.map(asEntry),
      analytics: analytics.map(asEntry),
      metering: metering.map(asEntry),
      consent: consent.map(asEntry),
    },
    firstBalances: balances,
  };
}

const asEntry = (row: { seq: number; text: string | number; position?: number }): EntryRow => [
  row.seq,
  row.text,
  row.position,
];

function boundsOf(ids: readonly IdRow[]): Snapshot["bounds"] {
  const of = (name: ListName): Bound[] =>
    ids.flatMap((row) => {
      const last = row[name] ?? 0;
      return last > 0 ? [{ id: row.distinctId, last }] : [];
    });
  return {
    ledger: of("ledger"),
    exports: of("exports"),
    analytics: of("analytics"),
    metering: of("metering"),
    consent: of("consent"),
  };
}
