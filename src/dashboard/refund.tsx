import { refundInput } from "../api/credits/refund-credits.ts";
import { previewRefund, refundCredits } from "../books/credits/refund.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { AppLink } from "./app-link.tsx";
import { confirmPage, ReasonField, requireReason, stepRoutes } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { type Form, numberField, type PageContext, parseForm } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { amountText } from "./format.tsx";
import { page } from "./layout.tsx";
import { ALREADY_SPENT, paymentKeyOf, ReferenceLink, toUser, userPath } from "./links.tsx";
import { numberHead, Table } from "./table.tsx";
import { BeforeAfter, UnitAmount } from "./unit-amount.tsx";

function refundForm(c: PageContext, form: Form, rejection?: PurserError) {
  const { userId = "", externalRef, refundRef = c.var.root.newId("ref_") } = form;
  const isOfPayment = externalRef !== undefined && paymentKeyOf(externalRef) !== null;
  return page(
    c,
    { title: "Refund an order", section: "users", rejection },
    <FormCard
      method="get"
      action="users/refund/confirm"
      about={
        <>
          Takes back what was granted to {userId} under a reference. It moves no money: refund that where it was paid.
          Credits already spent are not taken.
        </>
      }
      form={form}
      rejection={rejection}
      fields={{ userId, refundRef }}
      button="Continue"
    >
      {isOfPayment && (
        <p class="warn-box wide">
          This reference belongs to a payment: <ReferenceLink reference={externalRef} />. Refund it at Stripe; its page
          shows what a refund takes.
        </p>
      )}
      <Field label="Reference of the order" name="externalRef" required />
      <Field label="Refunded part" hint="empty: all that is left" name="part" param="share.part" placeholder="500" />
      <Field label="Of" name="of" param="share.of" placeholder="1,500" />
      <ReasonField />
    </FormCard>,
  );
}

function refundOfForm(form: Form, refundRef: string) {
  const [part, of] = [numberField(form, "part", "share.part"), numberField(form, "of", "share.of")];
  return parseForm(refundInput, {
    userId: form.userId,
    externalRef: form.externalRef ?? "",
    refundRef,
    ...(part === undefined && of === undefined ? {} : { share: { part, of } }),
    reason: requireReason(form, "reason"),
  });
}

async function confirmRefund(c: PageContext, form: Form, rejection?: PurserError) {
  const { refundRef = c.var.root.newId("ref_") } = form;
  const { userId, externalRef, share, reason, ...input } = refundOfForm(form, refundRef);
  const balances = await previewRefund(c.var.ctx, { userId, externalRef, share, reason, ...input });
  return confirmPage(
    c,
    {
      title: "Confirm refund",
      action: "users/refund",
      typed: { ...form, refundRef },
      button: "Refund",
      cancel: userPath(userId),
      isDangerous: true,
      rejection,
      facts: [
        ["User", userId],
        ["Reference", <code>{externalRef}</code>],
        ["Share", share === undefined ? "all that is left" : `${amountText(share.part)} of ${amountText(share.of)}`],
        ["Reason", reason],
      ],
    },
    <>
      <Table
        label="What the refund takes"
        head={["Balance", numberHead("Balance afterwards"), numberHead("Granted"), numberHead("Already spent")]}
        empty=""
        rows={balances.map(({ balanceId, packName, unit, initial, remaining, taken, short, revokes }) => [
          <AppLink to="users/balance" fields={{ balanceId }}>
            {packName}
          </AppLink>,
          <>
            <BeforeAfter from={remaining} to={remaining - taken} unit={unit} />
            {revokes ? ", revoked" : ""}
          </>,
          <UnitAmount of={initial} unit={unit} />,
          <UnitAmount of={short} unit={unit} />,
        ])}
      />
      <p class="soft">{ALREADY_SPENT}</p>
      <p>This cannot be undone. Credits that reservations hold are taken when they return.</p>
    </>,
  );
}

async function submitRefund(c: PageContext) {
  const { form, root } = c.var;
  const { refundRef = root.newId("ref_") } = form;
  const { replayed } = await callVerb(c, (ctx) => refundCredits(ctx, refundOfForm(form, refundRef)));
  return toUser(form, replayed ? "refunded-before" : "refunded");
}

export const refundPages = stepRoutes("/users/refund", { form: refundForm, confirm: confirmRefund, act: submitRefund });
