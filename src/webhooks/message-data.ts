import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput, unit } from "../books/amounts/amount-fields.ts";
import { mode } from "../http/fields.ts";
import { time } from "../http/output-fields.ts";

const textSchema = z.string();
const userIdSchema = textSchema;
const seq = z
  .int()
  .describe("The seq of the user's last ledger entry that the effect wrote. Sort a user's messages by it.");
const movingSchema = { balanceId: textSchema, unit, delta: z.number(), remaining: z.number() };
const motion = { ...movingSchema, note: textSchema.nullable() };
const expiry = {
  userId: userIdSchema,
  balanceId: textSchema,
  packId: textSchema,
  unit,
  remaining: z.number(),
  expiresAt: time,
};
const movedSchema = {
  userId: userIdSchema,
  paymentKey: textSchema,
  balances: z.array(z.strictObject(movingSchema)),
  seq,
};

/** Each type of message: its description, and the schema of its `data` (H2). `MessageData` makes writers keep to the schema. */
export const messageData = {
  "credits.granted": [
    "Balances were issued.",
    {
      userId: userIdSchema,
      balances: z.array(
        z.strictObject({
          balanceId: textSchema,
          packId: textSchema,
          packItemId: textSchema.nullable(),
          unit,
          initial: z.number(),
          expiresAt: time.nullable(),
        }),
      ),
      externalRef: textSchema.nullable(),
      source: z.enum(["purchase", "grant", "refund", "manual"]).describe("Why the credits were granted."),
      recurringId: textSchema.nullable(),
      seq,
    },
  ],
  "credits.refunded": [
    "A refund took back credits.",
    {
      userId: userIdSchema,
      refundRef: textSchema,
      externalRef: textSchema,
      balances: z.array(
        z.strictObject({
          balanceId: textSchema,
          packItemId: textSchema.nullable(),
          unit,
          taken: z.number(),
          short: z.number(),
          remaining: z.number(),
        }),
      ),
      seq,
    },
  ],
  "credits.revoked": ["A balance was revoked.", { userId: userIdSchema, ...motion, seq }],
  "credits.adjusted": ["A balance was adjusted.", { userId: userIdSchema, ...motion, seq }],
  "credits.low": [
    "The remaining credits fell below an alert's threshold.",
    {
      userId: userIdSchema,
      alertId: textSchema,
      name: textSchema,
      unit,
      remaining: z.number(),
      threshold: z.number(),
      seq,
    },
  ],
  "credits.depleted": ["The user has no credits left in any unit.", { userId: userIdSchema, seq }],
  "recurring.suspended": [
    "A period of a recurring grant was refused with the error code `reason`. Resume the recurring grant after you have removed the cause.",
    { userId: userIdSchema, recurringId: textSchema, reason: textSchema },
  ],
  "balance.expiring": [
    "A balance expires in `days` days.",
    {
      ...expiry,
      days: z.int().meta({ description: "How many days before its expiry the message is sent.", example: 7 }),
    },
  ],
  "balance.expired": ["A balance with remaining credits expired.", expiry],
  "usage.recorded": [
    "Usage was recorded: an event, a commit or a charge. Sent only to endpoints that request this type.",
    {
      userId: userIdSchema,
      eventId: textSchema,
      debits: z.array(debit),
      uncovered: quantitiesOutput.nullable(),
      event: textSchema,
      model: textSchema.nullable(),
      quantities: quantitiesOutput,
      ...metersAndVersion(),
      occurredAt: time,
      properties: z
        .record(z.string(), z.unknown())
        .nullable()
        .describe("Null if none were sent, or if they exceed 16 KiB."),
      seq: seq.nullable(),
    },
  ],
  "usage.limit_reached": [
    "A user has reached or exceeded the amount of a usage limit. Sent once a window.",
    {
      ...{ userId: userIdSchema, limitId: textSchema, name: textSchema, unit, amount: z.number(), used: z.number() },
      resetsAt: textSchema.meta({ format: "date-time" }),
      seq,
    },
  ],
  "reservation.expired": [
    "A reservation expired, and its holds returned.",
    {
      userId: userIdSchema,
      reservationId: textSchema,
      event: textSchema,
      holds: z.array(z.strictObject({ balanceId: textSchema, packId: textSchema, unit, amount: z.number() })),
      seq: seq.nullable(),
    },
  ],
  "person.exported": [
    "A link to a person's data was created or opened.",
    { distinctId: textSchema, action: z.enum(["minted", "opened"]) },
  ],
  "person.erased": ["A person was erased.", { erasureId: textSchema }],
  "limits.reached": [
    "A daily limit of the environment's analytics was reached. Sent once a day for each limit.",
    { limit: textSchema, environment: mode },
  ],
  "payment.unmatched": [
    "A payment granted nothing, and can be settled by hand.",
    { paymentKey: textSchema, reason: textSchema },
  ],
  "payment.taken": ["A refund or dispute of a payment took back credits.", movedSchema],
  "payment.restored": ["Credits that a refund or dispute took back were restored.", movedSchema],
  "purser.test": ["A test that an operator requested.", {}],
} satisfies Readonly<Record<string, readonly [description: string, data: z.ZodRawShape]>>;
export type MessageType = keyof typeof messageData;

/** The `data` of each type of message. */
export type MessageData = {
  readonly [Type in MessageType]: Readonly<z.infer<z.ZodObject<(typeof messageData)[Type][1]>>>;
};
