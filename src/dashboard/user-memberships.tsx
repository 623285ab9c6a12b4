import { useContext } from "hono/jsx";
import { COUNTED_EVENTS_MAX, MEMBERSHIPS_MAX, type MemberPayer } from "../books/usage/list-memberships.ts";
import { AppLink } from "./app-link.tsx";
import { Card } from "./components.tsx";
import { amountText, Time } from "./format.tsx";
import { userPath } from "./links.tsx";
import { Table } from "./table.tsx";
import { partText, UnitsContext, unitAmountText } from "./unit-amount.tsx";

interface MembershipsProps {
  readonly memberships: readonly MemberPayer[];
  readonly days: number;
}

/** Shows who pays for what a user uses as a member, with the use of each limit per member (ME2). */
export const Memberships = ({ memberships, days }: MembershipsProps) => {
  const units = useContext(UnitsContext);
  return memberships.length === 0 ? null : (
    <Card title="Payers" id="payers">
      <p class="soft">
        Who pays for what this user uses as a member.
        {memberships.length > MEMBERSHIPS_MAX && ` Only the first ${MEMBERSHIPS_MAX} are shown.`}
      </p>
      <Table
        label="Payers"
        csv="payers"
        head={["Payer", `Events in ${days} days`, "Last use", "Limits of the member", ""]}
        rows={memberships.slice(0, MEMBERSHIPS_MAX).map(({ payerId, events, lastUsedAt, limits }) => [
          <AppLink to={userPath(payerId)}>{payerId}</AppLink>,
          events < COUNTED_EVENTS_MAX ? amountText(events) : `${amountText(events)} or more`,
          lastUsedAt === null ? "never" : <Time at={lastUsedAt} />,
          limits
            .map(({ name, used, amount, unit }) =>
              amount === null
                ? `${name}: ${unitAmountText(units, unit, used)}, no limit`
                : `${name}: ${partText(units, unit, used, amount)}`,
            )
            .join("; ") || "none",
          <AppLink to="users/members" fields={{ userId: payerId }}>
            All members
          </AppLink>,
        ])}
        empty=""
      />
    </Card>
  );
};
