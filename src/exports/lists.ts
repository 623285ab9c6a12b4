/**
 * The long lists of the document. SQLite writes their JSON, because this takes a third of the CPU time of serialising objects.
 */

import { and, eq, type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { exportedEntryFields } from "../books/credits/history.ts";
import { debitsJson } from "../books/ledger/debits.ts";
import { isBalanceOfEntry, isEventOfEntry, isReservationOfEntry } from "../books/ledger/insert-entries.ts";
import { describedEvent, usageTimes } from "../books/usage/describe-events.ts";
import { type WireFields, wire } from "../db/presenter.ts";
import { names, type ValueOf } from "../db/query.ts";
import {
  accounts,
  analyticsEvents,
  consentLog,
  creditBalances,
  creditLedger,
  distinctIds,
  environments,
  exportAudit,
  largeProperties,
  members,
  reservations,
  usageEvents,
} from "../db/schema.ts";
import { consentWireFields } from "../people/consent.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { exportAuditFields } from "./export-audit.ts";

export const LISTS = ["ledger", "exports", "analytics", "metering", "consent"] as const;
export type ListName = (typeof LISTS)[number];

export interface List {
  readonly table: SQLiteTable & { readonly seq: SQLiteColumn };
  /** SQL: the join of each row with the row of another table that has some of its fields. */
  readonly beside?: SQL;
  /** SQL: whether a row belongs to the id `owner`. */
  readonly isOwned: (environmentId: Placeholder | SQLiteColumn) => SQL | undefined;
  /**
   * SQL: whether a row was shown at the snapshot, when `last` was its id's last seq. Null for lists whose rows are always shown. Rows
   * that are not shown have no part in the list's number of rows.
   */
  readonly isShown: ((last: SQL | null) => SQL) | null;
  readonly fields: { readonly [Name in string]: Pick<WireFields[string], "json"> };
  /** The first field of an entry's body, which may be long. */
  readonly bodyFrom: string;
  /** SQL: the bytes of the long part of the body. SQLite finds them without reading the value. */
  readonly bodyBytes: () => SQL;
}

/** An id whose rows are read. `owner.span` is the span of rows as JSON, and `owner.place` its index. */
export const owner = alias(distinctIds, "owner");

/** FROM: the ids of the value `spans`. `own`: a JSON list of further ids by which the person is a member of itself. */
export const ownersOfSpans = (value: ValueOf<{ spans: string }>, own: SQL | Placeholder = sql`'[]'`) => sql`(
  SELECT ${own} AS own, value AS span, key AS place, value ->> 0 AS ${names(owner.distinctId)} FROM json_each(${value("spans")})
) AS ${owner}`;

/** FROM: the requested id. */
export const requestedOwner = (value: ValueOf<PersonKey>) => sql`(
  SELECT '[]' AS own, ${environments.id} AS ${names(owner.environmentId)}, ${value("distinctId")} AS ${names(owner.distinctId)}
  FROM ${environments} WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
) AS ${owner}`;

/** SQL: whether a row belongs to the account of the id `owner`. */
export const isOfAccount =
  ({ accountId }: { readonly accountId: SQLiteColumn }) =>
  (environmentId: Placeholder | SQLiteColumn) =>
    sql`${accountId} = (
      SELECT ${accounts.id} FROM ${accounts}
      WHERE ${accounts.environmentId} = ${environmentId} AND ${accounts.userId} = ${owner.distinctId}
    )`;
const isOfId =
  (table: { readonly environmentId: SQLiteColumn; readonly distinctId: SQLiteColumn }) =>
  (environmentId: Placeholder | SQLiteColumn) =>
    and(eq(table.environmentId, environmentId), eq(table.distinctId, owner.distinctId));

const analytics = wire(analyticsEvents);
const metering = wire(usageEvents);

const noBytes = () => sql`0`;

export const lists: Readonly<Record<ListName, List>> = {
  analytics: {
    table: analyticsEvents,
    isOwned: isOfId(analyticsEvents),
    // An event that was replaced after the snapshot is shown, and the event that replaced it is not (P10).
    isShown: (last) => {
      const { replacedBy } = analyticsEvents;
      return last === null ? sql`${replacedBy} IS NULL` : sql`(${replacedBy} IS NULL OR ${replacedBy} > ${last})`;
    },
    fields: {
      uuid: analytics.plain("uuid"),
      event: analytics.plain("event"),
      distinctId: analytics.plain("distinctId"),
      timestamp: analytics.time("timestampMs"),
      receivedAt: analytics.time("receivedAtMs"),
      isVerified: analytics.flag("isVerified"),
      properties: { json: () => sql`${analyticsEvents.properties}` },
    },
    bodyFrom: "properties",
    bodyBytes: () => sql`octet_length(${analyticsEvents.properties})`,
  },
  metering: {
    table: usageEvents,
    isOwned: isOfAccount(usageEvents),
    isShown: null,
    fields: {
      role: { json: () => sql`'"payer"'` },
      eventId: metering.plain("eventId"),
      memberId: { json: () => sql`iif(${isOwnMember()}, json_quote(${memberName()}), 'null')` },
      userId: { json: () => sql`json_quote(${owner.distinctId})` },
      ...describedEvent,
      ...usageTimes,
      debits: { json: debitsJson },
      uncovered: { json: () => sql`coalesce(${usageEvents.uncovered}, 'null')` },
      properties: {
        json: () => sql`iif(${usageEvents.memberNumber} IS NULL OR ${isOwnMember()}, ${usagePropertiesJson()}, 'null')`,
      },
    },
    bodyFrom: "debits",
    bodyBytes: () => {
      const { debits, properties, largePropertiesBytes } = usageEvents;
      // The JSON of a debit has less than twice the bytes of the stored one.
      return sql`(2 * octet_length(${debits}) + coalesce(octet_length(${properties}), ${largePropertiesBytes}, 0))`;
    },
  },
  ledger: {
    table: creditLedger,
    beside: sql`CROSS JOIN ${creditBalances} ON ${isBalanceOfEntry()} LEFT JOIN ${usageEvents} ON ${isEventOfEntry()}
      LEFT JOIN ${reservations} ON ${isReservationOfEntry()}`,
    isOwned: isOfAccount(creditLedger),
    isShown: null,
    fields: exportedEntryFields,
    bodyFrom: "note",
    bodyBytes: () => sql`coalesce(octet_length(${creditLedger.note}), 0)`,
  },
  consent: {
    table: consentLog,
    isOwned: isOfId(consentLog),
    isShown: null,
    fields: consentWireFields,
    bodyFrom: "receivedAt",
    bodyBytes: noBytes,
  },
  exports: {
    table: exportAudit,
    isOwned: isOfId(exportAudit),
    isShown: null,
    fields: exportAuditFields,
    bodyFrom: "occurredAt",
    bodyBytes: noBytes,
  },
};

const memberName = () => sql`(
  SELECT ${members.memberId} FROM ${members} WHERE ${members.accountId} = ${usageEvents.accountId} AND ${members.memberNumber} = ${usageEvents.memberNumber}
)`;
/**
 * SQL: whether the person who pays for an event is its member too, also by another id. The payer's copy shows no other member, nor
 * the properties of its events (ME4).
 */
const isOwnMember = () => sql`(${usageEvents.memberNumber} IS NOT NULL AND (
  ${memberName()} = ${owner.distinctId} OR ${memberName()} IN (SELECT value FROM json_each(owner.own))
))`;

/** SQL: the properties of a usage event, from either table. */
export function usagePropertiesJson(): SQL {
  const { accountId, seq, properties, largePropertiesBytes } = usageEvents;
  const isOfEvent = and(eq(largeProperties.accountId, accountId), eq(largeProperties.seq, seq));
  return sql`iif(${largePropertiesBytes} IS NULL, coalesce(${properties}, 'null'), (
    SELECT ${largeProperties.properties} FROM ${largeProperties} WHERE ${isOfEvent}
  ))`;
}

/** SQL: an entry's JSON without its closing brace, in two parts: before the body, and the body. */
export function jsonOf({ fields, bodyFrom }: Pick<List, "fields" | "bodyFrom">): {
  readonly head: SQL;
  readonly body: SQL;
} {
  const parts = Object.entries(fields).flatMap(([name, { json }], index) => [
    sql`${`${index === 0 ? "{" : ","}"${name}":`}`,
    json(),
  ]);
  // The first part ends with the key of the body's first field.
  const bodyAt = 2 * Object.keys(fields).indexOf(bodyFrom) + 1;
  const concatenate = (texts: readonly SQL[]) => sql.join([...texts], sql` || `);
  return { head: concatenate(parts.slice(0, bodyAt)), body: concatenate(parts.slice(bodyAt)) };
}
