import { and, eq, or, type SQL, sql } from "drizzle-orm";
import { isoJson } from "../../db/presenter.ts";
import { asInteger, fields, hasRow, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import {
  creditBalances,
  creditLedger,
  ENTRY_KINDS,
  largeProperties,
  paymentGrants,
  paymentNames,
  usageCounters,
  usageEvents,
  webhookMessages,
} from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliver, deliveryTimes, insertMessagesOf, type Outgoing, wantedMessages } from "../../webhooks/outbox.ts";
import { amountOf } from "../amounts/amount-sql.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { debitsJson } from "./debits.ts";
import { isBalanceOfEntry, lastSeqOf, seqOfEvent } from "./insert-entries.ts";
import { deliverPrefixed, endpointsByType, type LedgerMessage, type MessageWrites } from "./messages.ts";
import { isSinceSettled } from "./owed.ts";
import { memberNumberOf } from "./payer-members.ts";

/** Returns SQL for the seq of a message's last entry. `m.value` is the message. */
function selectSeq(value: ValueOf<WriteContext>): SQL {
  const account = accountOfWrite(value);
  const { accountId, seq, eventSeq, reservationNumber, kind } = creditLedger;
  const ofGrant = sql`(
    SELECT ${creditBalances.grantSeq} FROM ${creditBalances} WHERE ${creditBalances.id} = m.value ->> '$.last.grantedId'
  )`;
  return sql`iif(m.value ->> 'last' IS NULL, NULL, iif(m.value ->> '$.last.grantedId' IS NOT NULL, ${ofGrant}, (
  SELECT ${seq} FROM ${creditLedger} WHERE ${accountId} = ${account}
    AND (m.value ->> '$.last.after' IS NOT NULL
      OR ${eventSeq} = (${seqOfEvent(value, sql`m.value ->> '$.last.eventId'`)})
      OR (${reservationNumber} = m.value ->> '$.last.returned' AND ${kind} IN (${ENTRY_KINDS.released}, ${ENTRY_KINDS.expired})))
  ORDER BY ${seq} DESC LIMIT 1
) - coalesce(m.value ->> '$.last.after', 0)))`;
}

/** Larger properties are left out of a message. */
const MESSAGE_PROPERTIES_BYTES_MAX = 16_384;

const messageProperties =
  () => sql`coalesce(${usageEvents.properties}, iif(${usageEvents.largePropertiesBytes} <= ${MESSAGE_PROPERTIES_BYTES_MAX}, (
  SELECT ${largeProperties.properties} FROM ${largeProperties} WHERE ${and(
    eq(largeProperties.accountId, usageEvents.accountId),
    eq(largeProperties.seq, usageEvents.seq),
  )}
), NULL))`;

const dataOfEvent = (value: ValueOf<WriteContext>) => sql`(
  SELECT json_set(m.value -> 'data', '$.debits', json(${debitsJson()}), '$.uncovered', json(${usageEvents.uncovered}),
    '$.occurredAt', json(${isoJson(usageEvents.occurredAtMs)}), '$.properties', json(${messageProperties()}))
  FROM ${usageEvents}
  WHERE ${usageEvents.environmentId} = ${value("environmentId")} AND ${usageEvents.eventId} = m.value ->> 'recordedEventId'
)`;

function dataOfChanges(account: SQL): SQL {
  const { deltaMinor, balanceAfterMinor } = creditLedger;
  const unit = sql`(t.value ->> 'unit')`;
  const ofBalance = sql`'balanceId', t.value ->> 'balanceId', 'unit', ${unit}`;
  const remaining = amountOf(balanceAfterMinor, unit);
  const moved = sql`json_object(${ofBalance}, 'delta', ${amountOf(deltaMinor, unit)}, 'remaining', ${remaining})`;
  const short = sql`max(0, (t.value ->> 'dueMinor') + ${deltaMinor})`;
  const taken = sql`json_object('balanceId', t.value ->> 'balanceId', 'packItemId', t.value ->> 'packItemId', 'unit', ${unit},
    'taken', ${amountOf(sql`-${deltaMinor}`, unit)}, 'short', ${amountOf(short, unit)}, 'remaining', ${remaining})`;
  // In a subquery of its own, so that SQLite does not read the message anew for each of its changes.
  const before = sql`SELECT ${lastSeqOf(account)} - coalesce(m.value ->> '$.last.after', 0)
    - json_array_length(m.value -> 'changes') AS place`;
  return sql`json_set(m.value -> 'data', '$.balances', json((
  SELECT json_group_array(iif(t.value ->> 'dueMinor' IS NULL, ${moved}, ${taken}) ORDER BY ${creditLedger.seq})
  FROM (${before}) AS before CROSS JOIN json_each(m.value -> 'changes') AS t
    CROSS JOIN ${creditLedger} ON ${creditLedger.accountId} = ${account} AND ${creditLedger.seq} = before.place + 1 + t.key
)))`;
}

const { id: balanceId, unit } = creditBalances;
const delta = amountOf(creditLedger.deltaMinor, unit);
const remaining = amountOf(creditLedger.balanceAfterMinor, unit);

const dataOfEntry = (account: SQL) => sql`(
  SELECT json_set(m.value -> 'data', '$.balanceId', ${balanceId}, '$.unit', ${unit}, '$.delta', ${delta},
    '$.remaining', ${remaining}, '$.note', ${creditLedger.note})
  FROM ${creditLedger} CROSS JOIN ${creditBalances} ON ${isBalanceOfEntry()}
  WHERE ${creditLedger.accountId} = ${account}
    AND ${creditLedger.seq} = ${lastSeqOf(account)} - coalesce(m.value ->> '$.last.after', 0)
)`;

/** Returns a condition: at least one entry of a message with `changes` changed an amount. */
function hasMoved(account: SQL): SQL {
  const { accountId, seq, deltaMinor } = creditLedger;
  const last = sql`SELECT ${lastSeqOf(account)} - (m.value ->> '$.last.after') AS place`;
  return sql`EXISTS (
    SELECT 1 FROM (${last}) AS last CROSS JOIN ${creditLedger} ON ${accountId} = ${account}
      AND ${seq} > last.place - json_array_length(m.value -> 'changes') AND ${seq} <= last.place
    WHERE ${deltaMinor} <> 0
  )`;
}

const reachedCounter = (value: ValueOf<WriteContext>) => {
  const { environmentId, limitId, accountId, memberNumber, endMs } = usageCounters;
  const member = memberNumberOf(value, accountOfWrite(value), sql`m.value ->> '$.reached.memberId'`);
  return and(
    eq(environmentId, value("environmentId")),
    sql`${limitId} = m.value ->> '$.reached.limitId'`,
    sql`${accountId} = ${accountOfWrite(value)}`,
    sql`${memberNumber} = iif(m.value ->> '$.reached.memberId' IS NULL, 0, ${member})`,
    sql`${endMs} = m.value ->> '$.reached.endMs'`,
  );
};

const hasReached = (value: ValueOf<WriteContext>) => {
  const { reachedCount } = usageCounters;
  return hasRow(
    usageCounters,
    and(reachedCounter(value), sql`${reachedCount} BETWEEN 1 AND m.value ->> '$.reached.counts'`),
  );
};

/** The data of `usage.limit_reached`. Its `seq` is 0 if the user has no entry. */
const dataOfReachedLimit = (value: ValueOf<WriteContext>) => {
  const { usedMinor, hasOverride, overrideMinor } = usageCounters;
  const unit = sql`m.value ->> '$.reached.unit'`;
  return sql`(
    SELECT json_set(m.value -> 'data', '$.used', ${amountOf(usedMinor, unit)},
      '$.amount', iif(${hasOverride}, ${amountOf(overrideMinor, unit)}, m.value -> '$.data.amount'))
    FROM ${usageCounters} WHERE ${reachedCounter(value)}
  )`;
};

const insertLedgerMessages = insertMessagesOf<WriteContext & { messages: string }>(
  (value) => {
    const account = accountOfWrite(value);
    return sql`iif(m.value ->> 'hasNoSeq', m.value -> 'data', json_set(
      CASE
        WHEN m.value ->> 'recordedEventId' IS NOT NULL THEN ${dataOfEvent(value)}
        WHEN m.value ->> 'changes' IS NOT NULL THEN ${dataOfChanges(account)}
        WHEN m.value ->> 'isEntry' THEN ${dataOfEntry(account)}
        WHEN m.value ->> 'reached' IS NOT NULL THEN ${dataOfReachedLimit(value)}
        ELSE m.value -> 'data'
      END, '$.seq', iif(m.value ->> 'reached' IS NULL, ${selectSeq(value)}, ${lastSeqOf(account)})))`;
  },
  (value) => sql`(m.value ->> 'mustMove' IS NULL OR ${hasMoved(accountOfWrite(value))})
    AND (m.value ->> 'reached' IS NULL OR ${hasReached(value)})`,
);

/** Returns the statements that write and send a user's messages. Send them after all entries of the batch. */
export function ledgerMessageWrites(
  ctx: TenantCtx,
  account: WriteContext,
  messages: readonly Outgoing<LedgerMessage>[],
): Statement[] {
  if (messages.length === 0) return [];
  return [
    ...jsonChunks(messages).map((chunk) => insertLedgerMessages({ ...writingValues(account), messages: chunk })),
    ...deliver(ctx, messages),
  ];
}

/** The key under which a payment is shown (payments/state.ts). */
const paymentKey = () => sql`(
  SELECT ${paymentNames.name} FROM ${paymentNames}
  WHERE ${paymentNames.environmentId} = ${paymentGrants.environmentId} AND ${paymentNames.paymentId} = ${paymentGrants.paymentId}
  ORDER BY iif(${paymentNames.name} GLOB 'pi_*', 0, iif(${paymentNames.name} GLOB 'cs_*', 1,
    iif(${paymentNames.name} GLOB 'in_*', 2, 3))), ${paymentNames.name} LIMIT 1
)`;

type ClawbackMessages = WriteContext & { settled: string; endpoints: string; messageId: string };

const insertClawbackMessages = query((value: ValueOf<ClawbackMessages>) => {
  const { isRevoked, note, seq, reason, reservationNumber } = creditLedger;
  const type = sql`iif(${paymentGrants.balanceId} IS NULL, 'credits.adjusted', 'payment.taken')`;
  const moved = sql`'balanceId', ${balanceId}, 'unit', ${unit}, 'delta', ${delta}, 'remaining', ${remaining}`;
  const ofPayment = and(
    eq(paymentGrants.balanceId, balanceId),
    or(sql`${isRevoked} = 0`, sql`${paymentGrants.isRevoked} = 1`),
  );
  const insert = insertFrom(
    webhookMessages,
    {
      id: sql`${value("messageId")} || printf('%06d', row_number() OVER (ORDER BY ${seq}))`,
      environmentId: asInteger(value("environmentId")),
      type,
      atMs: creditLedger.occurredAtMs,
      subject: value("userId"),
      data: sql`iif(${paymentGrants.balanceId} IS NULL,
        json_object('userId', ${value("userId")}, ${moved}, 'note', ${note}, 'seq', ${seq}),
        json_object('userId', ${value("userId")}, 'paymentKey', ${paymentKey()},
          'balances', json_array(json_object(${moved})), 'seq', ${seq}))`,
    },
    sql`FROM ${creditLedger} CROSS JOIN ${creditBalances} ON ${isBalanceOfEntry()} LEFT JOIN ${paymentGrants} ON ${ofPayment}
      WHERE ${isSinceSettled(value, accountOfWrite(value))} AND ${reason} = 'admin_adjust'
      AND ${reservationNumber} IN (SELECT value FROM json_each(${value("settled")}))
      AND ${value("endpoints")} -> ('$."' || ${type} || '"') IS NOT NULL`,
  );
  return returning(fields(webhookMessages, "id"), (list) => sql`${insert} RETURNING ${list}`);
});

const TYPES = [{ type: "credits.adjusted" }, { type: "payment.taken" }] as const;

/** Returns the messages about the amounts that settlements took from their returns: owed amounts (C21, S4) and revoked ones (U9). */
export function clawbackMessages(
  ctx: TenantCtx,
  account: WriteContext & { readonly settingsSnapshot: string | null },
  settledNumbers: readonly number[],
): MessageWrites {
  const wanted = settledNumbers.length === 0 ? [] : wantedMessages(ctx, account.settingsSnapshot, () => TYPES);
  const [first] = wanted;
  if (first === undefined) return { statements: [] };
  const { environmentId } = account;
  const batchMessages = { environmentId, messageId: first.id, endpoints: endpointsByType(wanted) };
  const settled = JSON.stringify(settledNumbers);
  const insert = insertClawbackMessages({ ...writingValues(account), ...batchMessages, settled });
  return { statements: [insert, deliverPrefixed({ ...batchMessages, ...deliveryTimes(ctx) })], returning: insert };
}
