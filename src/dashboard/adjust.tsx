import { adjustInput } from "../api/credits/adjust-balance.ts";
import { revokeInput } from "../api/credits/revoke-balance.ts";
import { fromMinor } from "../books/amounts/amount.ts";
import { adjustBalance, previewAdjustment } from "../books/credits/adjust.ts";
import { readBalance } from "../books/credits/read-balance.ts";
import { revokeBalance } from "../books/credits/revoke.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { askRoutes, confirmPage, ReasonField, requireReason, stepRoutes, warnAboutAmount } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { createDashboardRoutes, type Form, numberField, type PageContext, parseForm } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { toUser, userPath } from "./links.tsx";
import { BeforeAfter, UnitAmount, UnitChange, unitAmountText } from "./unit-amount.tsx";

async function adjustForm(c: PageContext, form: Form, rejection?: PurserError) {
  const { balanceId, userId, packName, remaining, unit } = await readBalance(c.var.ctx, form.balanceId ?? "");
  return page(
    c,
    { title: "Adjust balance", section: "users", rejection },
    <FormCard
      method="get"
      action="users/adjust/confirm"
      about={
        <>
          {packName} of {userId}: <UnitAmount of={remaining} unit={unit} /> remaining.
        </>
      }
      form={form}
      rejection={rejection}
      fields={{ userId, balanceId, adjustmentId: form.adjustmentId ?? c.var.root.newId("adj_") }}
      button="Continue"
    >
      <Field label="Amount to add (negative to deduct)" name="delta" required placeholder="-10" />
      <ReasonField name="note" />
    </FormCard>,
  );
}

const readAdjustment = (form: Form) =>
  parseForm(adjustInput, { delta: numberField(form, "delta"), note: requireReason(form, "note") });

async function confirmAdjust(c: PageContext, form: Form, rejection?: PurserError) {
  const { balanceId = "", adjustmentId = c.var.root.newId("adj_") } = form;
  const { delta, note } = readAdjustment(form);
  const { balance, remaining } = await previewAdjustment(c.var.ctx, { balanceId, delta });
  const { userId, unit } = balance;
  return confirmPage(c, {
    title: "Confirm adjustment",
    action: "users/adjust",
    typed: { ...form, adjustmentId },
    button: "Confirm adjustment",
    cancel: userPath(userId),
    warnings: warnAboutAmount(unit, delta),
    rejection,
    facts: [
      ["User", userId],
      ["Balance", <BalanceName of={balance} />],
      [
        "Change",
        <b>
          <UnitChange of={delta} unit={unit} />
        </b>,
      ],
      ["Balance afterwards", <BeforeAfter from={balance.remaining} to={remaining} unit={unit} />],
      balance.status === "expired" && [
        "Note",
        "The balance has expired and stays expired: added credits cannot be spent.",
      ],
      ["Reason", note],
    ],
  });
}

async function adjust(c: PageContext) {
  const { form, root } = c.var;
  const { balanceId = "", adjustmentId = root.newId("adj_") } = form;
  const input = { balanceId, adjustmentId, ...readAdjustment(form) };
  const { replayed } = await callVerb(c, (ctx) => adjustBalance(ctx, input));
  return toUser(form, replayed ? "adjusted-before" : "adjusted");
}

const BalanceName = ({ of: { packName, balanceId } }: { of: { packName: string; balanceId: string } }) => (
  <>
    {packName} <code>{balanceId}</code>
  </>
);

/** Shows the form that revokes a balance. The form itself asks for the confirmation, so there is no second page. */
async function revokeForm(c: PageContext, form: Form, rejection?: PurserError) {
  const balance = await readBalance(c.var.ctx, form.balanceId ?? "");
  const { userId, balanceId, remaining, unit, heldMinor } = balance;
  const held =
    heldMinor === 0
      ? ""
      : ` Reservations hold ${unitAmountText(c.var.units, unit, fromMinor(unit, heldMinor))} of it. Returned holds are lost.`;
  const options = { title: "Revoke balance", section: "users", rejection } as const;
  if (balance.status === "revoked") return page(c, options, <p class="card">This balance is already revoked.</p>);
  return confirmPage(
    c,
    {
      fields: { userId, balanceId },
      button: "Revoke balance",
      cancel: userPath(userId),
      isDangerous: true,
      warnings: warnAboutAmount(unit, remaining),
      form,
      rejection,
      facts: [
        ["User", userId],
        ["Balance", <BalanceName of={balance} />],
        ["Expires (UTC)", timeText(balance.expiresAt)],
        ["Balance afterwards", <BeforeAfter from={remaining} to={0} unit={unit} />],
      ],
    },
    <>
      <p>This cannot be undone. Credits already spent are not refunded.{held}</p>
      <ReasonField />
    </>,
  );
}

async function revoke(c: PageContext) {
  const { form } = c.var;
  const input = parseForm(revokeInput, { balanceId: form.balanceId, reason: requireReason(form, "reason") });
  await callVerb(c, (ctx) => revokeBalance(ctx, input));
  return toUser(form, "revoked");
}

export const adjustRoutes = createDashboardRoutes()
  .route("/", stepRoutes("/users/adjust", { form: adjustForm, confirm: confirmAdjust, act: adjust }))
  .route("/", askRoutes("/users/revoke", revokeForm, revoke));
