import type { Context } from "hono";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { shareAtMostOne } from "../books/credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { findPayment } from "../payments/list.ts";
import { settlePaymentInput } from "../payments/schemas.ts";
import { previewRefund, previewSettlement, settlePayment } from "../payments/settle.ts";
import { numbers, Table } from "./components.tsx";
import { assertSure, Confirm, doubtsOfAmount, doubtsOfId, formFields } from "./confirm.tsx";
import { catchRefusal, createDashboardRoutes, type DashboardEnv, type Form, numberField, parseForm } from "./form.ts";
import { amountText, moneyText, queryString } from "./format.tsx";
import { IssuedFacts } from "./grant.tsx";
import { page } from "./layout.tsx";
import { paymentPage, paymentPath, RefundForm } from "./payment.tsx";
import { BalanceLink } from "./people-list.tsx";

/** Shows what a refund of a share would take. */
async function refundPage(c: Context<DashboardEnv>, key: string) {
  const { ctx, root } = c.var;
  const form = c.req.query();
  const read = await catchRefusal(async () => ({
    preview: await previewRefund(
      ctx,
      key,
      parseForm(shareAtMostOne, { part: numberField(form, "part"), of: numberField(form, "of") }),
    ),
    payment: await findPayment(root, ctx.environment.appId, ctx.environment.mode, key),
  }));
  if (read.result === undefined) return paymentPage(c, key, read.refusal);
  const { preview, payment } = read.result;
  return page(
    c,
    { title: `Refund of ${payment.paymentKey}`, section: "payments" },
    <>
      <section class="card">
        <h2>A refund of {moneyText(preview.amount, preview.currency)} would take</h2>
        <Table
          label="Balances"
          head={["Balance", "Unit", numbers("Taken"), numbers("Then left")]}
          rows={preview.balances.map(({ balanceId, unit, taken, remaining }) => [
            <BalanceLink c={c} id={balanceId} />,
            unit,
            amountText(taken),
            amountText(remaining),
          ])}
          empty="Nothing was granted."
        />
      </section>
      <RefundForm c={c} payment={payment} refusal={undefined} />
    </>,
  );
}

const PAYMENT_PATH = "/payments/:paymentKey";

function readSettlement(c: Context<DashboardEnv>, form: Form) {
  const { mode } = c.var.ctx.environment;
  const { userId, packId } = form;
  return parseForm(settlePaymentInput, { mode, userId, packId, quantity: numberField(form, "quantity") });
}

/** Shows what a settlement would grant, to whom, and what the user would then have. */
async function confirmSettlement(c: Context<DashboardEnv>, key: string, form: Form, refused?: PurserError) {
  const { ctx, root } = c.var;
  const read = await catchRefusal(async () => {
    const input = readSettlement(c, form);
    return {
      input,
      plan: await previewSettlement(ctx, key, input),
      totals: await readUserTotals(ctx, input.userId),
      doubtsOfUser: await doubtsOfId(ctx, input.userId),
      payment: await findPayment(root, ctx.environment.appId, ctx.environment.mode, key),
    };
  });
  if (read.result === undefined) return paymentPage(c, key, read.refusal);
  const { input, plan, totals, payment, doubtsOfUser } = read.result;
  // A confirmation that is opened again after the grant has nothing left to confirm.
  if (payment.grants.length > 0) return c.redirect(paymentPath(c, key), 303);
  const doubts = plan.amounts.flatMap((each) => doubtsOfAmount(each.unit, each.amount));
  return page(
    c,
    { title: "Confirm settlement", section: "payments", refusal: refused },
    <Confirm
      c={c}
      action={`payments/${encodeURIComponent(key)}/settle`}
      fields={formFields(form)}
      button="Grant credits"
      cancel={`payments/${encodeURIComponent(key)}`}
      change={`payments/${encodeURIComponent(key)}${queryString(formFields(form))}`}
      doubts={[...doubtsOfUser, ...doubts]}
    >
      <dl class="facts">
        <dt>Payment</dt>
        <dd>
          {payment.paymentKey}: {moneyText(payment.captured, payment.currency)} paid
        </dd>
        <dt>User</dt>
        <dd>{input.userId}</dd>
        <IssuedFacts plan={plan} totals={totals} quantity={form.quantity} />
        {payment.refunded + payment.withheld > 0 && (
          <>
            <dt>Taken back at once</dt>
            <dd>
              The share of what is refunded or withheld at Stripe:{" "}
              {moneyText(payment.refunded + payment.withheld, payment.currency)}.
            </dd>
          </>
        )}
      </dl>
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
    const done = await catchRefusal(async () => {
      assertSure(form);
      return settlePayment(c.var.admin, c.var.ctx.environment.appId, key, readSettlement(c, form));
    });
    if (done.refusal === undefined) return c.redirect(`${paymentPath(c, key)}?notice=settled`, 303);
    return done.refusal.param === "sure"
      ? confirmSettlement(c, key, form, done.refusal)
      : paymentPage(c, key, done.refusal);
  });
