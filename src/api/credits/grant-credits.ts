import { grantPack } from "../../books/credits/grant.ts";
import { grantOutput } from "../../books/credits/responses.ts";
import { grantInput } from "../../books/credits/schemas.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

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
  output: () => grantOutput,
  errors: ["invalid_quantity", "credit_pack_not_found", "test_quota_exceeded"],
  replayable: true,
  warns: true,
  writesForId: "refused",
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
  handler: (ctx, { body }) => grantPack(ctx, body),
});
