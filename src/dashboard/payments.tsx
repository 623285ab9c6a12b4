import type { Context } from "hono";
import type { PurserError } from "../errors.ts";
import { STRIPE_EVENTS } from "../payments/event.ts";
import { listPayments } from "../payments/list.ts";
import { listPaymentsInput } from "../payments/schemas.ts";
import { readStripe } from "../payments/stripe-setting.ts";
import { numbers, Table } from "./components.tsx";
import { catchRefusal, createDashboardRoutes, type DashboardEnv, parseForm } from "./form.ts";
import { money, query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { paymentPath, StatusTag } from "./payment.tsx";
import { UserLink } from "./people-list.tsx";
import { confirmOff, StripeSetup, saveStripe } from "./stripe-setup.tsx";
import { Time } from "./time.tsx";

const STATUSES = ["", "unmatched", "granted", "waiting"] as const;

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
          csv="payments"
          head={["Payment", "Status", "User", numbers("Paid"), numbers("Refunded"), numbers("Withheld"), "Since"]}
          rows={payments.map((payment) => [
            <a href={paymentPath(c, payment.paymentKey)}>
              <code>{payment.paymentKey}</code>
            </a>,
            <StatusTag payment={payment} />,
            payment.userId === null ? "" : <UserLink c={c} id={payment.userId} />,
            money(payment.captured, payment.currency),
            money(payment.refunded, payment.currency),
            money(payment.withheld, payment.currency),
            <Time at={payment.createdAt} />,
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

export const paymentsRoutes = () =>
  createDashboardRoutes()
    .get("/payments", (c) => paymentsPage(c))
    // Not under /payments: there a name is that of a payment.
    .get("/stripe-off", confirmOff)
    .post("/payments/stripe", async (c) => {
      const done = await catchRefusal(() => saveStripe(c));
      return done.refusal === undefined
        ? c.redirect(pathIn(c, "payments?notice=set"), 303)
        : paymentsPage(c, done.refusal);
    });
