import * as z from "zod";
import { summedQuantities } from "../../books/amounts/amount-fields.ts";
import { listMembers } from "../../books/usage/list-members.ts";
import { cursor, pageLimit, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";

const usageOfMember = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      memberId: z.string().meta(words("The member. A pseudonym if the member was erased.", "user_7")),
      events: z.number().meta(words("How many events.", 310)),
      quantities: summedQuantities.meta(words("The used quantities. Unused units are left out.")),
      debited: summedQuantities.meta(words("The debited amounts, by unit.")),
      lastUsedAt: time.meta(words("When the last of these events happened.", "2026-01-16T08:30:00.000Z")),
    })
    .meta({ id: "UsageOfMember" }),
);

export default operation({
  id: "listUsageMembers",
  method: "get",
  path: "/api/v1/usage/members",
  tag: "Usage",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: lazy(() =>
    z.object({
      userId,
      from: timestamp.meta(words("Only events that occurred at this time or later.", "2026-01-16T08:30:00.000Z")),
      to: timestamp.meta(words("Only events that occurred before this time.", "2026-02-16T08:30:00.000Z")),
      limit: pageLimit("members").meta(words("The most members in a page.", 50)),
      cursor,
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          members: z.array(usageOfMember).meta(words("The members, in the order of `memberId`.")),
          nextCursor: z.string().nullable().meta(words("For the next page. Null on the last page.", null)),
        })
        .meta({ id: "UsageMembers" }),
    summary: "List the members who used a user's credits",
    description:
      "Returns the members of a payer whose usage occurred in `[from, to)`, each with the used quantities and the debited " +
      "amounts. A span of more than 200,000 events is rejected.",
    returns: "A page of members.",
    example: () => ({
      output: {
        members: [
          {
            ...{ memberId: "user_7", events: 310, quantities: { count: 310, tokens: 41_200 } },
            ...{ debited: { tokens: 41_200 }, lastUsedAt: "2026-01-16T08:30:00.000Z" },
          },
        ],
        nextCursor: null,
      },
    }),
  }),
  handler: (ctx, { query }) => listMembers(ctx, query),
});
