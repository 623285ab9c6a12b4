import type { Context } from "hono";
import type { BalanceList } from "../credits/list-all.ts";
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
    <div class="cards">
      {list.balances.map((balance) => (
        <Balance c={c} userId={userId} balance={balance} />
      ))}
    </div>
    {list.isTruncated && <p class="soft">Not all balances are shown.</p>}
  </section>
);

const Balance = ({ c, userId, balance }: { c: Context<DashboardEnv>; userId: string; balance: ShownBalance }) => {
  const { balanceId } = balance;
  const left = `${amount(balance.remaining)} of ${amount(balance.initial)} ${balance.unit}`;
  return (
    <article class="card">
      <h3>
        {balance.packName} <Tag kind={balance.status}>{balance.status}</Tag>
      </h3>
      <b>{left}</b>
      <Meter label={`${left} remaining`} remaining={balance.remaining} initial={balance.initial} />
      <p class="soft">
        Pays for <Rules matches={balance.matches} />
        <br />
        Priority {balance.priority}, expires {time(balance.expiresAt)}
        <br />
        {balance.source}, {time(balance.grantedAt)}
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
