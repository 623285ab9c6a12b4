import * as z from "zod";
import { summedQuantities } from "../../books/amounts/amount-fields.ts";
import { listUsers } from "../../books/credits/users.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { nextExpiresAt } from "./credit-shapes.ts";

const creditUser = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      userId: z.string().meta(words("Your own id of the user.", "user_42")),
      balances: z.int().meta(words("The number of spendable balances.", 2)),
      remaining: summedQuantities.meta(words("The remaining amounts of these balances, by unit.")),
      nextExpiresAt: time
        .nullable()
        .meta(words("When the first of them expires. Null: never.", "2027-01-15T12:00:00.000Z")),
    })
    .meta({ id: "CreditUser" }),
);

const usersOutput = /* @__PURE__ */ lazy(() =>
  z.strictObject({ users: z.array(creditUser).meta(words("The users.")), nextCursor }).meta({ id: "CreditUserList" }),
);

export default operation({
  id: "listCreditUsers",
  method: "get",
  path: "/api/v1/credits/users",
  tag: "Credits",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: lazy(() =>
    z.object({
      limit: pageLimit("users").meta(words("The most users in a page.", 50)),
      cursor,
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () => usersOutput,
    summary: "List the users who have credits",
    description:
      "Returns the users with active balances, by user id in the order of code points. A page may have fewer users " +
      "than `limit`, even none, while `nextCursor` is not null.",
    returns: "A page of users.",
    example: () => ({
      output: {
        users: [{ userId: "user_42", balances: 2, remaining: { tokens: 280, cents: 5 }, nextExpiresAt }],
        nextCursor: null,
      },
    }),
  }),
  handler: (ctx, { query }) => listUsers(ctx, query),
});
