import type { Context } from "hono";
import { listDeliveriesInput } from "../api/webhooks/list-deliveries.ts";
import { replayInput } from "../api/webhooks/replay-messages.ts";
import { invalid, type PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import {
  type ListDeliveriesOutput,
  readDeliveryPage,
  SEARCHED_DELIVERIES_MAX,
  type ShownAttempt,
} from "../webhooks/delivery-page.ts";
import { type EndpointRow, requireEndpoint, type WebhookOutput } from "../webhooks/endpoint.ts";
import { replayMessages, resendMessage } from "../webhooks/resend.ts";
import { Pager, Table, Tag } from "./components.tsx";
import { Field, Hidden } from "./fields.tsx";
import { type DashboardEnv, parseForm, textField, timeField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { amountText, queryString, Time } from "./format.tsx";
import { FormToken, pathIn } from "./layout.tsx";
import { repeatable } from "./session.tsx";
import { attemptFailure, type EndpointAction } from "./webhooks.tsx";

/** The prefix of the field of a ticked message. */
const TICKED = "message ";
/** The most ticked messages: as many as a page shows. */
const TICKED_MAX = 20;

const DELIVERY_ROWS = 20;
const DELIVERY_STATUSES = ["", "pending", "delivered", "failed"] as const;

/** Returns the row of an endpoint as it is now. Throws `not_found`. */
export const requireShownEndpoint = (c: Context<DashboardEnv>, webhookId: string): Promise<EndpointRow> =>
  requireEndpoint(c.var.root, c.var.ctx.environment.appId, webhookId);

/** A page of deliveries, each attempt with the beginning of a failed response. */
export type ShownDeliveries = ListDeliveriesOutput<ShownAttempt>;

/** Returns the page of an endpoint's deliveries that the query asks for. */
export async function readDeliveries(c: Context<DashboardEnv>, webhookId: string): Promise<ShownDeliveries> {
  const params = c.req.query();
  const fields = { status: textField(params, "status"), cursor: textField(params, "cursor") };
  const input = parseForm(listDeliveriesInput, fields);
  return readDeliveryPage(c.var.root, await requireShownEndpoint(c, webhookId), { ...input, limit: DELIVERY_ROWS });
}

/** Shows an attempt: its status, or why there was no response, and how long it took. */
const AttemptLine = ({ attempt }: { attempt: ShownAttempt }) => {
  const isSuccess = attempt.status !== null && attempt.status >= 200 && attempt.status < 300;
  return (
    <div>
      <Time at={attempt.at} />: {isSuccess ? attempt.status : attemptFailure(attempt)}{" "}
      <span class="soft">{amountText(attempt.durationMs)} ms</span>
      {attempt.answer !== undefined && (
        <div>
          <code class="answer">{attempt.answer}</code>
        </div>
      )}
    </div>
  );
};

interface DeliveriesProps {
  readonly c: Context<DashboardEnv>;
  readonly webhook: WebhookOutput;
  readonly listed: ShownDeliveries;
}

/** Shows the messages sent to an endpoint, with every attempt, and the body that Purser sent. */
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
        <p class="soft">A page searches {amountText(SEARCHED_DELIVERIES_MAX)} deliveries. Older pages may have more.</p>
      )}
      <Pager
        first={cursor === undefined ? null : `${at}${queryString({ status })}`}
        next={nextCursor && `${at}${queryString({ status, cursor: nextCursor })}`}
        words={["Newest", "Older deliveries"]}
      />
    </section>
  );
};

interface ReplayFormProps {
  readonly c: Context<DashboardEnv>;
  readonly webhook: WebhookOutput;
  readonly rejection: PurserError | undefined;
}

export const ReplayForm = ({ c, webhook, rejection }: ReplayFormProps) => (
  <FormCard
    c={c}
    action={`webhooks/${webhook.webhookId}/replay`}
    title="Replay"
    about="Sends all messages of a period (UTC) again, including delivered ones: at most 10,000. It sends what was written for this endpoint. While an endpoint is off nothing is written, so a replay brings nothing of that time."
    form={{ from: iso(c.var.root.now() - DAY_MS).slice(0, 16), ...c.var.form }}
    rejection={rejection}
    once
    button="Replay"
  >
    <Field label="From" name="from" type="datetime-local" required />
    <Field label="To (empty: now)" name="to" type="datetime-local" />
  </FormCard>
);

export const resend: EndpointAction = async (c, { webhookId }) => {
  const { messageId, ...form } = c.var.form;
  const ticked = Object.keys(form).flatMap((name) => (name.startsWith(TICKED) ? [name.slice(TICKED.length)] : []));
  const ids = messageId === undefined ? ticked.slice(0, TICKED_MAX) : [messageId];
  if (ids.length === 0) throw invalid("messageId", "Nothing was sent: tick the messages to resend.");
  for (const id of ids) {
    await resendMessage(await repeatable(c, `\n${id}`), await requireShownEndpoint(c, webhookId), id);
  }
  return `/${webhookId}?notice=${ids.length === 1 ? "resent" : "resent-all"}`;
};

export const replayPeriod: EndpointAction = async (c, { webhookId }) => {
  const { form } = c.var;
  const span = { from: timeField(form, "from"), to: timeField(form, "to") };
  await replayMessages(await repeatable(c), await requireShownEndpoint(c, webhookId), parseForm(replayInput, span));
  return `/${webhookId}?notice=replayed`;
};
