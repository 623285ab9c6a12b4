import * as z from "zod";
import { listRecurring } from "../../books/recurring/recurring.ts";
import { userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";
import { recurring, recurringOutput } from "./recurring-shapes.ts";

export default operation({
  id: "listRecurringGrants",
  method: "get",
  path: "/api/v1/credits/recurring",
  tag: "Credits",
  access: secretKeyOrUser(),
  query: lazy(() => z.object({ userId })),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ recurring: z.array(recurringOutput).meta(words("Oldest first.")) })
        .meta({ id: "RecurringGrantList" }),
    summary: "List a user's recurring grants",
    description:
      "Returns the user's recurring grants in the order of creation, including ended ones, with their current " +
      "state: a due period is included even if it is not written yet. A publishable key needs the user's own token.",
    returns: "The recurring grants.",
    example: () => ({ output: { recurring: [recurring] } }),
  }),
  handler: (ctx, { query }) => listRecurring(ctx, query),
});
