import * as z from "zod";
import { revokeBalance } from "../../books/credits/revoke.ts";
import { freeText } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { BALANCE, TEXT, USER_ID } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { balanceIdInput } from "./credit-shapes.ts";

export const revokeInput = lazy(() =>
  z
    .strictObject({
      balanceId: balanceIdInput,
      reason: freeText().optional().meta(words("Stored as the ledger entry's `note`.", "Payment refunded")),
    })
    .meta({
      id: "RevokeBalance",
      wrongNames: {
        balanceId: BALANCE,
        reason: TEXT,
        "!this operation revokes a whole balance: `POST /api/v1/credits/refund` refunds a share of a payment":
          "amount quantity share",
        "!name the balance: `GET /api/v1/credits` lists the balances of a user": USER_ID,
      },
    }),
);

const { balanceId } = EXAMPLE;

export default operation({
  id: "revokeBalance",
  method: "post",
  path: "/api/v1/credits/revoke",
  tag: "Credits",
  access: secretKey(),
  body: revokeInput,
  errors: ["credit_balance_not_found"],
  writesForId: "rejected",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
          remaining: z.literal(0).meta(words("The remaining amount, in the balance's unit.")),
        })
        .meta({ id: "RevokeResult" }),
    summary: "Revoke a balance",
    description:
      "Sets a balance's remaining amount to 0. Credits already spent stay spent. The ledger records the reason. Revoking it " +
      "again returns 200 and changes nothing.",
    returns: "The revoked balance.",
    example: () => ({ body: { balanceId, reason: "Payment refunded" }, output: { balanceId, remaining: 0 } }),
  }),
  handler: (ctx, { body }) => revokeBalance(ctx, body),
});
