import { createWebhookInput } from "../api/webhooks/create-webhook.ts";
import { type Attempt, type EndpointHealth, readHealth } from "../webhooks/delivery-page.ts";
import type { EndpointRow, WebhookOutput } from "../webhooks/endpoint.ts";
import { createWebhook, listWebhooks } from "../webhooks/endpoints.ts";
import { MESSAGE_TYPES } from "../webhooks/outbox.ts";
import { AppLink } from "./app-link.tsx";
import { customColumn, fieldColumn, menuColumn } from "./columns.tsx";
import { Empty, Tag } from "./components.tsx";
import { Check, Field } from "./fields.tsx";
import { type Form, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { amountText, Time } from "./format.tsx";
import { listAgain, listRoutes, type Resource, wholeList } from "./resource.tsx";
import { keepOnce, repeatable } from "./session.tsx";

/** Returns whether the endpoint needs attention: its latest attempts fail, or many of its newest messages do. */
export const isFailing = ({ isEnabled, failingSince, attempted, failed }: EndpointHealth): boolean =>
  isEnabled && attempted > 0 && (failingSince !== null ? failed > 0 : failed * 2 > attempted);

const NO_RESPONSE_REASONS: Readonly<Record<string, string>> = {
  timeout: "It did not answer within 10 seconds.",
  unreachable: "It could not be reached.",
  secrets_unavailable: "Its secret could not be read: SETTINGS_SECRET is not set.",
};

/** Returns why an attempt failed, in words. */
export function attemptFailure({ status, error }: Attempt): string {
  if (status === null) return NO_RESPONSE_REASONS[error ?? ""] ?? "There was no answer.";
  if (status === 410) return "It answered 410 (gone).";
  if (status >= 300 && status < 400) return `It answered ${status}: redirects are not followed.`;
  return `It answered ${status}.`;
}

export const failureText = ({ lastFailure }: EndpointHealth): string =>
  lastFailure === null ? "" : attemptFailure(lastFailure);

export const rateText = ({ attempted, failed, unsent }: EndpointHealth): string => {
  const unsentText = unsent === 0 ? "" : ` ${amountText(unsent)} more were not sent, because it was off.`;
  if (attempted === 0) return unsent === 0 ? "Nothing was sent to it yet." : `Nothing was sent to it.${unsentText}`;
  return `The latest attempt of ${amountText(failed)} of its newest ${amountText(attempted)} messages failed.${unsentText}`;
};

/** Shows the state of an endpoint: off, failing or healthy. */
export const HealthTag = ({ health }: { health: EndpointHealth }) => {
  if (!health.isEnabled) return <Tag kind="warn">off</Tag>;
  if (isFailing(health)) return <Tag kind="bad">failing</Tag>;
  if (health.attempted === 0) return <Tag kind="plain">nothing sent yet</Tag>;
  return health.failed === 0 ? <Tag kind="good">healthy</Tag> : <Tag kind="warn">some fail</Tag>;
};

/** A form's action on an endpoint. Returns the path of the page that shows the result. */
export type EndpointAction = (c: PageContext, row: EndpointRow) => Promise<string>;

/** Returns the name under which `keepOnce` stores an endpoint's new secret. */
export const secretOf = (webhookId: string): string => `webhook ${webhookId}`;

/** The types that an endpoint can choose. Every endpoint receives the test message. */
const SELECTABLE_TYPES = MESSAGE_TYPES.filter((type) => type !== "purser.test");
const isType = (text: string): boolean => SELECTABLE_TYPES.some((type) => type === text);
const fieldOf = (type: string): string => `type ${type}`;

/** Returns the chosen types: ticked, or typed with spaces or commas between them. Null means all optional types. */
export function typesField(form: Form): string[] | null {
  if (form.all === "yes") return null;
  const typed = (form.types ?? "").split(/[\s,]+/).filter((text) => text !== "");
  const ticked = SELECTABLE_TYPES.filter((type) => form[fieldOf(type)] === "yes" && !typed.includes(type));
  const types = [...ticked, ...typed];
  return types.length === 0 ? null : types;
}

/** Returns the form's fields for the types of an endpoint. */
export const fieldsOfTypes = (types: readonly string[] | null): Form => ({
  all: types === null ? "yes" : "no",
  types: (types ?? []).filter((type) => !isType(type)).join(" "),
  ...Object.fromEntries((types ?? []).filter(isType).map((type) => [fieldOf(type), "yes"])),
});

/** The fields that the forms for a new and for an existing endpoint share. */
export const EndpointFields = ({ fields }: { fields: Form }) => (
  <>
    <Field label="URL" name="url" placeholder="https://example.com/webhooks" required />
    <Field label="Description (optional)" name="description" />
    <fieldset class="wide">
      <legend>Types</legend>
      <div class="kinds">
        <label>
          <input type="radio" name="all" value="yes" checked={fields.all !== "no"} /> All, except{" "}
          <code>usage.recorded</code>
        </label>
        <label>
          <input type="radio" name="all" value="no" checked={fields.all === "no"} /> Only those that I choose
        </label>
      </div>
      <div class="when-chosen">
        <div class="checks">
          {SELECTABLE_TYPES.map((type) => (
            <Check name={fieldOf(type)}>
              <code>{type}</code>
            </Check>
          ))}
        </div>
        <Field label="More types, as patterns (optional)" name="types" placeholder="credits.*" />
      </div>
    </fieldset>
  </>
);

type ListedEndpoint = WebhookOutput & { readonly health: EndpointHealth | undefined };

const endpointsList: Resource<ListedEndpoint> = {
  path: "webhooks",
  title: "Webhooks",
  section: "webhooks",
  label: "Endpoints",
  about: (c) => `Signed messages about events in ${c.var.mode} mode.`,
  columns: [
    fieldColumn("url", "URL", ({ webhookId, url, description }) => (
      <>
        <AppLink to={`webhooks/${webhookId}`}>{url}</AppLink>
        {description !== null && <div class="soft">{description}</div>}
      </>
    )),
    { name: "status", head: "Status", cell: ({ health }) => health && <HealthTag health={health} /> },
    customColumn(
      "newest",
      "Newest messages",
      ({ health }) => health && `${rateText(health)} ${isFailing(health) ? failureText(health) : ""}`,
      ({ health }) => health?.failed ?? null,
    ),
    customColumn(
      "lastSuccessAt",
      "Last success",
      ({ health }) => <Time at={health?.lastSuccessAt ?? null} otherwise="none" isReal />,
      ({ health }) => health?.lastSuccessAt ?? null,
    ),
    customColumn(
      "types",
      "Types",
      ({ types }) =>
        types === null ? (
          <span class="soft">
            all except <code>usage.recorded</code>
          </span>
        ) : (
          <code>{types.join(" ")}</code>
        ),
      ({ types }) => types?.join(" ") ?? null,
    ),
    menuColumn(
      ({ url }) => url,
      ({ webhookId }) => [
        [`webhooks/${webhookId}`, "Open"],
        [`webhooks/${webhookId}?status=failed`, "Failed messages"],
        [`webhooks/${webhookId}/rotate`, "Rotate secret"],
        [`webhooks/${webhookId}/delete`, "Delete"],
      ],
    ),
  ],
  read: wholeList(async ({ var: { root, ctx, appId, mode } }) => {
    const [{ webhooks }, healths] = await Promise.all([listWebhooks(root, appId, mode), readHealth(ctx)]);
    const healthOf = (id: string) => healths.find(({ webhookId }) => webhookId === id);
    return webhooks.map((each) => ({ ...each, health: healthOf(each.webhookId) }));
  }),
  empty: (
    <Empty icon="webhooks" title="No endpoints yet">
      Create one below. It gets messages about grants, usage, payments and anything else that you choose.
    </Empty>
  ),
  notices: { deleted: "Endpoint deleted. Nothing more is sent to it." },
  below: (c, { rejection }) => (
    <FormCard
      action="webhooks"
      title="New endpoint"
      about={
        <>
          <a href="/docs">The reference</a> describes each type of message.
        </>
      }
      rejection={rejection}
      once
      button="Create endpoint"
    >
      <EndpointFields fields={c.var.form} />
    </FormCard>
  ),
};

export const webhooksRoutes = listRoutes(endpointsList).post(
  "/webhooks",
  onSubmit(async (c) => {
    const { form, appId, mode } = c.var;
    const fields = { mode, url: form.url, types: typesField(form), description: textField(form, "description") };
    const created = await createWebhook(await repeatable(c), appId, parseForm(createWebhookInput, fields));
    await keepOnce(c, secretOf(created.webhookId), { secret: created.secret });
    return `webhooks/${created.webhookId}?notice=created`;
  }, listAgain(endpointsList)),
);
