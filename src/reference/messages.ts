import * as z from "zod";
import { unit } from "../books/amounts/schemas.ts";
import { debit } from "../books/ledger/responses.ts";
import { mode } from "../http/fields.ts";
import { message } from "../webhooks/responses.ts";
import type { DescribedMessage } from "./describe.ts";

const time = z.string().meta({ format: "date-time" });
const text = z.string();
const userIdSchema = text;
const seq = z
  .int()
  .describe("The last seq in the user's ledger that the effect wrote. A receiver orders a user's messages by it.");
const movingSchema = { balanceId: text, unit, delta: z.number(), remaining: z.number() };
const motion = { ...movingSchema, note: text.nullable() };
const quantitiesSchema = z.strictObject({
  count: z.number().optional(),
  tokens: z.number().optional(),
  seconds: z.number().optional(),
  cents: z.number().optional(),
});
const expiry = { userId: userIdSchema, balanceId: text, packId: text, unit, remaining: z.number(), expiresAt: time };
const moved = { userId: userIdSchema, paymentKey: text, balances: z.array(z.strictObject(movingSchema)), seq };

const data: Readonly<Record<string, readonly [description: string, data: z.ZodRawShape]>> = {
  "credits.granted": [
    "Balances were issued.",
    {
      userId: userIdSchema,
      balances: z.array(
        z.strictObject({
          balanceId: text,
          packId: text,
          packItemId: text.nullable(),
          unit,
          initial: z.number(),
          expiresAt: time.nullable(),
        }),
      ),
      externalRef: text.nullable(),
      source: z.enum(["purchase", "grant", "refund", "manual"]),
      recurringId: text.nullable(),
      seq,
    },
  ],
  "credits.refunded": [
    "A refund took back what balances were issued with.",
    {
      userId: userIdSchema,
      refundRef: text,
      externalRef: text,
      balances: z.array(
        z.strictObject({
          balanceId: text,
          packItemId: text.nullable(),
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
    "What remains fell below an alert's threshold.",
    { userId: userIdSchema, alertId: text, name: text, unit, remaining: z.number(), threshold: z.number(), seq },
  ],
  "credits.depleted": ["Nothing remains in any unit.", { userId: userIdSchema, seq }],
  "recurring.suspended": [
    "A period of a recurring grant was refused, for an error of this code. Resume it when the cause is gone.",
    { userId: userIdSchema, recurringId: text, reason: text },
  ],
  "balance.expiring": ["A balance expires in so many days.", { ...expiry, days: z.int() }],
  "balance.expired": ["A balance expired with something left.", expiry],
  "usage.recorded": [
    "Usage was recorded: an event, a commit or a charge. Only for endpoints that ask for it.",
    {
      userId: userIdSchema,
      eventId: text,
      debits: z.array(debit),
      uncovered: quantitiesSchema.nullable(),
      event: text,
      model: text.nullable(),
      quantities: quantitiesSchema,
      occurredAt: time,
      properties: z.record(z.string(), z.unknown()).nullable().describe("Null where none were sent, and above 16 KiB."),
      seq: seq.nullable(),
    },
  ],
  "usage.limit_reached": [
    "A user has reached the amount of a usage limit, or is above. Once a window.",
    {
      ...{ userId: userIdSchema, limitId: text, name: text, unit, amount: z.number(), used: z.number() },
      resetsAt: text.meta({ format: "date-time" }),
      seq,
    },
  ],
  "reservation.expired": [
    "Nobody settled a reservation in time, and its holds returned.",
    {
      userId: userIdSchema,
      reservationId: text,
      event: text,
      holds: z.array(z.strictObject({ balanceId: text, packId: text, unit, amount: z.number() })),
      seq: seq.nullable(),
    },
  ],
  "person.exported": [
    "A link to a person's data was made, or opened.",
    { distinctId: text, action: z.enum(["minted", "opened"]) },
  ],
  "person.erased": ["A person was erased.", { erasureId: text }],
  "limits.reached": [
    "A limit of the environment's analytics was met, once a day and limit.",
    { limit: text, environment: mode },
  ],
  "payment.unmatched": ["A payment granted nothing, and waits to be settled.", { paymentKey: text, reason: text }],
  "payment.taken": ["A refund or dispute of a payment took back credits.", moved],
  "payment.restored": ["Credits came back that a refund or dispute had taken.", moved],
  "purser.test": ["A test, which was asked for.", {}],
};

/** Every message, for the `webhooks` of the OpenAPI document. */
export const messages: readonly DescribedMessage[] = Object.entries(data).map(([type, [description, shape]]) => ({
  type,
  description,
  schema: message.extend({ type: z.literal(type), data: z.strictObject(shape) }),
}));
