import type { Context } from "hono";
import { revokeBalance } from "../credits/revoke.ts";
import { revokeInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { LongText } from "./components.tsx";
import { Confirm, findBalance, redirectAfter, requireReason } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { type Form, parseForm } from "./form.ts";
import { amount, time } from "./format.ts";
import { page } from "./layout.tsx";

/** One page: the form itself asks for the confirmation. */
async function revokeForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const balance = await findBalance(c, form);
  const fields = { userId: form.userId ?? "", balanceId: form.balanceId ?? "" };
  return page(
    c,
    { title: "Revoke balance", section: "users", refusal },
    <Confirm c={c} action="users/revoke" fields={fields} button="Revoke balance">
      <p>
        {balance === undefined
          ? form.balanceId
          : `${balance.packName}: The remaining ${amount(balance.remaining)} ${balance.unit} are set to 0. This cannot be undone. Credits already spent are not refunded. Expires: ${time(balance.expiresAt)}.`}
      </p>
      <LongText label="Reason (kept in the ledger)" name="reason" value={form.reason} required />
    </Confirm>,
  );
}

export const revokeRoutes = () =>
  createDashboardRoutes()
    .get("/users/revoke", (c) => revokeForm(c, c.req.query()))
    .post("/users/revoke", (c) => {
      const { form } = c.var;
      return redirectAfter(
        c,
        "revoked",
        async () =>
          revokeBalance(
            c.var.ctx,
            parseForm(revokeInput, { balanceId: form.balanceId, reason: requireReason(form, "reason") }),
          ),
        (refusal) => revokeForm(c, form, refusal),
      );
    });
