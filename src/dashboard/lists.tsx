/** The lists that only need to be declared. */

import { listReached, type UserAtLimit } from "../books/limits/list-reached.ts";
import { listAllRecurring } from "../books/recurring/list-all-recurring.ts";
import type { RecurringOutput } from "../books/recurring/recurring.ts";
import { listMembers, type MembersOutput } from "../books/usage/list-members.ts";
import { namesOfKeys } from "../catalog/keys.ts";
import { listErasures } from "../erasure/list-erasures.ts";
import type { ErasureOutput } from "../erasure/receipt.ts";
import { DAY_MS } from "../lib/time.ts";
import {
  customColumn,
  linkColumn,
  numberColumn,
  quantityColumn,
  realTimeColumn,
  shownColumn,
  textColumn,
  timeColumn,
  userColumn,
} from "./columns.tsx";
import { Empty, Tag } from "./components.tsx";
import { quantitiesText, Time } from "./format.tsx";
import { RECURRING_COLUMNS } from "./recurring.tsx";
import { listRoutes } from "./resource.tsx";
import { QuantityList } from "./unit-amount.tsx";

export const recurringList = listRoutes<RecurringOutput, unknown>({
  path: "recurring",
  title: "Recurring grants",
  section: "users",
  about: "Of all users. A suspended one grants nothing until you fix the cause and resume it.",
  columns: RECURRING_COLUMNS,
  filters: [{ name: "state", label: "State", options: [["", "all"], "suspended"] }],
  read: (c, form) => (page) => listAllRecurring(c.var.ctx, { isSuspended: form.state === "suspended", ...page }),
  empty: <Empty icon="check" title="No recurring grants here" />,
  words: ["First grants", "More grants"],
});

export const reachedList = listRoutes<UserAtLimit, unknown>({
  path: "usage-limits/reached",
  title: "Users at a limit",
  section: "usage-limits",
  about: "Users who have used all of a limit in its current window. Each user's page sets and lifts overrides.",
  columns: [
    userColumn("userId", "User"),
    shownColumn("memberId", "Member", ({ memberId }) => memberId ?? null),
    linkColumn("name", "Limit", ({ limitId }) => `usage-limits/${limitId}`),
    quantityColumn("used", "Used", ({ used, unit }) => [used, unit]),
    quantityColumn("amount", "Of", ({ amount, unit }) => [amount, unit]),
    textColumn("every", "Every"),
    timeColumn("resetsAt", "Resets"),
  ],
  read:
    (c) =>
    ({ cursor }) =>
      listReached(c.var.ctx, cursor),
  empty: <Empty icon="check" title="Nobody is at a limit" />,
  words: ["First users", "More users"],
});

const DAYS_OF_MEMBERS = 30;

export const memberList = listRoutes<MembersOutput["members"][number], unknown>({
  path: "users/members",
  title: "Members",
  section: "users",
  about: `Members who used what the user paid for in the last ${DAYS_OF_MEMBERS} days.`,
  columns: [
    userColumn("memberId", "Member"),
    numberColumn("events", "Events"),
    customColumn(
      "debited",
      "Debited",
      ({ debited }) => <QuantityList of={debited} none="nothing" />,
      ({ debited }) => quantitiesText(debited) || "nothing",
    ),
    timeColumn("lastUsedAt", "Last use"),
  ],
  filters: [{ name: "userId" }],
  read: (c, { userId = "" }) => {
    const to = c.var.ctx.now() + 1;
    return async (page) => {
      const span = { from: to - DAYS_OF_MEMBERS * DAY_MS, to };
      const { members, nextCursor } = await listMembers(c.var.ctx, { userId, ...span, ...page });
      return { rows: members, nextCursor };
    };
  },
  empty: <Empty icon="check" title="No member used anything" />,
  words: ["First members", "More members"],
});

export const erasureList = listRoutes<ErasureOutput, unknown>({
  path: "people/erasures",
  title: "Erasures",
  section: "people",
  about: "Newest first. A receipt names nobody.",
  columns: [
    linkColumn("erasureId", "Erasure", ({ erasureId }) => `people/erasures/${erasureId}`),
    realTimeColumn("startedAt", "Started"),
    realTimeColumn("completedAt", "Completed", "not yet"),
    customColumn(
      "status",
      "Status",
      ({ status, liftedAt }) =>
        liftedAt === null ? (
          <Tag kind={status === "completed" ? "good" : "warn"}>{status}</Tag>
        ) : (
          <>
            lifted <Time at={liftedAt} isReal />
          </>
        ),
      ({ status, liftedAt }) => (liftedAt === null ? status : "lifted"),
    ),
    numberColumn("distinctIdCount", "Ids"),
    shownColumn("reason", "Reason", ({ reason }) => reason?.replaceAll("_", " ") ?? "none given"),
    textColumn("by", "By"),
  ],
  read: (c) => (page) => listErasures(c.var.ctx, page),
  complete: async ({ var: { ctx } }, erasures) => {
    const names = await namesOfKeys(ctx, [...new Set(erasures.map(({ by }) => by))]);
    return erasures.map((erasure) => ({ ...erasure, by: names.get(erasure.by) ?? erasure.by }));
  },
  empty: <Empty icon="check" title="No erasures yet" />,
  words: ["Newest", "Older"],
});
