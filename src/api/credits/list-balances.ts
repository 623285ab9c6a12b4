import * as z from "zod";
import { listBalances } from "../../books/credits/list.ts";
import { identifier, queryFlag, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKeyOrUser } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { balance, nextExpiresAt } from "./credit-shapes.ts";

const listOutput = /* @__PURE__ */ lazy(() =>
  z.strictObject({ credits: z.array(balance).meta(words("The balances.")) }).meta({ id: "CreditBalanceList" }),
);

export const listInput = lazy(() =>
  z.object({
    userId,
    event: identifier()
      .optional()
      .meta(words("An event name or a glob: only balances that pay for it.", "chat.completed")),
    includeExpired: queryFlag
      .default(false)
      .meta(
        words(
          "Also expired, depleted and revoked balances. Ignored with `externalRef` and `asOf`, which list balances of any status.",
          false,
        ),
      ),
    externalRef: identifier(500)
      .optional()
      .meta(
        words(
          "Only balances granted under this reference, of any status. A reference belongs to a user and a pack.",
          "order-1001",
        ),
      ),
    asOf: timestamp
      .optional()
      .meta(
        words("The balances as they were at this moment, which must not be in the future.", "2026-01-15T12:00:00.000Z"),
      ),
  }),
);

const { balanceId, packId } = EXAMPLE;

const exampleBalance = {
  balanceId,
  packId,
  packName: "Starter",
  packItemId: EXAMPLE.packItemId,
  kind: "per_type",
  unit: "tokens",
  remaining: 280,
  initial: 400,
  grantedAt: EXAMPLE.createdAt,
  expiresAt: nextExpiresAt,
  status: "active",
  matches: [{ event: "chat.*" }],
  priority: 100,
};

export default operation({
  id: "listBalances",
  method: "get",
  path: "/api/v1/credits",
  tag: "Credits",
  access: secretKeyOrUser(["externalRef", "asOf"], { isForMembers: true }),
  query: listInput,
  errors: ["requires_secret_key"],
  ...(WITH_REFERENCE && {
    output: () => listOutput,
    summary: "List a user's balances",
    description:
      "Returns the active balances in spending order, or with `includeExpired` all balances. `externalRef` returns " +
      "the balances granted under a reference, and `asOf` the balances at a moment; both need a secret key. A " +
      "browser may call it with a publishable key and the user's token in `X-User-Token`, for that user, and for the " +
      "payers that the token names by the setting's `payerClaim`.",
    returns: "The balances, in spending order. Empty for an unknown user.",
    example: () => ({ output: { credits: [exampleBalance] } }),
  }),
  handler: (ctx, { query }) => listBalances(ctx, query),
});
