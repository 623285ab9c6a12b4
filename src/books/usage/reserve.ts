import { sql } from "drizzle-orm";
import { asInteger, drizzle, fields, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import type { StatementRow } from "../../db/sql.ts";
import { type FormsOfId, formsOfId, idOfNewReservation } from "../../db/usage-ids.ts";
import { assert } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, presentQuantities, type Quantities } from "../amounts/amount.ts";
import { metersJson, type SentMeters } from "../amounts/meters.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import { burnDown } from "../ledger/burn-down.ts";
import { countedJson, type NewCount } from "../ledger/counters.ts";
import type { Debit } from "../ledger/debits.ts";
import { debitsOfPayment, legsOf, type PlannedPayment } from "../ledger/debits.ts";
import {
  compareFingerprint,
  fingerprintRequest,
  idempotencyConflict,
  type Outcome,
  type RequestFingerprint,
  replay,
  writeReturning,
} from "../ledger/decision.ts";
import { type OpenReservation, presentLeg, readLegs } from "../ledger/hold.ts";
import { lastReservationOf, lastSeqOf } from "../ledger/insert-entries.ts";
import { memberOfUsage, memberOfWrite } from "../ledger/payer-members.ts";
import { spendableOf } from "../ledger/read-account.ts";
import { selectPayingBalances } from "../ledger/spendable-balances.ts";
import { legsField } from "../ledger/stored-legs.ts";
import { writeForUser } from "../ledger/write.ts";
import { countUsage } from "../limits/count-usage.ts";
import type { PricedUsage } from "../prices/priced-usage.ts";
import { withPrices } from "../prices/prices-in-force.ts";
import { isSameReservation } from "./erased-request.ts";
import { insufficientCredits, noteIfRejected, warnOfQuantities } from "./plan.ts";
import { membersOfInputs } from "./record-event.ts";
import { ofReservationKey, type ReservationKey } from "./stored-reservation.ts";

export interface ReserveOutput {
  readonly reservationId: string;
  readonly expiresAt: string;
  readonly holds: Debit[];
}

export interface ReserveInput {
  readonly userId: string;
  readonly memberId?: string | undefined;
  readonly event: string;
  readonly model: string | undefined;
  /** Undefined if meters were sent. */
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
  readonly expiresInSeconds: number;
  readonly onExpiry: "charge" | "return";
  readonly reservationId?: string | undefined;
}

const reservedFields = [
  ...(["userId", "memberId", "event", "model"] as const),
  ...(["meters", "quantities", "expiresInSeconds", "onExpiry"] as const),
];

/**
 * Holds the credits that a usage may cost, all or nothing (U5). If the caller sends a `reservationId`, the call is idempotent. Throws
 * `usage_limit_reached`, `insufficient_credits` and `idempotency_conflict`.
 */
export async function createReservation(ctx: TenantCtx, input: ReserveInput): Promise<Outcome<ReserveOutput>> {
  const { reservationId = ctx.newId("res_"), ...body } = input;
  const { userId } = body;
  const forms = await formsOfId(ctx, reservationId);
  const fingerprint = await fingerprintRequest(ctx, ["reserve"], body, reservedFields);
  const reserved = await noteIfRejected(ctx, body, () =>
    withPrices(ctx, (prices) =>
      writeForUser(ctx, {
        user: { userId },
        members: membersOfInputs([body]),
        read: (nowMs) => [
          selectRepeated({ environmentId: ctx.environment.id, forms: JSON.stringify(forms) }),
          ...prices.select([body], nowMs),
        ],
        balances: (nowMs) => selectPayingBalances(ctx, { userId }, { nowMs }),
        recall: ({ settingsSnapshot }) => (prices.canRecallNow(settingsSnapshot) ? [[]] : null),
        decide: ([[stored], listed], writing) => {
          prices.take(listed);
          if (stored !== undefined) {
            const sent = { ...body, model: body.model ?? null, accountId: writing.accountId };
            // The first response had this end. The reservation may have been extended since.
            const expiresAtMs = stored.createdAtMs + body.expiresInSeconds * 1_000;
            return replay(answerReservationRepeat(reservationId, { ...stored, expiresAtMs }, fingerprint, sent));
          }
          const base = prices.baseAt(writing);
          const memberId = memberOfUsage(writing.members, body.memberId, false);
          const priced = { ...body, memberId, ...prices.price(body, base) };
          const counts = countUsage(writing, priced, true);
          const spendable = spendableOf(writing);
          const payment = burnDown(spendable, priced);
          if (payment.uncovered !== null) throw insufficientCredits(payment.uncovered, payment, spendable, priced);
          const entries = payment.legs.map(({ balance, amountMinor }) => ({
            balanceId: balance.id,
            deltaMinor: -amountMinor,
            kind: "hold" as const,
            reservationNumber: "new" as const,
          }));
          const planned = { ...priced, priceVersion: base.version, payment, counts };
          const values = reservationValues(forms, planned, fingerprint, writing.nowMs);
          const returning = insertReservation({ ...writingValues(writing), ...values });
          // The reservation comes first, so that a replay is found before insufficient credits.
          const remembers = {
            // A batch returns rows in the order of its statements, and this statement's type declares its rows.
            newReservation: (rows: readonly unknown[][]) =>
              reservationForMemory((rows[0] as StatementRow<typeof insertReservation>[])[0], values, payment),
          };
          const needsFreshRead = entries.length === 0;
          const members = memberId === null ? [] : [memberId];
          return writeReturning({ returning, entries, remembers, counts, members, needsFreshRead }, ([row]) => {
            assert(row !== undefined, "the insert returns the reservation's row");
            return { output: presentNewReservation(reservationId, row), replayed: false };
          });
        },
      }),
    ),
  );
  assert(reserved !== null, "a user named by id is never unknown");
  warnOfQuantities(ctx, input, reserved.output.holds);
  return reserved;
}

/** The reservation with an id, of any user, with the fields with which a repeat is compared. */
const selectRepeated = query((value: ValueOf<ReservationKey>) =>
  drizzle
    .select({
      ...fields(reservations, "accountId", "event", "model", "quantities", "meters", "onExpiry"),
      ...fields(reservations, "createdAtMs", "expiresAtMs", "requestHash"),
      ...legsField(),
    })
    .from(reservations)
    .where(ofReservationKey(value)),
);

type StoredReservation = Pick<typeof reservations.$inferSelect, "legs" | "expiresAtMs">;

function presentNewReservation(reservationId: string, stored: StoredReservation): ReserveOutput {
  const holds = readLegs(stored.legs).map((leg) => ({
    ...presentLeg(leg),
    remaining: fromMinor(leg.unit, leg.remainingMinor),
  }));
  return { reservationId, expiresAt: iso(stored.expiresAtMs), holds };
}

function answerReservationRepeat(
  id: string,
  stored: StatementRow<typeof selectRepeated>,
  fingerprint: RequestFingerprint,
  sent: Parameters<typeof isSameReservation>[1],
): Outcome<ReserveOutput> {
  const isErased = stored.requestHash === "";
  const comparison =
    isErased && isSameReservation(stored, sent) ? "replay" : compareFingerprint(stored.requestHash, fingerprint);
  if (comparison === "other") {
    throw idempotencyConflict(
      "Another reservation has this id. Send a new `reservationId`.",
      "reservationId",
      stored.requestHash,
      fingerprint,
    );
  }
  return { output: presentNewReservation(id, stored), replayed: comparison === "replay" };
}

const insertReservation = query((value: ValueOf<WriteContext & ReturnType<typeof reservationValues>>) =>
  returning(
    { ...fields(reservations, "reservationNumber", "expiresAtMs"), ...legsField() },
    (list) =>
      sql`${insertFrom(
        reservations,
        {
          accountId: accountOfWrite(value),
          reservationNumber: sql`${lastReservationOf(value)} + 1`,
          environmentId: asInteger(value("environmentId")),
          id: idOfNewReservation(value, value("forms")),
          event: value("event"),
          model: value("model"),
          quantities: value("quantities"),
          legs: legsOf(value),
          meters: value("meters"),
          priceVersion: asInteger(value("priceVersion")),
          costMinor: asInteger(value("costMinor")),
          counted: value("counted"),
          memberNumber: memberOfWrite(value),
          isCharged: sql`${value("onExpiry")} = 'charge'`,
          state: sql`'open'`,
          createdAtMs: asInteger(value("nowMs")),
          expiresAtMs: asInteger(value("expiresAtMs")),
          requestHash: value("requestHash"),
          createdAtSeq: lastSeqOf(accountOfWrite(value)),
        },
        sql``,
      )} RETURNING ${list}`,
  ),
);

interface Planned {
  readonly payment: PlannedPayment;
  readonly counts: readonly NewCount[];
}

function reservationValues(
  forms: FormsOfId,
  body: Omit<ReserveInput, "reservationId" | "memberId" | "meters" | "quantities"> &
    PricedUsage &
    Planned & { readonly memberId: string | null },
  fingerprint: RequestFingerprint,
  atMs: number,
) {
  return {
    forms: JSON.stringify(forms),
    reservationId: forms[0],
    memberId: body.memberId,
    event: body.event,
    model: body.model ?? null,
    quantities: JSON.stringify(presentQuantities(body.quantities)),
    meters: body.meters === null ? null : metersJson(body.meters),
    priceVersion: body.priceVersion,
    costMinor: body.costMinor,
    legs: JSON.stringify(debitsOfPayment(body.payment, new Map())),
    counted: countedJson(body.counts),
    onExpiry: body.onExpiry,
    createdAtMs: atMs,
    expiresAtMs: atMs + body.expiresInSeconds * 1_000,
    requestHash: fingerprint.stored,
  };
}

/** Returns the reservation for this isolate's memory, which does not need the remaining amounts of its holds. */
function reservationForMemory(
  row: Pick<OpenReservation, "reservationNumber"> | undefined,
  {
    reservationId: id,
    memberId,
    event,
    model,
    priceVersion,
    createdAtMs,
    expiresAtMs,
    requestHash,
  }: ReturnType<typeof reservationValues>,
  { legs }: PlannedPayment,
): OpenReservation {
  const holdLegs = legs.map(({ balance, amountMinor }) => ({
    balanceId: balance.id,
    packId: balance.packId,
    unit: balance.unit,
    amountMinor,
  }));
  assert(row !== undefined, "the insert returns the reservation's row");
  return {
    id,
    reservationNumber: row.reservationNumber,
    memberId,
    memberNumber: null,
    event,
    model,
    legs: JSON.stringify(holdLegs),
    state: "open",
    priceVersion,
    createdAtMs,
    expiresAtMs,
    settledEventSeq: null,
    requestHash,
    // Its settlement aborts if its balances owe something or are revoked.
    owed: [],
    revocations: [],
  };
}
