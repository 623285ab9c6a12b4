import type { Context } from "hono";
import { listDeliveries, lookedAtDeliveriesMax } from "../webhooks/list-deliveries.ts";
import type { Attempt, ListDeliveriesOutput, WebhookOutput } from "../webhooks/responses.ts";
import { listDeliveriesInput } from "../webhooks/schemas.ts";
import { Hidden, Pager, Table, Tag } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { parseForm, textField } from "./form.ts";
import { amount, query, time } from "./format.ts";
import { FormToken, pathIn } from "./layout.tsx";

const ROWS = 20;
const STATUSES = ["", "pending", "delivered", "failed"] as const;

/** A page of an endpoint's deliveries, as the query asks for it. */
export function readDeliveries(c: Context<DashboardEnv>, webhookId: string): Promise<ListDeliveriesOutput> {
  const asked = c.req.query();
  const fields = { status: textField(asked, "status"), cursor: textField(asked, "cursor") };
  const input = parseForm(listDeliveriesInput, fields);
  return listDeliveries(c.var.root, c.var.ctx.environment.appId, webhookId, { ...input, limit: ROWS });
}

const attemptText = ({ at, status, durationMs, error }: Attempt): string =>
  `${time(at)}: ${status ?? error ?? "no answer"}, ${amount(durationMs)} ms`;

interface DeliveriesProps {
  readonly c: Context<DashboardEnv>;
  readonly webhook: WebhookOutput;
  readonly listed: ListDeliveriesOutput;
}

/** What was sent to an endpoint, with every attempt, and the message as its receiver saw it. */
export const Deliveries = ({ c, webhook, listed: { deliveries, nextCursor } }: DeliveriesProps) => {
  const { status = "", cursor } = c.req.query();
  const at = pathIn(c, `webhooks/${webhook.webhookId}`);
  return (
    <section class="card">
      <h2>Deliveries (last 30 days)</h2>
      <p class="ranges">
        {STATUSES.map((each) => (
          <>
            <a href={`${at}${query({ status: each })}`} aria-current={each === status ? "true" : undefined}>
              {each === "" ? "all" : each}
            </a>{" "}
          </>
        ))}
      </p>
      <Table
        label="Deliveries"
        head={["Message", "Status", "Attempts (UTC)", ""]}
        rows={deliveries.map((delivery) => [
          <>
            <div>
              <b>{delivery.type}</b> <span class="num">{time(delivery.timestamp)}</span>
            </div>
            <details>
              <summary>{delivery.messageId}</summary>
              <code>{JSON.stringify(delivery.message)}</code>
            </details>
          </>,
          <>
            <Tag kind={delivery.status}>{delivery.status}</Tag>
            {delivery.nextAttemptAt !== null && <div class="soft">next {time(delivery.nextAttemptAt)}</div>}
          </>,
          delivery.attempts.length === 0 ? (
            <span class="soft">none yet</span>
          ) : (
            delivery.attempts.map((attempt) => <div class="num">{attemptText(attempt)}</div>)
          ),
          <form method="post" action={`${at}/resend`}>
            <FormToken c={c} />
            <Hidden fields={{ messageId: delivery.messageId, nonce: c.var.root.newId("") }} />
            <button type="submit" class="quiet" aria-label={`Resend ${delivery.messageId}`}>
              Resend
            </button>
          </form>,
        ])}
        empty="No deliveries."
      />
      {status !== "" && nextCursor !== null && (
        <p class="soft">
          This page searched {amount(lookedAtDeliveriesMax)} deliveries at most. Older pages may have more.
        </p>
      )}
      <Pager
        first={cursor === undefined ? null : `${at}${query({ status })}`}
        next={nextCursor && `${at}${query({ status, cursor: nextCursor })}`}
        words={["Newest", "Older deliveries"]}
      />
    </section>
  );
};
