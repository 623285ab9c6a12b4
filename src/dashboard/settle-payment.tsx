import { settlePaymentInput } from "../api/payments/settle-payment.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { nameKey, type PackOutput } from "../catalog/pack.ts";
import type { PurserError } from "../errors.ts";
import { findPayment, type PaymentOutput } from "../payments/payment-lists.ts";
import { previewSettlement, settlePayment } from "../payments/settle-by-hand.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { pathIn } from "./app-link.tsx";
import { assertSure, confirmPage, warnAboutAmount, warnAboutId } from "./confirm.tsx";
import {
  catchRejection,
  createDashboardRoutes,
  type Form,
  numberField,
  type PageContext,
  parseForm,
  useRequest,
} from "./form.ts";
import { FormCard, submit } from "./form-card.tsx";
import { moneyText } from "./format.tsx";
import { GrantFields, issuedFacts } from "./grant.tsx";
import { paymentPath } from "./links.tsx";

/** Shows the page of the payment in the path. */
type ShowPayment = (c: PageContext, rejection?: PurserError) => Response | Promise<Response>;

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
  const { appId, mode } = c.var.ctx.environment;
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
      action={`${paymentPath(payment.paymentKey)}/settle`}
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
async function confirmSettlement(c: PageContext, form: Form, showPayment: ShowPayment, refused?: PurserError) {
  const key = paymentKeyIn(c);
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
  if (read.result === undefined) return showPayment(c, read.rejection);
  const { input, plan, totals, payment, warnAboutUser } = read.result;
  const at = paymentPath(key);
  // A confirmation that is opened again after the grant has nothing left to confirm.
  if (payment.grants.length > 0) return c.redirect(pathIn(c, at), 303);
  const warnings = plan.amounts.flatMap(({ unit, amount }) => warnAboutAmount(unit, amount));
  return confirmPage(c, {
    title: "Confirm settlement",
    typed: form,
    action: `${at}/settle`,
    change: at,
    button: "Grant credits",
    cancel: at,
    warnings: [...warnAboutUser, ...warnings],
    rejection: refused,
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

/** Returns the routes that grant an unmatched payment by hand. */
export const settleRoutes = (showPayment: ShowPayment) =>
  createDashboardRoutes()
    .get("/payments/:paymentKey/settle", (c) => confirmSettlement(c, c.req.query(), showPayment))
    .post("/payments/:paymentKey/settle", (c) => {
      const { form, admin, ctx } = c.var;
      const settle = async () => {
        assertSure(form);
        return settlePayment(admin, ctx.environment.appId, paymentKeyIn(c), readSettlement(c, form));
      };
      return submit(c, settle, {
        to: `${paymentPath(paymentKeyIn(c))}?notice=settled`,
        again: (rejection) =>
          rejection.param === "sure" ? confirmSettlement(c, form, showPayment, rejection) : showPayment(c, rejection),
      });
    });
