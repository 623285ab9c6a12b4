import type { Context } from "hono";
import { type RefusalKind, readRefusals } from "../db/activity/refusals.ts";
import { numbers, Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { quantitiesText, UserLink } from "./people-list.tsx";

type ReasonText = Awaited<ReturnType<typeof readRefusals>>[number]["reason"];

const WHY: Readonly<Record<string, string>> = {
  credit_pack_not_found: "there is no such pack, or it is archived",
  invalid_quantity: "the quantity is missing, not positive, or too large",
  test_quota_exceeded: "test mode has as many balances as it may have",
  person_erased: "this person was erased",
};

/** Returns why a grant was refused, in words for people. */
function whyRefused({ code, param }: ReasonText): string {
  const why = WHY[String(code)] ?? String(code);
  return typeof param === "string" ? `${why} (${param})` : why;
}

const REFUSAL_LISTS = {
  shortage: {
    title: "Insufficient credits",
    about: "Usage that was refused with 402, because the user's balances did not cover it.",
    head: ["User", "Event", "Not covered, the last time", numbers("Times"), "Last"],
    reasonText: (reason: ReasonText) => quantitiesText(reason),
  },
  failed_grant: {
    title: "Refused grants",
    about: "Grants that were refused. The pack is shown as the call named it.",
    head: ["User", "Pack", "Why, the last time", numbers("Times"), "Last"],
    reasonText: whyRefused,
  },
} as const;

/** Returns the page that lists the refusals of a figure: each user, code and reason. */
export const refusalsPath = (kind: RefusalKind): string => `refusals${queryString({ kind })}`;

async function refusalsPage(c: Context<DashboardEnv>) {
  const kind: RefusalKind = c.req.query("kind") === "failed_grant" ? "failed_grant" : "shortage";
  const { title, about, head, reasonText } = REFUSAL_LISTS[kind];
  const refusals = await readRefusals(c.var.ctx, kind);
  return page(
    c,
    { title, section: "overview" },
    <section class="card">
      <p class="soft">
        {about} The newest 200 of the last 30 days, one row for each user and event or pack. Approximate: a server
        process that ends may not have written some.
      </p>
      <Table
        label={title}
        head={head}
        csv={kind}
        empty="Nothing was refused in the last 30 days."
        rows={refusals.map(({ userId, subject, reason, times, lastAt }) => [
          userId === null ? <span class="soft">erased</span> : <UserLink c={c} id={userId} />,
          <code>{subject}</code>,
          reasonText(reason),
          <span class="num">{amountText(times)}</span>,
          <Time at={lastAt} />,
        ])}
      />
      <p>
        <a href={pathIn(c, "overview")}>Back to the overview</a>
      </p>
    </section>,
  );
}

export const refusalsRoutes = createDashboardRoutes().get("/refusals", refusalsPage);
