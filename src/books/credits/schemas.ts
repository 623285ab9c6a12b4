import * as z from "zod";
import { anyNumber, cursor, freeText, identifier, pageLimit, queryFlag, timestamp, userId } from "../../http/fields.ts";
import { RECURRING_REF } from "../ledger/plan-periods.ts";

const balanceId = z.lazy(() => identifier()).describe("The id of a balance, `crb_…`.");

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
const externalRef = z.lazy(() =>
  identifier(500).refine(
    (text) => !text.startsWith(PAYMENT_REF),
    `must not begin with \`${PAYMENT_REF}\`: these references belong to Stripe's payments`,
  ),
);

export const grantInput = z.lazy(() =>
  z
    .strictObject({
      userId,
      packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
      quantity: anyNumber
        .nullish()
        .describe("The amount in the pack's unit, for legacy packs. Ignored for packs with items."),
      externalRef: externalRef
        .refine(
          (text) => !text.startsWith(RECURRING_REF),
          `must not begin with \`${RECURRING_REF}\`: these references belong to recurring grants`,
        )
        .optional()
        .describe(
          "Idempotency key for this user and pack, such as a payment's id. It begins with neither `stripe:` nor `recurring:`.",
        ),
      expiresAt: timestamp.nullish().describe("When the balances expire. Default: as the pack says. Null: never."),
      source: grantSource.default("purchase").describe("Why the credits are granted."),
      notes: freeText().optional().describe("Stored with the balances, for people."),
    })
    .meta({ id: "GrantCredits" }),
);
export type GrantInput = z.infer<typeof grantInput>;

export const revokeInput = z.lazy(() =>
  z
    .strictObject({
      balanceId,
      reason: freeText().optional().describe("Stored as the ledger entry's `note`."),
    })
    .meta({ id: "RevokeBalance" }),
);
export type RevokeInput = z.infer<typeof revokeInput>;

const PARTS_MAX = 1_000_000_000_000;
const parts = z.lazy(() =>
  anyNumber
    .refine(
      (value) => Number.isInteger(value) && value >= 1 && value <= PARTS_MAX,
      "must be a whole number from 1 to 1,000,000,000,000",
    )
    .meta({ type: "integer", minimum: 1, maximum: PARTS_MAX }),
);

const share = z.lazy(() =>
  z.strictObject(
    {
      part: parts.describe("The part that is refunded, such as 500 of the 1,500 cents of a payment."),
      of: parts.describe("The whole payment, in the same unit as `part`."),
    },
    {
      error: ({ input }) =>
        typeof input === "number" ? "must be an object, such as `{ part: 500, of: 1500 }` for 500 of 1,500" : undefined,
    },
  ),
);
export const shareAtMostOne = z.lazy(() =>
  share.refine(({ part, of }) => part <= of, "must not be above 1: `part` is at most `of`").meta({ id: "RefundShare" }),
);

export const refundInput = z.lazy(() =>
  z
    .strictObject({
      userId,
      externalRef: externalRef.describe("The `externalRef` of the grant, or of the grants of several packs."),
      refundRef: identifier(500).describe("Idempotency key under the reference, such as the refund's id."),
      packId: identifier()
        .optional()
        .describe("Only the balances of this pack: its id, or the name under which they were issued."),
      share: shareAtMostOne
        .optional()
        .describe("The share to take back. Default: everything that earlier refunds left."),
      reason: freeText().optional().describe("Stored as the ledger entries' `note`."),
    })
    .meta({ id: "RefundCredits" }),
);
export type RefundInput = z.infer<typeof refundInput>;

export const listInput = z.lazy(() =>
  z.object({
    userId,
    event: identifier().optional().describe("An event name or a glob: only balances that pay for it."),
    includeExpired: queryFlag
      .default(false)
      .describe(
        "Also expired, depleted and revoked balances. Ignored with `externalRef` and `asOf`, which list balances of any status.",
      ),
    externalRef: identifier(500)
      .optional()
      .describe("Only balances granted under this reference, of any status. A reference belongs to a user and a pack."),
    asOf: timestamp.optional().describe("The balances as they were at this moment, which must not be in the future."),
  }),
);
export type ListInput = z.infer<typeof listInput>;

export const historyInput = z.lazy(() =>
  z.object({
    userId,
    balanceId: balanceId.optional().describe("Only the entries of this balance."),
    limit: pageLimit("entries"),
    cursor,
  }),
);
export type HistoryInput = z.infer<typeof historyInput>;

export const verifyInput = z.lazy(() => z.object({ userId, cursor }));
export type VerifyInput = z.infer<typeof verifyInput>;

export const adjustInput = z.lazy(() =>
  z
    .strictObject({
      delta: anyNumber
        .refine((delta) => delta !== 0, "must not be 0")
        .describe("The change in the balance's unit. Negative to deduct; not 0."),
      note: freeText()
        .refine((text) => text !== "", "must not be empty")
        .describe("The reason, stored with the ledger entry."),
      adjustmentId: identifier().optional().describe("Idempotency key. A repeat returns the first result."),
    })
    .meta({ id: "AdjustBalance" }),
);
