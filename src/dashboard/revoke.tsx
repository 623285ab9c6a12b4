import type { Context } from "hono";
import { fromSteps } from "../books/amounts/amount.ts";
import { readBalance, revokeBalance } from "../books/credits/revoke.ts";
import { revokeInput } from "../books/credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/call-verb.ts";
import { LongText } from "./components.tsx";
import { Confirm, doubtsOfAmount, redirectAfter, requireReason, userPath } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv, type Form, parseForm } from "./form.ts";
import { amount, time } from "./format.ts";
import { page } from "./layout.tsx";

/** Shows the form, which asks for the confirmation itself, so one page is enough. */
async function revokeForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const balance = await readBalance(c.var.ctx, form.balanceId ?? "");
  const { userId, balanceId, packName, remaining, unit, heldSteps } = balance;
  const held =
    heldSteps === 0
      ? ""
      : ` What reservations hold of it, ${amount(fromSteps(unit, heldSteps))} ${unit}, is lost when it returns.`;
  return page(
    c,
    { title: "Revoke balance", section: "users", refusal },
    balance.status === "revoked" ? (
      <p class="card">This balance is revoked already.</p>
    ) : (
      <Confirm
        c={c}
        action="users/revoke"
        fields={{ userId, balanceId }}
        button="Revoke balance"
        cancel={userPath(userId)}
        isDangerous
        doubts={doubtsOfAmount(unit, remaining)}
      >
        <dl class="facts">
          <dt>User</dt>
          <dd>{userId}</dd>
          <dt>Balance</dt>
          <dd>
            {packName} <code>{balanceId}</code>, expires: {time(balance.expiresAt)}
          </dd>
          <dt>Balance afterwards</dt>
          <dd>
            <b>
              {amount(remaining)} → 0 {unit}
            </b>
          </dd>
        </dl>
        <p>
          The remaining {amount(remaining)} {unit} are set to 0. This cannot be undone. Credits already spent are not
          refunded.{held}
        </p>
        <LongText label="Reason (kept in the ledger)" name="reason" value={form.reason} required refusal={refusal} />
      </Confirm>
    ),
  );
}

export const revokeRoutes = createDashboardRoutes()
  .get("/users/revoke", (c) => revokeForm(c, c.req.query()))
  .post("/users/revoke", (c) => {
    const { form } = c.var;
    return redirectAfter(
      c,
      async () => {
        const input = parseForm(revokeInput, { balanceId: form.balanceId, reason: requireReason(form, "reason") });
        await callVerb(c, (ctx) => revokeBalance(ctx, input));
        return "revoked";
      },
      (refusal) => revokeForm(c, form, refusal),
    );
  });
