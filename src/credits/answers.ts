import * as z from "zod";
import { ledgerReason, matchRule, unit } from "./schemas.ts";

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

/** A balance's part of a payment. `remaining` is what it was left with. */
export const payment = z
  .strictObject({
    balanceId: z.string(),
    packId: z.string(),
    unit,
    amount: z.number(),
    remaining: z.number(),
  })
  .meta({ id: "Payment" });
export type PresentedPayment = z.infer<typeof payment>;

/** Quantities as they go out: the units that are carried. */
export const quantitiesOutput = z
  .strictObject({
    count: z.number().optional(),
    tokens: z.number().optional(),
    seconds: z.number().optional(),
    cents: z.number().optional(),
  })
  .meta({ id: "Quantities" });

export const skipReason = z.enum(["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]);

export const planOutput = z.strictObject({
  debits: z.array(payment),
  uncovered: quantitiesOutput.nullable(),
  skipped: z.array(z.strictObject({ balanceId: z.string(), reason: skipReason })),
});
export type PlanOutput = z.infer<typeof planOutput>;

export const historyOutput = z.strictObject({
  entries: z.array(ledgerEntry),
  nextCursor: z.string().nullable(),
});
export type HistoryOutput = z.infer<typeof historyOutput>;

export const adjustOutput = z.strictObject({ balanceId: z.string(), remaining: z.number() });
export type AdjustOutput = z.infer<typeof adjustOutput>;
