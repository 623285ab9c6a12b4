import * as z from "zod";
import { quantitiesOutput, unit } from "../amounts/schemas.ts";
import { errorBody } from "../http/error-body.ts";
import { debit } from "../ledger/responses.ts";

export const eventOutput = z
  .strictObject({
    eventId: z.string(),
    debits: z.array(debit).describe("Which balances paid, first to be spent first."),
    uncovered: quantitiesOutput.nullable().describe("What nothing paid for; null when all is covered."),
  })
  .meta({ id: "UsageEventAnswer" });
export type EventOutput = z.infer<typeof eventOutput>;

export const eventListOutput = z.strictObject({
  results: z.array(
    z.union([
      eventOutput,
      z.strictObject({
        eventId: z.string().nullable().describe("Null when the element has none that can be read."),
        error: errorBody.shape.error,
      }),
    ]),
  ),
});
export type EventListOutput = z.infer<typeof eventListOutput>;

const time = z.string().meta({ format: "date-time" });

export const reserveOutput = z.strictObject({
  reservationId: z.string(),
  expiresAt: time,
  holds: z.array(debit).describe("What each balance holds, and what it was left with."),
});
export type ReserveOutput = z.infer<typeof reserveOutput>;

export const releaseOutput = z.strictObject({
  reservationId: z.string(),
  status: z.enum(["released", "expired"]).describe("How the reservation ended, now or before."),
  returned: z.array(debit.omit({ remaining: true })).describe("What came back to each balance, now or before."),
});
export type ReleaseOutput = z.infer<typeof releaseOutput>;

export const totalsOutput = z.strictObject({
  totals: z.array(z.strictObject({ event: z.string(), unit, amount: z.number() })),
});
export type TotalsOutput = z.infer<typeof totalsOutput>;

const skipReason = z.enum(["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]);

export const planOutput = z.strictObject({
  debits: z.array(debit),
  uncovered: quantitiesOutput.nullable(),
  skipped: z.array(z.strictObject({ balanceId: z.string(), reason: skipReason })),
});
export type PlanOutput = z.infer<typeof planOutput>;
