import { and, eq, sql } from "drizzle-orm";
import { countActivity } from "../activity/count.ts";
import type { Quantities } from "../amounts/amount.ts";
import { presentQuantities } from "../amounts/amount.ts";
import { prepared, selecting } from "../db/prepared.ts";
import { usageEvents } from "../db/schema.ts";
import { batchAround, type Statement } from "../db/statement.ts";
import { PurserError } from "../errors.ts";
import type { PresentedPayment } from "../ledger/answers.ts";
import { appended } from "../ledger/entries.ts";
import { assert } from "../lib/assert.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Ctx } from "../runtime.ts";
import type { EventOutput } from "./answers.ts";
import { landed, OVERTAKEN } from "./attempts.ts";
import { debitsSql, type PlannedPayment, plannedLegs } from "./payment.ts";
import { compareStamp, type Stamp } from "./request-hash.ts";

export interface Recorded {
  readonly output: EventOutput;
  /** Whether the event was recorded before, by an equal request. */
  readonly replayed: boolean;
}

const selectEvent = selecting(
  { requestHash: usageEvents.requestHash, debits: usageEvents.debits, uncovered: usageEvents.uncovered },
  usageEvents,
  and(
    eq(usageEvents.environmentId, sql.placeholder("environmentId")),
    eq(usageEvents.eventId, sql.placeholder("eventId")),
  ),
);

/** The event under an id, whoever's it is: at most one row. */
export function storedEvent(ctx: Ctx, eventId: string) {
  return selectEvent(ctx.db, { environmentId: ctx.environment.id, eventId });
}

interface StoredAnswer {
  readonly debits: string;
  readonly uncovered: string | null;
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
export function replayEvent(eventId: string, stored: StoredAnswer & { requestHash: string }, stamp: Stamp): Recorded {
  const whose = compareStamp(stored.requestHash, stamp);
  if (whose === "other") {
    throw new PurserError("idempotency_conflict", "Another event was recorded under this id.", { param: "eventId" });
  }
  return { output: presentEvent(eventId, stored), replayed: whose === "replay" };
}

/** An event that is paid for, as far as it is, and is to be recorded. */
export interface PaidEvent {
  readonly userId: string;
  readonly eventId: string;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities & { readonly count: number };
  readonly properties: JsonObject | undefined;
  /** Undefined: when it arrives. */
  readonly occurredAt: number | undefined;
  readonly reservationId: string | null;
  readonly payment: PlannedPayment;
}

/**
 * One batch: `before`, the event's row, its debits. The row comes before the debits, so that a replay is noticed before
 * a shortage, and says what each balance is left with. OVERTAKEN when the plan was made on a state that is gone.
 */
export async function landEvent(
  ctx: Ctx,
  paid: PaidEvent,
  stamp: Stamp,
  before: readonly Statement[],
): Promise<Recorded | typeof OVERTAKEN> {
  const motions = paid.payment.legs.map(({ balance, amountSteps }) => ({
    balanceId: balance.id,
    deltaSteps: -amountSteps,
    reason: "event_committed" as const,
    eventId: paid.eventId,
    ...(paid.reservationId === null ? {} : { reservationId: paid.reservationId }),
  }));
  const debits = motions.length === 0 ? [] : [appended(ctx, paid.userId, motions)];
  const answer = await landed(() => batchAround(ctx.db, before, recorded(ctx, paid, stamp), debits));
  if (answer === OVERTAKEN) return OVERTAKEN;
  const row = answer[0];
  assert(row !== undefined, "a recorded event answers its debits");
  for (const { balance, amountSteps } of paid.payment.legs) {
    countActivity(ctx.environment.id, "spent", ctx.now(), balance.unit, amountSteps);
  }
  return { output: presentEvent(paid.eventId, row), replayed: false };
}

const record = prepared<StoredAnswer>(sql`
  INSERT INTO usage_events (
    environment_id, user_id, occurred_by_ms, seq, event_id, event, model, count_steps, tokens_steps, seconds_steps,
    cents_steps, properties, occurred_at_ms, received_at_ms, reservation_id, request_hash, debits, uncovered
  )
  SELECT n ->> 'environmentId', ${sql.placeholder("userId")},
    max(n ->> 'occurredAtMs', coalesce(last.occurred_by_ms, n ->> 'occurredAtMs')), coalesce(last.seq, 0) + 1,
    ${sql.placeholder("eventId")}, ${sql.placeholder("event")}, ${sql.placeholder("model")}, n ->> 'count',
    n ->> 'tokens', n ->> 'seconds', n ->> 'cents', ${sql.placeholder("properties")}, n ->> 'occurredAtMs',
    n ->> 'receivedAtMs', ${sql.placeholder("reservationId")}, ${sql.placeholder("requestHash")}, ${debitsSql},
    ${sql.placeholder("uncovered")}
  FROM (SELECT ${sql.placeholder("numbers")} AS n) LEFT JOIN (
    SELECT occurred_by_ms, seq FROM usage_events
    WHERE environment_id = ${sql.placeholder("environmentId")} AND user_id = ${sql.placeholder("userId")}
    ORDER BY occurred_by_ms DESC, seq DESC LIMIT 1
  ) AS last
  RETURNING debits, uncovered`);

/** The statement that records an event, and answers what goes out. JSON carries the numbers: D1 binds them as REAL. */
function recorded(ctx: Ctx, paid: PaidEvent, stamp: Stamp) {
  const { userId, eventId, event, model, reservationId, quantities, payment } = paid;
  const environmentId = ctx.environment.id;
  const receivedAtMs = ctx.now();
  const occurredAtMs = paid.occurredAt ?? receivedAtMs;
  return record(ctx.db, {
    environmentId,
    userId,
    eventId,
    event,
    model,
    reservationId,
    numbers: JSON.stringify({ environmentId, ...quantities, occurredAtMs, receivedAtMs }),
    properties: paid.properties === undefined ? null : JSON.stringify(paid.properties),
    requestHash: stamp.stored,
    legs: plannedLegs(payment),
    uncovered: payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered)),
  });
}
