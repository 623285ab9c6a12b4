import { listPaymentsInput } from "../api/payments/list-payments.ts";
import { setCarryInput } from "../api/payments/set-carry.ts";
import { setCarry } from "../payments/change-carry.ts";
import { listPayments, type PaymentOutput } from "../payments/payment-lists.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { fieldColumn, moneyColumn, timeColumn, userColumn } from "./columns.tsx";
import { Tag } from "./components.tsx";
import { Field, type FilledForm } from "./fields.tsx";
import { type Form, numberField, parseForm } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { moneySumsText, moneyText, queryString } from "./format.tsx";
import { PaymentLink } from "./links.tsx";
import { rare } from "./list.tsx";
import { listAgain, listRoutes, type Resource } from "./resource.tsx";
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
const ANY = ["", "any"] as const;

type PaymentRow = Awaited<ReturnType<typeof listPayments>>["payments"][number];

type Listed = Awaited<ReturnType<typeof listPayments>>;

const paymentsList: Resource<PaymentRow, Pick<Listed, "sums" | "carry">> = {
  path: "payments",
  title: "Payments",
  section: "payments",
  columns: [
    fieldColumn("paymentKey", "Payment", ({ paymentKey }) => <PaymentLink id={paymentKey} />),
    fieldColumn("status", "Status", (payment) => <StatusTag payment={payment} />),
    userColumn("userId", "User"),
    { name: "currency", value: ({ currency }) => currency },
    moneyColumn("captured", "Paid"),
    rare(moneyColumn("refunded", "Refunded")),
    rare(moneyColumn("withheld", "Withheld")),
    timeColumn("createdAt", "Since"),
  ],
  filters: [
    { name: "status" },
    { name: "refunds", label: "Refunded", options: [ANY, ["none", "nothing"], ["part", "a part"], ["whole", "all"]] },
    { name: "isDisputed", label: "Disputed", options: [ANY, ["true", "yes"], ["false", "no"]] },
    { name: "settledBy", label: "Granted by", options: [ANY, ["stripe", "Stripe's event"], ["admin", "hand"]] },
    { name: "userId", label: "User id" },
    { name: "externalRef", label: "Reference" },
  ],
  notices: { set: "Setting saved. It takes effect now.", carry: "The carry is set." },
  about: (_, form) => (
    <span class="ranges">
      {STATUSES.map((each) => (
        <>
          <AppLink
            to={`payments${queryString({ ...filtersOf(form), status: each })}`}
            aria-current={each === (form.status ?? "") ? "true" : undefined}
          >
            {each === "" ? "all" : each}
          </AppLink>{" "}
        </>
      ))}
    </span>
  ),
  actions: () => <LinkButton to="stripe-events" text="Stripe's events" />,
  read: (c, form) => {
    const { root, appId, mode } = c.var;
    const input = parseForm(listPaymentsInput, { mode, ...filtersOf(form) });
    return async (page) => {
      const { payments, ...more } = await listPayments(root, appId, { ...input, ...page });
      return { rows: payments, ...more };
    };
  },
  empty: "No payments.",
  words: ["Newest payments", "Older payments"],
  foot: (_, { first }) => <PaymentSums sums={first?.sums ?? []} carry={first?.carry ?? []} />,
  below: async ({ var: { root, appId, mode, form } }, { rejection }) => (
    <>
      <CarryForm form={form.customer === undefined ? {} : form} rejection={rejection} />
      <StripeSetup stripe={await readStripe(root, appId, mode)} rejection={rejection} />
    </>
  ),
};

/** Returns the filters that are set. */
const filtersOf = (form: Form): Form =>
  Object.fromEntries(
    ["status", "refunds", "isDisputed", "settledBy", "userId", "externalRef"].flatMap((name) =>
      form[name] ? [[name, form[name]]] : [],
    ),
  );

/** Shows the sums of the payments that pass the filters, and the carry of their customers. */
const PaymentSums = ({ sums, carry }: Required<Pick<Listed, "sums" | "carry">>) => (
  <>
    {sums?.map((each) => (
      <p>Sum of the list: {moneySumsText(each)}</p>
    ))}
    {carry?.map(({ customer, currency, amount }) => (
      <p>
        The Stripe customer <code>{customer}</code> has a carry of {moneyText(amount, currency)}: what its invoices
        returned and have not bought since. Its next invoices grant that much less.
      </p>
    ))}
  </>
);

/** The form that sets a customer's carry. */
const CarryForm = ({ form, rejection }: FilledForm) => (
  <FormCard
    form={form}
    action="payments/carry"
    title="Set a customer's carry"
    about="The carry is the money that Stripe credited for a plan and that has not paid for another one yet. Set it if Stripe's own balance differs, for example because it was paid out."
    rejection={rejection}
    schema={setCarryInput}
    button="Set the carry"
  >
    <Field label="Stripe customer" name="customer" />
    <Field label="Currency" name="currency" hint="such as usd" />
    <Field label="Carry" name="amount" hint="in the smallest unit; 0 ends it" />
  </FormCard>
);

export const paymentsRoutes = listRoutes(paymentsList)
  .post(
    "/payments/carry",
    onSubmit(async ({ var: { form, admin, appId, mode } }) => {
      const { customer, currency } = form;
      const amount = numberField(form, "amount");
      await setCarry(admin, appId, parseForm(setCarryInput, { mode, customer, currency, amount }));
      return "payments?notice=carry";
    }, listAgain(paymentsList)),
  )
  .post(
    "/payments/stripe",
    onSubmit(async (c) => {
      await saveStripe(c);
      return "payments?notice=set";
    }, listAgain(paymentsList)),
  );
