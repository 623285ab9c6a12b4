import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput, unit } from "../books/amounts/amount-fields.ts";
import { mode } from "../http/fields.ts";
import { time } from "../http/output-fields.ts";
import { words } from "../lib/words.ts";

const textSchema = z.string();
const userIdSchema = textSchema;
const seq = z
  .int()
  .meta(words("The seq of the user's last ledger entry that the effect wrote. Sort a user's messages by it.", 12));
const movingSchema = {
  balanceId: textSchema.meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
  unit,
  delta: z.number().meta(words("The change, in the balance's unit. Negative for a deduction.", -120)),
  remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
};
const balanceChange = {
  ...movingSchema,
  note: textSchema.nullable().meta(words("The reason that the caller gave. Null without one.", "Goodwill")),
};
const expiry = {
  userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
  balanceId: textSchema.meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
  packId: textSchema.meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
  unit,
  remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
  expiresAt: time.meta(words("When it expires. Null: never.", "2027-01-15T12:00:00.000Z")),
};
const movedSchema = {
  userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
  paymentKey: textSchema.meta(
    words("The payment's id at Stripe: its payment intent, if it has one.", "pi_3PgafmB7WZ01zgkW1tQm8sLd"),
  ),
  balances: z.array(z.strictObject(movingSchema)).meta(words("The balances.")),
  seq,
};

/** Each type of message: its description, and the schema of its `data` (H2). `MessageData` makes writers keep to the schema. */
export const messageData = {
  "credits.granted": [
    "Balances were issued.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      balances: z
        .array(
          z.strictObject({
            balanceId: textSchema.meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
            packId: textSchema.meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
            packItemId: textSchema
              .nullable()
              .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
            unit,
            initial: z.number().meta(words("The amount at the grant, in the balance's unit.", 400)),
            expiresAt: time.nullable().meta(words("When it expires. Null: never.", "2027-01-15T12:00:00.000Z")),
          }),
        )
        .meta(words("The balances.")),
      externalRef: textSchema
        .nullable()
        .meta(words("The reference of the grant, such as a payment's id.", "order-1001")),
      source: z
        .enum(["purchase", "grant", "refund", "manual"])
        .meta(words("Why the credits were granted.", "purchase")),
      recurringId: textSchema.nullable().meta(words("The recurring grant's id.", "rec_free-user_42")),
      seq,
    },
  ],
  "credits.refunded": [
    "A refund took back credits.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      refundRef: textSchema.meta(words("The reference of the refund.", "re_1001")),
      externalRef: textSchema.meta(words("The reference of the grant, such as a payment's id.", "order-1001")),
      balances: z
        .array(
          z.strictObject({
            balanceId: textSchema.meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
            packItemId: textSchema
              .nullable()
              .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
            unit,
            taken: z.number().meta(words("The amount that was taken back.", 120)),
            short: z.number().meta(words("The due amount that could not be taken back.", 0)),
            remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
          }),
        )
        .meta(words("The balances.")),
      seq,
    },
  ],
  "credits.revoked": [
    "A balance was revoked.",
    { userId: userIdSchema.meta(words("Your own id of the user.", "user_42")), ...balanceChange, seq },
  ],
  "credits.adjusted": [
    "A balance was adjusted.",
    { userId: userIdSchema.meta(words("Your own id of the user.", "user_42")), ...balanceChange, seq },
  ],
  "credits.low": [
    "The remaining credits fell below an alert's threshold.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      alertId: textSchema.meta(words("The alert's id.", "alr_7hNc4kR9wZ2yTfBq8mLx3D")),
      name: textSchema.meta(words("The name, for people.", "Backend")),
      unit,
      remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
      threshold: z.number().meta(words("The threshold, in the unit.", 80)),
      seq,
    },
  ],
  "credits.depleted": [
    "The user has no credits left in any unit.",
    { userId: userIdSchema.meta(words("Your own id of the user.", "user_42")), seq },
  ],
  "recurring.suspended": [
    "A period of a recurring grant was rejected with the error code `reason`. Resume the recurring grant after you have fixed the cause.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      recurringId: textSchema.meta(words("The recurring grant's id.", "rec_free-user_42")),
      reason: textSchema.meta(words("The code of the error.", "credit_pack_not_found")),
    },
  ],
  "balance.expiring": [
    "A balance expires in `days` days.",
    {
      ...expiry,
      days: z.int().meta(words("How many days before its expiry the message is sent.", 7)),
    },
  ],
  "balance.expired": ["A balance with remaining credits expired.", expiry],
  "usage.recorded": [
    "Usage was recorded: an event, a commit or a charge. Sent only to endpoints that request this type.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      memberId: textSchema.nullable().meta(words("The member who used it. Null for none.", null)),
      eventId: textSchema.meta(words("The usage event's id.", "chat-2026-01-16-0001")),
      debits: z.array(debit).meta(words("The debits, in spending order.")),
      uncovered: quantitiesOutput
        .nullable()
        .meta(words("The quantities that no balance covered. Null when all are covered.")),
      event: textSchema.meta(words("The event's name.", "chat.completed")),
      model: textSchema.nullable().meta(words("The model. Null if the event has none.", "large-1")),
      quantities: quantitiesOutput.meta(words("The usage in each unit.", { count: 1, tokens: 120 })),
      ...metersAndVersion(),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
      properties: z
        .record(z.string(), z.unknown())
        .nullable()
        .meta(words("Null if none were sent, or if they exceed 16 KiB.", { plan: "pro" })),
      seq: seq
        .nullable()
        .meta(
          words("The seq of the user's last ledger entry that the effect wrote. Sort a user's messages by it.", 12),
        ),
    },
  ],
  "usage.limit_reached": [
    "A user has reached or exceeded the amount of a usage limit. Sent once a window.",
    {
      ...{
        userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
        memberId: textSchema.nullable().meta(words("The member whose limit it is. Null: the user's.", null)),
        limitId: textSchema.meta(words("The usage limit's id.", "lim_5qWc1nY8aJ3vRb7kTxE2Mz")),
        name: textSchema.meta(words("The name, for people.", "Backend")),
        unit,
        amount: z.number().meta(words("The amount, in the unit.", 120)),
        used: z.number().meta(words("The used amount in the current window.", 50)),
      },
      resetsAt: textSchema
        .meta({ format: "date-time" })
        .meta(words("When the window ends.", "2026-01-17T00:00:00.000Z")),
      seq,
    },
  ],
  "price.missing": [
    "The price list has no price for an event, so nothing was recorded. Sent once a day for each event and model, at most 100 a day.",
    {
      event: textSchema.meta(words("The event's name.", "chat.completed")),
      model: textSchema.nullable().meta(words("The model. Null if none was sent.", "large-1")),
      meters: z
        .array(textSchema)
        .meta(words("The meters above 0 that have no price. Empty if none was sent.", ["cacheWrite"])),
    },
  ],
  "reservation.expired": [
    "A reservation expired, and its holds returned.",
    {
      userId: userIdSchema.meta(words("Your own id of the user.", "user_42")),
      memberId: textSchema.nullable().meta(words("The member who used it. Null for none.", null)),
      reservationId: textSchema.meta(words("The reservation's id.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      event: textSchema.meta(words("The event's name.", "chat.completed")),
      holds: z
        .array(
          z.strictObject({
            balanceId: textSchema.meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
            packId: textSchema.meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
            unit,
            amount: z.number().meta(words("The amount, in the unit.", 120)),
          }),
        )
        .meta(words("The amounts that it held of each balance.")),
      seq: seq
        .nullable()
        .meta(
          words("The seq of the user's last ledger entry that the effect wrote. Sort a user's messages by it.", 12),
        ),
    },
  ],
  "person.exported": [
    "A link to a person's data was created or opened.",
    {
      distinctId: textSchema.meta(
        words("The id of the person, as your analytics, credits or consents use it.", "user_42"),
      ),
      action: z.enum(["minted", "opened"]).meta(words("What was done.", "minted")),
    },
  ],
  "person.erased": [
    "A person was erased.",
    { erasureId: textSchema.meta(words("The erasure's id.", "era_5tQw8nR2sVj7mXb4cKd1Lp")) },
  ],
  "limits.reached": [
    "A daily limit of the environment's analytics was reached. Sent once a day for each limit.",
    {
      limit: textSchema.meta(words("The limit.", "eventsADay")),
      environment: mode,
    },
  ],
  "payment.unmatched": [
    "A payment granted nothing, and can be settled by hand.",
    {
      paymentKey: textSchema.meta(
        words("The payment's id at Stripe: its payment intent, if it has one.", "pi_3PgafmB7WZ01zgkW1tQm8sLd"),
      ),
      reason: textSchema.meta(words("The reason.", "Duplicate purchase")),
    },
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
