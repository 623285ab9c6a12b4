import { listDeliveriesInput } from "../api/webhooks/list-deliveries.ts";
import { replayInput } from "../api/webhooks/replay-messages.ts";
import { invalid } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import {
  type ListDeliveriesOutput,
  readDeliveryPage,
  SEARCHED_DELIVERIES_MAX,
  type ShownAttempt,
} from "../webhooks/delivery-page.ts";
import { type EndpointRow, requireEndpoint } from "../webhooks/endpoint.ts";
import { replayMessages, resendMessage } from "../webhooks/resend.ts";
import { customColumn, fieldColumn } from "./columns.tsx";
import { SubmitButton, Tag } from "./components.tsx";
import { Field } from "./fields.tsx";
import { inPageMode, type PageContext, parseForm, timeField } from "./form.ts";
import { AppForm, FormCard } from "./form-card.tsx";
import { amountText, Time } from "./format.tsx";
import { LIST_PAGE_ROWS } from "./read-list.ts";
import type { AroundPart, Resource } from "./resource.tsx";
import { repeatable } from "./session.tsx";
import { attemptFailure, type EndpointAction } from "./webhooks.tsx";

/** The prefix of the field of a ticked message. */
const TICKED = "message ";
/** The id of the form that resends messages. Its checkboxes and buttons are in the rows of the list. */
const RESEND_FORM = "resend";

/** Returns the endpoint in the path. Throws `not_found`, also for an endpoint of the other mode. */
export async function endpointInPath(c: PageContext): Promise<EndpointRow> {
  const { root, appId } = c.var;
  return inPageMode(c, await requireEndpoint(root, appId, c.req.param("webhookId") ?? ""), "endpoint");
}

type Delivery = ListDeliveriesOutput<ShownAttempt>["deliveries"][number];
/** A delivery in a list. Only a page in the default order has the messages: a file and a sorted list would be too large. */
export type ListedDelivery = Omit<Delivery, "message"> & { readonly message: Delivery["message"] | null };

/** Shows an attempt: its status, or why there was no response, and how long it took. */
const AttemptLine = ({ attempt }: { attempt: ShownAttempt }) => {
  const isSuccess = attempt.status !== null && attempt.status >= 200 && attempt.status < 300;
  return (
    <div>
      <Time at={attempt.at} isReal />: {isSuccess ? attempt.status : attemptFailure(attempt)}{" "}
      <span class="soft">{amountText(attempt.durationMs)} ms</span>
      {attempt.answer !== undefined && (
        <div>
          <code class="answer">{attempt.answer}</code>
        </div>
      )}
    </div>
  );
};

/** Shows the newest attempt, and folds the earlier ones. */
const AttemptLines = ({ attempts }: Pick<Delivery, "attempts">) => {
  const [newest, ...earlier] = attempts.toReversed();
  if (newest === undefined) return <span class="soft">none yet</span>;
  return (
    <>
      <AttemptLine attempt={newest} />
      {earlier.length > 0 && (
        <details>
          <summary>{earlier.length} earlier</summary>
          {earlier.map((attempt) => (
            <AttemptLine attempt={attempt} />
          ))}
        </details>
      )}
    </>
  );
};

/** The messages that were sent to an endpoint, with every attempt, and the body that Purser sent. */
export const deliveriesList = {
  file: "webhooks/:webhookId/deliveries",
  heading: "Deliveries",
  about: "Of the last 30 days. A delivery is a message with its attempts.",
  columns: [
    {
      name: "select",
      head: "Select",
      cell: ({ messageId }) => (
        <input
          type="checkbox"
          form={RESEND_FORM}
          name={TICKED + messageId}
          value="yes"
          aria-label={`Select ${messageId}`}
        />
      ),
    },
    {
      name: "messageId",
      head: "Message",
      cell: ({ messageId, type, timestamp, message }) => (
        <>
          <div>
            <b>{type}</b> <Time at={timestamp} />
          </div>
          {message === null ? (
            <code>{messageId}</code>
          ) : (
            <details>
              <summary>{messageId}</summary>
              <code>{JSON.stringify(message)}</code>
            </details>
          )}
        </>
      ),
      value: ({ messageId }) => messageId,
      sortKey: ({ timestamp }) => [timestamp],
    },
    { name: "type", value: ({ type }) => type },
    { name: "timestamp", value: ({ timestamp }) => timestamp },
    fieldColumn("status", "Status", ({ status, nextAttemptAt }) => (
      <>
        <Tag kind={status}>{status}</Tag>
        {nextAttemptAt !== null && (
          <div class="soft">
            next attempt <Time at={nextAttemptAt} isReal />
          </div>
        )}
      </>
    )),
    customColumn(
      "attempts",
      "Attempts, newest first",
      ({ attempts }) => <AttemptLines attempts={attempts} />,
      ({ attempts }) => attempts.length,
    ),
    { name: "lastAttemptAt", value: ({ attempts }) => attempts.at(-1)?.at ?? null },
    { name: "lastStatus", value: ({ attempts }) => attempts.at(-1)?.status ?? null },
    { name: "nextAttemptAt", value: ({ nextAttemptAt }) => nextAttemptAt },
    {
      name: "resend",
      head: "",
      cell: ({ messageId }) => (
        <SubmitButton
          text="Resend"
          kind="small"
          form={RESEND_FORM}
          name="messageId"
          value={messageId}
          label={`Resend ${messageId}`}
        />
      ),
    },
  ],
  filters: [{ name: "status", label: "Status", options: [["", "all"], "pending", "delivered", "failed"] }],
  read: (c, { status }) => {
    const input = parseForm(listDeliveriesInput, { status });
    return async (page) => {
      const { deliveries, nextCursor } = await readDeliveryPage(c.var.root, await endpointInPath(c), {
        ...input,
        ...page,
      });
      const hasMessages = page.limit <= LIST_PAGE_ROWS;
      return { rows: deliveries.map((each) => ({ ...each, message: hasMessages ? each.message : null })), nextCursor };
    };
  },
  empty: "No deliveries.",
  words: ["Newest", "Older deliveries"],
  searched: [SEARCHED_DELIVERIES_MAX, "deliveries"],
  foot: (c, { list }) => (
    <>
      {list.sorted !== null && <p class="soft">In the default order, the list also shows the messages.</p>}
      <AppForm id={RESEND_FORM} action={`webhooks/${c.req.param("webhookId")}/resend`} once>
        {list.rows.length > 1 && (
          <p>
            <button type="button" class="quiet small js" data-tick>
              Select all
            </button>{" "}
            <SubmitButton text="Resend selected" kind="small" />
          </p>
        )}
      </AppForm>
    </>
  ),
} satisfies Partial<Resource<ListedDelivery>>;

export const replayForm: AroundPart<ListedDelivery> = (c, { rejection }) => (
  <FormCard
    action={`webhooks/${c.req.param("webhookId")}/replay`}
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

export const resend: EndpointAction = async (c, row) => {
  const { messageId, ...form } = c.var.form;
  const ticked = Object.keys(form).flatMap((name) => (name.startsWith(TICKED) ? [name.slice(TICKED.length)] : []));
  const ids = messageId === undefined ? ticked.slice(0, LIST_PAGE_ROWS) : [messageId];
  if (ids.length === 0) throw invalid("messageId", "Nothing was sent: tick the messages to resend.");
  for (const id of ids) await resendMessage(await repeatable(c, `\n${id}`), row, id);
  return `webhooks/${row.id}?notice=${ids.length === 1 ? "resent" : "resent-all"}`;
};

export const replayPeriod: EndpointAction = async (c, row) => {
  const { form } = c.var;
  const span = { from: timeField(form, "from"), to: timeField(form, "to") };
  const { messages } = await replayMessages(await repeatable(c), row, parseForm(replayInput, span));
  return `webhooks/${row.id}?notice=${messages === 0 ? "none-replayed" : "replayed"}`;
};
