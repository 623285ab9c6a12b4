import * as z from "zod";
import { errorDetail, time } from "../../http/responses.ts";
import { once } from "../../lib/once.ts";
import { debit, quantitiesOutput, summedQuantities, sumOutput } from "../amounts/responses.ts";
import { unit } from "../amounts/schemas.ts";
import { refusingLimitOutput } from "../limits/responses.ts";
import { onExpiry, reservationStatus } from "./schemas.ts";

export const eventOutput = z.lazy(
  once(() =>
    z
      .strictObject({
        eventId: z.string(),
        debits: z.array(debit).describe("The debits, in spending order."),
        uncovered: quantitiesOutput
          .nullable()
          .describe("The quantities that no balance covered. Null when all are covered."),
      })
      .meta({ id: "UsageEventResult" }),
  ),
);
export type EventOutput = z.infer<typeof eventOutput>;

const eventError = z.lazy(() =>
  z
    .strictObject({
      eventId: z.string().nullable().describe("Null when the element has no id that can be read."),
      error: errorDetail,
    })
    .meta({ id: "UsageEventError" }),
);

const eventResult = z.lazy(() =>
  eventOutput
    .unwrap()
    .extend({ isReplayed: z.literal(true).optional().describe("Present if the event was recorded before.") })
    .meta({ id: "UsageEventListResult" }),
);
export type ListedEventOutput = z.infer<typeof eventResult>;

export const eventListOutput = z.lazy(() =>
  z
    .strictObject({ results: z.array(z.union([eventResult, eventError])).describe("One for each event, in order.") })
    .meta({ id: "UsageEventList" }),
);
export type EventListOutput = z.infer<typeof eventListOutput>;

/** The amount that a reservation holds of one balance. */
const hold = z.lazy(
  once(() =>
    debit
      .unwrap()
      .extend({ remaining: z.number().describe("The balance after the hold.") })
      .meta({ id: "Hold" }),
  ),
);
const heldAmount = z.lazy(() => hold.unwrap().omit({ remaining: true }).meta({ id: "HeldAmount" }));

export const reserveOutput = z.lazy(() =>
  z
    .strictObject({
      reservationId: z.string(),
      expiresAt: time,
      holds: z.array(hold).describe("The held amounts, and the remaining amount of each balance."),
    })
    .meta({ id: "CreatedReservation" }),
);
export type ReserveOutput = z.infer<typeof reserveOutput>;

export const reservationOutput = z.lazy(() =>
  z
    .strictObject({
      reservationId: z.string(),
      userId: z.string(),
      event: z.string(),
      model: z.string().nullable(),
      quantities: quantitiesOutput,
      onExpiry: onExpiry.describe("Whether the holds are returned or charged when it expires."),
      status: reservationStatus.describe(
        "A reservation that has expired, but whose holds are not returned yet, already has its final status.",
      ),
      createdAt: time,
      expiresAt: time,
      settledAt: time.nullable().describe("When its holds were returned. Null until then."),
      eventId: z.string().nullable().describe("The event with which it was committed, in time or late."),
      holds: z.array(heldAmount).describe("The amounts that it holds, or held."),
    })
    .meta({ id: "Reservation" }),
);
export type ReservationOutput = z.infer<typeof reservationOutput>;

export const releaseOutput = z.lazy(() =>
  z
    .strictObject({
      reservationId: z.string(),
      status: z.enum(["released", "expired"]).describe("How the reservation ended."),
      returned: z.array(heldAmount).describe("The amounts returned to each balance."),
    })
    .meta({ id: "ReservationRelease" }),
);
export type ReleaseOutput = z.infer<typeof releaseOutput>;

export const totalsOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(z.strictObject({ event: z.string(), unit, amount: sumOutput }).meta({ id: "UsageTotal" })),
    })
    .meta({ id: "UsageTotals" }),
);
export type TotalsOutput = z.infer<typeof totalsOutput>;

export const groupedTotalsOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(
        z
          .strictObject({
            time: time.optional().describe("When the hour, the day or the month begins."),
            event: z.string().optional(),
            model: z.string().nullable().optional().describe("Null for events without a model."),
            events: z.number().describe("How many events."),
            quantities: summedQuantities.describe("The used quantities. Unused units are left out."),
            debited: summedQuantities.describe("The debited amounts, by unit."),
          })
          .meta({ id: "GroupedUsageTotal" }),
      ),
    })
    .meta({ id: "GroupedUsageTotals" }),
);
export type GroupedTotalsOutput = z.infer<typeof groupedTotalsOutput>;

export const environmentUsageOutput = z.lazy(() =>
  z
    .strictObject({
      totals: z.array(
        z
          .strictObject({
            time: time.optional().describe("When the day begins."),
            event: z.string().optional(),
            model: z.string().nullable().optional().describe("Null for events without a model."),
            userId: z.string().optional(),
            events: z.number().describe("How many events."),
            quantities: summedQuantities.describe("The used quantities. Unused units are left out."),
          })
          .meta({ id: "EnvironmentUsageTotal" }),
      ),
      upTo: time.describe("The totals include all events received before this time, and possibly some later ones."),
    })
    .meta({ id: "EnvironmentUsage" }),
);
export type EnvironmentUsageOutput = z.infer<typeof environmentUsageOutput>;

export const shownEvent = z.lazy(
  once(() =>
    z
      .strictObject({
        eventId: z.string(),
        event: z.string(),
        model: z.string().nullable(),
        quantities: quantitiesOutput,
        occurredAt: time,
        receivedAt: time,
        reservationId: z.string().nullable().describe("The reservation that it settled."),
        debits: z.array(heldAmount).describe("The debits, in spending order."),
        uncovered: quantitiesOutput.nullable().describe("The quantities that no balance covered."),
        properties: z.record(z.string(), z.unknown()).nullable().optional().describe("Absent for a publishable key."),
      })
      .meta({ id: "StoredUsageEvent" }),
  ),
);
export type ShownEvent = z.infer<typeof shownEvent>;

const skipReason = z.lazy(() =>
  z.enum(["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]).meta({ id: "SkipReason" }),
);

export const planOutput = z.lazy(() =>
  z
    .strictObject({
      debits: z.array(debit).describe("The debits, in spending order."),
      uncovered: quantitiesOutput
        .nullable()
        .describe("The quantities that no balance covers. Null when all are covered."),
      skipped: z
        .array(
          z
            .strictObject({
              balanceId: z.string(),
              packName: z.string(),
              unit,
              remaining: z.number(),
              reason: skipReason,
            })
            .meta({ id: "SkippedBalance" }),
        )
        .describe("The balances that would not be debited, and why."),
      limits: z
        .array(refusingLimitOutput)
        .describe("The usage limits that would refuse it, oldest first. None for `partial`."),
    })
    .meta({ id: "DebitPlan" }),
);
export type PlanOutput = z.infer<typeof planOutput>;
