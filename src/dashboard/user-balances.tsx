import type { Context } from "hono";
import type { BalanceList } from "../books/credits/list.ts";
import { Meter } from "./chart.tsx";
import { Tag } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { amount, query, time } from "./format.ts";
import { pathIn } from "./layout.tsx";
import { Rules } from "./rules.tsx";

export type ShownBalance = BalanceList["balances"][number];

/** The user's balances in spending order, each with a bar for what remains. */
export const Balances = ({ c, userId, list }: { c: Context<DashboardEnv>; userId: string; list: BalanceList }) => (
  <section aria-label="Balances">
    <h2>Balances, in spending order</h2>
    {list.balances.length === 0 && <p class="card empty">This user has no balances.</p>}
    <Cards c={c} userId={userId} balances={list.balances.slice(0, OPEN_MAX)} />
    {list.balances.length > OPEN_MAX && (
      <details class="more">
        <summary>{list.balances.length - OPEN_MAX} more balances</summary>
        <Cards c={c} userId={userId} balances={list.balances.slice(OPEN_MAX)} />
      </details>
    )}
    {list.balances.length > 0 && (
      <p class="soft">
        {list.isTruncated ? "Not all balances are shown here. " : ""}
        <a href={`${pathIn(c, "users/balances")}${query({ userId })}`}>All balances, by status, pack and reference</a>
      </p>
    )}
  </section>
);

/** The other cards are folded. */
const OPEN_MAX = 6;

interface CardsProps {
  readonly c: Context<DashboardEnv>;
  readonly userId: string;
  readonly balances: readonly ShownBalance[];
}

const Cards = ({ c, userId, balances }: CardsProps) => (
  <div class="cards">
    {balances.map((balance) => (
      <Balance c={c} userId={userId} balance={balance} />
    ))}
  </div>
);

const Balance = ({ c, userId, balance }: { c: Context<DashboardEnv>; userId: string; balance: ShownBalance }) => {
  const { balanceId } = balance;
  const left = `${amount(balance.remaining)} of ${amount(balance.initial)} ${balance.unit}`;
  return (
    <article class="card">
      <h3>
        <a href={`${pathIn(c, "users/balance")}${query({ balanceId })}`}>{balance.packName}</a>{" "}
        <Tag kind={balance.status}>{balance.status}</Tag>
      </h3>
      <b>{left}</b>
      <Meter label={`${left} remaining`} remaining={balance.remaining} initial={balance.initial} />
      <p class="soft">
        Pays for <Rules matches={balance.matches} />
        <br />
        Priority {balance.priority}, expires {time(balance.expiresAt)}
        <br />
        Granted {time(balance.grantedAt)} ({balance.source})
      </p>
      {balance.notes !== null && <p class="soft">“{balance.notes}”</p>}
      <p>
        <a href={`${pathIn(c, "users")}${query({ userId, balanceId })}#ledger`}>Ledger</a>
        {balance.status !== "revoked" && (
          <>
            {" · "}
            <a href={`${pathIn(c, "users/adjust")}${query({ userId, balanceId })}`}>Adjust</a>
            {" · "}
            <a href={`${pathIn(c, "users/revoke")}${query({ userId, balanceId })}`}>Revoke</a>
          </>
        )}
      </p>
    </article>
  );
};
