import { changeWebhookInput } from "../api/webhooks/change-webhook.ts";
import { PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import { type EndpointHealth, readHealth, SEARCHED_DELIVERIES_MAX } from "../webhooks/delivery-page.ts";
import type { EndpointRow } from "../webhooks/endpoint.ts";
import { changeWebhook, deleteWebhook, rotateSecret } from "../webhooks/endpoints.ts";
import { sendTest } from "../webhooks/resend.ts";
import { LinkButton } from "./app-link.tsx";
import { Facts, SecretCard, SubmitButton } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import {
  deliveriesList,
  endpointInPath,
  type ListedDelivery,
  replayForm,
  replayPeriod,
  resend,
} from "./deliveries.tsx";
import { Choice } from "./fields.tsx";
import { type PageContext, parseForm, textField, useRequest } from "./form.ts";
import { AppForm, FormCard, onSubmit } from "./form-card.tsx";
import { amountText, Time, timeText } from "./format.tsx";
import { listAgain, listRoutes, type Resource } from "./resource.tsx";
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
  "none-replayed": "There are no messages of that time.",
  replayed: "The messages of that time are sent again, within minutes.",
};

/**
 * Returns why an endpoint is off: the result of its latest attempt, or since when all attempts have failed. An administrator's
 * change clears both.
 */
function whyOff({ failingSince, lastFailure }: EndpointHealth): string {
  if (failingSince === null) return "It was switched off here or by the API.";
  if (lastFailure?.status === 410)
    return `Purser switched it off, because it answered 410 (gone) at ${timeText(lastFailure.at)} UTC.`;
  return `Purser switched it off, because every attempt since ${timeText(failingSince)} UTC has failed.`;
}

/** Shows when the endpoint was off. Nothing was written for it then, so nothing brings it back (H1). */
const OffSpan = ({ endpoint: { offFromMs, offUntilMs } }: { endpoint: EndpointRow }) => (
  <>
    {timeText(iso(offFromMs ?? 0))} {offUntilMs === null ? "UTC until now" : `to ${timeText(iso(offUntilMs))} UTC`}:
    messages about what happened then were never written. Read the ledger and the payments of that time instead.
  </>
);

/** The page of an endpoint: its state, its setting, and its deliveries. */
const endpointPage: Resource<ListedDelivery> = {
  ...deliveriesList,
  path: "webhooks/:webhookId",
  title: "Endpoint",
  section: "webhooks",
  notices: WEBHOOK_NOTICES,
  above: async (c, { rejection }) => {
    const endpoint = await endpointInPath(c);
    const health = (await readHealth(c.var.ctx)).find(({ webhookId }) => webhookId === endpoint.id);
    if (health === undefined) throw new PurserError("not_found", "The endpoint was just deleted.");
    return (
      <>
        <SecretCard
          title="New secret"
          about="Your receiver verifies messages with it."
          label="Signing secret"
          secret={(await takeOnce<{ secret: string }>(c, secretOf(endpoint.id)))?.secret}
        />
        <EndpointState endpoint={endpoint} health={health} />
        <ChangeForm endpoint={endpoint} rejection={rejection} />
      </>
    );
  },
  below: replayForm,
};

const EndpointState = ({ endpoint, health }: { endpoint: EndpointRow; health: EndpointHealth }) => (
  <section class="card">
    <Facts
      of={[
        ["URL", <code>{endpoint.url}</code>],
        ["Endpoint id", <code>{endpoint.id}</code>],
        ["Status", <HealthTag health={health} />],
        [
          "Newest messages",
          <>
            {rateText(health)} {isFailing(health) && failureText(health)}
          </>,
        ],
        endpoint.offFromMs !== null && [
          endpoint.offUntilMs === null ? "Off since" : "Last off",
          <OffSpan endpoint={endpoint} />,
        ],
        [
          "Last success",
          <Time
            at={health.lastSuccessAt}
            isReal
            otherwise={`none among its newest ${amountText(SEARCHED_DELIVERIES_MAX)} messages`}
          />,
        ],
        health.failingSince !== null && ["Failing since", <Time at={health.failingSince} isReal />],
      ]}
    />
    {!endpoint.isEnabled && (
      <p class="soft">
        {whyOff(health)} Messages that were waiting then have failed; resend or replay them once it is on.
      </p>
    )}
    <AppForm action={`webhooks/${endpoint.id}/test`} class="row" once>
      <SubmitButton text="Send a test" kind="quiet" />
      <LinkButton text="Rotate secret" to={`webhooks/${endpoint.id}/rotate`} />
      <LinkButton text="Delete" kind="danger" to={`webhooks/${endpoint.id}/delete`} />
    </AppForm>
  </section>
);

interface ChangeFormProps {
  readonly endpoint: EndpointRow;
  readonly rejection: PurserError | undefined;
}

const ChangeForm = ({ endpoint, rejection }: ChangeFormProps) => {
  const { id, url, types, description, isEnabled } = endpoint;
  const present = { url, description: description ?? "", ...fieldsOfTypes(types) };
  const { form } = useRequest().var;
  const fields = form.url === undefined ? present : form;
  return (
    <FormCard
      action={`webhooks/${id}`}
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

async function askRotate(c: PageContext) {
  const { id, url } = await endpointInPath(c);
  return confirmPage(
    c,
    { fields: { nonce: c.var.root.newId("") }, button: "Rotate secret", cancel: `webhooks/${id}` },
    <p>
      <code>{url}</code> gets a new secret. The current secret also signs for 24 hours. Any older secret stops now.
    </p>,
  );
}

async function askDeleteEndpoint(c: PageContext) {
  const { id, url } = await endpointInPath(c);
  return confirmPage(
    c,
    { button: "Delete endpoint", cancel: `webhooks/${id}`, isDangerous: true },
    <p>
      Nothing more is sent to <code>{url}</code>, and its deliveries are no longer shown. This cannot be undone.
    </p>,
  );
}

/** Returns whether two lists of types have the same types, in any order. */
const sameTypes = (a: readonly string[] | null, b: readonly string[] | null): boolean =>
  a === null || b === null ? a === b : JSON.stringify([...a].sort()) === JSON.stringify([...b].sort());

/** Changes only the fields that differ, because the audit lists the changed ones. */
const change: EndpointAction = async (c, row) => {
  const { form, admin } = c.var;
  const types = typesField(form);
  const description = textField(form, "description") ?? null;
  const isEnabled = form.isEnabled === "yes";
  const input = parseForm(changeWebhookInput, {
    ...(form.url === row.url ? {} : { url: form.url }),
    ...(sameTypes(types, row.types) ? {} : { types }),
    ...(description === row.description ? {} : { description }),
    ...(isEnabled === row.isEnabled ? {} : { isEnabled }),
  });
  await changeWebhook(admin, row, input);
  return `webhooks/${row.id}?notice=changed`;
};

const rotate: EndpointAction = async (c, row) => {
  await keepOnce(c, secretOf(row.id), await rotateSecret(await repeatable(c), row));
  return `webhooks/${row.id}?notice=rotated`;
};

const remove: EndpointAction = async (c, row) => {
  await deleteWebhook(c.var.admin, row);
  return "webhooks?notice=deleted";
};

const test: EndpointAction = async (c, row) => {
  await sendTest(await repeatable(c), row);
  return `webhooks/${row.id}?notice=tested`;
};

/** Returns the action of a form on the endpoint in the path. A rejection is shown on the endpoint's page. */
const onEndpoint = (action: EndpointAction) => async (c: PageContext) => action(c, await endpointInPath(c));
const again = listAgain(endpointPage);

export const webhookPages = listRoutes(endpointPage)
  .post(WEBHOOK_PATH, onSubmit(onEndpoint(change), again))
  .route("/", askRoutes(`${WEBHOOK_PATH}/rotate`, askRotate, onEndpoint(rotate), again))
  .route("/", askRoutes(`${WEBHOOK_PATH}/delete`, askDeleteEndpoint, onEndpoint(remove), again))
  .post(`${WEBHOOK_PATH}/test`, onSubmit(onEndpoint(test), again))
  .post(`${WEBHOOK_PATH}/resend`, onSubmit(onEndpoint(resend), again))
  .post(`${WEBHOOK_PATH}/replay`, onSubmit(onEndpoint(replayPeriod), again));
