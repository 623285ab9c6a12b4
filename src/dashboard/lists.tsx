/** The lists that only need to be declared. */

import { listReached, type UserAtLimit } from "../books/limits/list-reached.ts";
import { listAllRecurring } from "../books/recurring/list-all-recurring.ts";
import type { RecurringOutput } from "../books/recurring/recurring.ts";
import { listMembers, type MembersOutput } from "../books/usage/list-members.ts";
import { listErasures } from "../erasure/list-erasures.ts";
import type { ErasureOutput } from "../erasure/receipt.ts";
import { DAY_MS } from "../lib/time.ts";
import { Empty, numberHead, Tag } from "./components.tsx";
import { Choice } from "./fields.tsx";
import { amountText, quantitiesText, Time } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { UserLink } from "./links.tsx";
import { RECURRING_COLUMNS } from "./recurring.tsx";
import { listRoutes } from "./resource.tsx";

export const recurringList = listRoutes<RecurringOutput>({
  path: "recurring",
  title: "Recurring grants",
  section: "users",
  about: "Of all users. A suspended one grants nothing until you fix the cause and resume it.",
  columns: RECURRING_COLUMNS,
  filters: ["state"],
  filterForm: (c, form) => (
    <form method="get" action={pathIn(c, "recurring")} class="row">
      <Choice
        label="State"
        name="state"
        value={form.state}
        options={[
          ["", "all"],
          ["suspended", "suspended"],
        ]}
      />
      <button type="submit">Show</button>
    </form>
  ),
  read: (c, form, page) => listAllRecurring(c.var.ctx, { isSuspended: form.state === "suspended", ...page }),
  empty: <Empty icon="check" title="No recurring grants here" />,
  words: ["First grants", "More grants"],
});

export const reachedList = listRoutes<UserAtLimit>({
  path: "usage-limits/reached",
  title: "Users at a limit",
  section: "usage-limits",
  about: "Users who have used all of a limit in its current window. Each user's page sets and lifts overrides.",
  columns: [
    {
      name: "userId",
      head: "User",
      cell: ({ userId }, c) => <UserLink c={c} id={userId} />,
      value: ({ userId }) => userId,
    },
    {
      name: "memberId",
      head: "Member",
      cell: ({ memberId }) => memberId ?? "",
      value: ({ memberId }) => memberId ?? null,
    },
    {
      name: "limit",
      head: "Limit",
      cell: ({ limitId, name }, c) => <a href={pathIn(c, `usage-limits/${limitId}`)}>{name}</a>,
      value: ({ name }) => name,
    },
    {
      name: "used",
      head: numberHead("Used"),
      cell: ({ used, unit }) => `${amountText(used)} ${unit}`,
      value: ({ used }) => used,
    },
    {
      name: "amount",
      head: numberHead("Of"),
      cell: ({ amount, unit }) => `${amountText(amount ?? 0)} ${unit}`,
      value: ({ amount }) => amount,
    },
    { name: "every", head: "Every", cell: ({ every }) => every, value: ({ every }) => every },
    {
      name: "resetsAt",
      head: "Resets",
      cell: ({ resetsAt }) => <Time at={resetsAt} />,
      value: ({ resetsAt }) => resetsAt,
    },
  ],
  filters: [],
  read: (c, _, { cursor }) => listReached(c.var.ctx, cursor),
  empty: <Empty icon="check" title="Nobody is at a limit" />,
  words: ["First users", "More users"],
});

const DAYS_OF_MEMBERS = 30;

export const memberList = listRoutes<MembersOutput["members"][number]>({
  path: "users/members",
  title: "Members",
  section: "users",
  about: `Members who used what the user paid for in the last ${DAYS_OF_MEMBERS} days.`,
  columns: [
    {
      name: "memberId",
      head: "Member",
      cell: ({ memberId }, c) => <UserLink c={c} id={memberId} />,
      value: ({ memberId }) => memberId,
    },
    {
      name: "events",
      head: numberHead("Events"),
      cell: ({ events }) => amountText(events),
      value: ({ events }) => events,
    },
    {
      name: "debited",
      head: "Debited",
      cell: ({ debited }) => quantitiesText(debited) || "nothing",
      value: ({ debited }) => quantitiesText(debited),
    },
    {
      name: "lastUsedAt",
      head: "Last use",
      cell: ({ lastUsedAt }) => <Time at={lastUsedAt} />,
      value: ({ lastUsedAt }) => lastUsedAt,
    },
  ],
  filters: ["userId"],
  read: async (c, { userId = "" }, page) => {
    const to = c.var.ctx.now() + 1;
    const { members, nextCursor } = await listMembers(c.var.ctx, {
      userId,
      from: to - DAYS_OF_MEMBERS * DAY_MS,
      to,
      ...page,
    });
    return { rows: members, nextCursor };
  },
  empty: <Empty icon="check" title="No member used anything" />,
  words: ["First members", "More members"],
});

export const erasureList = listRoutes<ErasureOutput>({
  path: "people/erasures",
  title: "Erasures",
  section: "people",
  about: "Newest first. A receipt names nobody.",
  columns: [
    {
      name: "erasureId",
      head: "Erasure",
      cell: ({ erasureId }, c) => (
        <a href={pathIn(c, `people/erasures/${erasureId}`)}>
          <code>{erasureId}</code>
        </a>
      ),
      value: ({ erasureId }) => erasureId,
    },
    {
      name: "startedAt",
      head: "Started",
      cell: ({ startedAt }) => <Time at={startedAt} />,
      value: ({ startedAt }) => startedAt,
    },
    {
      name: "completedAt",
      head: "Completed",
      cell: ({ completedAt }) => <Time at={completedAt} otherwise="not yet" />,
      value: ({ completedAt }) => completedAt,
    },
    {
      name: "status",
      head: "Status",
      cell: ({ status, liftedAt }) =>
        liftedAt === null ? (
          <Tag kind={status === "completed" ? "good" : "warn"}>{status}</Tag>
        ) : (
          <>
            lifted <Time at={liftedAt} />
          </>
        ),
      value: ({ status, liftedAt }) => (liftedAt === null ? status : "lifted"),
    },
    {
      name: "ids",
      head: numberHead("Ids"),
      cell: ({ distinctIdCount }) => amountText(distinctIdCount),
      value: ({ distinctIdCount }) => distinctIdCount,
    },
    {
      name: "reason",
      head: "Reason",
      cell: ({ reason }) => reason?.replaceAll("_", " ") ?? "none given",
      value: ({ reason }) => reason,
    },
    { name: "by", head: "By", cell: ({ by }) => by, value: ({ by }) => by },
  ],
  filters: [],
  read: (c, _, page) => listErasures(c.var.ctx, page),
  empty: <Empty icon="check" title="No erasures yet" />,
  words: ["Newest", "Older"],
});
