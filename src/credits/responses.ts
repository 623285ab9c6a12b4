import * as z from "zod";
import { balance, ledgerEntry } from "../ledger/responses.ts";

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

export const listOutput = z.strictObject({ credits: z.array(balance) });
export type ListOutput = z.infer<typeof listOutput>;

export const historyOutput = z.strictObject({
  entries: z.array(ledgerEntry),
  nextCursor: z.string().nullable(),
});
export type HistoryOutput = z.infer<typeof historyOutput>;

export const adjustOutput = z.strictObject({ balanceId: z.string(), remaining: z.number() });
export type AdjustOutput = z.infer<typeof adjustOutput>;
