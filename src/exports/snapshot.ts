import { and, eq, sql } from "drizzle-orm";
import { counterFields, limitFields, type UserLimitRow } from "../books/limits/read-user-limits.ts";
import { batchWithGuards } from "../db/known-tombstones.ts";
import { asInteger, computed, drizzle, fields, optional, query, read, type ValueOf } from "../db/query.ts";
import { accounts, distinctIds, environments, members, usageCounters, usageLimits } from "../db/schema.ts";
import { parseDatabaseIndex } from "../db/session.ts";
import { batch, type Db, type Statement } from "../db/sql.ts";
import { claimCounts, type PersonKey, personTable, withPerson } from "../people/person-walk.ts";
import type { Runtime, TenantCtx } from "../runtime.ts";
import { noteMessages, personExported } from "../webhooks/outbox.ts";
import { type BalancePageRow, firstBalances } from "./balances.ts";
import { type FirstRow, firstEntries } from "./entries.ts";
import { type ExportAuditRow, insertAuditRow, type Subject } from "./export-audit.ts";
import type { ListName } from "./lists.ts";
import { findMemberships, MEMBER_EVENTS_MAX, type Membership } from "./member-events.ts";
import { type PersonIds, readIds } from "./person-ids.ts";
import { findFewIds, findManyIds, hasMoreIds } from "./select-person-ids.ts";
import { type EntryRow, pageRowsMin, type Reading } from "./span-cursor.ts";

/** A person at one moment: all data that can change, and the last seq and the first rows of each append-only list. */
export interface Snapshot {
  readonly reading: Reading;
  /** Whether the requested id belongs to a person (P3). If not, its events are anonymous and left out. */
  readonly isPerson: boolean;
  readonly isIdentified: boolean;
  /** The requested id, then the ids that it claims, nearest first. */
  readonly ids: PersonIds;
  /** The first rows of each list of the requested id. */
  readonly first: Readonly<Record<ListName, EntryRow[]>>;
  readonly firstBalances: readonly BalancePageRow[];
  /** The limits of the environment, each with the counter of the requested id, then the other counters of the person. */
  readonly limits: readonly UserLimitRow[];
  /** The payers of whom the person is a member, with the events that it used. */
  readonly memberships: readonly Membership[];
}

/**
 * The record of the requested id. Its fields are null if the id never sent an event and is not linked. `isClaimed`: whether another
 * id claims it by a claim that counts.
 */
const findRequestedId = query((value: ValueOf<PersonKey>) => {
  const isClaimed = sql`iif(${distinctIds.claimedBy} IS NOT NULL, ${claimCounts(distinctIds)}, 0)`;
  return drizzle
    .select({
      ...fields(environments, { environmentId: "id" }),
      ...optional(fields(distinctIds, "firstSeenAtMs", "isSender", "isIdentified", "replacedCount")),
      ...computed({ isClaimed: isClaimed.mapWith(Boolean) }),
    })
    .from(environments)
    .leftJoin(
      distinctIds,
      and(eq(distinctIds.environmentId, environments.id), eq(distinctIds.distinctId, value("distinctId"))),
    )
    .where(and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode"))));
});

const findLimits = query((value: ValueOf<PersonKey>) =>
  drizzle
    .select({ ...limitFields(), ...counterFields(), ...computed({ memberId: sql<string | null>`NULL` }) })
    .from(environments)
    .innerJoin(
      usageLimits,
      and(
        eq(usageLimits.environmentId, environments.id),
        sql`${usageLimits.isDeleted} = 0 AND ${usageLimits.per} = 'user'`,
      ),
    )
    .leftJoin(accounts, and(eq(accounts.environmentId, environments.id), eq(accounts.userId, value("distinctId"))))
    .leftJoin(
      usageCounters,
      and(
        eq(usageCounters.environmentId, environments.id),
        eq(usageCounters.limitId, usageLimits.id),
        eq(usageCounters.accountId, accounts.id),
        eq(usageCounters.memberNumber, 0),
      ),
    )
    .where(and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode"))))
    .orderBy(usageLimits.ordinal),
);

/** With more counters of a person's other ids and as a member, the export would need too much memory. */
const OTHER_COUNTERS_MAX = 10_000;

/** The counters of the person's other ids as payers, and of all its ids as members, each with its limit (ME4). */
const findOtherLimits = query((value: ValueOf<PersonKey>) => {
  const hasLimits = sql`EXISTS (SELECT 1 FROM ${usageLimits} WHERE ${usageLimits.environmentId} = ${environments.id})`;
  const { environmentId, limitId, accountId, memberNumber } = usageCounters;
  // Few of a person's ids pay or are members, so limits are looked up only for those.
  const holders = sql`
    SELECT ${personTable.environmentId} AS home, ${members.accountId} AS payer, ${members.memberNumber} AS place, ${personTable.distinctId} AS who
    FROM ${personTable} CROSS JOIN ${members} INDEXED BY members_member_id ON ${members.environmentId} = ${personTable.environmentId}
      AND ${members.memberId} = ${personTable.distinctId} AND ${members.isErased} = 0
    UNION ALL
    SELECT ${personTable.environmentId}, ${accounts.id}, 0, NULL
    FROM ${personTable} CROSS JOIN ${accounts} ON ${accounts.environmentId} = ${personTable.environmentId}
      AND ${accounts.userId} = ${personTable.distinctId}
    WHERE ${personTable.distinctId} <> ${value("distinctId")}`;
  return read(
    { ...limitFields(), ...counterFields(), ...computed({ memberId: sql<string | null>`holder.who` }) },
    (list) => sql`${withPerson(value, { idsMax: 1_000_001, onlyIf: hasLimits })}
      SELECT ${list} FROM (${holders}) AS holder
      CROSS JOIN ${usageLimits} ON ${usageLimits.environmentId} = holder.home AND ${usageLimits.isDeleted} = 0
        AND ${usageLimits.per} = iif(holder.who IS NULL, 'user', 'member')
      CROSS JOIN ${usageCounters} ON ${environmentId} = holder.home AND ${limitId} = ${usageLimits.id}
        AND ${accountId} = holder.payer AND ${memberNumber} = holder.place
      ORDER BY ${usageLimits.ordinal}, ${accountId} LIMIT ${asInteger(sql`${OTHER_COUNTERS_MAX + 1}`)}`,
  );
});

/**
 * Writes the audit row of the opening and reads the snapshot, in one batch, so that no other write happens in between.
 * Returns null, and writes nothing, when the application does not exist. Returns "too large" when the data does not fit into
 * one download.
 */
export async function takeSnapshot(
  ctx: Runtime & Pick<TenantCtx, "realNow"> & { readonly db: Db },
  subject: Subject,
  opened: ExportAuditRow,
  guards: readonly Statement[],
): Promise<Snapshot | "too large" | null> {
  const { db } = ctx;
  const { appId, mode, distinctId } = subject;
  const key = { appId, mode, distinctId };
  const [
    ,
    firstRequested,
    few,
    ledger,
    exports,
    analytics,
    metering,
    consent,
    firstRequestedBalances,
    limits,
    otherLimits,
    foundMemberships,
    messages,
  ] = await batchWithGuards(db, guards, [
    insertAuditRow(subject, opened),
    findRequestedId(key),
    findFewIds(key),
    firstEntries("ledger", key),
    firstEntries("exports", key),
    firstEntries("analytics", key),
    firstEntries("metering", key),
    firstEntries("consent", key),
    firstBalances(key),
    findLimits(key),
    findOtherLimits(key),
    findMemberships(key),
    ...personExported(ctx, subject, "opened"),
  ] as const);
  noteMessages({ ...ctx, environment: { database: parseDatabaseIndex(appId) ?? 0 } }, messages);
  // For a person with more ids, all data that can change is read again in one batch. The first rows of lists stay as they are, unless
  // an event was replaced in between (P4).
  const [[requested], idRows, balances] = hasMoreIds(few)
    ? await batch(db, [findRequestedId(key), findManyIds(key), firstBalances(key)] as const)
    : [firstRequested, few, firstRequestedBalances];
  if (requested === undefined) return null;
  const isReplaced = requested.replacedCount !== firstRequested[0]?.replacedCount;
  const allIds = readIds(idRows);
  if (allIds === null) return "too large";
  const isPerson = requested.isSender === true || requested.isClaimed || allIds.count > 1;
  const ids = isPerson ? allIds : withoutAnalytics(allIds);
  const rowsMin = pageRowsMin(ids.sizes, ids);
  const memberships = foundMemberships.filter(({ isOwn }) => isOwn === 0);
  const ownMemberIds = [
    ...new Set(foundMemberships.filter(({ isOwn }) => isOwn === 1).map(({ memberId }) => memberId)),
  ];
  const memberRows = memberships.reduce((sum, { rows }) => sum + rows, 0);
  if (rowsMin === null || memberRows > MEMBER_EVENTS_MAX || otherLimits.length > OTHER_COUNTERS_MAX) {
    return "too large";
  }
  const { environmentId, firstSeenAtMs } = requested;
  return {
    reading: { db, environmentId, distinctId, firstSeenAtMs, pageRowsMin: rowsMin, ownMemberIds },
    isPerson,
    isIdentified: requested.isIdentified === true,
    ids,
    first: {
      ledger: entryRows(ledger),
      exports: entryRows(exports),
      analytics: isPerson && !isReplaced ? entryRows(analytics) : [],
      // The first rows do not show what the person used by another id.
      metering: ownMemberIds.length === 0 ? entryRows(metering) : [],
      consent: entryRows(consent),
    },
    firstBalances: balances,
    limits: [...limits, ...otherLimits],
    memberships,
  };
}

const entryRows = (rows: readonly FirstRow[]): EntryRow[] => rows.map((row) => [row.seq, row.text, 0]);

/** Analytics of an id that belongs to no person are anonymous, and never exported (P3). */
function withoutAnalytics(ids: PersonIds): PersonIds {
  return { ...ids, sizes: { ...ids.sizes, analytics: { rows: 0, seqs: 0, ids: 0, idBytes: 0 } }, analyticsBytes: 0 };
}
