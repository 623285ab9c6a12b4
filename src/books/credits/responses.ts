import * as z from "zod";
import { creditLedger } from "../../db/schema.ts";
import { time } from "../../http/responses.ts";
import { once } from "../../lib/once.ts";
import { summedQuantities } from "../amounts/responses.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { ledgerReason } from "./schemas.ts";

export const balance = z.lazy(
  once(() =>
    z
      .strictObject({
        balanceId: z.string(),
        packId: z.string(),
        packName: z.string(),
        packItemId: z.string().nullable(),
        kind: z.enum(["per_type", "generic"]).meta({ id: "BalanceKind" }),
        unit,
        remaining: z.number(),
        initial: z.number(),
        grantedAt: time,
        expiresAt: time.nullable(),
        status: z.enum(["active", "expired", "depleted", "revoked"]).meta({ id: "BalanceStatus" }),
        matches: z.array(matchRule),
        priority: z.number(),
      })
      .meta({ id: "CreditBalance" }),
  ),
);

export const ledgerEntry = z.lazy(
  once(() =>
    z
      .strictObject({
        id: z.string(),
        balanceId: z.string(),
        packId: z.string(),
        delta: z.number(),
        unit,
        reason: ledgerReason,
        cause: z
          .enum(creditLedger.cause.enumValues)
          .meta({ id: "LedgerCause" })
          .describe("Why it was written, when `reason` is `admin_adjust`."),
        eventId: z.string().nullable(),
        reservationId: z.string().nullable(),
        occurredAt: time,
        note: z.string().nullable(),
        by: z.string().describe("The caller that wrote it: `key_…`, `admin` or `stripe`. `cron` if no call wrote it."),
      })
      .meta({ id: "LedgerEntry" }),
  ),
);

const issuedBalance = z.lazy(() =>
  z
    .strictObject({
      balanceId: z.string(),
      packItemId: z.string().nullable(),
      remaining: z.number(),
      expiresAt: time.nullable(),
    })
    .meta({ id: "IssuedBalance" }),
);

export const grantOutput = z.lazy(() =>
  z
    .strictObject({
      balances: z.array(issuedBalance).min(1),
      balanceId: z.string(),
      remaining: z.number(),
      expiresAt: time.nullable(),
    })
    .meta({ id: "GrantResult" }),
);
export type GrantOutput = z.infer<typeof grantOutput>;

const refundedBalance = z.lazy(() =>
  z
    .strictObject({
      balanceId: z.string(),
      packItemId: z.string().nullable(),
      unit,
      taken: z.number().describe("The amount that the refund took."),
      short: z
        .number()
        .describe(
          "The due amount that could not be taken, because it was spent, held or revoked. Later refunds do not take it.",
        ),
      remaining: z.number().describe("The balance after the refund."),
    })
    .meta({ id: "RefundedBalance" }),
);

export const refundOutput = z.lazy(() =>
  z
    .strictObject({ refundRef: z.string(), externalRef: z.string(), balances: z.array(refundedBalance).min(1) })
    .meta({ id: "RefundResult" }),
);
export type RefundOutput = z.infer<typeof refundOutput>;

export const listOutput = z.lazy(() => z.strictObject({ credits: z.array(balance) }).meta({ id: "CreditBalanceList" }));
export type ListOutput = z.infer<typeof listOutput>;

export const historyOutput = z.lazy(() =>
  z
    .strictObject({
      entries: z.array(ledgerEntry),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "LedgerPage" }),
);
export type HistoryOutput = z.infer<typeof historyOutput>;

export const nextCursor = z.string().nullable().describe("The cursor of the next page. Null on the last page.");

const creditUser = z.lazy(() =>
  z
    .strictObject({
      userId: z.string(),
      balances: z.int().describe("The number of spendable balances."),
      remaining: summedQuantities.describe("The remaining amounts of these balances, by unit."),
      nextExpiresAt: time.nullable().describe("When the first of them expires. Null: never."),
    })
    .meta({ id: "CreditUser" }),
);

export const usersOutput = z.lazy(() =>
  z.strictObject({ users: z.array(creditUser), nextCursor }).meta({ id: "CreditUserList" }),
);
export type UsersOutput = z.infer<typeof usersOutput>;

const flaw = z.lazy(() =>
  z
    .strictObject({
      balanceId: z.string().nullable(),
      kind: z
        .enum(["sum", "gap", "chain", "below_zero", "limit", "owed"])
        .describe(
          "`sum`: the remaining amount is not the sum of the deltas. `gap`: an entry is missing. `chain`: an entry does not continue " +
            "the previous one. `below_zero`: a running sum is below 0. `limit`: the used amount of a usage limit is not the sum of the " +
            "amounts that count in its window. `owed`: a balance owes one refund more than open holds can return.",
        ),
      limitId: z.string().optional().describe("The usage limit. Present only for `limit`."),
    })
    .meta({ id: "LedgerFlaw" }),
);

export const verifyOutput = z.lazy(() =>
  z
    .strictObject({
      userId: z.string(),
      balances: z.int().describe("How many balances were issued in this page."),
      entries: z.int().describe("How many ledger entries this page has."),
      isSound: z.boolean().describe("Whether this page has no flaws."),
      flaws: z.array(flaw),
      nextCursor,
    })
    .meta({ id: "LedgerVerification" }),
);
export type VerifyOutput = z.infer<typeof verifyOutput>;
