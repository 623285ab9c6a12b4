import * as z from "zod";
import { anyNumber, freeText, identifier, queryFlag, queryInteger, timestamp } from "../http/fields.ts";
import { balanceId, userId } from "../ledger/schemas.ts";

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

export const adjustInput = z.strictObject({
  delta: anyNumber
    .refine((delta) => delta !== 0, "must not be 0")
    .describe("In the balance's unit; negative takes away. Not 0."),
  note: freeText()
    .refine((text) => text !== "", "must not be empty")
    .describe("Why: kept on the ledger row."),
  adjustmentId: identifier().optional().describe("Idempotency key: the same again answers the same."),
});
