import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { creditLedger } from "../../db/schema.ts";
import { identifier } from "../../http/fields.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { once } from "../../lib/once.ts";

export const nextExpiresAt = "2027-01-15T12:00:00.000Z";

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
        id: z.string().meta({ description: "The entry's id.", example: "led_5cQx2vN8bT0rKf7yLwZ3Hd_9" }),
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

export const balanceIdInput = z.lazy(() => identifier()).describe("The id of a balance, `crb_…`.");

export const ledgerReason = z.lazy(() =>
  z
    .enum([
      "event_committed",
      "reservation_held",
      "reservation_released",
      "reservation_expired",
      "grant",
      "admin_adjust",
    ])
    .meta({ id: "LedgerReason" }),
);

/** Why credits are granted. */
export const grantSource = z.lazy(() => z.enum(["purchase", "grant", "refund", "manual"]).meta({ id: "GrantSource" }));

/** The prefix of references that belong to Stripe's payments. Callers may not use it (C21). */
const PAYMENT_REF = "stripe:";

export const externalRef = z.lazy(() =>
  identifier(500).refine(
    (text) => !text.startsWith(PAYMENT_REF),
    `must not begin with \`${PAYMENT_REF}\`: these references belong to Stripe's payments`,
  ),
);
