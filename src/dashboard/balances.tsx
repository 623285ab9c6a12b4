import type { Context } from "hono";
import { listInput } from "../api/credits/list-balances.ts";
import { AS_OF_ENTRIES_MAX, balancesAsOf, findBalances, SEARCHED_BALANCES_MAX } from "../books/credits/list.ts";
import type { ShownBalance } from "../books/credits/read-balance.ts";
import type { BalanceStatus } from "../books/ledger/balance.ts";
import { listPacks } from "../catalog/pack.ts";
import { invalid, type PurserError } from "../errors.ts";
import { numberHead, Pager, Table, Tag } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, parseForm, textField, timeField } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, ReferenceLink, UserLink } from "./links.tsx";
import { SHOWN_PACKS_MAX } from "./packs.tsx";
import { UnitAmount } from "./unit-amount.tsx";

const BALANCE_ROWS = 50;
const BALANCE_STATUSES: readonly BalanceStatus[] = ["active", "depleted", "expired", "revoked"];

async function balancesPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const { userId = "" } = form;
  const status = BALANCE_STATUSES.find((each) => each === form.status);
  const filters = { status, packId: textField(form, "packId"), reference: textField(form, "reference") };
  const [{ packs }, found] = await Promise.all([
    listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_PACKS_MAX),
    catchRejection(() =>
      findBalances(c.var.ctx, userId, filters, { limit: BALANCE_ROWS, cursor: textField(form, "cursor") }),
    ),
  ]);
  const { balances = [], nextCursor = null } = found.result ?? {};
  const link = (cursor?: string) => `${pathIn(c, "users/balances")}${queryString({ userId, ...filters, cursor })}`;
  return page(
    c,
    { title: `Balances of ${userId}`, section: "users", rejection: found.rejection },
    <>
      <p>
        User <UserLink c={c} id={userId} />
      </p>
      <form method="get" action={pathIn(c, "users/balances")} class="card row">
        <Hidden fields={{ userId }} />
        <Choice
          label="Status"
          name="status"
          value={status ?? ""}
          options={[["", "all"], ...BALANCE_STATUSES.map((each) => [each, each] as const)]}
        />
        <Choice
          label="Pack"
          name="packId"
          value={filters.packId ?? ""}
          options={[["", "all"], ...packs.map((pack) => [pack.packId, pack.packName] as const)]}
        />
        <Field label="Reference" name="reference" value={filters.reference} placeholder="Or its beginning" />
        <button type="submit">Filter</button>
      </form>
      <section class="card">
        <BalanceTable c={c} balances={balances} />
        {nextCursor !== null && balances.length < BALANCE_ROWS && (
          <p class="soft">
            This page searched {amountText(SEARCHED_BALANCES_MAX)} balances. Older pages may have more.
          </p>
        )}
        <Pager first={form.cursor === undefined ? null : link()} next={nextCursor && link(nextCursor)} />
      </section>
    </>,
  );
}

const BalanceTable = ({ c, balances }: { c: Context<DashboardEnv>; balances: readonly ShownBalance[] }) => (
  <Table
    label="Balances"
    csv="balances"
    head={["Balance", "Pack", numberHead("Remaining"), "Status", "Reference", "Granted", "Expires"]}
    empty="No balances here."
    rows={balances.map((balance) => [
      <BalanceLink c={c} id={balance.balanceId} />,
      balance.packName,
      <span class="num">
        {amountText(balance.remaining)} of <UnitAmount of={balance.initial} unit={balance.unit} />
      </span>,
      <Tag kind={balance.status}>{balance.status}</Tag>,
      balance.externalRef === null ? "" : <ReferenceLink c={c} reference={balance.externalRef} />,
      <Time at={balance.grantedAt} />,
      <Time at={balance.expiresAt} />,
    ])}
  />
);

const AS_OF_ROWS = 100;

type FoundBalances = Awaited<ReturnType<typeof balancesAsOf>>;

/** Shows the balances that a user had at a moment. */
async function asOfPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const { userId = "" } = form;
  const cursor = textField(form, "cursor");
  const hasMoment = textField(form, "asOf") !== undefined;
  const found: { result?: FoundBalances | undefined; rejection?: PurserError | undefined } = hasMoment
    ? await catchRejection(async () => {
        const { asOf } = parseForm(listInput, { userId, asOf: timeField(form, "asOf") });
        if (asOf === undefined) throw invalid("asOf", "is missing");
        return balancesAsOf(c.var.ctx, userId, asOf, { limit: AS_OF_ROWS, cursor });
      })
    : {};
  return page(
    c,
    { title: `As of a moment: ${userId}`, section: "users", rejection: found.rejection },
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
          rejection={found.rejection}
        />
        <button type="submit">Show</button>
      </form>
      {found.result !== undefined && <PastBalances c={c} found={found.result} />}
    </>,
  );
}

const PastBalances = ({ c, found: { balances, nextCursor } }: { c: Context<DashboardEnv>; found: FoundBalances }) => {
  const { userId, asOf, cursor } = c.req.query();
  const link = (more: { cursor?: string }) => `${pathIn(c, "users/as-of")}${queryString({ userId, asOf, ...more })}`;
  const isPartial = balances.some(({ past }) => past === null);
  return (
    <section class="card">
      <p class="soft">Computed from the ledger. The newest balances first.</p>
      <Table
        label="Balances then"
        head={["Balance", "Pack", "Remaining then", "Status", "Expires"]}
        empty="The user had no balances then."
        rows={balances.map(({ balanceId, past }) => [
          <BalanceLink c={c} id={balanceId} />,
          ...(past === null
            ? ["", "not known", "", ""]
            : [
                past.packName,
                <span class="num">
                  {amountText(past.remaining)} of <UnitAmount of={past.initial} unit={past.unit} />
                </span>,
                <Tag kind={past.status}>{past.status}</Tag>,
                <Time at={past.expiresAt} />,
              ]),
        ])}
      />
      {isPartial && (
        <p class="soft">
          A page reads the last {amountText(AS_OF_ENTRIES_MAX)} ledger entries. If more were written since, the amount
          is not shown here. <code>GET /api/v1/credits?asOf=</code> returns it.
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

export const balancesRoutes = createDashboardRoutes()
  .get("/users/balances", balancesPage)
  .get("/users/as-of", asOfPage);
