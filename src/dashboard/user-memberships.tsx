import { useContext } from "hono/jsx";
import { COUNTED_EVENTS_MAX, MEMBERSHIPS_MAX, type MemberPayer } from "../books/usage/list-memberships.ts";
import { Table } from "./components.tsx";
import type { PageContext } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { userPath } from "./links.tsx";
import { partText, UnitsContext, unitAmountText } from "./unit-amount.tsx";

interface MembershipsProps {
  readonly c: PageContext;
  readonly memberships: readonly MemberPayer[];
  readonly days: number;
}

/** Shows who pays for what a user uses as a member, with the use of each limit per member (ME2). */
export const Memberships = ({ c, memberships, days }: MembershipsProps) => {
  const units = useContext(UnitsContext);
  return memberships.length === 0 ? null : (
    <section class="card" id="payers">
      <h2>Payers</h2>
      <p class="soft">
        Who pays for what this user uses as a member.
        {memberships.length > MEMBERSHIPS_MAX && ` Only the first ${MEMBERSHIPS_MAX} are shown.`}
      </p>
      <Table
        label="Payers"
        csv="payers"
        head={["Payer", `Events in ${days} days`, "Last use", "Limits of the member", ""]}
        rows={memberships
          .slice(0, MEMBERSHIPS_MAX)
          .map(({ payerId, events, lastUsedAt, limits }) => [
            <a href={pathIn(c, userPath(payerId))}>{payerId}</a>,
            events < COUNTED_EVENTS_MAX ? amountText(events) : `${amountText(events)} or more`,
            lastUsedAt === null ? "never" : <Time at={lastUsedAt} />,
            limits
              .map(({ name, used, amount, unit }) =>
                amount === null
                  ? `${name}: ${unitAmountText(units, unit, used)}, no limit`
                  : `${name}: ${partText(units, unit, used, amount)}`,
              )
              .join("; ") || "none",
            <a href={`${pathIn(c, "users/members")}${queryString({ userId: payerId })}`}>All members</a>,
          ])}
        empty=""
      />
    </section>
  );
};
