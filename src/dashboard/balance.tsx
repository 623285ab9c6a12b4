import { useContext } from "hono/jsx";
import { fromMinor } from "../books/amounts/amount.ts";
import { readBalance, readSiblings } from "../books/credits/read-balance.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import { findGrantEntry, listAuditOfTarget } from "../catalog/search-audit.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { AuditTable } from "./audit.tsx";
import { Meter } from "./chart.tsx";
import { balanceColumn, remainingColumn, tagColumn } from "./columns.tsx";
import { Card, Facts, Tag } from "./components.tsx";
import { createDashboardRoutes, type PageContext } from "./form.ts";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { ReferenceLink, UserLink } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import { RuleList } from "./packs.tsx";
import { partText, UnitsContext, useUnits } from "./unit-amount.tsx";

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
  const ofUser = { userId: balance.userId, balanceId };
  return page(
    c,
    { title: `Balance ${balance.packName}`, section: "users" },
    <>
      <section class="card">
        <BalanceFacts balance={balance} grantedBy={grantedBy} />
        <div class="row">
          <LinkButton text="Ledger" to="users" fields={ofUser} hash="ledger" />
          {balance.status !== "revoked" && (
            <>
              <LinkButton text="Adjust" to="users/adjust" fields={ofUser} />
              <LinkButton text="Revoke" to="users/revoke" fields={ofUser} />
            </>
          )}
        </div>
      </section>
      {siblings.length > 0 && (
        <Card title="Other balances of this grant">
          <RowsTable
            label="Other balances of this grant"
            columns={[balanceColumn, remainingColumn("Remaining"), tagColumn("status", "Status")]}
            rows={siblings}
            empty=""
            foot={
              siblings.some(({ status }) => status !== "revoked") && (
                <p>
                  <LinkButton text="Revoke the whole grant" to="users/revoke-grant" fields={ofUser} />
                </p>
              )
            }
          />
        </Card>
      )}
      {named.length > 0 && (
        <Card title="Administrative actions">
          <AuditTable label="Administrative actions" entries={named} empty="" />
        </Card>
      )}
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
