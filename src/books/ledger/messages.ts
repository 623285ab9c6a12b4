import { fragment, type Statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliver, messageInsert, type NewMessage, type Outgoing, wantedMessages } from "../../webhooks/outbox.ts";
import { fromSteps, presentQuantities, type Quantities } from "../amounts/amount.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";
import { presentExpiry } from "./balance.ts";
import { amountSql } from "./debits.ts";
import { type DueHold, presentLeg } from "./hold.ts";
import { lastSeq, type NewBalances } from "./insert-entries.ts";

/** A message about a user's credits. The statement that writes it adds what only the database knows. */
export interface LedgerMessage extends NewMessage {
  /**
   * Which entry is the last that it is about, for `seq` (H3): the latest of an event, of a reservation or of its return (a late
   * commit in the same batch debits under the reservation too; what a settlement takes is told for itself), or the one after which
   * the batch writes `after` more. Null when it writes none.
   */
  readonly last:
    | { readonly eventId: string }
    | { readonly reservationId: string }
    | { readonly returnedId: string }
    | { readonly after: number }
    | null;
  /** Adds the `debits` and `uncovered` of the usage event. */
  readonly recordedEventId?: string;
  /** Adds `balances`: of each entry, in their order up to the last, what moved. With `dueSteps` it is a refund's (C21). */
  readonly motions?: readonly { readonly packItemId?: string | null; readonly dueSteps?: number }[];
  /** Adds the fields of the last entry. */
  readonly isEntry?: true;
  /** It is not sent where none of its `motions` moved anything (S4). */
  readonly mustMove?: true;
}

const seqSql = fragment`iif(m.value ->> 'last' IS NULL, NULL, (
  SELECT seq FROM credit_ledger WHERE account_id = ${accountSql}
    AND (m.value ->> '$.last.eventId' IS NULL OR event_id = m.value ->> '$.last.eventId')
    AND (m.value ->> '$.last.reservationId' IS NULL
      OR (reservation_id = m.value ->> '$.last.reservationId' AND reason <> 'admin_adjust'))
    AND (m.value ->> '$.last.returnedId' IS NULL
      OR (reservation_id = m.value ->> '$.last.returnedId' AND event_id IS NULL AND reason <> 'admin_adjust'))
  ORDER BY seq DESC LIMIT 1
) - coalesce(m.value ->> '$.last.after', 0))`;

const ofEvent = fragment`(
  SELECT json_set(m.value -> 'data', '$.debits', json(debits), '$.uncovered', json(uncovered)) FROM usage_events
  WHERE environment_id = :environmentId AND event_id = m.value ->> 'recordedEventId'
)`;

const delta = amountSql("l.delta_steps", "l.unit");
const remaining = amountSql("l.balance_after_steps", "l.unit");

const ofMotions = fragment`json_set(m.value -> 'data', '$.balances', json((
  SELECT json_group_array(iif(t.value ->> 'dueSteps' IS NULL,
    json_object('balanceId', l.balance_id, 'unit', l.unit, 'delta', ${delta}, 'remaining', ${remaining}),
    json_object('balanceId', l.balance_id, 'packItemId', t.value ->> 'packItemId', 'unit', l.unit,
      'taken', ${amountSql("-l.delta_steps", "l.unit")},
      'short', ${amountSql("max(0, (t.value ->> 'dueSteps') + l.delta_steps)", "l.unit")}, 'remaining', ${remaining})
  ) ORDER BY l.seq)
  FROM json_each(m.value -> 'motions') AS t CROSS JOIN credit_ledger AS l ON l.account_id = ${accountSql}
    AND l.seq = ${lastSeq} - coalesce(m.value ->> '$.last.after', 0) + 1 + t.key - json_array_length(m.value -> 'motions')
)))`;

const ofEntry = fragment`(
  SELECT json_set(m.value -> 'data', '$.balanceId', l.balance_id, '$.unit', l.unit, '$.delta', ${delta},
    '$.remaining', ${remaining}, '$.note', l.note)
  FROM credit_ledger AS l WHERE l.account_id = ${accountSql} AND l.seq = ${lastSeq}
)`;

const isWorthTelling = fragment`m.value ->> 'mustMove' IS NULL OR EXISTS (
  SELECT 1 FROM (SELECT ${lastSeq} - (m.value ->> '$.last.after') AS seq) AS last CROSS JOIN credit_ledger AS l
  ON l.account_id = ${accountSql} AND l.seq > last.seq - json_array_length(m.value -> 'motions') AND l.seq <= last.seq
  WHERE l.delta_steps <> 0
)`;

const insertMessages = messageInsert<WriteContext & { messages: string }>(
  fragment`json_set(
  CASE
    WHEN m.value ->> 'recordedEventId' IS NOT NULL THEN ${ofEvent}
    WHEN m.value ->> 'motions' IS NOT NULL THEN ${ofMotions}
    WHEN m.value ->> 'isEntry' THEN ${ofEntry}
    ELSE m.value -> 'data'
  END, '$.seq', ${seqSql}
)`,
  isWorthTelling,
);

/** Those of a write's messages that an endpoint wants. Usually none, and then they are not even made. */
export function wantedOf(
  ctx: TenantCtx,
  account: { readonly features: string | null },
  messages: () => readonly LedgerMessage[],
): readonly Outgoing<LedgerMessage>[] {
  return wantedMessages(ctx, account.features, messages);
}

/** The statements that write and send a user's messages. They come after all entries of the batch. */
export function ledgerMessageWrites(
  ctx: TenantCtx,
  account: WriteContext,
  messages: readonly Outgoing<LedgerMessage>[],
): Statement[] {
  if (messages.length === 0) return [];
  return [insertMessages({ ...writingValues(account), messages: JSON.stringify(messages) }), ...deliver(ctx, messages)];
}

export interface RecordedUsage {
  readonly eventId: string;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  readonly reservationId: string | null;
  /** Whether the ledger has entries of it in this batch. */
  readonly hasEntries: boolean;
}

/** `usage.recorded`, of an event, a commit or a charge. */
export function usageRecorded(userId: string, usage: RecordedUsage): LedgerMessage {
  const { eventId, event, model, reservationId, hasEntries } = usage;
  const named = reservationId === null ? { eventId } : { reservationId };
  return {
    type: "usage.recorded",
    subject: userId,
    data: { userId, eventId, event, model, quantities: presentQuantities(usage.quantities) },
    recordedEventId: eventId,
    last: hasEntries ? named : null,
  };
}

/** `reservation.expired`, for holds that return because nobody settled them in time. */
export function reservationExpired(userId: string, { id, event, legs }: DueHold): LedgerMessage {
  return {
    type: "reservation.expired",
    subject: userId,
    data: { userId, reservationId: id, event, holds: legs.map(presentLeg) },
    last: legs.length === 0 ? null : { returnedId: id },
  };
}

/** `credits.granted`. The grant's entries are followed by `after` more of the batch. */
export function creditsGranted(userId: string, grant: NewBalances, after = 0): LedgerMessage {
  const { packId, externalRef, source } = grant;
  const expiresAt = presentExpiry(grant.expiresAtMs);
  const balances = grant.balances.map(({ id, packItemId, unit, amountSteps }) => ({
    ...{ balanceId: id, packId, packItemId: packItemId === "" ? null : packItemId, unit },
    ...{ initial: fromSteps(unit, amountSteps), expiresAt },
  }));
  return {
    type: "credits.granted",
    subject: userId,
    data: { userId, balances, externalRef, source },
    last: { after },
  };
}

/** `credits.revoked` or `credits.adjusted`, of the last entry of the batch. */
export function entryWritten(type: "credits.revoked" | "credits.adjusted", userId: string): LedgerMessage {
  return { type, subject: userId, data: { userId }, isEntry: true, last: { after: 0 } };
}
