import type { Context } from "hono";
import { listPacks } from "../catalog/pack.ts";
import type { PurserError } from "../errors.ts";
import { findPayment } from "../payments/list.ts";
import type { PaymentOutput } from "../payments/responses.ts";
import type { Mode } from "../runtime.ts";
import { numbers, Table, Tag } from "./components.tsx";
import { SHOWN_FIELDS_MAX } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import type { DashboardEnv, Form } from "./form.ts";
import { amountText, moneyText, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, UserLink } from "./people-list.tsx";

export const paymentPath = (c: Context<DashboardEnv>, key: string) => pathIn(c, `payments/${encodeURIComponent(key)}`);

/** The reasons why a payment granted nothing, in words. */
const REASON_WORDS: Readonly<Record<NonNullable<PaymentOutput["reason"]>, string>> = {
  no_user: "No user named",
  no_pack: "No such pack",
  quantity: "No valid quantity",
  currency: "Another currency",
  period_over: "Its period is over",
  proration: "A proration that cannot be shared",
  lines_missing: "Lines of the invoice are missing",
  person_erased: "The person was erased",
  quota: "Too many balances",
};

export const StatusTag = ({ payment: { status, reason } }: { payment: PaymentOutput }) => (
  <Tag kind={status === "unmatched" ? "failed" : status}>{reason === null ? status : REASON_WORDS[reason]}</Tag>
);

const userAsked = (c: Context<DashboardEnv>, user: string | null | undefined) =>
  user == null ? "" : <UserLink c={c} id={user} />;

/** Shows a payment, with a form that settles it, or one that previews its refund. */
export async function paymentPage(c: Context<DashboardEnv>, paymentKey: string, refusal?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const payment = await findPayment(c.var.root, appId, mode, paymentKey);
  const notice = c.req.query("notice") === "settled" ? "The payment is granted." : undefined;
  return page(
    c,
    { title: `Payment ${payment.paymentKey}`, section: "payments", refusal, notice },
    <>
      <section class="card">
        <dl class="facts">
          <dt>Status</dt>
          <dd>
            <StatusTag payment={payment} />
          </dd>
          <dt>User</dt>
          <dd>{payment.userId === null ? "not known" : <UserLink c={c} id={payment.userId} />}</dd>
          <dt>Ids at Stripe</dt>
          <dd>
            {payment.names.map((name) => (
              <div>
                <a href={stripeUrl(name, mode)}>
                  <code>{name}</code>
                </a>
              </div>
            ))}
          </dd>
          <dt>Granted by</dt>
          <dd>{payment.settledBy === "admin" ? "hand" : (payment.settledBy ?? "nobody yet")}</dd>
          <dt>Paid</dt>
          <dd>{moneyText(payment.captured, payment.currency)}</dd>
          <dt>Refunded</dt>
          <dd>{moneyText(payment.refunded, payment.currency)}</dd>
          <dt>Withheld</dt>
          <dd>{moneyText(payment.withheld, payment.currency)}</dd>
        </dl>
      </section>
      <section class="card">
        <h2>Balances</h2>
        <Table
          label="Balances"
          head={["Balance", "Unit", numbers("Issued"), numbers("Taken back"), numbers("Already spent")]}
          rows={payment.grants.map(({ balanceId, unit, initial, taken, short }) => [
            <BalanceLink c={c} id={balanceId} />,
            unit,
            amountText(initial),
            amountText(taken),
            amountText(short),
          ])}
          empty="Nothing was granted."
        />
        <h2>Asked for</h2>
        <Table
          label="Asked for"
          head={["At Stripe", "Pack or price", "Quantity"]}
          rows={payment.asked.map(({ objectId, pack, quantity }) => [
            <a href={stripeUrl(objectId, mode)}>{objectId}</a>,
            pack ?? "none named",
            quantity ?? "",
          ])}
          empty="Stripe has not said yet what it pays."
        />
        <h2>Events</h2>
        <Table
          label="Events"
          csv="payment-events"
          head={["At", "Event", "What it did", "For the user", "What to change", "Id"]}
          rows={payment.events.map(({ at, type, outcome, eventId }) => [
            <Time at={at} />,
            type,
            outcome,
            userAsked(c, payment.log.get(eventId)?.askedUser),
            payment.log.get(eventId)?.hint ?? "",
            <a href={stripeUrl(eventId, mode)}>{eventId}</a>,
          ])}
          empty="None."
        />
      </section>
      {payment.grants.length === 0 ? (
        <SettleForm c={c} payment={payment} refusal={refusal} packs={await packsOf(c)} />
      ) : (
        <RefundForm c={c} payment={payment} refusal={refusal} />
      )}
    </>,
  );
}

async function packsOf(c: Context<DashboardEnv>) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_FIELDS_MAX);
  return packs.filter(({ archivedAt }) => archivedAt === null);
}

const SettleForm = (props: {
  c: Context<DashboardEnv>;
  payment: PaymentOutput;
  refusal: PurserError | undefined;
  packs: Awaited<ReturnType<typeof packsOf>>;
}) => {
  const { c, payment, refusal, packs } = props;
  const form: Form = c.req.method === "GET" ? c.req.query() : c.var.form;
  return (
    <form method="get" action={`${paymentPath(c, payment.paymentKey)}/settle`} class="card">
      <h2>Grant it by hand</h2>
      <p class="soft">It is this payment's grant from then on: refunds and disputes at Stripe take it back.</p>
      <div class="row">
        <Field label="User id" name="userId" value={form.userId ?? payment.userId ?? ""} required refusal={refusal} />
        <Choice
          label="Pack"
          name="packId"
          value={form.packId}
          options={packs.map((pack) => [pack.packId, pack.packName] as const)}
          refusal={refusal}
        />
        <Field
          label="Quantity"
          name="quantity"
          value={form.quantity}
          hint="only for packs without items; empty: what Stripe says"
          refusal={refusal}
        />
        <button type="submit">Continue</button>
      </div>
    </form>
  );
};

const STRIPE_PAGES: Readonly<Record<string, string>> = {
  ...{ pi: "payments", ch: "payments", py: "payments", in: "invoices" },
  ...{ evt: "events", cus: "customers", sub: "subscriptions" },
};
/** Returns the address of an object at Stripe, such as the payment, where it can be refunded. */
export function stripeUrl(id: string, mode: Mode): string {
  const key = encodeURIComponent(id);
  const test = mode === "test" ? "test/" : "";
  const found = STRIPE_PAGES[key.slice(0, key.indexOf("_"))];
  const path = found === undefined ? `search?query=${key}` : `${found}/${key}`;
  return `https://dashboard.stripe.com/${test}${path}`;
}

export const RefundForm = (props: {
  c: Context<DashboardEnv>;
  payment: PaymentOutput;
  refusal: PurserError | undefined;
}) => {
  const { c, payment, refusal } = props;
  const { part = "", of = String(payment.captured) } = c.req.query();
  return (
    <form method="get" action={`${paymentPath(c, payment.paymentKey)}/refund`} class="card">
      <h2>Refund</h2>
      <p class="soft">
        A payment is refunded <a href={stripeUrl(payment.paymentKey, c.var.ctx.environment.mode)}>at Stripe</a>, and
        Stripe's event takes the credits back. See here first what it would take. Nothing is changed.
      </p>
      <div class="row">
        <Field label="Part" name="part" value={part} required refusal={refusal} />
        <Field
          label="Of"
          name="of"
          value={of}
          hint="the paid amount, in the smallest unit"
          required
          refusal={refusal}
        />
        <button type="submit">Show</button>
      </div>
    </form>
  );
};
