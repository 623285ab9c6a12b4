import * as z from "zod";
import { anyNumber, cursor, freeText, identifier, queryFlag, queryInteger, timestamp } from "../http/fields.ts";
import { balanceId, grantSource, userId } from "../ledger/schemas.ts";

export const grantInput = z
  .strictObject({
    userId,
    packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
    quantity: anyNumber
      .nullish()
      .describe("The amount in the pack's unit, for legacy packs. Ignored for packs with items."),
    externalRef: identifier(500).optional().describe("Idempotency key, such as a payment's id."),
    expiresAt: timestamp.nullish().describe("When the balances expire. Default: as the pack says. Null: never."),
    source: grantSource.default("purchase").describe("Why the credits are granted."),
    notes: freeText().optional().describe("Stored with the balances, for people."),
  })
  .meta({ id: "GrantCredits" });
export type GrantInput = z.infer<typeof grantInput>;

export const revokeInput = z
  .strictObject({
    balanceId,
    reason: freeText().optional().describe("Stored as the ledger entry's `note`."),
  })
  .meta({ id: "RevokeBalance" });
export type RevokeInput = z.infer<typeof revokeInput>;

export const listInput = z.object({
  userId,
  event: identifier().optional().describe("An event name or a glob: only balances that pay for it."),
  includeExpired: queryFlag.default(false).describe("Also expired, depleted and revoked balances."),
});
export type ListInput = z.infer<typeof listInput>;

export const historyInput = z.object({
  userId,
  balanceId: balanceId.optional().describe("Only the entries of this balance."),
  limit: queryInteger(1, 500).default(50).describe("The most entries in a page."),
  cursor,
});
export type HistoryInput = z.infer<typeof historyInput>;

export const adjustInput = z
  .strictObject({
    delta: anyNumber
      .refine((delta) => delta !== 0, "must not be 0")
      .describe("The change in the balance's unit. Negative to deduct; not 0."),
    note: freeText()
      .refine((text) => text !== "", "must not be empty")
      .describe("The reason, stored with the ledger entry."),
    adjustmentId: identifier().optional().describe("Idempotency key. A repeat returns the first result."),
  })
  .meta({ id: "AdjustBalance" });
