import type { Context } from "hono";
import { invalid, type PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { changeWebhook, deleteWebhook, rotateSecret } from "../webhooks/endpoints.ts";
import { MESSAGE_TYPES } from "../webhooks/outbox.ts";
import { replayMessages, resendMessage, sendTest } from "../webhooks/resend.ts";
import type { WebhookOutput } from "../webhooks/responses.ts";
import { changeWebhookInput, replayInput } from "../webhooks/schemas.ts";
import { Field } from "./fields.tsx";
import { type DashboardEnv, type Form, parseForm, textField, timeField } from "./form.ts";
import { keepOnce, randomOf } from "./session.tsx";

/** The types that an endpoint can choose. Every endpoint receives the test message. */
const CHOICES = MESSAGE_TYPES.filter((type) => type !== "purser.test");
const isType = (text: string): boolean => CHOICES.some((type) => type === text);
const fieldOf = (type: string): string => `type ${type}`;

/** Returns the chosen types: ticked, or typed with spaces or commas between them. Null means all optional types. */
export function typesField(form: Form): string[] | null {
  if (form.all === "yes") return null;
  const typed = (form.types ?? "").split(/[\s,]+/).filter((text) => text !== "");
  const ticked = CHOICES.filter((type) => form[fieldOf(type)] === "yes" && !typed.includes(type));
  const types = [...ticked, ...typed];
  return types.length === 0 ? null : types;
}

/** Returns whether two choices are equal, in any order. */
const sameTypes = (a: readonly string[] | null, b: readonly string[] | null): boolean =>
  a === null || b === null ? a === b : JSON.stringify([...a].sort()) === JSON.stringify([...b].sort());

/** Returns the form's fields for the types of an endpoint. */
export const fieldsOfTypes = (types: readonly string[] | null): Form => ({
  all: types === null ? "yes" : "no",
  types: (types ?? []).filter((type) => !isType(type)).join(" "),
  ...Object.fromEntries((types ?? []).filter(isType).map((type) => [fieldOf(type), "yes"])),
});

/** Shows the fields that a new endpoint and a change share. */
export const EndpointFields = ({ fields, refusal }: { fields: Form; refusal: PurserError | undefined }) => (
  <>
    <div class="row">
      <Field
        label="URL"
        name="url"
        value={fields.url}
        refusal={refusal}
        placeholder="https://example.com/webhooks"
        required
      />
      <Field label="Description (optional)" name="description" value={fields.description} refusal={refusal} />
    </div>
    <fieldset>
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
          {CHOICES.map((type) => (
            <label>
              <input type="checkbox" name={fieldOf(type)} value="yes" checked={fields[fieldOf(type)] === "yes"} />
              <code>{type}</code>
            </label>
          ))}
        </div>
        <Field
          label="More, by a glob (optional)"
          name="types"
          value={fields.types}
          refusal={refusal}
          placeholder="credits.*"
        />
      </div>
    </fieldset>
  </>
);

/** A function that applies a form to an endpoint. Returns the path of the page that shows the result, after `webhooks`. */
export type WebhookAct = (c: Context<DashboardEnv>, webhook: WebhookOutput) => Promise<string>;

const appIdOf = (c: Context<DashboardEnv>): string => c.var.ctx.environment.appId;

/** Returns the purpose under which `keepOnce` stores an endpoint's new secret. */
export const secretOf = (webhookId: string): string => `webhook ${webhookId}`;

const IDS = 3;

/**
 * Returns an administrator's context whose first ids derive from the form's `nonce`: the halves of a new secret, and the
 * endpoint or act. So a form that is sent twice creates and shows the same secret, and sends nothing twice.
 */
export async function repeatable(c: Context<DashboardEnv>, about = ""): Promise<AdminCtx> {
  const { admin, form } = c.var;
  const nonce = `${form.nonce ?? admin.newId("")}${about}`;
  const drawn = await Promise.all(Array.from({ length: IDS }, (_, index) => randomOf(c, `${index}\n${nonce}`)));
  return {
    ...admin,
    newId: (prefix) => {
      const random = drawn.shift();
      return random === undefined ? admin.newId(prefix) : prefix + random;
    },
  };
}

/** Changes only the fields that differ, because the audit lists the changed ones. */
export const change: WebhookAct = async (c, { webhookId, url, types, description, isEnabled }) => {
  const { form } = c.var;
  const wanted = typesField(form);
  const text = textField(form, "description") ?? null;
  const isOn = form.isEnabled === "yes";
  const input = parseForm(changeWebhookInput, {
    ...(form.url === url ? {} : { url: form.url }),
    ...(sameTypes(wanted, types) ? {} : { types: wanted }),
    ...(text === description ? {} : { description: text }),
    ...(isOn === isEnabled ? {} : { isEnabled: isOn }),
  });
  await changeWebhook(c.var.admin, appIdOf(c), webhookId, input);
  return `/${webhookId}?notice=changed`;
};

export const rotate: WebhookAct = async (c, { webhookId }) => {
  const { secret } = await rotateSecret(await repeatable(c), appIdOf(c), webhookId);
  await keepOnce(c, secretOf(webhookId), { secret });
  return `/${webhookId}?notice=rotated`;
};

export const remove: WebhookAct = async (c, { webhookId }) => {
  await deleteWebhook(c.var.admin, appIdOf(c), webhookId);
  return "?notice=deleted";
};

export const test: WebhookAct = async (c, { webhookId }) => {
  await sendTest(await repeatable(c), appIdOf(c), webhookId);
  return `/${webhookId}?notice=tested`;
};

/** The prefix of the field of a ticked message. */
export const TICKED = "message ";
/** The most ticked messages: as many as a page shows. */
const TICKED_MAX = 20;

export const resend: WebhookAct = async (c, { webhookId }) => {
  const { messageId, ...form } = c.var.form;
  const ticked = Object.keys(form).flatMap((name) => (name.startsWith(TICKED) ? [name.slice(TICKED.length)] : []));
  const ids = messageId === undefined ? ticked.slice(0, TICKED_MAX) : [messageId];
  if (ids.length === 0) throw invalid("messageId", "Nothing was sent: tick the messages to resend.");
  for (const id of ids) await resendMessage(await repeatable(c, `\n${id}`), appIdOf(c), webhookId, id);
  return `/${webhookId}?notice=${ids.length === 1 ? "resent" : "resent-all"}`;
};

export const replayPage: WebhookAct = async (c, { webhookId }) => {
  const { form } = c.var;
  const span = { from: timeField(form, "from"), to: timeField(form, "to") };
  await replayMessages(await repeatable(c), appIdOf(c), webhookId, parseForm(replayInput, span));
  return `/${webhookId}?notice=replayed`;
};
