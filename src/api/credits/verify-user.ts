import * as z from "zod";
import { verifyUser } from "../../books/credits/verify.ts";
import { cursor, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { verifyOutput } from "./credit-shapes.ts";

export const verifyInput = lazy(() => z.object({ userId, cursor }));

export default operation({
  id: "verifyUser",
  method: "get",
  path: "/api/v1/credits/verify",
  tag: "Credits",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: verifyInput,
  ...(WITH_REFERENCE && {
    output: () => verifyOutput,
    summary: "Verify a user's balances",
    description:
      "Recomputes the user's balances from the ledger, in pages of at most 10,000 entries, and returns all flaws.",
    returns: "A page of the verification. The ledger is sound if every page is.",
    example: () => ({
      output: { userId: "user_42", balances: 3, entries: 41, isSound: true, flaws: [], nextCursor: null },
    }),
  }),
  handler: (ctx, { query }) => verifyUser(ctx, query),
});
