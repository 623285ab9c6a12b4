import { useContext } from "hono/jsx";
import { fromMinor } from "../books/amounts/amount.ts";
import { readBalance, readSiblings } from "../books/credits/read-balance.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import { findGrantEntry, listAuditOfTarget } from "../catalog/search-audit.ts";
import { AppLink, pathIn } from "./app-link.tsx";
import { AuditTable } from "./audit.tsx";
import { Meter } from "./chart.tsx";
import { Card, Facts, numberHead, TableCard, Tag } from "./components.tsx";
import { createDashboardRoutes, type PageContext } from "./form.ts";
import { queryString, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { BalanceLink, ReferenceLink, UserLink } from "./links.tsx";
import { RuleList } from "./packs.tsx";
import { PartOfAmount, partText, UnitsContext, useUnits } from "./unit-amount.tsx";

type BalanceView = Awaited<ReturnType<typeof readBalance>>;

async function balancePage(c: PageContext, balanceId: string) {
  const { ctx, root } = c.var;
  const { appId } = ctx.environment;
  const balance = await readBalance(ctx, balanceId);
  const [siblings, granted, actions] = await Promise.all([
    readSiblings(ctx, balanceId),
    findGrantEntry(ctx, appId, balance),
    listAuditOfTarget(ctx, appId, [balanceId]),
  ]);
  const named = await nameActors(root)(granted === null ? actions : [...actions, granted]);
  const grantedBy = granted === null ? null : (named.at(-1)?.by ?? null);
  const ofUser = (place: string) => `${pathIn(c, place)}${queryString({ userId: balance.userId, balanceId })}`;
  return page(
    c,
    { title: `Balance ${balance.packName}`, section: "users" },
    <>
      <section class="card">
        <BalanceFacts balance={balance} grantedBy={grantedBy} />
        <div class="row">
          <a class="button quiet" href={`${ofUser("users")}#ledger`}>
            Ledger
          </a>
          {balance.status !== "revoked" && (
            <>
              <a class="button quiet" href={ofUser("users/adjust")}>
                Adjust
              </a>
              <a class="button quiet" href={ofUser("users/revoke")}>
                Revoke
              </a>
            </>
          )}
        </div>
      </section>
      <TableCard
        title="Other balances of this grant"
        head={["Balance", numberHead("Remaining"), "Status"]}
        empty="This grant issued no other balance."
        foot={
          siblings.some(({ status }) => status !== "revoked") && (
            <p>
              <a class="button quiet" href={ofUser("users/revoke-grant")}>
                Revoke the whole grant
              </a>
            </p>
          )
        }
        rows={siblings.map((each) => [
          <BalanceLink id={each.balanceId} />,
          <span class="num">
            <PartOfAmount part={each.remaining} of={each.initial} unit={each.unit} />
          </span>,
          <Tag kind={each.status}>{each.status}</Tag>,
        ])}
      />
      <Card title="Administrative actions">
        {" "}
        <AuditTable label="AuditTable" entries={named} empty="No actions by the dashboard or the administration API." />
      </Card>
    </>,
  );
}

const BalanceFacts = ({ balance, grantedBy }: { readonly balance: BalanceView; readonly grantedBy: string | null }) => {
  const inUnit = useUnits();
  const left = partText(useContext(UnitsContext), balance.unit, balance.remaining, balance.initial);
  const held = fromMinor(balance.unit, balance.heldMinor);
  return (
    <>
      <p>
        <b>{left}</b> <Tag kind={balance.status}>{balance.status}</Tag>
        {held > 0 ? ` ${inUnit(balance.unit, held)} more are held by open reservations.` : ""}
      </p>
      <Meter label={`${left} remaining`} remaining={balance.remaining} initial={balance.initial} />
      <Facts
        of={[
          ["User", <UserLink id={balance.userId} />],
          ["Balance id", <code>{balance.balanceId}</code>],
          [
            "Pack",
            <>
              <AppLink to={`packs/${balance.packId}`}>{balance.packName}</AppLink>
              {balance.packItemId === null ? null : (
                <>
                  , item <code>{balance.packItemId}</code>
                </>
              )}
            </>,
          ],
          ["Reference", balance.externalRef === null ? "none" : <ReferenceLink reference={balance.externalRef} />],
          [
            "Granted (UTC)",
            <>
              {timeText(balance.grantedAt)}, {balance.source}
              {grantedBy === null ? "" : `, by ${grantedBy}`}
            </>,
          ],
          ["Expires (UTC)", timeText(balance.expiresAt)],
          [
            "Pays for",
            <>
              <RuleList matches={balance.matches} />, priority {balance.priority}
            </>,
          ],
          balance.notes !== null && ["Notes", <>“{balance.notes}”</>],
        ]}
      />
    </>
  );
};

export const balancePages = createDashboardRoutes().get("/users/balance", (c) =>
  balancePage(c, c.req.query("balanceId") ?? ""),
);
