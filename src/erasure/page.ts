import { and, eq, inArray, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { assignments, drizzle, hasRow, names, query } from "../db/query.ts";
import {
  analyticsEvents,
  consentLog,
  databaseSize,
  distinctIds,
  erasureIds,
  erasureNames,
  erasures,
  exportAudit,
  idProperties,
  members,
  payerUsers,
  paymentFacts,
  rejections,
  stripeCustomers,
  stripeLog,
  userNotes,
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { EVENT_BYTES, recordBytes } from "../people/limits/stored-bytes.ts";
import { areBooksIdentifying, booksOfPage, closePage } from "./page-of-books.ts";
import { daySumsOfPage } from "./page-of-day-sums.ts";
import { finishMembers, membersOfPage, messagesOfMembers } from "./page-of-members.ts";
import { erasePaymentCustomers, paymentsOfPage } from "./page-of-payments.ts";
import {
  currentDistinctIds,
  currentIds,
  type ErasurePage,
  id,
  isOfErasedEnvironment,
  namesId,
  type OfPage,
  ofRow,
  rowsMax,
  rowsOfIds,
  type TableOfIds,
} from "./page-rows.ts";
import { isErasure } from "./receipt.ts";

/**
 * Deletes the rows of the current ids. `indexedBy` is needed when the primary key does not begin with the id. Otherwise
 * SQLite would read all rows of the environment.
 */
const deleteOfIds = (table: TableOfIds, column: SQLiteColumn, indexedBy = sql``) =>
  query(
    (value: OfPage) =>
      sql`DELETE FROM ${table} ${indexedBy} WHERE ${isOfErasedEnvironment(value, table)} AND ${column} IN ${currentDistinctIds(value)}`,
  );

const deleteEvents = query((value: OfPage) =>
  drizzle.delete(analyticsEvents).where(
    sql`rowid IN (
      SELECT r.rowid FROM ${rowsOfIds(value, analyticsEvents, analyticsEvents.distinctId)} LIMIT ${rowsMax(value)}
    )`,
  ),
);

/**
 * Counts the freed bytes, because the file keeps its size and reuses them. An id's record is deleted once, and counts its
 * events.
 */
const countFreed = query((value: OfPage) => {
  const { distinctId, eventBytes, eventCount, deletedCount, replacedCount } = distinctIds;
  const events = sql`${eventBytes} + (${eventCount} - ${deletedCount} - ${replacedCount}) * ${EVENT_BYTES}`;
  const freed = sql`(
    SELECT coalesce(sum(${events} + ${recordBytes(sql`${distinctId}`)}), 0) FROM ${distinctIds}
    WHERE ${isOfErasedEnvironment(value, distinctIds)} AND ${distinctId} IN ${currentDistinctIds(value)}
  )`;
  return drizzle
    .update(databaseSize)
    .set({ freedBytes: sql`${databaseSize.freedBytes} + ${freed}` })
    .where(eq(databaseSize.id, 1));
});

const endpoint = alias(webhookDeliveries, "endpoint");

/** FROM: the messages `r` that name an id as the member. A column with `+` has no affinity, so SQLite finds it by the index. */
const messagesOfMember = sql`${webhookMessages} AS r INDEXED BY webhook_messages_member
  ON ${ofRow(webhookMessages.environmentId)} = ${id.environmentId} AND ${ofRow(webhookMessages.data)} ->> 'memberId' = +${id.distinctId}
  AND ${ofRow(webhookMessages.data)} ->> 'memberId' IS NOT NULL`;

/** Messages that name the person. They are deleted even if they are not delivered yet. */
const messagePage = (value: OfPage) => sql`(
  SELECT ${ofRow(webhookMessages.id)} FROM ${rowsOfIds(value, webhookMessages, webhookMessages.subject)}
  UNION SELECT ${ofRow(webhookMessages.id)} FROM ${currentIds(value)} CROSS JOIN ${messagesOfMember}
  UNION SELECT ${ofRow(webhookMessages.id)} FROM ${messagesOfMembers(value)} LIMIT ${rowsMax(value)}
)`;
/** Deleted endpoints whose deliveries are kept. One index look-up finds each endpoint with deliveries. */
const deletedEndpoints = () => sql`(
  WITH RECURSIVE ${endpoint} (${names(webhookDeliveries.endpointId)}) AS (
    SELECT min(${webhookDeliveries.endpointId}) FROM ${webhookDeliveries}
    UNION ALL SELECT (
      SELECT min(${webhookDeliveries.endpointId}) FROM ${webhookDeliveries}
      WHERE ${webhookDeliveries.endpointId} > ${endpoint.endpointId}
    ) FROM ${endpoint} WHERE ${endpoint.endpointId} IS NOT NULL
  )
  SELECT ${endpoint.endpointId} FROM ${endpoint} WHERE ${endpoint.endpointId} IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM ${webhookEndpoints} WHERE ${webhookEndpoints.id} = ${endpoint.endpointId})
)`;
const deleteOrphanDeliveries = query((value: OfPage) => {
  const { endpointId, messageId } = webhookDeliveries;
  return drizzle.delete(webhookDeliveries).where(
    sql`(${endpointId}, ${messageId}) IN (
      SELECT deleted.${names(endpointId)}, ${ofRow(webhookMessages.id)} FROM ${messagePage(value)} AS r
      CROSS JOIN ${deletedEndpoints()} AS deleted
    )`,
  );
});
const deleteErasedDeliveries = query((value: OfPage) => {
  const { endpointId, messageId } = webhookDeliveries;
  return drizzle.delete(webhookDeliveries).where(
    sql`(${endpointId}, ${messageId}) IN (
      SELECT ${webhookEndpoints.id}, ${ofRow(webhookMessages.id)} FROM ${messagePage(value)} AS r
      CROSS JOIN ${webhookEndpoints} WHERE ${isOfErasedEnvironment(value, webhookEndpoints)}
    )`,
  );
});
const deleteErasedMessages = query((value: OfPage) =>
  drizzle.delete(webhookMessages).where(inArray(webhookMessages.id, messagePage(value))),
);

const keepsConsent = (value: OfPage) => sql`(
  SELECT ${erasures.keepConsent} FROM ${erasures} WHERE ${isErasure(value)}
)`;
/** FROM: the consent that an earlier, lifted erasure kept under the hashes of the current ids. */
const keptConsent = (value: OfPage) => sql`${currentIds(value)} CROSS JOIN ${consentLog} AS r
  ON ${ofRow(consentLog.environmentId)} = ${id.environmentId} AND ${ofRow(consentLog.distinctId)} = ${id.hash}`;

const deleteConsentIn = (from: (value: OfPage) => SQL) =>
  query((value: OfPage) => {
    const key = [consentLog.environmentId, consentLog.distinctId, consentLog.seq];
    return drizzle.delete(consentLog).where(
      sql`NOT ${keepsConsent(value)} AND (${sql.join(key, sql`, `)}) IN (
        SELECT ${sql.join(key.map(ofRow), sql`, `)} FROM ${from(value)} LIMIT ${rowsMax(value)}
      )`,
    );
  });

/**
 * Moves an id's rows to its hash. They follow rows that an earlier, lifted erasure moved there, first those that it moved to the hash
 * with another secret: their position is the last.
 */
const moveRows = (table: typeof consentLog | typeof exportAudit, when: (value: OfPage) => SQL = () => sql`1`) =>
  query((value: OfPage) => {
    const { environmentId, distinctId, seq } = table;
    return sql`
      UPDATE ${table} SET ${assignments(table, { distinctId: sql`moved.to_id`, seq: sql`moved.base + moved.number` })} FROM (
        SELECT *, row_number() OVER (PARTITION BY to_id ORDER BY place DESC, nth) AS number FROM (
          SELECT ${id.environmentId} AS tenant, ${id.position} AS place, ${id.distinctId} AS from_id, ${id.hash} AS to_id,
            ${ofRow(seq)} AS nth, coalesce((
              SELECT ${seq} FROM ${table} WHERE ${environmentId} = ${id.environmentId} AND ${distinctId} = ${id.hash}
              ORDER BY ${seq} DESC LIMIT 1
            ), 0) AS base
          FROM ${rowsOfIds(value, table, distinctId)} WHERE ${when(value)}
          ORDER BY ${id.position} DESC, ${ofRow(seq)} LIMIT ${rowsMax(value)}
        )
      ) AS moved WHERE ${environmentId} = moved.tenant AND ${distinctId} = moved.from_id AND ${seq} = moved.nth`;
  });

const endClaims = query((value: OfPage) =>
  drizzle
    .update(distinctIds)
    .set({
      claimedBy: null,
      claimedVia: null,
      claimedAtMs: null,
      claimVersion: sql`${distinctIds.claimVersion} + 1`,
    })
    .where(
      and(
        isOfErasedEnvironment(value, distinctIds),
        eq(distinctIds.claimIsVerified, false),
        sql`${distinctIds.distinctId} IN (
          SELECT ${ofRow(distinctIds.distinctId)} FROM ${rowsOfIds(value, distinctIds, distinctIds.claimedBy)}
          LIMIT ${rowsMax(value)}
        )`,
      ),
    ),
);

const hasRows = (table: TableOfIds, column: SQLiteColumn) => hasRow(table, namesId(table, column));
/** SQL: whether an id still has rows of the kinds that may need several pages. */
const hasRowsLeft = (value: OfPage) =>
  sql.join(
    [
      hasRows(analyticsEvents, analyticsEvents.distinctId),
      hasRows(consentLog, consentLog.distinctId),
      sql`(NOT ${keepsConsent(value)} AND ${hasRow(
        consentLog,
        and(eq(consentLog.environmentId, id.environmentId), eq(consentLog.distinctId, id.hash)),
      )})`,
      hasRows(exportAudit, exportAudit.distinctId),
      hasRows(webhookMessages, webhookMessages.subject),
      sql`EXISTS (SELECT 1 FROM (SELECT 1) CROSS JOIN ${messagesOfMember})`,
      hasRow(members, and(eq(members.environmentId, id.environmentId), eq(members.isErased, 1))),
      hasRows(paymentFacts, paymentFacts.userId),
      hasRows(stripeLog, stripeLog.requestedUser),
      hasRows(distinctIds, distinctIds.claimedBy),
      sql`(${id.accountId} IS NOT NULL AND ${areBooksIdentifying()})`,
    ],
    sql` OR `,
  );

const keyOfIds = [erasureIds.environmentId, erasureIds.erasureId, erasureIds.position];
const currentKeys = (value: OfPage, condition: SQL) => sql`(${sql.join(keyOfIds, sql`, `)}) IN (
  SELECT ${sql.join([id.environmentId, id.erasureId, id.position], sql`, `)} FROM ${currentIds(value)} WHERE ${condition}
)`;

const finishIds = query((value: OfPage) =>
  drizzle
    .update(erasureIds)
    .set({ isDone: 1 })
    .where(currentKeys(value, sql`${id.isDone} = 0 AND NOT (${hasRowsLeft(value)})`)),
);

const deleteNames = query((value: OfPage) => {
  const key = [erasureNames.accountId, erasureNames.kind, erasureNames.oldName];
  return drizzle.delete(erasureNames).where(
    sql`(${sql.join(key, sql`, `)}) IN (
      SELECT ${sql.join(key.map(ofRow), sql`, `)}
      FROM (SELECT ${id.accountId} AS ${names(id.accountId)} FROM ${currentIds(value)} WHERE ${id.isDone} = 1) AS ${id}
      CROSS JOIN ${erasureNames} AS r ON ${ofRow(erasureNames.accountId)} = ${id.accountId}
      LIMIT ${rowsMax(value)}
    )`,
  );
});
const deleteIds = query((value: OfPage) => {
  const hasNames = hasRow(erasureNames, eq(erasureNames.accountId, id.accountId));
  return drizzle.delete(erasureIds).where(currentKeys(value, sql`${id.isDone} = 1 AND NOT ${hasNames}`));
});

const PAGE = [
  ...booksOfPage,
  ...paymentsOfPage,
  ...daySumsOfPage,
  ...membersOfPage,
  closePage,
  deleteEvents,
  deleteOfIds(idProperties, idProperties.distinctId),
  deleteOfIds(userNotes, userNotes.userId),
  erasePaymentCustomers,
  deleteOfIds(stripeCustomers, stripeCustomers.userId, sql`INDEXED BY stripe_customers_user`),
  deleteOfIds(payerUsers, payerUsers.userId),
  deleteOfIds(rejections, rejections.userId),
  deleteErasedDeliveries,
  deleteOrphanDeliveries,
  deleteErasedMessages,
  deleteConsentIn((value) => rowsOfIds(value, consentLog, consentLog.distinctId)),
  deleteConsentIn(keptConsent),
  moveRows(consentLog, keepsConsent),
  moveRows(exportAudit),
  endClaims,
  countFreed,
  deleteOfIds(distinctIds, distinctIds.distinctId),
  finishMembers,
  finishIds,
  deleteNames,
  deleteIds,
];

/**
 * Returns the statements of one page, in order. Each processes a part of the remaining data, which it finds by the rows
 * themselves and the seqs in `erasure_ids`. So a page may be repeated, and two pages may run at the same time.
 */
export function erasurePageStatements(page: ErasurePage): Statement[] {
  return PAGE.map((statementOf) => statementOf(page));
}
