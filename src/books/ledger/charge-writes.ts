import { sql } from "drizzle-orm";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { presentQuantities } from "../amounts/amount.ts";
import { readSentMeters } from "../amounts/meters.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { keptJson } from "./counters.ts";
import { debitsOfLegs, debitsOfPayment, lastEventOf, placeOfEvent, sumsAtDebits } from "./debits.ts";
import { fingerprintCharge } from "./decision.ts";
import { memberOfReservation } from "./payer-members.ts";
import type { SettledHold } from "./settle.ts";

/** Returns the statement that inserts the events of charges, which tell the amounts after their debits. */
export function chargeWrites(account: WriteContext, settled: readonly SettledHold[]): Statement[] {
  const sums = new Map<string, number>();
  const events: object[] = [];
  for (const { hold, charged, entries } of settled) {
    const minor = sumsAtDebits(entries, sums);
    if (charged === null) continue;
    const { charge, payment } = charged;
    const { quantities, meters, occurredAtMs: occurredAt } = charge;
    const uncovered = payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered));
    const sent = meters === null ? { quantities } : { meters: readSentMeters(meters) };
    const fingerprint = fingerprintCharge({ ...sent, occurredAt, onShortage: "partial" });
    const legs = debitsOfPayment(payment, minor);
    const hasMember = hold.hasMember ? 1 : undefined;
    events.push({
      id: hold.id,
      reservationNumber: hold.reservationNumber,
      hasMember,
      ...charge,
      legs,
      uncovered,
      fingerprint,
      counted: keptJson(hold.counted),
    });
  }
  if (events.length === 0) return [];
  return [insertCharges({ ...writingValues(account), charges: JSON.stringify(events) })];
}

/** Inserts the events of charges, in order. */
const insertCharges = query((value: ValueOf<WriteContext & { charges: string }>) =>
  insertFrom(
    usageEvents,
    {
      ...placeOfEvent(value, sql`charge.key`),
      environmentId: asInteger(value("environmentId")),
      eventId: sql`charge.value ->> 'id'`,
      event: sql`charge.value ->> 'event'`,
      model: sql`charge.value ->> 'model'`,
      countMinor: sql`charge.value ->> '$.quantities.count'`,
      tokensMinor: sql`charge.value ->> '$.quantities.tokens'`,
      secondsMinor: sql`charge.value ->> '$.quantities.seconds'`,
      centsMinor: sql`charge.value ->> '$.quantities.cents'`,
      meters: sql`charge.value ->> 'meters'`,
      priceVersion: sql`charge.value ->> 'priceVersion'`,
      costMinor: sql`charge.value ->> 'costMinor'`,
      occurredAtMs: sql`charge.value ->> 'occurredAtMs'`,
      receivedAfterMs: sql`${asInteger(value("nowMs"))} - (charge.value ->> 'occurredAtMs')`,
      reservationId: sql`charge.value ->> 'id'`,
      requestHash: sql`charge.value ->> 'fingerprint'`,
      debits: debitsOfLegs(value, sql`charge.value -> 'legs'`),
      uncovered: sql`charge.value ->> 'uncovered'`,
      counted: sql`charge.value ->> 'counted'`,
      memberNumber: memberOfReservation(
        accountOfWrite(value),
        sql`iif(charge.value ->> 'hasMember', charge.value ->> 'reservationNumber', NULL)`,
      ),
    },
    sql`FROM json_each(${value("charges")}) AS charge LEFT JOIN ${lastEventOf(value)} ORDER BY charge.key`,
  ),
);
