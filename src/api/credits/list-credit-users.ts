import * as z from "zod";
import { summedQuantities } from "../../books/amounts/amount-fields.ts";
import { listUsers } from "../../books/credits/users.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { nextExpiresAt } from "./credit-shapes.ts";

const creditUser = z.lazy(() =>
  z
    .strictObject({
      userId: z.string(),
      balances: z.int().describe("The number of spendable balances."),
      remaining: summedQuantities.describe("The remaining amounts of these balances, by unit."),
      nextExpiresAt: time.nullable().describe("When the first of them expires. Null: never."),
    })
    .meta({ id: "CreditUser" }),
);

const usersOutput = z.lazy(() =>
  z.strictObject({ users: z.array(creditUser), nextCursor }).meta({ id: "CreditUserList" }),
);

export default operation({
  id: "listCreditUsers",
  method: "get",
  path: "/api/v1/credits/users",
  tag: "Credits",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: z.lazy(() =>
    z.object({
      limit: pageLimit("users"),
      cursor,
    }),
  ),
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
  handler: (ctx, { query }) => listUsers(ctx, query),
});
