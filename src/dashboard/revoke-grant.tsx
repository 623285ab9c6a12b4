import { readBalance, readSiblings } from "../books/credits/read-balance.ts";
import { revokeBalance } from "../books/credits/revoke.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import type { ShownFact } from "./components.tsx";
import { askRoutes, confirmPage, ReasonField, requireReason, warnAboutAmount } from "./confirm.tsx";
import type { Form, PageContext } from "./form.ts";
import { amountText } from "./format.tsx";
import { page } from "./layout.tsx";
import { BalanceLink, ReferenceLink, toUser, userPath } from "./links.tsx";
import { BeforeAfter } from "./unit-amount.tsx";

/** Returns the balances of a grant that are not revoked, the given one first. */
async function balancesOfGrant({ var: { ctx } }: PageContext, balanceId: string) {
  const balance = await readBalance(ctx, balanceId);
  const siblings = await readSiblings(ctx, balanceId);
  return { balance, balances: [balance, ...siblings].filter(({ status }) => status !== "revoked") };
}

async function revokeGrantForm(c: PageContext, form: Form, rejection?: PurserError) {
  const { balanceId = "" } = form;
  const { balance, balances } = await balancesOfGrant(c, balanceId);
  const { userId, externalRef } = balance;
  const title = "Revoke a whole grant";
  if (balances.length === 0) {
    const done = <p class="card">All balances of this grant are already revoked.</p>;
    return page(c, { title, section: "users", rejection }, done);
  }
  return confirmPage(
    c,
    {
      title,
      fields: { userId, balanceId },
      button: `Revoke ${amountText(balances.length)} ${balances.length === 1 ? "balance" : "balances"}`,
      cancel: userPath(userId),
      isDangerous: true,
      warnings: balances.flatMap(({ unit, remaining }) => warnAboutAmount(unit, remaining)),
      form,
      rejection,
      facts: [
        ["User", userId],
        externalRef !== null && ["Reference", <ReferenceLink reference={externalRef} />],
        ...balances.map(
          (each): ShownFact => [
            <BalanceLink id={each.balanceId} />,
            <BeforeAfter from={each.remaining} to={0} unit={each.unit} />,
          ],
        ),
      ],
    },
    <>
      <p>This cannot be undone. Credits already spent are not refunded; returned holds are lost.</p>
      <ReasonField />
    </>,
  );
}

/** Revokes the balances one after another. A repeat revokes those that are left. */
async function revokeAll(c: PageContext): Promise<string> {
  const { form } = c.var;
  const reason = requireReason(form, "reason");
  const { balances } = await balancesOfGrant(c, form.balanceId ?? "");
  for (const { balanceId } of balances) await callVerb(c, (ctx) => revokeBalance(ctx, { balanceId, reason }));
  return toUser(form, "grant-revoked");
}

export const revokeGrantRoutes = askRoutes("/users/revoke-grant", revokeGrantForm, revokeAll);
