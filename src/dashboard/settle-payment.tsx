import { settlePaymentInput } from "../api/payments/settle-payment.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { nameKey, type PackOutput } from "../catalog/pack.ts";
import type { PurserError } from "../errors.ts";
import { findPayment, type PaymentOutput } from "../payments/payment-lists.ts";
import { previewSettlement, settlePayment } from "../payments/settle-by-hand.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { pathIn } from "./app-link.tsx";
import { confirmPage, stepRoutes, warnAboutAmount, warnAboutId } from "./confirm.tsx";
import { type Form, numberField, type PageContext, parseForm, useRequest } from "./form.ts";
import { FormCard, type ShowForm } from "./form-card.tsx";
import { moneyText } from "./format.tsx";
import { GrantFields, issuedFacts } from "./grant.tsx";
import { paymentPath } from "./links.tsx";

const paymentKeyIn = (c: PageContext): string => c.req.param("paymentKey") ?? "";

interface NamedGrant {
  /** A pack's id or name. */
  readonly pack: string | null;
  readonly quantity: string | null;
}

/** Returns the pack that Stripe's first object with one names: itself, or by the price of an invoice's line. */
export async function namedByStripe(
  c: PageContext,
  asked: Awaited<ReturnType<typeof findPayment>>["asked"],
): Promise<NamedGrant> {
  const { appId, mode } = c.var;
  const first = asked.find(({ pack }) => pack !== null);
  if (first === undefined) return { pack: null, quantity: null };
  const { setting } = await readStripe(c.var.root, appId, mode);
  const price = setting?.prices.find((each) => each.price === first.pack);
  // An empty quantity means what the setting and Stripe's line say.
  return price === undefined ? first : { pack: price.packId, quantity: null };
}

export const SettleForm = (props: {
  payment: PaymentOutput;
  rejection: PurserError | undefined;
  packs: readonly PackOutput[];
  /** The pack and the quantity that Stripe's event named. */
  named: NamedGrant;
}) => {
  const { payment, rejection, packs, named } = props;
  const c = useRequest();
  const form: Form = c.req.method === "GET" ? c.req.query() : c.var.form;
  const isNamed = ({ packId, packName }: PackOutput) =>
    named.pack !== null && (packId === named.pack || nameKey(packName) === nameKey(named.pack));
  const preselected = { packId: packs.find(isNamed)?.packId ?? "", quantity: named.quantity ?? "" };
  return (
    <FormCard
      method="get"
      action={`${paymentPath(payment.paymentKey)}/settle/confirm`}
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

function readSettlement(c: PageContext, form: Form) {
  const { mode } = c.var.ctx.environment;
  const { userId, packId } = form;
  return parseForm(settlePaymentInput, { mode, userId, packId, quantity: numberField(form, "quantity") });
}

/** Shows which credits a settlement would grant, to which user, and what that user would then have. */
async function confirmSettlement(c: PageContext, form: Form, rejection?: PurserError) {
  const key = paymentKeyIn(c);
  const { ctx, root, appId, mode } = c.var;
  const input = readSettlement(c, form);
  const plan = await previewSettlement(ctx, key, input);
  const payment = await findPayment(root, appId, mode, key);
  const at = paymentPath(key);
  // A confirmation that is opened again after the grant has nothing left to confirm.
  if (payment.grants.length > 0) return c.redirect(pathIn(c, at), 303);
  const totals = await readUserTotals(ctx, input.userId);
  return confirmPage(c, {
    title: "Confirm settlement",
    typed: form,
    action: `${at}/settle`,
    change: at,
    button: "Grant credits",
    cancel: at,
    warnings: [
      ...(await warnAboutId(ctx, input.userId)),
      ...plan.amounts.flatMap(({ unit, amount }) => warnAboutAmount(unit, amount)),
    ],
    rejection,
    facts: [
      ["Payment", `${payment.paymentKey}: ${moneyText(payment.captured, payment.currency)} paid`],
      ["User", input.userId],
      ...issuedFacts({ plan, totals, quantity: form.quantity }),
      payment.refunded + payment.withheld > 0 && [
        "Taken back at once",
        `The share of what is refunded or withheld at Stripe: ${moneyText(payment.refunded + payment.withheld, payment.currency)}.`,
      ],
    ],
  });
}

async function submitSettlement(c: PageContext) {
  const key = paymentKeyIn(c);
  await settlePayment(c.var.admin, c.var.appId, key, readSettlement(c, c.var.form));
  return `${paymentPath(key)}?notice=settled`;
}

/** Returns the routes that grant an unmatched payment by hand. `form` shows the page of the payment in the path. */
export const settleRoutes = (form: ShowForm) =>
  stepRoutes("/payments/:paymentKey/settle", { form, confirm: confirmSettlement, act: submitSettlement });
