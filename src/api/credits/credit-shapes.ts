import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { creditLedger } from "../../db/schema.ts";
import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";

export const nextExpiresAt = "2027-01-15T12:00:00.000Z";

export const balance = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      packName: z.string().meta(words("The pack's name.", "Starter")),
      packItemId: z
        .string()
        .nullable()
        .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
      kind: z
        .enum(["per_type", "generic"])
        .meta({ id: "BalanceKind" })
        .meta(words("Whether it pays for some events (`per_type`) or for all (`generic`).", "per_type")),
      unit,
      remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 280)),
      initial: z.number().meta(words("The amount at the grant, in the balance's unit.", 400)),
      grantedAt: time.meta(words("When it was granted.", "2026-01-15T12:00:00.000Z")),
      expiresAt: time.nullable().meta(words("When it expires. Null: never.", "2027-01-15T12:00:00.000Z")),
      status: z
        .enum(["active", "expired", "depleted", "revoked"])
        .meta({ id: "BalanceStatus" })
        .meta(words("The status.", "active")),
      matches: z.array(matchRule).meta(words("The events that it pays for or counts. Empty: all events.")),
      priority: z.number().meta(words("Lower values are spent first.", 100)),
    })
    .meta({ id: "CreditBalance" }),
);

export const ledgerEntry = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      id: z.string().meta(words("The entry's id.", "led_5cQx2vN8bT0rKf7yLwZ3Hd_9")),
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      delta: z.number().meta(words("The change, in the balance's unit. Negative for a deduction.", -120)),
      unit,
      reason: ledgerReason.meta(words("The reason.", "event_committed")),
      cause: z
        .enum(creditLedger.cause.enumValues)
        .meta({ id: "LedgerCause" })
        .meta(words("Why it was written, when `reason` is `admin_adjust`.", "usage")),
      eventId: z.string().nullable().meta(words("The usage event's id.", "chat-2026-01-16-0001")),
      reservationId: z.string().nullable().meta(words("The reservation's id.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
      note: z.string().nullable().meta(words("The reason that the caller gave. Null without one.", "Goodwill")),
      by: z
        .string()
        .meta(
          words(
            "The caller that wrote it: `key_…`, `admin` or `stripe`. `cron` if no call wrote it.",
            "key_4mLr9sGz1bFq0XnTdH7uYp",
          ),
        ),
    })
    .meta({ id: "LedgerEntry" }),
);

const issuedBalance = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packItemId: z
        .string()
        .nullable()
        .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
      remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 400)),
      expiresAt: time.nullable().meta(words("When it expires. Null: never.", "2027-01-15T12:00:00.000Z")),
    })
    .meta({ id: "IssuedBalance" }),
);

export const grantOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balances: z.array(issuedBalance).min(1).meta(words("The balances.")),
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 400)),
      expiresAt: time.nullable().meta(words("When it expires. Null: never.", "2027-01-15T12:00:00.000Z")),
    })
    .meta({ id: "GrantResult" }),
);

const flaw = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balanceId: z.string().nullable().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      kind: z
        .enum(["sum", "gap", "chain", "below_zero", "limit", "owed"])
        .meta(
          words(
            "`sum`: the remaining amount is not the sum of the deltas. `gap`: an entry is missing. `chain`: an entry does not continue " +
              "the previous one. `below_zero`: a running sum is below 0. `limit`: the used amount of a usage limit is not the sum of the " +
              "amounts that count in its window. `owed`: a balance owes one refund more than open holds can return.",
            "sum",
          ),
        ),
      limitId: z
        .string()
        .optional()
        .meta(words("The usage limit. Present only for `limit`.", "lim_5qWc1nY8aJ3vRb7kTxE2Mz")),
      memberId: z
        .string()
        .nullable()
        .optional()
        .meta(words("The member whose counter it is. Null: the user's. Present only for `limit`.", "user_7")),
    })
    .meta({ id: "LedgerFlaw" }),
);

export const verifyOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      userId: z.string().meta(words("Your own id of the user.", "user_42")),
      balances: z.int().meta(words("How many balances were issued in this page.", 3)),
      entries: z.int().meta(words("How many ledger entries this page has.", 41)),
      isSound: z.boolean().meta(words("Whether this page has no flaws.", true)),
      flaws: z.array(flaw).meta(words("The flaws that were found.")),
      nextCursor,
    })
    .meta({ id: "LedgerVerification" }),
);

export const balanceIdInput = lazy(() =>
  identifier().meta(words("The id of a balance, `crb_…`.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
);

export const ledgerReason = /* @__PURE__ */ lazy(() =>
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
export const grantSource = lazy(() => z.enum(["purchase", "grant", "refund", "manual"]).meta({ id: "GrantSource" }));

/** The prefix of references that belong to Stripe's payments. Callers may not use it (C21). */
const PAYMENT_REF = "stripe:";

export const externalRef = lazy(() =>
  identifier(500).refine(
    (text) => !text.startsWith(PAYMENT_REF),
    `must not begin with \`${PAYMENT_REF}\`: these references belong to Stripe's payments`,
  ),
);
