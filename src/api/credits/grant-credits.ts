import * as z from "zod";
import { grantPack } from "../../books/credits/grant.ts";
import { RECURRING_REF } from "../../books/ledger/plan-periods.ts";
import { anyNumber, freeText, identifier, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { EXPIRY_NAMES, KEY, PACK, REFERENCE, TEXT, USER_NAMES } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { externalRef, grantOutput, grantSource } from "./credit-shapes.ts";

export const grantInput = lazy(() =>
  z
    .strictObject({
      userId,
      packId: identifier().meta(words("The pack's id (`cpk_…`), or its name in any case.", "starter")),
      quantity: anyNumber
        .nullish()
        .meta(words("The amount in the pack's unit, for legacy packs. Ignored for packs with items.", 1_000)),
      externalRef: externalRef
        .refine(
          (text) => !text.startsWith(RECURRING_REF),
          `must not begin with \`${RECURRING_REF}\`: these references belong to recurring grants`,
        )
        .optional()
        .meta(
          words(
            "Idempotency key for this user and pack, such as a payment's id. It begins with neither `stripe:` nor `recurring:`.",
            "cs_test_a1b2c3",
          ),
        ),
      expiresAt: timestamp
        .nullish()
        .meta(
          words(
            "When the balances expire, in the future. Default: as the pack says. Null: never.",
            "2027-01-15T12:00:00.000Z",
          ),
        ),
      source: grantSource.default("purchase").meta(words("Why the credits are granted.", "purchase")),
      notes: freeText().optional().meta(words("Stored with the balances, for people.", "January campaign")),
    })
    .meta({
      id: "GrantCredits",
      wrongNames: {
        userId: USER_NAMES,
        packId: PACK,
        quantity: "amount value qty credits units tokens count seconds cents",
        "!the pack has its unit": "unit",
        externalRef: `${REFERENCE} ${KEY}`,
        expiresAt: EXPIRY_NAMES,
        notes: TEXT,
      },
    }),
);

const { packItemId, balanceId } = EXAMPLE;

const grantExpiresAt = "2027-01-15T12:00:00.000Z";

const issued = { balanceId, packItemId, remaining: 400, expiresAt: grantExpiresAt };

export default operation({
  id: "grantCredits",
  method: "post",
  path: "/api/v1/credits/grant",
  tag: "Credits",
  access: secretKey(),
  body: grantInput,
  errors: ["invalid_quantity", "credit_pack_not_found", "test_quota_exceeded"],
  replayable: true,
  warns: true,
  writesForId: "rejected",
  idempotent: { field: "externalRef" },
  ...(WITH_REFERENCE && {
    output: () => grantOutput,
    summary: "Grant a pack to a user",
    description:
      "Issues one balance for each item of the pack. For a legacy pack, which has no items, issues one balance of " +
      "`quantity`. Either all balances are issued or none. With an `externalRef`, such as a payment's id, the pack " +
      "is granted once: a repeat returns the existing balances, with `idempotent-replayed: true`.",
    returns: "The issued balances. The other fields are those of the first balance.",
    example: () => ({
      body: { userId: "user_42", packId: "starter", externalRef: "cs_test_a1b2c3", notes: "January campaign" },
      output: { balances: [issued], balanceId, remaining: 400, expiresAt: grantExpiresAt },
    }),
  }),
  handler: (ctx, { body }) => grantPack(ctx, body),
});
