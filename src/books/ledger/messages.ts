import { sql } from "drizzle-orm";
import { insertFrom, query, type ValueOf } from "../../db/query.ts";
import { webhookDeliveries, webhookMessages } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { MessageType } from "../../webhooks/message-data.ts";
import { type NewMessage, newDelivery, type Outgoing } from "../../webhooks/outbox.ts";
import { fromMinor, presentQuantities, type Quantities, type Unit } from "../amounts/amount.ts";
import type { MeterAmounts } from "../amounts/meters.ts";
import { presentExpiry } from "./balance.ts";
import type { Counted, NewCount } from "./counters.ts";
import { type DueHold, presentLeg } from "./hold.ts";
import type { NewBalances } from "./new-balances.ts";

/** A message about a user's credits. The statement that writes it adds the values that only the database knows. */
export type LedgerMessage = NewMessage & {
  /**
   * The last entry that the message covers, for `seq` (H3): the latest entry of an event, or of the return of a reservation; the entry
   * before the last `after` entries of the batch; or the grant of a balance. Null if there is no entry. The amounts that a settlement
   * takes have separate messages.
   */
  readonly last:
    | { readonly eventId?: string; readonly returned?: number }
    | { readonly after: number }
    | { readonly grantedId: string }
    | null;
  /** Whether the message has no `seq`. */
  readonly hasNoSeq?: true;
  /** Adds the `debits` and `uncovered` of the usage event. */
  readonly recordedEventId?: string;
  /** Adds `balances`, with the moved amount of each entry up to the last, in order. `dueMinor` is set for a refund (C21). */
  readonly changes?: readonly {
    readonly balanceId: string;
    readonly unit: Unit;
    readonly packItemId?: string | null;
    readonly dueMinor?: number;
  }[];
  /** Adds the fields of its last entry. */
  readonly isEntry?: true;
  /** The message is not sent if all of its `changes` moved 0 (S4). */
  readonly mustMove?: true;
  /**
   * The message is sent only by the first batch of a window in which the user's usage reaches a limit's amount (Q5). `counts` is the
   * number of counts in the batch. Adds `used`, and the user's own `amount`.
   */
  readonly reached?: Pick<Counted, "limitId" | "endMs"> & {
    readonly memberId: string | null;
    readonly counts: number;
    readonly unit: Unit;
  };
};

export interface RecordedUsage {
  readonly eventId: string;
  readonly memberId: string | null;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  readonly meters: MeterAmounts | null;
  readonly priceVersion: number | null;
  /** The reservation that it settles. */
  readonly reservationNumber?: number | undefined;
  /** Whether this batch writes ledger entries for it. */
  readonly hasEntries: boolean;
}

/** `usage.recorded`, for an event, a commit or a charge. */
export function usageRecorded(userId: string, usage: RecordedUsage): LedgerMessage {
  const { eventId, memberId, event, model, meters, priceVersion, reservationNumber, hasEntries } = usage;
  const lastEntry = reservationNumber === undefined ? { eventId } : { eventId, returned: reservationNumber };
  return {
    type: "usage.recorded",
    subject: userId,
    data: {
      ...{ userId, memberId, eventId, event, model },
      ...{ quantities: presentQuantities(usage.quantities), meters, priceVersion },
    },
    recordedEventId: eventId,
    last: hasEntries ? lastEntry : null,
  };
}

/** `reservation.expired`, for holds that are returned because the reservation expired. */
export function reservationExpired(
  userId: string,
  { id, reservationNumber, memberId, event, legs }: DueHold,
): LedgerMessage {
  return {
    type: "reservation.expired",
    subject: userId,
    data: { userId, memberId, reservationId: id, event, holds: legs.map(presentLeg) },
    last: legs.length === 0 ? null : { returned: reservationNumber },
  };
}

/** `credits.granted`. `after` is the number of the batch's entries after those of the grant. A period's entries can be anywhere. */
export function creditsGranted(
  userId: string,
  grant: NewBalances,
  { after = 0, recurringId = null }: { readonly after?: number; readonly recurringId?: string | null } = {},
): LedgerMessage {
  const { packId, externalRef, source } = grant;
  const expiresAt = presentExpiry(grant.expiresAtMs);
  const balances = grant.balances.map(({ id, packItemId, unit, amountMinor }) => ({
    ...{ balanceId: id, packId, packItemId: packItemId === "" ? null : packItemId, unit },
    ...{ initial: fromMinor(unit, amountMinor), expiresAt },
  }));
  return {
    type: "credits.granted",
    subject: userId,
    data: { userId, balances, externalRef, source, recurringId },
    last: recurringId === null ? { after } : { grantedId: grant.balances.at(-1)?.id ?? "" },
  };
}

/** `credits.revoked` or `credits.adjusted`, for the entry before the batch's last `after` entries. */
export function entryWritten(type: "credits.revoked" | "credits.adjusted", userId: string, after = 0): LedgerMessage {
  return { type, subject: userId, data: { userId }, isEntry: true, last: { after } };
}

/**
 * `usage.limit_reached` for each limit towards which a batch counts (Q5). The database writes it only if this batch is the first of
 * the window in which the user's usage reaches the amount.
 */
export function limitMessages(userId: string, counts: readonly NewCount[]): LedgerMessage[] {
  const byLimit = Map.groupBy(counts, ({ limitId, endMs, memberId }) => `${limitId} ${endMs} ${memberId ?? ""}`);
  return [...byLimit.values()].flatMap((countsOfLimit): LedgerMessage[] => {
    const [first] = countsOfLimit;
    if (first === undefined) return [];
    const { limitId, memberId, endMs, name, unit, amountMinor } = first;
    return [
      {
        type: "usage.limit_reached",
        subject: userId,
        data: {
          ...{ userId, memberId, limitId, name, unit },
          ...{ amount: fromMinor(unit, amountMinor), resetsAt: iso(endMs) },
        },
        reached: { limitId, memberId, endMs, counts: countsOfLimit.length, unit },
        last: null,
      },
    ];
  });
}

export type MessageIdPrefix = { environmentId: number; messageId: string };

/** Returns SQL to join the messages whose ids begin with `messageId`. Because of the plus, SQLite searches by id. */
export const prefixedMessages = (value: ValueOf<MessageIdPrefix>) => sql`${webhookMessages}
  ON ${webhookMessages.id} > ${value("messageId")} AND ${webhookMessages.id} < ${value("messageId")} || '~'
  AND +${webhookMessages.environmentId} = ${value("environmentId")}`;

/** Sends the messages whose ids begin with `messageId` to the endpoints of their types, `{ type: [endpointId] }`. */
export const deliverPrefixed = query(
  (value: ValueOf<MessageIdPrefix & { endpoints: string; atMs: number; dueAtMs: number }>) =>
    insertFrom(
      webhookDeliveries,
      { endpointId: sql`endpoint.value`, messageId: webhookMessages.id, ...newDelivery(value) },
      sql`FROM (SELECT 1) CROSS JOIN ${prefixedMessages(value)}
      CROSS JOIN json_each(${value("endpoints")}, '$."' || ${webhookMessages.type} || '"') AS endpoint`,
    ),
);

/** Statements that write messages. Only the database can decide whether there are any. */
export interface MessageWrites {
  readonly statements: readonly Statement[];
  /** The statement that returns the ids of the written messages. */
  readonly returning?: Statement<{ id: string }>;
}

/** Returns the messages that the statements wrote, from the rows of the batch `all`. */
export function messagesAmong(
  { returning }: Pick<MessageWrites, "returning">,
  all: readonly Statement[],
  rows: readonly unknown[][],
): readonly { readonly id: string }[] {
  // A batch returns rows in the order of its statements, and this statement's type declares its rows.
  return returning === undefined ? [] : ((rows[all.indexOf(returning)] ?? []) as { id: string }[]);
}

/** Returns the endpoints by message type, for `deliverPrefixed`. */
export function endpointsByType(wanted: readonly Outgoing<{ readonly type: MessageType }>[]): string {
  return JSON.stringify(Object.fromEntries(wanted.map(({ type, endpointIds }) => [type, endpointIds])));
}
