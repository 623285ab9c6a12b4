import { sql } from "drizzle-orm";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { prepared } from "../db/prepared.ts";
import { batchAround, type Statement } from "../db/statement.ts";
import { PurserError } from "../errors.ts";
import { burnDown } from "../ledger/burn-down.ts";
import { appended } from "../ledger/entries.ts";
import { readLegs, returnedDue, settleDue } from "../ledger/holds.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { Ctx } from "../runtime.ts";
import { readAccount } from "./account.ts";
import type { ReserveOutput } from "./answers.ts";
import { landed, OVERTAKEN, persevere } from "./attempts.ts";
import { insufficient, legsSql, type PlannedPayment, plannedLegs } from "./payment.ts";
import { compareStamp, type Stamp, stampRequest } from "./request-hash.ts";
import type { ReserveInput } from "./schemas.ts";
import { presentLeg, storedReservation } from "./stored-reservation.ts";

export interface Reserved {
  readonly output: ReserveOutput;
  /** Whether it was made before, by an equal request under the same id. */
  readonly replayed: boolean;
}

/**
 * Holds what a usage may cost: all of it or nothing (U5). With the caller's own `reservationId` it lands once.
 *
 * Throws `insufficient_credits` and `idempotency_conflict`.
 */
export async function reserve(request: Ctx, input: ReserveInput): Promise<Reserved> {
  const { reservationId = request.newId("res_"), ...body } = input;
  const { userId } = body;
  const stamp = await stampRequest(request, ["reserve"], body);
  return persevere(request, stamp.nonce, async (ctx) => {
    const { stored, due, able } = await readAccount(ctx, userId, storedReservation(ctx, reservationId));
    if (stored !== undefined) {
      await settleDue(ctx, userId, due);
      return replayReservation(reservationId, stored, stamp);
    }
    const payment = burnDown(able, body);
    if (payment.uncovered !== null) {
      await settleDue(ctx, userId, due);
      throw insufficient(ctx, payment.uncovered);
    }
    const held = { reservationId, body, payment, expiresAtMs: ctx.now() + body.expiresInSeconds * 1_000 };
    return landReservation(ctx, held, stamp, returnedDue(ctx, userId, due));
  });
}

interface StoredAnswer {
  readonly legs: string;
  readonly expiresAtMs: number;
}

function present(reservationId: string, stored: StoredAnswer): ReserveOutput {
  const holds = readLegs(stored.legs).map((leg) => ({
    ...presentLeg(leg),
    remaining: fromSteps(leg.unit, leg.remainingSteps),
  }));
  return { reservationId, expiresAt: iso(stored.expiresAtMs), holds };
}

function replayReservation(id: string, stored: StoredAnswer & { requestHash: string }, stamp: Stamp): Reserved {
  const whose = compareStamp(stored.requestHash, stamp);
  if (whose === "other") {
    throw new PurserError("idempotency_conflict", "Another reservation was made under this id.", {
      param: "reservationId",
    });
  }
  return { output: present(id, stored), replayed: whose === "replay" };
}

interface PlannedReservation {
  readonly reservationId: string;
  readonly body: Omit<ReserveInput, "reservationId">;
  readonly payment: PlannedPayment;
  readonly expiresAtMs: number;
}

/** One batch: `before`, the reservation, its holds. OVERTAKEN when the plan was made on a state that is gone. */
async function landReservation(
  ctx: Ctx,
  held: PlannedReservation,
  stamp: Stamp,
  before: readonly Statement[],
): Promise<Reserved | typeof OVERTAKEN> {
  const { reservationId, payment, body } = held;
  const motions = payment.legs.map(({ balance, amountSteps }) => ({
    balanceId: balance.id,
    deltaSteps: -amountSteps,
    reason: "reservation_held" as const,
    reservationId,
  }));
  const holds = motions.length === 0 ? [] : [appended(ctx, body.userId, motions)];
  const answer = await landed(() => batchAround(ctx.db, before, opened(ctx, held, stamp), holds));
  if (answer === OVERTAKEN) return OVERTAKEN;
  const row = answer[0];
  assert(row !== undefined, "a reservation answers its holds");
  return { output: present(reservationId, row), replayed: false };
}

const open = prepared<StoredAnswer>(sql`
  INSERT INTO reservations (
    environment_id, id, user_id, event, model, quantities, legs, state, created_at_ms, expires_at_ms, request_hash
  )
  SELECT CAST(${sql.placeholder("environmentId")} AS INTEGER), ${sql.placeholder("id")}, ${sql.placeholder("userId")},
    ${sql.placeholder("event")}, ${sql.placeholder("model")}, ${sql.placeholder("quantities")}, ${legsSql}, 'open',
    CAST(${sql.placeholder("createdAtMs")} AS INTEGER), CAST(${sql.placeholder("expiresAtMs")} AS INTEGER),
    ${sql.placeholder("requestHash")}
  RETURNING legs, expires_at_ms AS "expiresAtMs"`);

/** The statement that opens a reservation, and answers its legs. It comes first, so that a replay is noticed first. */
function opened(ctx: Ctx, { reservationId, body, payment, expiresAtMs }: PlannedReservation, stamp: Stamp) {
  return open(ctx.db, {
    environmentId: ctx.environment.id,
    id: reservationId,
    userId: body.userId,
    event: body.event,
    model: body.model ?? null,
    quantities: JSON.stringify(presentQuantities(body.quantities)),
    legs: plannedLegs(payment),
    createdAtMs: ctx.now(),
    expiresAtMs,
    requestHash: stamp.stored,
  });
}
