import type { Context } from "hono";
import type { PurserError } from "../errors.ts";
import { listPacks } from "../packs/list.ts";
import { STRIPE_EVENTS } from "../payments/event.ts";
import { findPayment, listPayments } from "../payments/list.ts";
import type { PaymentOutput } from "../payments/responses.ts";
import { listPaymentsInput, settlePaymentInput } from "../payments/schemas.ts";
import { settlePayment } from "../payments/settle.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { Choice, Field, Table, Tag } from "./components.tsx";
import { SHOWN_MAX } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, numberField, parseForm } from "./form.ts";
import { amount, query, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";
import { BalanceLink, UserLink } from "./links.tsx";
import { StripeSetup, saveStripe } from "./stripe-setup.tsx";

const STATUSES = ["", "unmatched", "granted", "waiting"] as const;

/** An amount of Stripe's, in the smallest unit of its currency. */
const money = (value: number, { currency }: PaymentOutput): string => `${amount(value)} ${currency ?? ""}`;

const paymentPath = (c: Context<DashboardEnv>, key: string) => pathIn(c, `payments/${encodeURIComponent(key)}`);

async function paymentsPage(c: Context<DashboardEnv>, refusal?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const { status, cursor } = c.req.query();
  const input = parseForm(listPaymentsInput, { mode, ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) });
  const { payments, nextCursor } = await listPayments(c.var.root, appId, input);
  const stripe = await readStripe(c.var.root, appId, mode);
  const notice = c.req.query("notice") === "set" ? "Setting saved. It is in force now." : undefined;
  return page(
    c,
    { title: "Payments", section: "payments", refusal, notice },
    <>
      <section class="card">
        <h2>Payments at Stripe</h2>
        <p class="ranges">
          {STATUSES.map((each) => (
            <>
              <a
                href={pathIn(c, `payments${query({ status: each })}`)}
                aria-current={each === (status ?? "") ? "true" : undefined}
              >
                {each === "" ? "all" : each}
              </a>{" "}
            </>
          ))}
        </p>
        <Table
          label="Payments"
          head={["Payment", "Status", "User", "Paid (smallest unit)", "Refunded", "Withheld", "Since (UTC)"]}
          rows={payments.map((payment) => [
            <a href={paymentPath(c, payment.paymentKey)}>
              <code>{payment.paymentKey}</code>
            </a>,
            <StatusTag payment={payment} />,
            payment.userId === null ? "" : <UserLink c={c} id={payment.userId} />,
            money(payment.captured, payment),
            money(payment.refunded, payment),
            money(payment.withheld, payment),
            <span class="num">{time(payment.createdAt)}</span>,
          ])}
          empty="No payments."
        />
        {nextCursor !== null && (
          <p>
            <a href={pathIn(c, `payments${query({ status, cursor: nextCursor })}`)}>Older payments</a>
          </p>
        )}
      </section>
      <StripeSetup c={c} events={STRIPE_EVENTS} stripe={stripe} refusal={refusal} />
    </>,
  );
}

const StatusTag = ({ payment: { status, reason } }: { payment: PaymentOutput }) => (
  <Tag kind={status === "granted" ? "good" : status === "unmatched" ? "bad" : ""}>
    {reason === null ? status : `${status}: ${reason}`}
  </Tag>
);

async function paymentPage(c: Context<DashboardEnv>, paymentKey: string, refusal?: PurserError) {
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
          <dd>{payment.names.join(", ")}</dd>
          <dt>Paid, refunded, withheld (smallest unit)</dt>
          <dd>
            {money(payment.captured, payment)}, {money(payment.refunded, payment)}, {money(payment.withheld, payment)}
          </dd>
        </dl>
      </section>
      <section class="card">
        <h2>Balances</h2>
        <Table
          label="Balances"
          head={["Balance", "Unit", "Issued", "Taken back", "Due, but not there"]}
          rows={payment.grants.map(({ balanceId, unit, initial, taken, short }) => [
            <BalanceLink c={c} id={balanceId} />,
            unit,
            amount(initial),
            amount(taken),
            amount(short),
          ])}
          empty="Nothing was granted."
        />
        <h2>Events</h2>
        <Table
          label="Events"
          head={["At (UTC)", "Event", "What it did", "Id"]}
          rows={payment.events.map(({ at, type, outcome, eventId }) => [
            <span class="num">{time(at)}</span>,
            type,
            outcome,
            <code>{eventId}</code>,
          ])}
          empty="None."
        />
      </section>
      {payment.grants.length === 0 && <SettleForm c={c} payment={payment} refusal={refusal} packs={await packsOf(c)} />}
    </>,
  );
}

async function packsOf(c: Context<DashboardEnv>) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_MAX);
  return packs.filter(({ archivedAt }) => archivedAt === null);
}

const SettleForm = (props: {
  c: Context<DashboardEnv>;
  payment: PaymentOutput;
  refusal: PurserError | undefined;
  packs: Awaited<ReturnType<typeof packsOf>>;
}) => {
  const { c, payment, refusal, packs } = props;
  const { form } = c.var;
  return (
    <form method="post" action={`${paymentPath(c, payment.paymentKey)}/settle`} class="card">
      <h2>Grant it by hand</h2>
      <p class="soft">It is this payment's grant from then on: refunds and disputes at Stripe take it back.</p>
      <FormToken c={c} />
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
        <button type="submit">Grant</button>
      </div>
    </form>
  );
};

export const paymentsRoutes = () =>
  createDashboardRoutes()
    .get("/payments", (c) => paymentsPage(c))
    .post("/payments/stripe", async (c) => {
      const done = await catchRefusal(() => saveStripe(c));
      return done.refusal === undefined
        ? c.redirect(pathIn(c, "payments?notice=set"), 303)
        : paymentsPage(c, done.refusal);
    })
    .get("/payments/:paymentKey", (c) => paymentPage(c, c.req.param("paymentKey")))
    .post("/payments/:paymentKey/settle", async (c) => {
      const { appId, mode } = c.var.ctx.environment;
      const key = c.req.param("paymentKey");
      const { userId, packId } = c.var.form;
      const done = await catchRefusal(async () => {
        const quantity = numberField(c.var.form, "quantity");
        return settlePayment(
          c.var.admin,
          appId,
          key,
          parseForm(settlePaymentInput, { mode, userId, packId, quantity }),
        );
      });
      return done.refusal === undefined
        ? c.redirect(`${paymentPath(c, key)}?notice=settled`, 303)
        : paymentPage(c, key, done.refusal);
    });
