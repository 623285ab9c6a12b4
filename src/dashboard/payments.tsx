import type { Context } from "hono";
import { listPaymentsInput } from "../api/payments/list-payments.ts";
import { setCarryInput } from "../api/payments/set-carry.ts";
import type { PurserError } from "../errors.ts";
import { setCarry } from "../payments/change-carry.ts";
import { listPayments, type PaymentOutput } from "../payments/payment-lists.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { numberHead, Tag } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, numberField, parseForm } from "./form.ts";
import { moneyText, queryString, Time } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { paymentPath, UserLink } from "./links.tsx";
import { csvFile, type ListColumn, type ListPage, ListTable, readShownList } from "./list.tsx";
import { StripeSetup, saveStripe } from "./stripe.tsx";

/** The reasons why a payment granted nothing, in words. */
const REASON_WORDS: Readonly<Record<NonNullable<PaymentOutput["reason"]>, string>> = {
  no_user: "No user named",
  no_pack: "No such pack",
  quantity: "No valid quantity",
  currency: "Another currency",
  period_over: "The paid period has ended",
  proration: "The full price of a proration is unknown",
  lines_missing: "Lines of the invoice are missing",
  person_erased: "The person was erased",
  quota: "Too many balances",
  carry: "The carry took too much",
  fault: "The grant failed",
  covered_by_credit: "Covered by credit",
};

export const StatusTag = ({ payment: { status, reason } }: { payment: PaymentOutput }) => (
  <Tag kind={status === "unmatched" ? "failed" : status}>{reason === null ? status : REASON_WORDS[reason]}</Tag>
);

const STATUSES = ["", "unmatched", "granted", "waiting"] as const;

const FILTERS = ["status", "refunds", "isDisputed", "settledBy", "userId", "externalRef"] as const;

const FilterForm = ({ c, filters }: { c: Context<DashboardEnv>; filters: Readonly<Record<string, string>> }) => (
  <form method="get" action={pathIn(c, "payments")}>
    {filters.status !== undefined && <Hidden fields={{ status: filters.status }} />}
    <div class="row">
      <Choice label="Refunded" name="refunds" value={filters.refunds} options={REFUND_CHOICES} rejection={undefined} />
      <Choice
        label="Disputed"
        name="isDisputed"
        value={filters.isDisputed}
        options={DISPUTE_CHOICES}
        rejection={undefined}
      />
      <Choice
        label="Granted by"
        name="settledBy"
        value={filters.settledBy}
        options={SETTLER_CHOICES}
        rejection={undefined}
      />
      <Field label="User id" name="userId" value={filters.userId} />
      <Field label="Reference" name="externalRef" value={filters.externalRef} />
      <button type="submit">Filter</button>
    </div>
  </form>
);
const ANY = ["", "any"] as const;
const REFUND_CHOICES = [ANY, ["none", "nothing"], ["part", "a part"], ["whole", "all"]] as const;
const DISPUTE_CHOICES = [ANY, ["true", "yes"], ["false", "no"]] as const;
const SETTLER_CHOICES = [ANY, ["stripe", "Stripe's event"], ["admin", "hand"]] as const;

type PaymentRow = Awaited<ReturnType<typeof listPayments>>["payments"][number];

/** A column of money: shown in its currency, saved in the currency's smallest units. */
const moneyColumn = (name: "captured" | "refunded" | "withheld", head: string): ListColumn<PaymentRow, unknown> => ({
  name,
  head: numberHead(head),
  cell: (payment) => moneyText(payment[name], payment.currency),
  value: (payment) => payment[name],
  sortKey: (payment) => [payment.currency, payment[name]],
});

const PAYMENT_COLUMNS: readonly ListColumn<PaymentRow, Context<DashboardEnv>>[] = [
  {
    name: "paymentKey",
    head: "Payment",
    cell: ({ paymentKey }, c) => (
      <a href={paymentPath(c, paymentKey)}>
        <code>{paymentKey}</code>
      </a>
    ),
    value: ({ paymentKey }) => paymentKey,
  },
  {
    name: "status",
    head: "Status",
    cell: (payment) => <StatusTag payment={payment} />,
    value: ({ status }) => status,
  },
  {
    name: "userId",
    head: "User",
    cell: ({ userId }, c) => (userId === null ? "" : <UserLink c={c} id={userId} />),
    value: ({ userId }) => userId,
  },
  { name: "currency", value: ({ currency }) => currency },
  moneyColumn("captured", "Paid"),
  moneyColumn("refunded", "Refunded"),
  moneyColumn("withheld", "Withheld"),
  {
    name: "createdAt",
    head: "Since",
    cell: ({ createdAt }) => <Time at={createdAt} />,
    value: ({ createdAt }) => createdAt,
  },
];

/** Returns the filters of the query, and the reader of the payments that pass them. */
function paymentReader(c: Context<DashboardEnv>) {
  const { appId, mode } = c.var.ctx.environment;
  const params = c.req.query();
  const filters = Object.fromEntries(FILTERS.flatMap((name) => (params[name] ? [[name, params[name]] as const] : [])));
  const input = parseForm(listPaymentsInput, { mode, ...filters });
  let first: Pick<Awaited<ReturnType<typeof listPayments>>, "sums" | "carry"> = {};
  return {
    filters,
    /** The sums of the payments, once their first page is read. */
    sums: () => first,
    read: async (page: ListPage) => {
      const { payments, nextCursor, ...sums } = await listPayments(c.var.root, appId, { ...input, ...page });
      if (page.cursor === undefined) first = sums;
      return { rows: payments, nextCursor };
    },
  };
}

const NOTICES = new Map([
  ["set", "Setting saved. It takes effect now."],
  ["carry", "The carry is set."],
]);

async function paymentsPage(c: Context<DashboardEnv>, rejection?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const params = c.req.query();
  const reader = paymentReader(c);
  const { filters } = reader;
  const { status } = filters;
  const list = await readShownList(params, PAYMENT_COLUMNS, reader.read);
  const { sums = [], carry = [] } = reader.sums();
  const stripe = await readStripe(c.var.root, appId, mode);
  const notice = NOTICES.get(c.req.query("notice") ?? "");
  return page(
    c,
    { title: "Payments", section: "payments", rejection, notice },
    <>
      <section class="card">
        <h2>Payments at Stripe</h2>
        <p>
          <a href={pathIn(c, "stripe-events")}>What Stripe sent, and its effect</a>
        </p>
        <p class="ranges">
          {STATUSES.map((each) => (
            <>
              <a
                href={pathIn(c, `payments${queryString({ ...filters, status: each })}`)}
                aria-current={each === (status ?? "") ? "true" : undefined}
              >
                {each === "" ? "all" : each}
              </a>{" "}
            </>
          ))}
        </p>
        <FilterForm c={c} filters={filters} />
        {sums.map(({ currency, captured, refunded, withheld }) => (
          <dl class="facts" aria-label={`Sums in ${currency}`}>
            <dt>Paid</dt>
            <dd>{moneyText(captured, currency)}</dd>
            <dt>Refunded</dt>
            <dd>{moneyText(refunded, currency)}</dd>
            <dt>Withheld</dt>
            <dd>{moneyText(withheld, currency)}</dd>
          </dl>
        ))}
        {carry.map(({ customer, currency, amount }) => (
          <p>
            The Stripe customer <code>{customer}</code> has a carry of {moneyText(amount, currency)}: what its invoices
            returned and have not bought since. Its next invoices grant that much less.
          </p>
        ))}
        <ListTable
          label="Payments"
          columns={PAYMENT_COLUMNS}
          list={list}
          view={c}
          hrefOf={(fields) => pathIn(c, `payments${queryString({ ...filters, ...fields })}`)}
          csvHrefOf={(fields) => pathIn(c, `payments.csv${queryString({ ...filters, ...fields })}`)}
          words={["Newest payments", "Older payments"]}
          empty="No payments."
        />
      </section>
      <CarryForm c={c} rejection={rejection} />
      <StripeSetup c={c} stripe={stripe} rejection={rejection} />
    </>,
  );
}

/** The form that sets a customer's carry. */
const CarryForm = ({ c, rejection }: { c: Context<DashboardEnv>; rejection: PurserError | undefined }) => {
  const form: Form = c.req.method === "GET" ? {} : c.var.form;
  return (
    <form method="post" action={pathIn(c, "payments/carry")} class="card">
      <FormToken c={c} />
      <h2>Set a customer's carry</h2>
      <p class="soft">
        The carry is the money that Stripe credited for a plan and that has not paid for another one yet. Set it if
        Stripe's own balance differs, for example because it was paid out.
      </p>
      <div class="row">
        <Field label="Stripe customer" name="customer" value={form.customer} required rejection={rejection} />
        <Field label="Currency" name="currency" value={form.currency} hint="as usd" required rejection={rejection} />
        <Field
          label="Carry"
          name="amount"
          value={form.amount}
          hint="in the smallest unit; 0 ends it"
          required
          rejection={rejection}
        />
        <button type="submit">Set the carry</button>
      </div>
    </form>
  );
};

export const paymentsRoutes = createDashboardRoutes()
  .get("/payments", (c) => paymentsPage(c))
  .get("/payments.csv", (c) => csvFile(c, "payments", PAYMENT_COLUMNS, paymentReader(c).read))
  .post("/payments/carry", async (c) => {
    const { form, admin, ctx } = c.var;
    const { appId, mode } = ctx.environment;
    const { customer, currency } = form;
    const done = await catchRejection(() =>
      setCarry(
        admin,
        appId,
        parseForm(setCarryInput, { mode, customer, currency, amount: numberField(form, "amount") }),
      ),
    );
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "payments?notice=carry"), 303)
      : paymentsPage(c, done.rejection);
  })
  .post("/payments/stripe", async (c) => {
    const done = await catchRejection(() => saveStripe(c));
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "payments?notice=set"), 303)
      : paymentsPage(c, done.rejection);
  });
