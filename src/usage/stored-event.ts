import { countActivity } from "../activity/count.ts";
import { presentQuantities, type Quantities } from "../amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { type Statement, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { account, valuesOf, type Writing } from "../ledger/account.ts";
import type { PresentedPayment } from "../ledger/answers.ts";
import { type Decision, writeAround } from "../ledger/decision.ts";
import { insertEntries } from "../ledger/insert-entries.ts";
import type { Changes } from "../ledger/memory.ts";
import { compareStamp, type Stamp } from "../ledger/request-hash.ts";
import type { Account } from "../ledger/send.ts";
import { assert } from "../lib/assert.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Ctx } from "../runtime.ts";
import type { EventOutput } from "./answers.ts";
import { debitsSql, type PlannedPayment, plannedLegs } from "./payment.ts";

export interface Recorded {
  readonly output: EventOutput;
  /** Whether the event was recorded before, by an equal request. */
  readonly replayed: boolean;
}

type StoredAnswer = { readonly debits: string; readonly uncovered: string | null };

const select = statement<{ environmentId: number; eventId: string }, StoredAnswer & { requestHash: string }>`
  SELECT request_hash AS requestHash, debits, uncovered FROM usage_events
  WHERE environment_id = :environmentId AND event_id = :eventId`;

/** The event under an id, whoever's it is: at most one row. */
export function selectEvent(ctx: Ctx, eventId: string): ReturnType<typeof select> {
  return select({ environmentId: ctx.environment.id, eventId });
}

/** JSON that Purser wrote, in the form in which it goes out. */
function presentEvent(eventId: string, stored: StoredAnswer): EventOutput {
  return {
    eventId,
    debits: JSON.parse(stored.debits) as PresentedPayment[],
    uncovered: stored.uncovered === null ? null : (JSON.parse(stored.uncovered) as EventOutput["uncovered"]),
  };
}

/** The first answer again; `idempotency_conflict` when another request used the id (U4). */
export function presentRepeated(
  eventId: string,
  stored: StoredAnswer & { requestHash: string },
  stamp: Stamp,
): Recorded {
  const whose = compareStamp(stored.requestHash, stamp);
  if (whose === "other") {
    throw new PurserError("idempotency_conflict", "Another event was recorded under this id.", { param: "eventId" });
  }
  return { output: presentEvent(eventId, stored), replayed: whose === "replay" };
}

/** An event that is paid for, as far as it is, and is to be recorded. */
export interface PaidEvent {
  readonly eventId: string;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities & { readonly count: Steps };
  readonly properties?: JsonObject | undefined;
  /** Undefined: when it arrives. */
  readonly occurredAt?: number | undefined;
  readonly reservationId: string | null;
  readonly payment: PlannedPayment;
}

/** What a commit does before its event is recorded. */
interface Settlement {
  readonly before?: readonly Statement[];
  /** What comes back to which balance. */
  readonly returned?: Changes["entries"];
  /** The reservation that is open no more. */
  readonly settled?: string;
}

/**
 * The event's row, then its debits: a replay is noticed before a shortage, and the row says what each balance is left with.
 */
export function writeEvent(
  ctx: Ctx,
  writing: Account,
  paid: PaidEvent,
  stamp: Stamp,
  settlement: Settlement = {},
): Decision<Recorded> {
  const entries = paid.payment.legs.map(({ balance, amountSteps }) => ({
    balanceId: balance.id,
    deltaSteps: -amountSteps,
    reason: "event_committed" as const,
    eventId: paid.eventId,
    ...(paid.reservationId === null ? {} : { reservationId: paid.reservationId }),
  }));
  const { before = [], returned = [], settled } = settlement;
  const parts = {
    before,
    answering: recordEvent(writing, paid, stamp),
    after: insertEntries(writing, entries),
    changes: { entries: [...returned, ...entries], ...(settled === undefined ? {} : { settled }) },
    isShort: entries.length === 0 || paid.payment.uncovered !== null,
  };
  return writeAround(parts, ([row]) => {
    assert(row !== undefined, "a recorded event answers its debits");
    for (const { balance, amountSteps } of paid.payment.legs) {
      countActivity(ctx.environment, "spent", writing.nowMs, balance.unit, amountSteps);
    }
    return { output: presentEvent(paid.eventId, row), replayed: false };
  });
}

const record = statement<Writing & ReturnType<typeof eventValues>, StoredAnswer>`
  INSERT INTO usage_events (
    account_id, occurred_by_ms, seq, environment_id, event_id, event, model, count_steps, tokens_steps, seconds_steps,
    cents_steps, properties, occurred_at_ms, received_at_ms, reservation_id, request_hash, debits, uncovered
  )
  SELECT ${account}, max(n ->> 'occurredAtMs', coalesce(last.occurred_by_ms, n ->> 'occurredAtMs')),
    coalesce(last.seq, 0) + 1, CAST(:environmentId AS INTEGER), :eventId, :event, :model, n ->> 'count', n ->> 'tokens',
    n ->> 'seconds', n ->> 'cents', :properties, n ->> 'occurredAtMs', n ->> 'receivedAtMs', :reservationId,
    :requestHash, ${debitsSql}, :uncovered
  FROM (SELECT :numbers AS n) LEFT JOIN (
    SELECT occurred_by_ms, seq FROM usage_events WHERE account_id = ${account}
    ORDER BY occurred_by_ms DESC, seq DESC LIMIT 1
  ) AS last
  RETURNING debits, uncovered`;

/** JSON carries the numbers: D1 binds them as REAL. */
function eventValues(paid: PaidEvent, stamp: Stamp, receivedAtMs: number) {
  const { eventId, event, model, reservationId, quantities, payment } = paid;
  const occurredAtMs = paid.occurredAt ?? receivedAtMs;
  return {
    eventId,
    event,
    model,
    reservationId,
    numbers: JSON.stringify({ ...quantities, occurredAtMs, receivedAtMs }),
    properties: paid.properties === undefined ? null : JSON.stringify(paid.properties),
    requestHash: stamp.stored,
    legs: plannedLegs(payment),
    uncovered: payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered)),
  };
}

/** The statement that records an event, and answers what goes out. */
function recordEvent(writing: Account, paid: PaidEvent, stamp: Stamp): Statement<StoredAnswer> {
  return record({ ...valuesOf(writing), ...eventValues(paid, stamp, writing.nowMs) });
}
