import type { Context } from "hono";
import { findBalances, searchedBalancesMax } from "../books/credits/list.ts";
import type { ShownBalance } from "../books/credits/revoke.ts";
import type { BalanceStatus } from "../books/ledger/balance.ts";
import { listPacks } from "../catalog/packs/pack.ts";
import { Choice, Field, Hidden, numbers, Pager, Table, Tag } from "./components.tsx";
import { SHOWN_MAX } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, textField } from "./form.ts";
import { amount, query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, UserLink } from "./links.tsx";
import { Time } from "./time.tsx";

const ROWS = 50;
const STATUSES: readonly BalanceStatus[] = ["active", "depleted", "expired", "revoked"];

async function balancesPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const { userId = "" } = form;
  const status = STATUSES.find((each) => each === form.status);
  const filters = { status, packId: textField(form, "packId"), reference: textField(form, "reference") };
  const [{ packs }, found] = await Promise.all([
    listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_MAX),
    catchRefusal(() => findBalances(c.var.ctx, userId, filters, { limit: ROWS, cursor: textField(form, "cursor") })),
  ]);
  const { balances = [], nextCursor = null } = found.result ?? {};
  const link = (cursor?: string) => `${pathIn(c, "users/balances")}${query({ userId, ...filters, cursor })}`;
  return page(
    c,
    { title: `Balances of ${userId}`, section: "users", refusal: found.refusal },
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
          options={[["", "all"], ...STATUSES.map((each) => [each, each] as const)]}
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
        {nextCursor !== null && balances.length < ROWS && (
          <p class="soft">This page searched {amount(searchedBalancesMax)} balances. Older pages may have more.</p>
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
    head={["Balance", "Pack", numbers("Remaining"), "Status", "Reference", "Granted", "Expires"]}
    empty="No balances here."
    rows={balances.map((balance) => [
      <BalanceLink c={c} id={balance.balanceId} />,
      balance.packName,
      <span class="num">
        {amount(balance.remaining)} of {amount(balance.initial)} {balance.unit}
      </span>,
      <Tag kind={balance.status}>{balance.status}</Tag>,
      balance.externalRef === null ? "" : <code>{balance.externalRef}</code>,
      <Time at={balance.grantedAt} />,
      <Time at={balance.expiresAt} />,
    ])}
  />
);

export const balancesRoutes = () => createDashboardRoutes().get("/users/balances", balancesPage);
