import * as z from "zod";
import { anyNumber, freeText, identifier, queryFlag, queryInteger, timestamp } from "../http/fields.ts";
import { UNITS } from "./amount.ts";

export const userId = identifier().describe("The end-user, by your own id.");
export const balanceId = identifier().describe("Identifier of a balance, prefix `crb_`.");
export const unit = z.enum(UNITS);

export const matchRule = z
  .strictObject({ event: identifier().optional(), model: identifier().optional() })
  .refine((rule) => rule.event !== undefined || rule.model !== undefined, "must name an event, a model or both")
  .meta({ id: "MatchRule", minProperties: 1 });

export const grantInput = z.strictObject({
  userId,
  packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
  quantity: anyNumber
    .nullish()
    .describe("Legacy packs only: how much, in the pack's unit. Disregarded for packs with items."),
  externalRef: identifier(500).optional().describe("Idempotency key, such as a payment's id."),
  expiresAt: timestamp.nullish().describe("Omitted: the pack's default. Null: never."),
  source: z.enum(["purchase", "grant", "refund", "manual"]).default("purchase"),
  notes: freeText().optional(),
});
export type GrantInput = z.infer<typeof grantInput>;

export const revokeInput = z.strictObject({
  balanceId,
  reason: freeText().optional().describe("Kept as the ledger row's `note`."),
});
export type RevokeInput = z.infer<typeof revokeInput>;

export const listInput = z.object({
  userId,
  event: identifier().optional().describe("A concrete event name, or a glob."),
  includeExpired: queryFlag.default(false),
});
export type ListInput = z.infer<typeof listInput>;

export const historyInput = z.object({
  userId,
  balanceId: balanceId.optional(),
  limit: queryInteger(1, 500).default(50),
  cursor: z.string().min(1, "must not be empty").optional(),
});
export type HistoryInput = z.infer<typeof historyInput>;

const time = z.string().meta({ format: "date-time" });

const issuedBalance = z.strictObject({
  balanceId: z.string(),
  packItemId: z.string().nullable(),
  remaining: z.number(),
  expiresAt: time.nullable(),
});

export const grantOutput = z.strictObject({
  balances: z.array(issuedBalance).min(1),
  balanceId: z.string(),
  remaining: z.number(),
  expiresAt: time.nullable(),
});
export type GrantOutput = z.infer<typeof grantOutput>;

export const revokeOutput = z.strictObject({ balanceId: z.string(), remaining: z.literal(0) });
export type RevokeOutput = z.infer<typeof revokeOutput>;

export const balance = z
  .strictObject({
    balanceId: z.string(),
    packId: z.string(),
    packName: z.string(),
    packItemId: z.string().nullable(),
    kind: z.enum(["per_type", "generic"]),
    unit,
    remaining: z.number(),
    initial: z.number(),
    grantedAt: time,
    expiresAt: time.nullable(),
    status: z.enum(["active", "expired", "depleted", "revoked"]),
    matches: z.array(matchRule),
    priority: z.number(),
  })
  .meta({ id: "CreditBalance" });

export const listOutput = z.strictObject({ credits: z.array(balance) });
export type ListOutput = z.infer<typeof listOutput>;

export const ledgerReason = z.enum([
  "event_committed",
  "reservation_held",
  "reservation_released",
  "reservation_expired",
  "grant",
  "admin_adjust",
]);

export const ledgerEntry = z
  .strictObject({
    id: z.string(),
    balanceId: z.string(),
    packId: z.string(),
    delta: z.number(),
    unit,
    reason: ledgerReason,
    eventId: z.string().nullable(),
    reservationId: z.string().nullable(),
    occurredAt: time,
    note: z.string().nullable(),
  })
  .meta({ id: "LedgerEntry" });

export const historyOutput = z.strictObject({
  entries: z.array(ledgerEntry),
  nextCursor: z.string().nullable(),
});
export type HistoryOutput = z.infer<typeof historyOutput>;

export const adjustInput = z.strictObject({
  delta: anyNumber.describe("In the balance's unit; negative takes away. Not 0."),
  note: freeText()
    .refine((text) => text !== "", "must not be empty")
    .describe("Why: kept on the ledger row."),
});

export const adjustOutput = z.strictObject({ balanceId: z.string(), remaining: z.number() });
export type AdjustOutput = z.infer<typeof adjustOutput>;
