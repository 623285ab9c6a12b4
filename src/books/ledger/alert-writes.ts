import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, fields, hasRow, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import {
  accounts,
  alertStates,
  alerts,
  creditBalances,
  creditLedger,
  usageEvents,
  webhookMessages,
} from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliveryTimes, parseEndpoints, wantedMessages } from "../../webhooks/outbox.ts";
import { amountOf } from "../amounts/amount-sql.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { type CreditMovement, isBalanceOfEntry, lastSeqOf } from "./insert-entries.ts";
import {
  deliverPrefixed,
  endpointsByType,
  type MessageIdPrefix,
  type MessageWrites,
  prefixedMessages,
} from "./messages.ts";
import { isSinceSettled } from "./owed.ts";
import { evaluated, noChange, threshold, type Watch, watched } from "./watched.ts";

const writtenAccount = (value: ValueOf<{ environmentId: number; userId: string }>) => sql`
  SELECT ${accounts.id} FROM ${accounts}
  WHERE ${accounts.environmentId} = ${value("environmentId")} AND ${accounts.userId} = ${value("userId")}`;

/** The first entry of a balance. */
const first = alias(creditLedger, "first");
const prior = alias(creditLedger, "prior");

type EntriesOfWrite = WriteContext & { entries: number; eventIds: string | null; settled: string | null };

/**
 * Returns the CTEs `watched` and `change` for a user: the last `entries` entries, the entries of events that settle reservations,
 * and the payments of owed amounts (C21). The entries of settlements can be anywhere in the batch.
 */
function changeOfUser(value: ValueOf<EntriesOfWrite>): SQL {
  const { accountId, seq, reason, eventSeq, reservationNumber, isRevoked } = creditLedger;
  const ofUser = sql`(SELECT watched.account FROM watched)`;
  const seqsOfEvents = sql`SELECT ${usageEvents.seq} FROM json_each(${value("eventIds")}) AS named CROSS JOIN ${usageEvents}
    ON ${usageEvents.environmentId} = ${value("environmentId")} AND ${usageEvents.eventId} = named.value`;
  return sql`watched (account) AS MATERIALIZED (${writtenAccount(value)}),
  change (account, balance, delta, was_revoked) AS MATERIALIZED (
    SELECT ${first.accountId}, (SELECT ${creditBalances.id} FROM ${creditBalances} WHERE ${isBalanceOfEntry(first)}), delta, coalesce((
      SELECT ${prior.isRevoked} FROM ${creditLedger} AS ${prior}
      WHERE ${prior.accountId} = ${first.accountId} AND ${prior.seq} = ${first.previousSeq}
    ), 0)
    FROM (
      SELECT ${first.accountId}, ${first.grantSeq}, sum(${first.deltaMinor}) AS delta, ${first.previousSeq}, min(${first.seq})
      FROM (
        SELECT * FROM (
          SELECT * FROM ${creditLedger} WHERE ${accountId} = ${ofUser}
          ORDER BY ${seq} DESC LIMIT ${asInteger(value("entries"))}
        )
        UNION SELECT * FROM ${creditLedger} WHERE ${isSinceSettled(value, ofUser)} AND iif(
          ${reason} = 'event_committed', ${eventSeq} IN (${seqsOfEvents}),
          ${reason} = 'admin_adjust' AND ${isRevoked} = 0
            AND ${reservationNumber} IN (SELECT value FROM json_each(${value("settled")}))
        )
      ) AS ${first}
      GROUP BY ${first.grantSeq}
    ) AS ${first}
  )`;
}

const typeOfAlert = sql`iif(${evaluated.id} = '', 'credits.depleted', 'credits.low')`;

type FiredAlerts = { environmentId: number; nowMs: number; endpoints: string; messageId: string };

/** Returns the statement that writes the messages of alerts that fire, and returns their ids. `Watch` describes the options. */
export function insertFiredAlerts(
  value: ValueOf<FiredAlerts>,
  { from, expiresNow }: Pick<Watch, "from" | "expiresNow">,
) {
  const mustEvaluate = sql`${value("endpoints")} -> ('$."' || ${typeOfAlert} || '"') IS NOT NULL`;
  const crossesLive = sql`(evaluated.live_before >= evaluated.of_live AND evaluated.live_after < evaluated.of_live)`;
  const { id, name, unit } = evaluated;
  const { userId } = accounts;
  const ofAlert = sql`json_object('userId', ${userId}, 'alertId', ${id}, 'name', ${name}, 'unit', ${unit},
    'remaining', ${amountOf(sql`evaluated.live_after`, unit)},
    'threshold', ${amountOf(sql`iif(${crossesLive}, evaluated.of_live, evaluated.of_all)`, unit)})`;
  const data = sql`iif(${id} = '', json_object('userId', ${userId}), ${ofAlert})`;
  const isFiredState = and(
    eq(alertStates.environmentId, value("environmentId")),
    eq(alertStates.alertId, id),
    sql`${alertStates.accountId} = evaluated.account`,
  );
  const insert = insertFrom(
    webhookMessages,
    {
      id: sql`${value("messageId")} || printf('%06d', row_number() OVER (ORDER BY evaluated.account, ${id} = '', ${id}))`,
      environmentId: asInteger(value("environmentId")),
      type: typeOfAlert,
      atMs: asInteger(value("nowMs")),
      subject: userId,
      data: sql`json_set(${data}, '$.seq', ${lastSeqOf(sql`${accounts.id}`)})`,
    },
    sql`FROM crossed AS ${evaluated} CROSS JOIN ${accounts} ON ${accounts.id} = evaluated.account
      WHERE (${crossesLive} OR (evaluated.all_before >= evaluated.of_all AND evaluated.all_after < evaluated.of_all))
      AND NOT ${hasRow(alertStates, isFiredState)}`,
  );
  return returning(
    fields(webhookMessages, "id"),
    (list) => sql`WITH ${watched(value, { from, expiresNow, mustEvaluate })},
      crossed AS (
        SELECT ${evaluated}.*, ${threshold(sql`evaluated.live_issued`)} AS of_live, ${threshold(sql`evaluated.all_issued`)} AS of_all
        FROM ${evaluated}
      )
      ${insert} RETURNING ${list}`,
  );
}

const insertAlertsOfEntries = query((value: ValueOf<EntriesOfWrite & FiredAlerts>) =>
  insertFiredAlerts(value, { from: changeOfUser(value), expiresNow: sql`0` }),
);

/** Stores which alerts fired: those of the messages whose ids begin with `messageId`. */
export const insertAlertStates = query((value: ValueOf<MessageIdPrefix>) =>
  insertFrom(
    alertStates,
    {
      environmentId: accounts.environmentId,
      alertId: sql`coalesce(${webhookMessages.data} ->> 'alertId', '')`,
      accountId: accounts.id,
    },
    sql`FROM (SELECT 1) CROSS JOIN ${prefixedMessages(value)}
      CROSS JOIN ${accounts}
      ON ${accounts.environmentId} = ${webhookMessages.environmentId} AND ${accounts.userId} = ${webhookMessages.subject}
      WHERE ${webhookMessages.type} IN ('credits.low', 'credits.depleted')`,
  ),
);

const alertIds = (value: ValueOf<{ environmentId: number }>) => sql`(
    SELECT ${alerts.id} FROM ${alerts} WHERE ${eq(alerts.environmentId, value("environmentId"))} UNION ALL SELECT ''
  ) AS ${evaluated}`;

/** Returns a condition: the alert `evaluated` has fired for an account. */
const hasFired = (value: ValueOf<{ environmentId: number }>, account: SQL): SQL =>
  hasRow(
    alertStates,
    and(
      eq(alertStates.environmentId, value("environmentId")),
      eq(alertStates.alertId, evaluated.id),
      sql`${alertStates.accountId} = ${account}`,
    ),
  );

/** Re-arms those alerts of some accounts whose threshold is reached again. */
function rearmAmong(value: ValueOf<{ environmentId: number; nowMs: number }>, accounts: SQL, mustEvaluate: SQL) {
  const from = sql`watched (account) AS MATERIALIZED (${accounts}), ${noChange}`;
  const isNotBelow = sql`evaluated.live_after > 0 AND evaluated.live_after >= ${threshold(sql`evaluated.issued_after`)}`;
  const ofEnvironment = eq(alertStates.environmentId, value("environmentId"));
  return drizzle
    .delete(alertStates)
    .where(sql`${ofEnvironment} AND (${alertStates.alertId}, ${alertStates.accountId}) IN (
    WITH ${watched(value, { from, expiresNow: sql`0`, mustEvaluate })}
    SELECT ${evaluated.id}, evaluated.account FROM ${evaluated} WHERE ${isNotBelow}
  )`);
}

const rearm = query((value: ValueOf<WriteContext>) => {
  const hasFiredForUser = hasFired(value, sql`(${writtenAccount(value)})`);
  const accounts = sql`${writtenAccount(value)} AND EXISTS (SELECT 1 FROM ${alertIds(value)} WHERE ${hasFiredForUser})`;
  return rearmAmong(value, accounts, hasFiredForUser);
});

const rearmMany = query((value: ValueOf<{ environmentId: number; nowMs: number; accountIds: string }>) => {
  const hasFiredForAccount = hasFired(value, sql`account.value`);
  const accounts = sql`SELECT account.value FROM json_each(${value("accountIds")}) AS account
    WHERE EXISTS (SELECT 1 FROM ${alertIds(value)} WHERE ${hasFiredForAccount})`;
  return rearmAmong(value, accounts, sql`1`);
});

/** Re-arms the alerts of several accounts, like `rearmAlerts`. */
export function rearmAlertsOfMany(
  {
    environmentId,
    nowMs,
    settingsSnapshot,
  }: Pick<WriteContext, "environmentId" | "nowMs"> & { readonly settingsSnapshot: string | null },
  accountIds: readonly number[],
): Statement[] {
  if (parseEndpoints(settingsSnapshot).length === 0) return [];
  return [rearmMany({ environmentId, nowMs, accountIds: JSON.stringify(accountIds) })];
}

/** Re-arms a user's alerts whose threshold is reached again at this point of the batch. */
export const rearmAlerts = (account: WriteContext & { readonly settingsSnapshot: string | null }): Statement[] =>
  parseEndpoints(account.settingsSnapshot).length === 0 ? [] : [rearm(writingValues(account))];

export const ALERT_TYPES = [{ type: "credits.low" }, { type: "credits.depleted" }] as const;

const NO_MESSAGES: MessageWrites = { statements: [] };

/**
 * Returns the statements that evaluate a user's alerts after a batch's entries (H5), including the payments of owed amounts. In an
 * environment without endpoints there are none.
 */
export function alertWrites(
  ctx: TenantCtx,
  account: WriteContext & { readonly settingsSnapshot: string | null },
  changes: readonly CreditMovement[],
  settledNumbers: readonly number[],
): MessageWrites {
  const isSettling = settledNumbers.length > 0;
  if ((changes.length === 0 && !isSettling) || parseEndpoints(account.settingsSnapshot).length === 0)
    return NO_MESSAGES;
  const values = writingValues(account);
  const rearms = changes.some((change) => change.raises) ? [rearm(values)] : [];
  const wanted = wantedMessages(ctx, account.settingsSnapshot, () => ALERT_TYPES);
  const [first] = wanted;
  if (first === undefined || (changes.every((change) => change.raises) && !isSettling)) return { statements: rearms };
  const { environmentId } = account;
  const batchMessages = { environmentId, messageId: first.id, endpoints: endpointsByType(wanted) };
  const eventIds = changes.flatMap((change) => change.eventIds ?? []);
  const insert = insertAlertsOfEntries({
    ...values,
    ...batchMessages,
    entries: changes.reduce((sum, change) => sum + change.entries, 0),
    eventIds: eventIds.length === 0 ? null : JSON.stringify(eventIds),
    settled: isSettling ? JSON.stringify(settledNumbers) : null,
  });
  return {
    statements: [
      insert,
      deliverPrefixed({ ...batchMessages, ...deliveryTimes(ctx) }),
      insertAlertStates(batchMessages),
      ...rearms,
    ],
    returning: insert,
  };
}
