import type { Context } from "hono";
import { changeWebhookInput } from "../api/webhooks/change-webhook.ts";
import { PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import { type Attempt, readHealth, SEARCHED_DELIVERIES_MAX } from "../webhooks/delivery-page.ts";
import { type EndpointRow, presentEndpoint, requireEndpoint, type WebhookOutput } from "../webhooks/endpoint.ts";
import { changeWebhook, deleteWebhook, rotateSecret } from "../webhooks/endpoints.ts";
import { sendTest } from "../webhooks/resend.ts";
import { CopyBox, Facts } from "./components.tsx";
import { confirmPage } from "./confirm.tsx";
import {
  Deliveries,
  ReplayForm,
  readDeliveries,
  replayPeriod,
  requireShownEndpoint,
  resend,
  type ShownDeliveries,
} from "./deliveries.tsx";
import { Choice, Hidden } from "./fields.tsx";
import { createDashboardRoutes, type DashboardEnv, parseForm, textField } from "./form.ts";
import { FormCard, submit } from "./form-card.tsx";
import { amountText, Time, timeText } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { keepOnce, repeatable, takeOnce } from "./session.tsx";
import {
  type EndpointAction,
  EndpointFields,
  failureText,
  fieldsOfTypes,
  HealthTag,
  isFailing,
  rateText,
  secretOf,
  typesField,
} from "./webhooks.tsx";

const WEBHOOK_PATH = "/webhooks/:webhookId";

const WEBHOOK_NOTICES: Readonly<Record<string, string>> = {
  created: "Endpoint created. It gets messages from now on.",
  changed: "Endpoint changed. It takes effect now.",
  rotated: "New secret created. The previous secret also signs for 24 hours.",
  tested: "Test message sent. It is below, with its attempts: reload to see them.",
  resent: "Message sent again. Reload to see the attempt.",
  "resent-all": "Messages sent again. Reload to see the attempts.",
  replayed: "The messages of that time are sent again, within minutes.",
};

type Endpoint = WebhookOutput & Pick<EndpointRow, "failingSinceMs" | "offFromMs" | "offUntilMs">;

/** Returns the endpoint in the path. Throws `not_found` for an endpoint of the other mode. */
async function readEndpoint(c: Context<DashboardEnv>): Promise<Endpoint> {
  const { appId, mode } = c.var.ctx.environment;
  const row = await requireEndpoint(c.var.root, appId, c.req.param("webhookId") ?? "");
  const { failingSinceMs, offFromMs, offUntilMs } = row;
  const webhook = { ...presentEndpoint(c.var.root, row), failingSinceMs, offFromMs, offUntilMs };
  if (webhook.mode !== mode) throw new PurserError("not_found", `There is no such endpoint in ${mode} mode.`);
  return webhook;
}

/**
 * Returns why an endpoint is off: the result of its latest attempt, or since when all attempts have failed. An administrator's
 * change clears both.
 */
function whyOff({ failingSinceMs }: Endpoint, { deliveries }: ShownDeliveries): string {
  if (failingSinceMs === null) return "It was switched off here or by the API.";
  const latest = deliveries
    .flatMap(({ attempts }) => attempts)
    .reduce<Attempt | null>((last, one) => (last === null || one.at > last.at ? one : last), null);
  if (latest?.status === 410)
    return `Purser switched it off, because it answered 410 (gone) at ${timeText(latest.at)} UTC.`;
  return `Purser switched it off, because every attempt since ${timeText(iso(failingSinceMs))} UTC has failed.`;
}

/** Shows when the endpoint was off. Nothing was written for it then, so nothing brings it back (H1). */
const OffSpan = ({ endpoint: { offFromMs, offUntilMs } }: { endpoint: Endpoint }) => (
  <>
    {timeText(iso(offFromMs ?? 0))} {offUntilMs === null ? "UTC until now" : `to ${timeText(iso(offUntilMs))} UTC`}:
    messages about what happened then were never written. A replay does not bring them back; read the ledger and the
    payments of that time instead.
  </>
);

async function webhookPage(c: Context<DashboardEnv>, webhook: Endpoint, rejection?: PurserError) {
  const { webhookId } = webhook;
  const [listed, endpoints] = await Promise.all([readDeliveries(c, webhookId), readHealth(c.var.ctx)]);
  const health = endpoints.find((each) => each.webhookId === webhookId);
  const created = await takeOnce<{ secret: string }>(c, secretOf(webhookId));
  return page(
    c,
    { title: "Endpoint", section: "webhooks", rejection, notice: WEBHOOK_NOTICES[c.req.query("notice") ?? ""] },
    <>
      {created !== null && (
        <section class="card">
          <h2>New secret</h2>
          <p>Copy it now: it is not shown again. Your receiver verifies messages with it.</p>
          <CopyBox label="Signing secret" value={created.secret} />
        </section>
      )}
      <section class="card">
        <Facts
          of={[
            ["URL", <code>{webhook.url}</code>],
            ["Endpoint id", <code>{webhookId}</code>],
            ["Status", health === undefined ? "" : <HealthTag health={health} />],
            [
              "Newest messages",
              <>
                {health === undefined ? "" : rateText(health)}{" "}
                {health !== undefined && isFailing(health) && failureText(health)}
              </>,
            ],
            webhook.offFromMs !== null && [
              webhook.offUntilMs === null ? "Off since" : "Last off",
              <OffSpan endpoint={webhook} />,
            ],
            [
              "Last success",
              <Time
                at={health?.lastSuccessAt ?? null}
                otherwise={`none among its newest ${amountText(SEARCHED_DELIVERIES_MAX)} messages`}
              />,
            ],
            webhook.failingSinceMs !== null && ["Failing since", <Time at={iso(webhook.failingSinceMs)} />],
          ]}
        />
        {!webhook.isEnabled && (
          <p class="soft">
            {whyOff(webhook, listed)} Messages that were waiting then have failed; resend or replay them once it is on.
          </p>
        )}
        <form method="post" action={pathIn(c, `webhooks/${webhookId}/test`)} class="row">
          <FormToken c={c} />
          <Hidden fields={{ nonce: c.var.root.newId("") }} />
          <button type="submit" class="quiet">
            Send a test
          </button>
          <a class="button quiet" href={pathIn(c, `webhooks/${webhookId}/rotate`)}>
            Rotate secret
          </a>
          <a class="button quiet danger" href={pathIn(c, `webhooks/${webhookId}/delete`)}>
            Delete
          </a>
        </form>
      </section>
      <ChangeForm c={c} webhook={webhook} rejection={rejection} />
      <Deliveries c={c} webhook={webhook} listed={listed} />
      <ReplayForm c={c} webhook={webhook} rejection={rejection} />
    </>,
  );
}

interface EndpointFormProps {
  readonly c: Context<DashboardEnv>;
  readonly webhook: WebhookOutput;
  readonly rejection: PurserError | undefined;
}

const ChangeForm = ({ c, webhook, rejection }: EndpointFormProps) => {
  const { webhookId, url, types, description, isEnabled } = webhook;
  const present = { url, description: description ?? "", ...fieldsOfTypes(types) };
  const fields = c.var.form.url === undefined ? present : c.var.form;
  return (
    <FormCard
      c={c}
      action={`webhooks/${webhookId}`}
      title="Change"
      form={{ isEnabled: isEnabled ? "yes" : "no", ...fields }}
      rejection={rejection}
      button="Save"
    >
      <EndpointFields fields={fields} />
      <Choice
        label="Status"
        name="isEnabled"
        options={[
          ["yes", "On"],
          ["no", "Off (cancels unsent messages)"],
        ]}
      />
    </FormCard>
  );
};

async function rotatePage(c: Context<DashboardEnv>) {
  const { webhookId, url } = await readEndpoint(c);
  return confirmPage(
    c,
    { fields: { nonce: c.var.root.newId("") }, button: "Rotate secret", cancel: `webhooks/${webhookId}` },
    <p>
      <code>{url}</code> gets a new secret. The current secret also signs for 24 hours. Any older secret stops now.
    </p>,
  );
}

async function deletePage(c: Context<DashboardEnv>) {
  const { webhookId, url } = await readEndpoint(c);
  return confirmPage(
    c,
    { button: "Delete endpoint", cancel: `webhooks/${webhookId}`, isDangerous: true },
    <p>
      Nothing more is sent to <code>{url}</code>, and its deliveries are no longer shown. This cannot be undone.
    </p>,
  );
}

/** Returns whether two lists of types have the same types, in any order. */
const sameTypes = (a: readonly string[] | null, b: readonly string[] | null): boolean =>
  a === null || b === null ? a === b : JSON.stringify([...a].sort()) === JSON.stringify([...b].sort());

/** Changes only the fields that differ, because the audit lists the changed ones. */
const change: EndpointAction = async (c, { webhookId, url, types, description, isEnabled }) => {
  const { form, admin } = c.var;
  const newTypes = typesField(form);
  const text = textField(form, "description") ?? null;
  const isOn = form.isEnabled === "yes";
  const input = parseForm(changeWebhookInput, {
    ...(form.url === url ? {} : { url: form.url }),
    ...(sameTypes(newTypes, types) ? {} : { types: newTypes }),
    ...(text === description ? {} : { description: text }),
    ...(isOn === isEnabled ? {} : { isEnabled: isOn }),
  });
  await changeWebhook(admin, await requireShownEndpoint(c, webhookId), input);
  return `/${webhookId}?notice=changed`;
};

const rotate: EndpointAction = async (c, { webhookId }) => {
  const { secret } = await rotateSecret(await repeatable(c), await requireShownEndpoint(c, webhookId));
  await keepOnce(c, secretOf(webhookId), { secret });
  return `/${webhookId}?notice=rotated`;
};

const remove: EndpointAction = async (c, { webhookId }) => {
  await deleteWebhook(c.var.admin, await requireShownEndpoint(c, webhookId));
  return "?notice=deleted";
};

const test: EndpointAction = async (c, { webhookId }) => {
  await sendTest(await repeatable(c), await requireShownEndpoint(c, webhookId));
  return `/${webhookId}?notice=tested`;
};

/** Applies a form to an endpoint. Shows a rejection on the endpoint's page. */
async function applyForm(c: Context<DashboardEnv>, action: EndpointAction) {
  const webhook = await readEndpoint(c);
  return submit(c, () => action(c, webhook), {
    to: (place) => `webhooks${place}`,
    again: (rejection) => webhookPage(c, webhook, rejection),
  });
}

export const webhookPages = createDashboardRoutes()
  .get(WEBHOOK_PATH, async (c) => webhookPage(c, await readEndpoint(c)))
  .post(WEBHOOK_PATH, (c) => applyForm(c, change))
  .get(`${WEBHOOK_PATH}/rotate`, rotatePage)
  .post(`${WEBHOOK_PATH}/rotate`, (c) => applyForm(c, rotate))
  .get(`${WEBHOOK_PATH}/delete`, deletePage)
  .post(`${WEBHOOK_PATH}/delete`, (c) => applyForm(c, remove))
  .post(`${WEBHOOK_PATH}/test`, (c) => applyForm(c, test))
  .post(`${WEBHOOK_PATH}/resend`, (c) => applyForm(c, resend))
  .post(`${WEBHOOK_PATH}/replay`, (c) => applyForm(c, replayPeriod));
