import type { Context } from "hono";
import { shareAtMostOne } from "../api/credits/refund-credits.ts";
import { settlePaymentInput } from "../api/payments/settle-payment.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { nameKey, type PackOutput } from "../catalog/pack.ts";
import type { PurserError } from "../errors.ts";
import { findPayment, type PaymentOutput } from "../payments/payment-lists.ts";
import { previewPaymentRefund, previewSettlement, settlePayment } from "../payments/settle-by-hand.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { Facts, Id, numberHead, type ShownFact, Table } from "./components.tsx";
import { assertSure, Confirm, formFields, warnAboutAmount, warnAboutId } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, numberField, parseForm } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { amountText, moneyText, queryString, Time } from "./format.tsx";
import { GrantFields, issuedFacts, listOfferedPacks } from "./grant.tsx";
import { page } from "./layout.tsx";
import { ALREADY_SPENT, BalanceLink, paymentPath, stripeUrl, UserLink } from "./links.tsx";
import { StatusTag } from "./payments.tsx";
import { UnitLabel } from "./unit-amount.tsx";

const requestedUserLink = (c: Context<DashboardEnv>, user: string | null | undefined) =>
  user == null ? "" : <UserLink c={c} id={user} />;

/** Shows a payment, with a form that settles it or a form that previews its refund. */
async function paymentPage(c: Context<DashboardEnv>, paymentKey: string, rejection?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const payment = await findPayment(c.var.root, appId, mode, paymentKey);
  const notice = c.req.query("notice") === "settled" ? "The payment is granted." : undefined;
  return page(
    c,
    { title: `Payment ${payment.paymentKey}`, section: "payments", rejection, notice },
    <>
      <section class="card">
        <Facts
          of={[
            ["Status", <StatusTag payment={payment} />],
            ["User", payment.userId === null ? "not known" : <UserLink c={c} id={payment.userId} />],
            [
              "Ids at Stripe",
              payment.names.map((name) => (
                <div>
                  <Id id={name} href={stripeUrl(name, mode)} />
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
      <section class="card">
        <h2>Balances</h2>
        <Table
          label="Balances"
          head={["Balance", "Unit", numberHead("Issued"), numberHead("Taken back"), numberHead("Already spent")]}
          rows={payment.grants.map(({ balanceId, unit, initial, taken, short }) => [
            <BalanceLink c={c} id={balanceId} />,
            <UnitLabel unit={unit} />,
            amountText(initial),
            amountText(taken),
            amountText(short),
          ])}
          empty="Nothing was granted."
        />
        {payment.grants.length > 0 && <p class="soft">{ALREADY_SPENT}</p>}
        <h2>Requested at Stripe</h2>
        <Table
          label="Requested at Stripe"
          head={["At Stripe", "Pack or price", "Quantity"]}
          rows={payment.asked.map(({ objectId, pack, quantity }) => [
            <a href={stripeUrl(objectId, mode)}>{objectId}</a>,
            pack ?? "none named",
            quantity ?? "",
          ])}
          empty="Stripe has not yet sent what the payment is for."
        />
        <h2>Events</h2>
        <Table
          label="Events"
          csv="payment-events"
          head={["At", "Event", "Effect", "For the user", "What to change", "Id"]}
          rows={payment.events.map(({ at, type, outcome, eventId }) => [
            <Time at={at} />,
            type,
            outcome,
            requestedUserLink(c, payment.log.get(eventId)?.requestedUser),
            payment.log.get(eventId)?.hint ?? "",
            <a href={stripeUrl(eventId, mode)}>{eventId}</a>,
          ])}
          empty="None."
        />
      </section>
      {payment.grants.length === 0 ? (
        <SettleForm
          c={c}
          payment={payment}
          rejection={rejection}
          packs={await listOfferedPacks(c)}
          named={await namedByStripe(c, payment.asked)}
        />
      ) : (
        <RefundForm c={c} payment={payment} rejection={rejection} />
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
  ["Share of the lines that is granted", `${Math.floor(share * 10_000) / 100} %`],
];

interface NamedGrant {
  /** A pack's id or name. */
  readonly pack: string | null;
  readonly quantity: string | null;
}

/** Returns the pack that Stripe's first object with one names: itself, or by the price of an invoice's line. */
async function namedByStripe(
  c: Context<DashboardEnv>,
  asked: Awaited<ReturnType<typeof findPayment>>["asked"],
): Promise<NamedGrant> {
  const { appId, mode } = c.var.ctx.environment;
  const first = asked.find(({ pack }) => pack !== null);
  if (first === undefined) return { pack: null, quantity: null };
  const { setting } = await readStripe(c.var.root, appId, mode);
  const price = setting?.prices.find((each) => each.price === first.pack);
  // An empty quantity means what the setting and Stripe's line say.
  return price === undefined ? first : { pack: price.packId, quantity: null };
}

const SettleForm = (props: {
  c: Context<DashboardEnv>;
  payment: PaymentOutput;
  rejection: PurserError | undefined;
  packs: readonly PackOutput[];
  /** The pack and the quantity that Stripe's event named. */
  named: NamedGrant;
}) => {
  const { c, payment, rejection, packs, named } = props;
  const form: Form = c.req.method === "GET" ? c.req.query() : c.var.form;
  const isNamed = ({ packId, packName }: PackOutput) =>
    named.pack !== null && (packId === named.pack || nameKey(packName) === nameKey(named.pack));
  const preselected = { packId: packs.find(isNamed)?.packId ?? "", quantity: named.quantity ?? "" };
  return (
    <FormCard
      c={c}
      method="get"
      action={`${paymentPath(c, payment.paymentKey)}/settle`}
      title="Grant it by hand"
      about="Later refunds and disputes at Stripe take these credits back."
      form={{ ...preselected, ...form, userId: form.userId ?? payment.userId ?? "" }}
      rejection={rejection}
      schema={settlePaymentInput}
      button="Continue"
    >
      <GrantFields
        packs={packs}
        quantityHint="the amount, or how many times a pack with items is granted; empty: what Stripe says"
      />
    </FormCard>
  );
};

const RefundForm = (props: {
  c: Context<DashboardEnv>;
  payment: PaymentOutput;
  rejection: PurserError | undefined;
}) => {
  const { c, payment, rejection } = props;
  const { part = "", of = String(payment.captured) } = c.req.query();
  return (
    <form method="get" action={`${paymentPath(c, payment.paymentKey)}/refund`} class="card">
      <h2>Refund</h2>
      <p class="soft">
        A payment is refunded <a href={stripeUrl(payment.paymentKey, c.var.ctx.environment.mode)}>at Stripe</a>, and
        Stripe's event takes the credits back. Preview here what a refund would take. The preview changes nothing.
      </p>
      <div class="row">
        <Field label="Part" name="part" value={part} required rejection={rejection} />
        <Field
          label="Of"
          name="of"
          value={of}
          hint="the paid amount, in the smallest unit"
          required
          rejection={rejection}
        />
        <button type="submit">Show</button>
      </div>
    </form>
  );
};

/** Shows what a refund of a share would take. */
async function refundPage(c: Context<DashboardEnv>, key: string) {
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
  if (read.result === undefined) return paymentPage(c, key, read.rejection);
  const { preview, payment } = read.result;
  return page(
    c,
    { title: `Refund of ${payment.paymentKey}`, section: "payments" },
    <>
      <section class="card">
        <h2>A refund of {moneyText(preview.amount, preview.currency)} would take</h2>
        <Table
          label="Balances"
          head={["Balance", "Unit", numberHead("Taken"), numberHead("Then left")]}
          rows={preview.balances.map(({ balanceId, unit, taken, remaining }) => [
            <BalanceLink c={c} id={balanceId} />,
            <UnitLabel unit={unit} />,
            amountText(taken),
            amountText(remaining),
          ])}
          empty="Nothing was granted."
        />
      </section>
      <RefundForm c={c} payment={payment} rejection={undefined} />
    </>,
  );
}

const PAYMENT_PATH = "/payments/:paymentKey";

function readSettlement(c: Context<DashboardEnv>, form: Form) {
  const { mode } = c.var.ctx.environment;
  const { userId, packId } = form;
  return parseForm(settlePaymentInput, { mode, userId, packId, quantity: numberField(form, "quantity") });
}

/** Shows which credits a settlement would grant, to which user, and what that user would then have. */
async function confirmSettlement(c: Context<DashboardEnv>, key: string, form: Form, refused?: PurserError) {
  const { ctx, root } = c.var;
  const read = await catchRejection(async () => {
    const input = readSettlement(c, form);
    return {
      input,
      plan: await previewSettlement(ctx, key, input),
      totals: await readUserTotals(ctx, input.userId),
      warnAboutUser: await warnAboutId(ctx, input.userId),
      payment: await findPayment(root, ctx.environment.appId, ctx.environment.mode, key),
    };
  });
  if (read.result === undefined) return paymentPage(c, key, read.rejection);
  const { input, plan, totals, payment, warnAboutUser } = read.result;
  // A confirmation that is opened again after the grant has nothing left to confirm.
  if (payment.grants.length > 0) return c.redirect(paymentPath(c, key), 303);
  const warnings = plan.amounts.flatMap(({ unit, amount }) => warnAboutAmount(unit, amount));
  return page(
    c,
    { title: "Confirm settlement", section: "payments", rejection: refused },
    <Confirm
      c={c}
      action={`payments/${encodeURIComponent(key)}/settle`}
      fields={formFields(form)}
      button="Grant credits"
      cancel={`payments/${encodeURIComponent(key)}`}
      change={`payments/${encodeURIComponent(key)}${queryString(formFields(form))}`}
      warnings={[...warnAboutUser, ...warnings]}
    >
      <Facts
        of={[
          ["Payment", `${payment.paymentKey}: ${moneyText(payment.captured, payment.currency)} paid`],
          ["User", input.userId],
          ...issuedFacts({ plan, totals, quantity: form.quantity }),
          payment.refunded + payment.withheld > 0 && [
            "Taken back at once",
            `The share of what is refunded or withheld at Stripe: ${moneyText(payment.refunded + payment.withheld, payment.currency)}.`,
          ],
        ]}
      />
    </Confirm>,
  );
}

export const paymentPages = createDashboardRoutes()
  .get(PAYMENT_PATH, (c) => paymentPage(c, c.req.param("paymentKey")))
  .get(`${PAYMENT_PATH}/refund`, (c) => refundPage(c, c.req.param("paymentKey")))
  .get(`${PAYMENT_PATH}/settle`, (c) => confirmSettlement(c, c.req.param("paymentKey"), c.req.query()))
  .post(`${PAYMENT_PATH}/settle`, async (c) => {
    const key = c.req.param("paymentKey");
    const { form } = c.var;
    const done = await catchRejection(async () => {
      assertSure(form);
      return settlePayment(c.var.admin, c.var.ctx.environment.appId, key, readSettlement(c, form));
    });
    if (done.rejection === undefined) return c.redirect(`${paymentPath(c, key)}?notice=settled`, 303);
    return done.rejection.param === "sure"
      ? confirmSettlement(c, key, form, done.rejection)
      : paymentPage(c, key, done.rejection);
  });
