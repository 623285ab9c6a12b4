import { sql } from "drizzle-orm";
import { assignments, computed, insertFrom, query, read, type ValueOf } from "../db/query.ts";
import {
  accounts,
  largeProperties,
  members,
  rejections,
  reservations,
  usageCounters,
  usageEvents,
  usageLimits,
  webhookMessages,
} from "../db/schema.ts";
import type { Statement, StatementRow } from "../db/sql.ts";
import type { ErasureSecret } from "../db/tombstones.ts";
import { hashUsageId } from "../db/usage-ids.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import {
  currentDistinctIds,
  type ErasurePage,
  id,
  idsWithOpenAccounts,
  isOfErasedEnvironment,
  ofRow,
  rowsMax,
} from "./page-rows.ts";

type OfMembersPage = ValueOf<ErasurePage>;

// The member of an erasure has its pseudonym from the beginning (`renameMembers`), so that no write names it. Until its rows are
// cleared, `is_erased` is 1; then it is 2.

const MEMBERS_OF_PAGE = 200;

/** FROM: members `m` of the environment whose usage still has texts. The partial index has only these. */
const membersToClear = (value: OfMembersPage) => sql`(
  SELECT ${members.accountId} AS account, ${members.memberNumber} AS number, ${members.environmentId} AS environment, ${members.memberId} AS member
  FROM ${members} INDEXED BY members_erasing
  WHERE ${members.environmentId} = ${value("environmentId")} AND ${members.isErased} = 1 LIMIT ${MEMBERS_OF_PAGE}
) AS m`;

/** FROM: a member's events `r`. */
const eventsOfMember = sql`${usageEvents} AS r INDEXED BY usage_events_member
  ON ${ofRow(usageEvents.accountId)} = m.account AND ${ofRow(usageEvents.memberNumber)} = m.number`;
const hasEventTexts = sql`(${ofRow(usageEvents.requestHash)} <> '' OR ${ofRow(usageEvents.properties)} IS NOT NULL
  OR ${ofRow(usageEvents.largePropertiesBytes)} IS NOT NULL)`;
/** FROM: a member's reservations `r`. */
const holdsOfMember = sql`${reservations} AS r INDEXED BY reservations_member
  ON ${ofRow(reservations.accountId)} = m.account AND ${ofRow(reservations.memberNumber)} = m.number`;
const largeOfMember = sql`${eventsOfMember} CROSS JOIN ${largeProperties}
  ON ${largeProperties.accountId} = m.account AND ${largeProperties.seq} = ${ofRow(usageEvents.seq)}`;

/** Selects the events of erased members that still have texts. */
export const selectEventsOfMembers = query((value: OfMembersPage) =>
  read(
    computed({
      accountId: sql<number>`${ofRow(usageEvents.accountId)}`,
      seq: sql<number>`${ofRow(usageEvents.seq)}`,
      eventId: sql<string>`${ofRow(usageEvents.eventId)}`,
      reservationId: sql<string | null>`${ofRow(usageEvents.reservationId)}`,
    }),
    (list) => sql`SELECT ${list} FROM ${membersToClear(value)} CROSS JOIN ${eventsOfMember}
      WHERE ${hasEventTexts} LIMIT ${rowsMax(value)}`,
  ),
);

/** Selects the reservations of erased members that still have texts. */
export const selectHoldsOfMembers = query((value: OfMembersPage) =>
  read(
    computed({
      accountId: sql<number>`${ofRow(reservations.accountId)}`,
      reservationNumber: sql<number>`${ofRow(reservations.reservationNumber)}`,
      id: sql<string>`${ofRow(reservations.id)}`,
    }),
    (list) => sql`SELECT ${list} FROM ${membersToClear(value)} CROSS JOIN ${holdsOfMember}
      WHERE ${ofRow(reservations.requestHash)} <> '' LIMIT ${rowsMax(value)}`,
  ),
);

/** `rows` is a JSON list. Each row has its key, the id as it was read, and the hashes. */
type HashedRows = { rows: string };

const clearEvents = query(
  (value: ValueOf<HashedRows>) => sql`
  UPDATE ${usageEvents} SET ${assignments(usageEvents, {
    ...{ eventId: sql`item.value ->> 3`, reservationId: sql`item.value ->> 4`, requestHash: sql`''` },
    ...{ properties: sql`NULL`, largePropertiesBytes: sql`NULL` },
  })} FROM json_each(${value("rows")}) AS item
  WHERE ${usageEvents.accountId} = item.value ->> 0 AND ${usageEvents.seq} = item.value ->> 1
    AND ${usageEvents.eventId} = item.value ->> 2`,
);
const clearHolds = query(
  (value: ValueOf<HashedRows>) => sql`
  UPDATE ${reservations} SET ${assignments(reservations, { id: sql`item.value ->> 3`, requestHash: sql`''` })}
  FROM json_each(${value("rows")}) AS item
  WHERE ${reservations.accountId} = item.value ->> 0 AND ${reservations.reservationNumber} = item.value ->> 1
    AND ${reservations.id} = item.value ->> 2`,
);

/** The usage of erased members that a page clears. */
export interface UsageOfMembers {
  readonly events: readonly StatementRow<typeof selectEventsOfMembers>[];
  readonly holds: readonly StatementRow<typeof selectHoldsOfMembers>[];
}

/**
 * Returns the statements that empty the texts of usage, and replace its ids by keyed hashes, so that the payers' software can still
 * settle and repeat it. A row that another page has cleared since is not changed again.
 */
export async function clearUsage(
  { environment }: Pick<TenantCtx, "environment">,
  secret: ErasureSecret,
  { events, holds }: UsageOfMembers,
): Promise<Statement[]> {
  const hash = (id: string) => hashUsageId(secret, environment, id);
  const eventRows = events.map(async ({ accountId, seq, eventId, reservationId }) => [
    ...[accountId, seq, eventId, await hash(eventId)],
    reservationId === null ? null : await hash(reservationId),
  ]);
  const holdRows = holds.map(async ({ accountId, reservationNumber, id }) => [
    ...[accountId, reservationNumber, id, await hash(id)],
  ]);
  return [
    ...jsonChunks(await Promise.all(eventRows)).map((rows) => clearEvents({ rows })),
    ...jsonChunks(await Promise.all(holdRows)).map((rows) => clearHolds({ rows })),
  ];
}

const deleteLarge = query(
  (value: OfMembersPage) => sql`
  DELETE FROM ${largeProperties} WHERE (${largeProperties.accountId}, ${largeProperties.seq}) IN (
    SELECT ${ofRow(usageEvents.accountId)}, ${ofRow(usageEvents.seq)} FROM ${membersToClear(value)} CROSS JOIN ${largeOfMember}
    WHERE ${ofRow(usageEvents.largePropertiesBytes)} IS NULL LIMIT ${rowsMax(value)}
  )`,
);
const endOverridesOfMembers = query(
  (value: OfMembersPage) => sql`
  UPDATE ${usageCounters} SET ${assignments(usageCounters, { hasOverride: sql`0`, overrideMinor: sql`NULL` })}
  WHERE ${usageCounters.hasOverride} = 1
    AND (${usageCounters.environmentId}, ${usageCounters.limitId}, ${usageCounters.accountId}, ${usageCounters.memberNumber}) IN (
      SELECT ${usageLimits.environmentId}, ${usageLimits.id}, m.account, m.number
      FROM ${membersToClear(value)} CROSS JOIN ${usageLimits} WHERE ${isOfErasedEnvironment(value, usageLimits)}
    )`,
);
/** FROM: messages `r` that name a pseudonym. A settlement sent them before its reservation was cleared. */
const messagesOfPseudonym = sql`${webhookMessages} AS r INDEXED BY webhook_messages_member
  ON ${ofRow(webhookMessages.environmentId)} = m.environment AND ${ofRow(webhookMessages.data)} ->> 'memberId' = +m.member
  AND ${ofRow(webhookMessages.data)} ->> 'memberId' IS NOT NULL`;
/** FROM: these messages, of all members to clear. */
export const messagesOfMembers = (value: OfMembersPage) =>
  sql`${membersToClear(value)} CROSS JOIN ${messagesOfPseudonym}`;

/** Runs after the messages are deleted. */
export const finishMembers = query(
  (value: OfMembersPage) => sql`
  UPDATE ${members} SET ${assignments(members, { isErased: sql`2` })} WHERE (${members.accountId}, ${members.memberNumber}) IN (
    SELECT m.account, m.number FROM ${membersToClear(value)}
    WHERE NOT EXISTS (SELECT 1 FROM (SELECT 1) CROSS JOIN ${eventsOfMember} WHERE ${hasEventTexts})
      AND NOT EXISTS (SELECT 1 FROM (SELECT 1) CROSS JOIN ${holdsOfMember} WHERE ${ofRow(reservations.requestHash)} <> '')
      AND NOT EXISTS (SELECT 1 FROM (SELECT 1) CROSS JOIN ${largeOfMember})
      AND NOT EXISTS (SELECT 1 FROM (SELECT 1) CROSS JOIN ${messagesOfPseudonym})
  )`,
);

/** FROM: members `r` of the payers that are erased. */
const membersOfPayers = (value: OfMembersPage) => sql`(
  SELECT r.* FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${members} AS r ON ${ofRow(members.accountId)} = ${id.accountId}
  LIMIT ${rowsMax(value)}
) AS r`;

/** A member stays a user (P2), also without the payer whose usage made it one. */
const keepMembersUsers = query((value: OfMembersPage) =>
  insertFrom(
    accounts,
    { environmentId: ofRow(members.environmentId), userId: ofRow(members.memberId) },
    sql`FROM ${membersOfPayers(value)} WHERE ${ofRow(members.isErased)} = 0 AND NOT EXISTS (
      SELECT 1 FROM ${accounts} WHERE ${accounts.environmentId} = ${ofRow(members.environmentId)}
        AND ${accounts.userId} = ${ofRow(members.memberId)}
    ) GROUP BY ${ofRow(members.memberId)}`,
  ),
);
const deleteCountersOfMembers = query(
  (value: OfMembersPage) => sql`
  DELETE FROM ${usageCounters} WHERE ${usageCounters.memberNumber} > 0
    AND (${usageCounters.environmentId}, ${usageCounters.limitId}, ${usageCounters.accountId}) IN (
      SELECT ${usageLimits.environmentId}, ${usageLimits.id}, ${id.accountId}
      FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${usageLimits} WHERE ${isOfErasedEnvironment(value, usageLimits)}
    )`,
);
const deleteMembersOfPayers = query(
  (value: OfMembersPage) => sql`
  DELETE FROM ${members} WHERE (${members.accountId}, ${members.memberNumber}) IN (
    SELECT ${ofRow(members.accountId)}, ${ofRow(members.memberNumber)} FROM ${membersOfPayers(value)}
  )`,
);

const deleteRejections = query(
  (value: OfMembersPage) => sql`
  DELETE FROM ${rejections} INDEXED BY rejections_member WHERE ${isOfErasedEnvironment(value, rejections)}
    AND ${rejections.memberId} <> '' AND ${rejections.memberId} IN ${currentDistinctIds(value)}`,
);

/** The statements that take members off the books, in order: those of erased payers, and erased members. `clearUsage` comes before. */
export const membersOfPage = [
  keepMembersUsers,
  deleteCountersOfMembers,
  deleteMembersOfPayers,
  deleteLarge,
  endOverridesOfMembers,
  deleteRejections,
];
