import type { Context } from "hono";
import { listDeliveries, lookedAtDeliveriesMax } from "../webhooks/list-deliveries.ts";
import type { Attempt, ListDeliveriesOutput, WebhookOutput } from "../webhooks/responses.ts";
import { listDeliveriesInput } from "../webhooks/schemas.ts";
import { Pager, Table, Tag } from "./components.tsx";
import { Hidden } from "./fields.tsx";
import { type DashboardEnv, parseForm, textField } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { FormToken, pathIn } from "./layout.tsx";
import { TICKED } from "./webhook-forms.tsx";
import { disabledReasonOf } from "./webhooks.tsx";

const DELIVERY_ROWS = 20;
const DELIVERY_STATUSES = ["", "pending", "delivered", "failed"] as const;

/** Returns the page of an endpoint's deliveries that the query asks for. */
export function readDeliveries(c: Context<DashboardEnv>, webhookId: string): Promise<ListDeliveriesOutput> {
  const asked = c.req.query();
  const fields = { status: textField(asked, "status"), cursor: textField(asked, "cursor") };
  const input = parseForm(listDeliveriesInput, fields);
  return listDeliveries(c.var.root, c.var.ctx.environment.appId, webhookId, { ...input, limit: DELIVERY_ROWS });
}

/** Shows an attempt: its status, or why there was no response, and how long it took. */
const AttemptLine = ({ attempt }: { attempt: Attempt }) => {
  const isSuccess = attempt.status !== null && attempt.status >= 200 && attempt.status < 300;
  return (
    <div>
      <Time at={attempt.at} />: {isSuccess ? attempt.status : disabledReasonOf(attempt)}{" "}
      <span class="soft">{amountText(attempt.durationMs)} ms</span>
    </div>
  );
};

interface DeliveriesProps {
  readonly c: Context<DashboardEnv>;
  readonly webhook: WebhookOutput;
  readonly listed: ListDeliveriesOutput;
}

/** Shows the messages sent to an endpoint, with every attempt, and the body that the receiver saw. */
export const Deliveries = ({ c, webhook, listed: { deliveries, nextCursor } }: DeliveriesProps) => {
  const { status = "", cursor } = c.req.query();
  const at = pathIn(c, `webhooks/${webhook.webhookId}`);
  return (
    <section class="card">
      <h2>Deliveries (last 30 days)</h2>
      <p class="tabs">
        {DELIVERY_STATUSES.map((each) => (
          <>
            <a href={`${at}${queryString({ status: each })}`} aria-current={each === status ? "true" : undefined}>
              {each === "" ? "all" : each}
            </a>{" "}
          </>
        ))}
      </p>
      <form method="post" action={`${at}/resend`}>
        <FormToken c={c} />
        <Hidden fields={{ nonce: c.var.root.newId("") }} />
        <Table
          label="Deliveries"
          csv="deliveries"
          head={["Select", "Message", "Status", "Attempts, newest first", ""]}
          rows={deliveries.map((delivery) => [
            <input
              type="checkbox"
              name={TICKED + delivery.messageId}
              value="yes"
              aria-label={`Select ${delivery.messageId}`}
            />,
            <>
              <div>
                <b>{delivery.type}</b> <Time at={delivery.timestamp} />
              </div>
              <details>
                <summary>{delivery.messageId}</summary>
                <code>{JSON.stringify(delivery.message)}</code>
              </details>
            </>,
            <>
              <Tag kind={delivery.status}>{delivery.status}</Tag>
              {delivery.nextAttemptAt !== null && (
                <div class="soft">
                  next attempt <Time at={delivery.nextAttemptAt} />
                </div>
              )}
            </>,
            delivery.attempts.length === 0 ? (
              <span class="soft">none yet</span>
            ) : (
              delivery.attempts.toReversed().map((attempt) => <AttemptLine attempt={attempt} />)
            ),
            <button
              type="submit"
              class="quiet small"
              name="messageId"
              value={delivery.messageId}
              aria-label={`Resend ${delivery.messageId}`}
            >
              Resend
            </button>,
          ])}
          empty="No deliveries."
        />
        {deliveries.length > 1 && (
          <p>
            <button type="button" class="quiet small js" data-tick>
              Select all
            </button>{" "}
            <button type="submit" class="quiet small">
              Resend selected
            </button>
          </p>
        )}
      </form>
      {status !== "" && nextCursor !== null && (
        <p class="soft">A page searches {amountText(lookedAtDeliveriesMax)} deliveries. Older pages may have more.</p>
      )}
      <Pager
        first={cursor === undefined ? null : `${at}${queryString({ status })}`}
        next={nextCursor && `${at}${queryString({ status, cursor: nextCursor })}`}
        words={["Newest", "Older deliveries"]}
      />
    </section>
  );
};
