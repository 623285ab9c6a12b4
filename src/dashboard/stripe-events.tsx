import { listStripeEventsInput } from "../api/payments/list-stripe-events.ts";
import { OUTCOMES } from "../payments/outcomes.ts";
import { type ListStripeEventsOutput, listStripeEvents } from "../payments/read-stripe-log.ts";
import { customColumn, fieldColumn, realTimeColumn, shownColumn, textColumn } from "./columns.tsx";
import { parseForm } from "./form.ts";
import { PaymentLink, StripeLink, UserLink } from "./links.tsx";
import { rare } from "./list.tsx";
import { listRoutes } from "./resource.tsx";

/** The effect of each Stripe event, and how to correct it (S5). */
export const stripeEventsRoutes = listRoutes<ListStripeEventsOutput["events"][number], unknown>({
  // This path is not under /payments, where a name is the id of a payment.
  path: "stripe-events",
  title: "Stripe's events",
  section: "payments",
  about: "What Stripe sent, and its effect.",
  columns: [
    realTimeColumn("at", "Received"),
    textColumn("type", "Event"),
    fieldColumn("eventId", "At Stripe", ({ eventId, objectId }) =>
      [eventId, objectId].map(
        (id) =>
          id !== null && (
            <div>
              <StripeLink id={id} />
            </div>
          ),
      ),
    ),
    { name: "objectId", value: ({ objectId }) => objectId },
    shownColumn("outcome", "Effect", ({ outcome, reason }) => (reason === null ? outcome : `${outcome}: ${reason}`)),
    customColumn(
      "user",
      "Pack and user",
      ({ asked }) => (
        <>
          {asked?.pack} {asked !== null && asked.user !== null && <UserLink id={asked.user} />}
        </>
      ),
      ({ asked }) => asked?.user ?? null,
    ),
    rare(textColumn("hint", "What to change")),
    fieldColumn("paymentKey", "Payment", ({ paymentKey }) => paymentKey !== null && <PaymentLink id={paymentKey} />),
  ],
  filters: [{ name: "outcome", label: "Effect", options: [["", "all"], ...OUTCOMES] }],
  read: (c, { outcome }) => {
    const { appId, mode } = c.var;
    const input = parseForm(listStripeEventsInput, { mode, outcome });
    return async (page) => {
      const { events, nextCursor } = await listStripeEvents(c.var.root, appId, { ...input, ...page });
      return { rows: events, nextCursor };
    };
  },
  empty: "No events.",
  words: ["Newest events", "Older events"],
});
