import type { Context } from "hono";
import { adjustBalance } from "../credits/adjust.ts";
import { adjustInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { Field, Hidden, LongText } from "./components.tsx";
import { Confirm, findBalance, formFields, redirectAfter, requireReason } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, numberField, parseForm } from "./form.ts";
import { amount, signed } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";

async function adjustForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const balance = await findBalance(c, form);
  return page(
    c,
    { title: "Adjust balance", section: "users", refusal },
    <form method="post" action={pathIn(c, "users/adjust/confirm")} class="card">
      <FormToken c={c} />
      <Hidden fields={{ userId: form.userId ?? "", balanceId: form.balanceId ?? "" }} />
      {balance !== undefined && (
        <p>
          {balance.packName} of {form.userId}: {amount(balance.remaining)} {balance.unit} remaining.
        </p>
      )}
      <div class="row">
        <Field
          label="Amount to add (negative to deduct)"
          name="delta"
          value={form.delta}
          required
          placeholder="-10"
          isBad={refusal?.param === "delta"}
        />
      </div>
      <LongText label="Reason (kept in the ledger)" name="note" value={form.note} required />
      <p>
        <button type="submit">Continue</button>
      </p>
    </form>,
  );
}

const readAdjustment = (form: Form) =>
  parseForm(adjustInput, { delta: numberField(form, "delta") ?? Number.NaN, note: requireReason(form, "note") });

async function confirmAdjust(c: Context<DashboardEnv>) {
  const { form, root } = c.var;
  const read = await catchRefusal(async () => readAdjustment(form));
  if (read.result === undefined) return adjustForm(c, form, read.refusal);
  const balance = await findBalance(c, form);
  const fields = { ...formFields(form), adjustmentId: root.newId("adj_") };
  return page(
    c,
    { title: "Confirm adjustment", section: "users" },
    <Confirm c={c} action="users/adjust" fields={fields} button="Confirm adjustment">
      <dl class="facts">
        <dt>Balance</dt>
        <dd>{balance?.packName ?? form.balanceId}</dd>
        <dt>Change</dt>
        <dd>
          {signed(read.result.delta)} {balance?.unit}
        </dd>
        <dt>Current balance</dt>
        <dd>{balance === undefined ? "unknown" : `${amount(balance.remaining)} ${balance.unit}`}</dd>
        <dt>Reason</dt>
        <dd>{read.result.note}</dd>
      </dl>
    </Confirm>,
  );
}

export const adjustRoutes = () =>
  createDashboardRoutes()
    .get("/users/adjust", (c) => adjustForm(c, c.req.query()))
    .post("/users/adjust/confirm", confirmAdjust)
    .post("/users/adjust", (c) => {
      const { form, root } = c.var;
      const { balanceId = "", adjustmentId = root.newId("adj_") } = form;
      return redirectAfter(
        c,
        "adjusted",
        async () => adjustBalance(c.var.ctx, { balanceId, adjustmentId, ...readAdjustment(form) }),
        (refusal) => adjustForm(c, form, refusal),
      );
    });
