import * as z from "zod/mini";
import { about, described } from "#described";
import { anyNumber, cursor, freeText, identifier, mode, pageLimit, queryFlag, timestamp } from "../http/fields.ts";
import { balanceId, grantSource, userId } from "../ledger/schemas.ts";

/** References that begin so are those of Stripe's payments, which no caller gives (C21). */
const PAYMENT_REF = "stripe:";
const externalRef = identifier(500).check(
  z.refine(
    (text) => !text.startsWith(PAYMENT_REF),
    `must not begin with \`${PAYMENT_REF}\`: these references belong to Stripe's payments`,
  ),
);

export const grantInput = described(
  z.strictObject({
    userId,
    packId: described(identifier(), about("The pack's id (`cpk_…`), or its name in any case.")),
    quantity: described(
      z.nullish(anyNumber),
      about("The amount in the pack's unit, for legacy packs. Ignored for packs with items."),
    ),
    externalRef: described(
      z.optional(externalRef),
      about("Idempotency key for this user and pack, such as a payment's id. It does not begin with `stripe:`."),
    ),
    expiresAt: described(
      z.nullish(timestamp),
      about("When the balances expire. Default: as the pack says. Null: never."),
    ),
    source: described(z._default(grantSource, "purchase"), about("Why the credits are granted.")),
    notes: described(z.optional(freeText()), about("Stored with the balances, for people.")),
  }),
  about({ id: "GrantCredits" }),
);
export type GrantInput = z.infer<typeof grantInput>;

export const revokeInput = described(
  z.strictObject({
    balanceId,
    reason: described(z.optional(freeText()), about("Stored as the ledger entry's `note`.")),
  }),
  about({ id: "RevokeBalance" }),
);
export type RevokeInput = z.infer<typeof revokeInput>;

const PARTS_MAX = 1_000_000_000_000;
const parts = described(
  anyNumber.check(
    z.refine(
      (value) => Number.isInteger(value) && value >= 1 && value <= PARTS_MAX,
      "must be a whole number from 1 to 1,000,000,000,000",
    ),
  ),
  about({ type: "integer", minimum: 1, maximum: PARTS_MAX }),
);

const share = z.strictObject({
  part: described(parts, about("The part that is refunded, such as 500 of the 1,500 cents of a payment.")),
  of: described(parts, about("What was paid in all.")),
});
const shareAtMostOne = described(
  share.check(z.refine(({ part, of }) => part <= of, "must not be above 1: `part` is at most `of`")),
  about({ id: "RefundShare" }),
);

export const refundInput = described(
  z.strictObject({
    userId,
    externalRef: described(externalRef, about("The `externalRef` of the grant, or of the grants of several packs.")),
    refundRef: described(identifier(500), about("Idempotency key under the reference, such as the refund's id.")),
    packId: described(
      z.optional(identifier()),
      about("Only the balances of this pack: its id, or the name under which they were issued."),
    ),
    share: described(
      z.optional(shareAtMostOne),
      about("The share that is taken back. Default: all that is left of 1."),
    ),
    reason: described(z.optional(freeText()), about("Stored as the ledger entries' `note`.")),
  }),
  about({ id: "RefundCredits" }),
);
export type RefundInput = z.infer<typeof refundInput>;

export const listInput = z.object({
  userId,
  event: described(z.optional(identifier()), about("An event name or a glob: only balances that pay for it.")),
  includeExpired: described(
    z._default(queryFlag, false),
    about(
      "Also expired, depleted and revoked balances. Disregarded with `externalRef` and `asOf`, which list them all.",
    ),
  ),
  externalRef: described(
    z.optional(identifier(500)),
    about(
      "Only what was granted under this reference, whether or not it can pay. It belongs to the user and the pack.",
    ),
  ),
  asOf: described(
    z.optional(timestamp),
    about("The balances as they were at this moment, which is not in the future."),
  ),
});
export type ListInput = z.infer<typeof listInput>;

export const historyInput = z.object({
  userId,
  balanceId: described(z.optional(balanceId), about("Only the entries of this balance.")),
  limit: pageLimit("entries"),
  cursor,
});
export type HistoryInput = z.infer<typeof historyInput>;

export const usersInput = z.object({
  limit: pageLimit("users"),
  cursor,
});
export type UsersInput = z.infer<typeof usersInput>;

export const verifyInput = z.object({ userId, cursor });
export type VerifyInput = z.infer<typeof verifyInput>;

export const verifyUsersInput = described(z.strictObject({ mode, cursor }), about({ id: "VerifyUsers" }));

export const adjustInput = described(
  z.strictObject({
    delta: described(
      anyNumber.check(z.refine((delta) => delta !== 0, "must not be 0")),
      about("The change in the balance's unit. Negative to deduct; not 0."),
    ),
    note: described(
      freeText().check(z.refine((text) => text !== "", "must not be empty")),
      about("The reason, stored with the ledger entry."),
    ),
    adjustmentId: described(z.optional(identifier()), about("Idempotency key. A repeat returns the first result.")),
  }),
  about({ id: "AdjustBalance" }),
);
