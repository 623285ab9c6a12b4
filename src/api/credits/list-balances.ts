import * as z from "zod";
import { listBalances } from "../../books/credits/list.ts";
import { identifier, queryFlag, timestamp, userId } from "../../http/fields.ts";
import { secretKeyOrUser } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { balance, nextExpiresAt } from "./credit-shapes.ts";

const listOutput = z.lazy(() => z.strictObject({ credits: z.array(balance) }).meta({ id: "CreditBalanceList" }));

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
  access: secretKeyOrUser(["externalRef", "asOf"]),
  query: listInput,
  output: () => listOutput,
  errors: ["requires_secret_key"],
  summary: "List a user's balances",
  description:
    "Returns the active balances in spending order, or with `includeExpired` all balances. `externalRef` returns " +
    "the balances granted under a reference, and `asOf` the balances at a moment; both need a secret key. A " +
    "browser may call it with a publishable key and the user's token in `X-User-Token`, for that user only.",
  returns: "The balances, in spending order. Empty for an unknown user.",
  example: () => ({ output: { credits: [exampleBalance] } }),
  handler: (ctx, { query }) => listBalances(ctx, query),
});
