import type { Context } from "hono";
import { asOfEntriesMax, balancesAsOf } from "../books/credits/list.ts";
import { listInput } from "../books/credits/schemas.ts";
import { invalid, type PurserError } from "../errors.ts";
import { Field, Hidden, Pager, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, parseForm, textField, timeField } from "./form.ts";
import { amount, query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, UserLink } from "./links.tsx";
import { Time } from "./time.tsx";

const ROWS = 100;

type Found = Awaited<ReturnType<typeof balancesAsOf>>;

/** What a user had at a moment. */
async function asOfPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const { userId = "" } = form;
  const cursor = textField(form, "cursor");
  const isAsked = textField(form, "asOf") !== undefined;
  const found: { result?: Found | undefined; refusal?: PurserError | undefined } = isAsked
    ? await catchRefusal(async () => {
        const { asOf } = parseForm(listInput, { userId, asOf: timeField(form, "asOf") });
        if (asOf === undefined) throw invalid("asOf", "is missing");
        return balancesAsOf(c.var.ctx, userId, asOf, { limit: ROWS, cursor });
      })
    : {};
  return page(
    c,
    { title: `As of a moment: ${userId}`, section: "users", refusal: found.refusal },
    <>
      <p>
        User <UserLink c={c} id={userId} />
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
      {found.result !== undefined && <Then c={c} found={found.result} />}
    </>,
  );
}

const Then = ({ c, found: { balances, nextCursor } }: { c: Context<DashboardEnv>; found: Found }) => {
  const { userId, asOf, cursor } = c.req.query();
  const link = (more: { cursor?: string }) => `${pathIn(c, "users/as-of")}${query({ userId, asOf, ...more })}`;
  const isPartial = balances.some(({ past }) => past === null);
  return (
    <section class="card">
      <p class="soft">By the ledger, at that very moment. The newest balances first.</p>
      <Table
        label="Balances then"
        head={["Balance", "Pack", "Remained", "Status", "Expires"]}
        empty="The user had no balances then."
        rows={balances.map(({ balanceId, past }) => [
          <BalanceLink c={c} id={balanceId} />,
          ...(past === null
            ? ["", "not known", "", ""]
            : [
                past.packName,
                <span class="num">
                  {amount(past.remaining)} of {amount(past.initial)} {past.unit}
                </span>,
                <Tag kind={past.status}>{past.status}</Tag>,
                <Time at={past.expiresAt} />,
              ]),
        ])}
      />
      {isPartial && (
        <p class="soft">
          A page goes back over {amount(asOfEntriesMax)} entries. Of a balance that is not known more was written since:
          the API tells it, by <code>GET /api/v1/credits?asOf=</code>.
        </p>
      )}
      <Pager
        first={cursor === undefined ? null : link({})}
        next={nextCursor && link({ cursor: nextCursor })}
        words={["Newest", "Older balances"]}
      />
    </section>
  );
};

export const asOfRoutes = () => createDashboardRoutes().get("/users/as-of", asOfPage);
