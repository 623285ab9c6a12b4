import type { Context } from "hono";
import { UNITS } from "../amounts/amount.ts";
import { listBalances } from "../credits/list.ts";
import type { ListOutput } from "../credits/responses.ts";
import { listInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { Field, Hidden, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, parseForm, textField, timeField } from "./form.ts";
import { amount, time } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, UserLink } from "./links.tsx";

/** The most rows that are shown. */
const SHOWN_MAX = 500;

/** What a user had at a moment. */
async function asOfPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const { userId = "" } = form;
  const isAsked = textField(form, "asOf") !== undefined;
  const found: { result?: ListOutput | undefined; refusal?: PurserError | undefined } = isAsked
    ? await catchRefusal(async () =>
        listBalances(c.var.ctx, parseForm(listInput, { userId, asOf: timeField(form, "asOf") })),
      )
    : {};
  return page(
    c,
    { title: `As of a moment: ${userId}`, section: "users", refusal: found.refusal },
    <>
      <p>
        <UserLink c={c} id={userId} />
      </p>
      <form method="get" action={pathIn(c, "users/as-of")} class="card row">
        <Hidden fields={{ userId }} />
        <Field
          label="At (UTC)"
          name="asOf"
          type="datetime-local"
          step="1"
          value={form.asOf}
          required
          refusal={found.refusal}
        />
        <button type="submit">Show</button>
      </form>
      {found.result !== undefined && <Then c={c} credits={found.result.credits} />}
    </>,
  );
}

const Then = ({ c, credits }: { c: Context<DashboardEnv>; credits: ListOutput["credits"] }) => {
  const active = credits.filter(({ status }) => status === "active");
  const counts = UNITS.map((unit) => [unit, active.filter((each) => each.unit === unit).length] as const);
  return (
    <section class="card">
      <p class="soft">
        By the ledger, at that very moment:{" "}
        {counts
          .filter(([, count]) => count > 0)
          .map(([unit, count]) => `${count} active in ${unit}`)
          .join(", ") || "nothing active"}
        . {credits.length} in all.
      </p>
      <Table
        label="Balances then"
        head={["Balance", "Pack", "Remained", "Status", "Expires (UTC)"]}
        empty="The user had no balances then."
        rows={credits.slice(0, SHOWN_MAX).map((each) => [
          <BalanceLink c={c} id={each.balanceId} />,
          each.packName,
          <span class="num">
            {amount(each.remaining)} of {amount(each.initial)} {each.unit}
          </span>,
          <Tag kind={each.status}>{each.status}</Tag>,
          <span class="num">{time(each.expiresAt)}</span>,
        ])}
      />
      {credits.length > SHOWN_MAX && <p class="soft">Only the first {SHOWN_MAX} are shown.</p>}
    </section>
  );
};

export const asOfRoutes = () => createDashboardRoutes().get("/users/as-of", asOfPage);
