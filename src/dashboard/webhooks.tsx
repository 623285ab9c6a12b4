import type { Context } from "hono";
import type { PurserError } from "../errors.ts";
import { createWebhook, listWebhooks } from "../webhooks/endpoints.ts";
import type { WebhookOutput } from "../webhooks/responses.ts";
import { createWebhookInput } from "../webhooks/schemas.ts";
import { Field, Hidden, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, parseForm, textField } from "./form.ts";
import { time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";
import { keepOnce } from "./once.ts";
import { repeatable, secretOf, typesField } from "./webhook-acts.ts";

export const EnabledTag = ({ webhook: { isEnabled } }: { webhook: WebhookOutput }) => (
  <Tag kind={isEnabled ? "active" : "expired"}>{isEnabled ? "on" : "off"}</Tag>
);

/** The fields that are the same for a new endpoint and for a change. */
export const EndpointFields = (props: { fields: Form; refusal: PurserError | undefined }) => {
  const { fields, refusal } = props;
  return (
    <>
      <Field
        label="URL"
        name="url"
        value={fields.url}
        refusal={refusal}
        placeholder="https://example.com/webhooks"
        required
      />
      <Field
        label="Types (optional)"
        name="types"
        value={fields.types}
        refusal={refusal}
        placeholder="all but usage.recorded"
      />
      <Field label="Description (optional)" name="description" value={fields.description} refusal={refusal} />
    </>
  );
};

async function webhooksPage(c: Context<DashboardEnv>, refusal?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const { webhooks } = await listWebhooks(c.var.root, appId, mode);
  const { form } = c.var;
  const notice = c.req.query("notice") === "deleted" ? "Endpoint deleted. Nothing more is sent to it." : undefined;
  return page(
    c,
    { title: "Webhooks", section: "webhooks", refusal, notice },
    <>
      <section class="card">
        <h2>Endpoints</h2>
        <p class="soft">
          Each is told, in signed messages, what happened in {mode} mode. Open one to see its deliveries.
        </p>
        <Table
          label="Endpoints"
          head={["URL", "Status", "Types", "Description", "Created (UTC)"]}
          rows={webhooks.map((webhook) => [
            <a href={pathIn(c, `webhooks/${webhook.webhookId}`)}>{webhook.url}</a>,
            <EnabledTag webhook={webhook} />,
            webhook.types === null ? <span class="soft">all</span> : <code>{webhook.types.join(" ")}</code>,
            webhook.description ?? "",
            <span class="num">{time(webhook.createdAt)}</span>,
          ])}
          empty="None. Create one below."
        />
      </section>
      <form method="post" action={pathIn(c, "webhooks")} class="card">
        <h2>New endpoint</h2>
        <p class="soft">
          Types such as <code>credits.*</code>, apart by spaces; <code>usage.recorded</code> is sent where it is named.{" "}
          <a href="/docs">The reference</a> has all of them.
        </p>
        <FormToken c={c} />
        {/* Sent twice, this form makes one endpoint. */}
        <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
        <div class="row">
          <EndpointFields fields={form} refusal={refusal} />
          <button type="submit">Create endpoint</button>
        </div>
      </form>
    </>,
  );
}

export const webhooksRoutes = () =>
  createDashboardRoutes()
    .get("/webhooks", (c) => webhooksPage(c))
    .post("/webhooks", async (c) => {
      const { form } = c.var;
      const { appId, mode } = c.var.ctx.environment;
      const done = await catchRefusal(async () => {
        const fields = { mode, url: form.url, types: typesField(form), description: textField(form, "description") };
        return createWebhook(await repeatable(c), appId, parseForm(createWebhookInput, fields));
      });
      if (done.refusal !== undefined) return webhooksPage(c, done.refusal);
      const { webhookId, secret } = done.result;
      await keepOnce(c, secretOf(webhookId), { secret });
      return c.redirect(pathIn(c, `webhooks/${webhookId}?notice=created`), 303);
    });
