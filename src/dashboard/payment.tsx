import type { Child } from "hono/jsx";
import { shareAtMostOne } from "../api/credits/refund-credits.ts";
import type { PurserError } from "../errors.ts";
import { findPayment, type PaymentOutput } from "../payments/payment-lists.ts";
import { previewPaymentRefund } from "../payments/settle-by-hand.ts";
import type { Mode } from "../runtime.ts";
import {
  balanceColumn,
  fieldColumn,
  numberColumn,
  realTimeColumn,
  shownColumn,
  textColumn,
  userColumn,
} from "./columns.tsx";
import { Card, Facts, Id, type ShownFact } from "./components.tsx";
import { Field } from "./fields.tsx";
import {
  catchRejection,
  createDashboardRoutes,
  type Form,
  numberField,
  type PageContext,
  parseForm,
  useRequest,
} from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { moneyText } from "./format.tsx";
import { listOfferedPacks } from "./grant.tsx";
import { page } from "./layout.tsx";
import { ALREADY_SPENT, paymentPath, StripeLink, stripeUrl, UserLink } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import { StatusTag } from "./payments.tsx";
import type { ListColumn } from "./read-list.ts";
import { namedByStripe, SettleForm, settleRoutes } from "./settle-payment.tsx";
import { UnitLabel } from "./unit-amount.tsx";

type FoundPayment = Awaited<ReturnType<typeof findPayment>>;

const ASKED_COLUMNS: readonly ListColumn<FoundPayment["asked"][number]>[] = [
  fieldColumn("objectId", "At Stripe", ({ objectId }) => <StripeLink id={objectId} />),
  shownColumn("pack", "Pack or price", ({ pack }) => pack ?? "none named"),
  textColumn("quantity", "Quantity"),
];

/** Shows a payment, with a form that settles it or a form that previews its refund. */
async function paymentPage(c: PageContext, _form: Form = {}, rejection?: PurserError) {
  const { root, appId, mode } = c.var;
  const payment = await findPayment(root, appId, mode, c.req.param("paymentKey") ?? "");
  const notice = c.req.query("notice") === "settled" ? "The payment is granted." : undefined;
  return page(
    c,
    { title: `Payment ${payment.paymentKey}`, section: "payments", rejection, notice },
    <>
      <section class="card">
        <Facts
          of={[
            ["Status", <StatusTag payment={payment} />],
            ["User", payment.userId === null ? "not known" : <UserLink id={payment.userId} />],
            [
              "Ids at Stripe",
              payment.names.map((name) => (
                <div>
                  <Id id={name} to={stripeUrl(name, mode)} />
                </div>
              )),
            ],
            ["Granted by", payment.settledBy === "admin" ? "hand" : (payment.settledBy ?? "nobody yet")],
            ["Paid", moneyText(payment.captured, payment.currency)],
            ["Refunded", moneyText(payment.refunded, payment.currency)],
            ["Withheld", moneyText(payment.withheld, payment.currency)],
            ...(payment.invoice === null ? [] : invoiceFacts(payment, payment.invoice)),
          ]}
        />
      </section>
      <Card title="Balances">
        <RowsTable
          label="Balances"
          columns={[
            balanceColumn,
            fieldColumn("unit", "Unit", ({ unit }) => <UnitLabel unit={unit} />),
            numberColumn("initial", "Issued"),
            numberColumn("taken", "Taken back"),
            numberColumn("short", "Already spent"),
          ]}
          rows={payment.grants}
          empty="Nothing was granted."
        />
        {payment.grants.length > 0 && <p class="soft">{ALREADY_SPENT}</p>}
        <h2>Requested at Stripe</h2>
        <RowsTable
          label="Requested at Stripe"
          columns={ASKED_COLUMNS}
          rows={payment.asked}
          empty="Stripe has not yet sent what the payment is for."
        />
        <h2>Events</h2>
        <RowsTable
          label="Events"
          csv="payment-events"
          columns={[
            realTimeColumn("at", "At"),
            textColumn("type", "Event"),
            textColumn("outcome", "Effect"),
            userColumn("requestedUser", "For the user"),
            textColumn("hint", "What to change"),
            fieldColumn("eventId", "Id", ({ eventId }) => <StripeLink id={eventId} />),
          ]}
          rows={payment.events.map((event) => ({
            requestedUser: null,
            hint: null,
            ...payment.log.get(event.eventId),
            ...event,
          }))}
          empty="None."
        />
      </Card>
      {payment.grants.length === 0 ? (
        <SettleForm
          payment={payment}
          rejection={rejection}
          packs={await listOfferedPacks(c)}
          named={await namedByStripe(c, payment.asked)}
        />
      ) : (
        <RefundForm payment={payment} rejection={rejection} head={refundHead(payment, mode)} />
      )}
    </>,
  );
}

const invoiceFacts = (
  { currency }: PaymentOutput,
  { bought, returned, carried, share }: NonNullable<PaymentOutput["invoice"]>,
): readonly ShownFact[] => [
  ["Bought by its invoice", moneyText(bought, currency)],
  ["Returned by its invoice", moneyText(returned, currency)],
  ["Paid by the customer's carry", moneyText(carried, currency)],
  // A double may be just below the share that it stands for.
  ["Share of the lines that is granted", `${Math.floor(Number((share * 10_000).toFixed(6))) / 100} %`],
];

const refundHead = ({ paymentKey }: PaymentOutput, mode: Mode) => ({
  title: "Refund",
  about: (
    <>
      A payment is refunded <a href={stripeUrl(paymentKey, mode)}>at Stripe</a>, and Stripe's event takes the credits
      back. Preview here what a refund would take. The preview changes nothing.
    </>
  ),
});

const RefundForm = (props: {
  payment: PaymentOutput;
  rejection?: PurserError | undefined;
  /** The title and what the form does. Absent beside its own result. */
  head?: { readonly title: string; readonly about: Child };
}) => {
  const { payment, rejection, head } = props;
  return (
    <FormCard
      method="get"
      action={`${paymentPath(payment.paymentKey)}/refund`}
      {...head}
      form={{ of: String(payment.captured), ...useRequest().req.query() }}
      rejection={rejection}
      button="Show"
    >
      <Field label="Part" name="part" required />
      <Field label="Of" name="of" hint="the paid amount, in the smallest unit" required />
    </FormCard>
  );
};

/** Shows what a refund of a share would take. */
async function refundPage(c: PageContext) {
  const key = c.req.param("paymentKey") ?? "";
  const { ctx, root } = c.var;
  const form = c.req.query();
  const read = await catchRejection(async () => ({
    preview: await previewPaymentRefund(
      ctx,
      key,
      parseForm(shareAtMostOne, { part: numberField(form, "part"), of: numberField(form, "of") }),
    ),
    payment: await findPayment(root, ctx.environment.appId, ctx.environment.mode, key),
  }));
  if (read.result === undefined) return paymentPage(c, form, read.rejection);
  const { preview, payment } = read.result;
  return page(
    c,
    { title: `Refund of ${payment.paymentKey}`, section: "payments" },
    <>
      <Card title={`A refund of ${moneyText(preview.amount, preview.currency)} would take`}>
        <RowsTable
          label="Balances"
          columns={[
            balanceColumn,
            fieldColumn("unit", "Unit", ({ unit }) => <UnitLabel unit={unit} />),
            numberColumn("taken", "Taken"),
            numberColumn("remaining", "Then left"),
          ]}
          rows={preview.balances}
          empty="Nothing was granted."
        />
        <p>
          <a class="button quiet" href={stripeUrl(payment.paymentKey, ctx.environment.mode)}>
            Refund it at Stripe
          </a>
        </p>
      </Card>
      <RefundForm payment={payment} />
    </>,
  );
}

export const paymentPages = createDashboardRoutes()
  .get("/payments/:paymentKey", (c) => paymentPage(c))
  .get("/payments/:paymentKey/refund", refundPage)
  .route("/", settleRoutes(paymentPage));
