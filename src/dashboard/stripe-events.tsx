import { listStripeEventsInput } from "../api/payments/list-stripe-events.ts";
import { OUTCOMES } from "../payments/outcomes.ts";
import { type ListStripeEventsOutput, listStripeEvents } from "../payments/read-stripe-log.ts";
import { shownColumn, textColumn, timeColumn } from "./columns.tsx";
import { parseForm } from "./form.ts";
import { PaymentLink, StripeLink, UserLink } from "./links.tsx";
import { listRoutes } from "./resource.tsx";

/** The effect of each Stripe event, and how to correct it (S5). */
export const stripeEventsRoutes = listRoutes<ListStripeEventsOutput["events"][number], unknown>({
  // This path is not under /payments, where a name is the id of a payment.
  path: "stripe-events",
  title: "Stripe's events",
  section: "payments",
  about: "What Stripe sent, and its effect.",
  columns: [
    timeColumn("at", "Received"),
    textColumn("type", "Event"),
    {
      name: "eventId",
      head: "At Stripe",
      cell: ({ eventId, objectId }) =>
        [eventId, objectId].map(
          (id) =>
            id !== null && (
              <div>
                <StripeLink id={id} />
              </div>
            ),
        ),
      value: ({ eventId }) => eventId,
    },
    { name: "objectId", value: ({ objectId }) => objectId },
    shownColumn("outcome", "Effect", ({ outcome, reason }) => (reason === null ? outcome : `${outcome}: ${reason}`)),
    {
      name: "user",
      head: "Pack and user",
      cell: ({ asked }) => (
        <>
          {asked?.pack} {asked !== null && asked.user !== null && <UserLink id={asked.user} />}
        </>
      ),
      value: ({ asked }) => asked?.user ?? null,
    },
    textColumn("hint", "What to change"),
    {
      name: "paymentKey",
      head: "Payment",
      cell: ({ paymentKey }) => paymentKey !== null && <PaymentLink id={paymentKey} />,
      value: ({ paymentKey }) => paymentKey,
    },
  ],
  filters: [{ name: "outcome", label: "Effect", options: [["", "all"], ...OUTCOMES] }],
  read: (c, { outcome }) => {
    const { appId, mode } = c.var.ctx.environment;
    const input = parseForm(listStripeEventsInput, { mode, outcome });
    return async (page) => {
      const { events, nextCursor } = await listStripeEvents(c.var.root, appId, { ...input, ...page });
      return { rows: events, nextCursor };
    };
  },
  empty: "No events.",
  words: ["Newest events", "Older events"],
});
