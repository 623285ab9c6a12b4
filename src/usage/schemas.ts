import * as z from "zod";
import { payment, quantitiesOutput, unit, usageFields, userId } from "../credits/schemas.ts";
import { errorBody } from "../http/errors.ts";
import { identifier, timestamp } from "../http/fields.ts";

const { event, model, quantities, occurredAt, properties, onShortage } = usageFields;

const eventId = identifier().describe("Your own id of the event: its idempotency key, for ever.");

export const eventInput = z.strictObject({ eventId, ...usageFields });
export type EventInput = z.infer<typeof eventInput>;

export const eventsMax = 100;
export const eventList = z.array(eventInput).max(eventsMax);

/** The part of a CloudEvent that is Purser's. */
const cloudEventData = z.strictObject({
  model: model.nullish(),
  quantities,
  properties: properties.nullish(),
});

/** A CloudEvent 1.0 as JSON; extension attributes are ignored. Read as the event that it says (U1). */
export const cloudEvent = z
  .looseObject({
    specversion: z.literal("1.0"),
    id: eventId,
    source: z.string().min(1, "must not be empty"),
    type: event,
    subject: userId,
    time: timestamp.nullish().describe("When it was used. Default: when it arrives."),
    data: cloudEventData.nullish(),
  })
  .refine((given) => given.data_base64 === undefined, {
    path: ["data_base64"],
    message: "must not be given: the data of an event is JSON",
  })
  .transform(
    ({ id, type, subject, time, data }): EventInput => ({
      eventId: id,
      userId: subject,
      event: type,
      model: data?.model ?? undefined,
      quantities: data?.quantities ?? quantities.parse({}),
      occurredAt: time ?? undefined,
      properties: data?.properties ?? undefined,
      onShortage: "reject",
    }),
  );

export const cloudEventBatch = z.array(cloudEvent).max(eventsMax);

export const eventOutput = z
  .strictObject({
    eventId: z.string(),
    debits: z.array(payment).describe("Which balances paid, first to be spent first."),
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

export const reservationIdPattern = /^res_[A-Za-z0-9_-]{1,60}$/;

const EXPIRES_IN_SECONDS_DEFAULT = 300;
const EXPIRES_IN_SECONDS_MAX = 86_400;

export const reserveInput = z.strictObject({
  reservationId: z
    .string()
    .regex(reservationIdPattern, "must be `res_` and 1 to 60 letters, digits, `_` or `-`")
    .optional()
    .describe("An id of your own makes the reservation idempotent."),
  userId,
  event,
  model,
  quantities: quantities.unwrap(),
  expiresInSeconds: z
    .int("must be a whole number")
    .min(1, `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`)
    .max(EXPIRES_IN_SECONDS_MAX, `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`)
    .default(EXPIRES_IN_SECONDS_DEFAULT),
});
export type ReserveInput = z.infer<typeof reserveInput>;

const time = z.string().meta({ format: "date-time" });

export const reserveOutput = z.strictObject({
  reservationId: z.string(),
  expiresAt: time,
  holds: z.array(payment).describe("What each balance holds, and what it was left with."),
});
export type ReserveOutput = z.infer<typeof reserveOutput>;

export const reservationParams = z.object({
  reservationId: z.string().describe("The reservation, `res_…`."),
});

export const commitInput = z.strictObject({
  eventId,
  quantities: quantities.unwrap(),
  occurredAt,
  properties,
  onShortage,
});
export type CommitInput = z.infer<typeof commitInput>;

export const releaseOutput = z.strictObject({
  reservationId: z.string(),
  status: z.enum(["released", "expired"]).describe("How the reservation ended, now or before."),
  returned: z.array(payment.omit({ remaining: true })).describe("What came back to each balance, now or before."),
});
export type ReleaseOutput = z.infer<typeof releaseOutput>;

export const totalsInput = z.object({
  userId,
  event: identifier().optional().describe("A concrete event name, or a glob."),
  from: timestamp.optional().describe("Events that occurred then or later."),
  to: timestamp.optional().describe("Events that occurred before then."),
});
export type TotalsInput = z.infer<typeof totalsInput>;

export const totalsOutput = z.strictObject({
  totals: z.array(z.strictObject({ event: z.string(), unit, amount: z.number() })),
});
export type TotalsOutput = z.infer<typeof totalsOutput>;
