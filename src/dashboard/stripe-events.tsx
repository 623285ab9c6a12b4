import type { Context } from "hono";
import { listStripeEvents } from "../payments/list.ts";
import { listStripeEventsInput, OUTCOMES } from "../payments/schemas.ts";
import { Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv, parseForm } from "./form.ts";
import { queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { paymentPath, stripeUrl } from "./payment.tsx";
import { UserLink } from "./people-list.tsx";

/** Shows the effect of each Stripe event, and how to correct it (S5). */
async function eventsPage(c: Context<DashboardEnv>) {
  const { appId, mode } = c.var.ctx.environment;
  const { outcome, cursor } = c.req.query();
  const input = { mode, ...(outcome ? { outcome } : {}), ...(cursor ? { cursor } : {}) };
  const { events, nextCursor } = await listStripeEvents(c.var.root, appId, parseForm(listStripeEventsInput, input));
  return page(
    c,
    { title: "Stripe's events", section: "payments" },
    <section class="card">
      <h2>What Stripe sent, and what it did</h2>
      <p class="ranges">
        {["", ...OUTCOMES].map((each) => (
          <>
            <a
              href={pathIn(c, `stripe-events${queryString({ outcome: each })}`)}
              aria-current={each === (outcome ?? "") ? "true" : undefined}
            >
              {each === "" ? "all" : each}
            </a>{" "}
          </>
        ))}
      </p>
      <Table
        label="Stripe's events"
        csv="stripe-events"
        head={["Came", "Event", "What it did", "Asked for", "What to change", "Payment"]}
        rows={events.map(({ at, eventId, type, outcome: did, reason, objectId, asked, hint, paymentKey }) => [
          <Time at={at} />,
          <>
            {type} <a href={stripeUrl(eventId, mode)}>{eventId}</a>{" "}
            {objectId !== null && <a href={stripeUrl(objectId, mode)}>{objectId}</a>}
          </>,
          reason === null ? did : `${did}: ${reason}`,
          asked === null ? (
            ""
          ) : (
            <>
              {asked.pack} {asked.user !== null && <UserLink c={c} id={asked.user} />}
            </>
          ),
          hint ?? "",
          paymentKey === null ? "" : <a href={paymentPath(c, paymentKey)}>{paymentKey}</a>,
        ])}
        empty="No events."
      />
      {nextCursor !== null && (
        <p>
          <a href={pathIn(c, `stripe-events${queryString({ outcome, cursor: nextCursor })}`)}>Older events</a>
        </p>
      )}
    </section>,
  );
}

// This path is not under /payments, where a name is the id of a payment.
export const stripeEventsRoutes = createDashboardRoutes().get("/stripe-events", (c) => eventsPage(c));
