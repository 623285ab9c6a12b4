import * as z from "zod";
import { usersOutput } from "../../books/credits/responses.ts";
import { listUsers } from "../../books/credits/users.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { nextExpiresAt } from "./shapes.ts";

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
