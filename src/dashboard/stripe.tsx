import { setStripeInput } from "../api/payments/set-stripe.ts";
import { invalid, type PurserError } from "../errors.ts";
import { exactNumber } from "../lib/json.ts";
import { STRIPE_EVENTS } from "../payments/stripe-event.ts";
import { type StripeOutput, setStripe } from "../payments/stripe-setting.ts";
import { LinkButton } from "./app-link.tsx";
import { Card, CopyBox } from "./components.tsx";
import { confirmPage } from "./confirm.tsx";
import { Field, LongText } from "./fields.tsx";
import { createDashboardRoutes, type PageContext, parseForm, textField, useRequest } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { timeText } from "./format.tsx";

const REJECTED_WORDS: Readonly<Record<NonNullable<StripeOutput["refused"]>["reason"], string>> = {
  header_missing: "the header Stripe-Signature is missing",
  header_malformed: "a malformed header Stripe-Signature",
  wrong_secret: "signed with a secret other than those set here",
  too_old: "signed more than five minutes away from now",
};

/** Shows what to enter at Stripe, ready to copy, and the setting. */
export const StripeSetup = (props: { stripe: StripeOutput; rejection: PurserError | undefined }) => {
  const { rejection } = props;
  const c = useRequest();
  const { setting, lastEventAt, refused } = props.stripe;
  const { appId, mode } = c.var;
  const { publicOrigin } = c.var.root.settings;
  const origin = publicOrigin === null || publicOrigin === "request" ? new URL(c.req.url).origin : publicOrigin;
  const prices = (setting?.prices ?? []).map(({ price, packId, quantity, expires, trial, amount }) =>
    [
      ...[price, packId, quantity, expires === "period" ? "period" : undefined, trial ? "trial" : undefined],
      amount === undefined ? undefined : `amount=${amount}`,
    ]
      .filter((part) => part !== undefined)
      .join(", "),
  );
  const stored = { currency: setting?.currency ?? "usd", prices: prices.join("\n") };
  return (
    <>
      <Card title="What to enter at Stripe">
        <p>
          Last event received: <b>{timeText(lastEventAt, "none yet")}</b>
          {setting === null ? ". Not set: no events are accepted." : ""}
        </p>
        {refused !== null && (
          <p>
            A request without a valid signature came at <b>{timeText(refused.at, "")}</b> (
            {REJECTED_WORDS[refused.reason]}).
          </p>
        )}
        <CopyBox label="Endpoint URL" value={`${origin}/api/v1/stripe/${appId}/${mode}`} />
        <CopyBox label="Events" value={STRIPE_EVENTS.join(", ")} />
        <p class="soft">
          Checkout: <code>client_reference_id</code> is the user, <code>metadata.pack</code> the pack,{" "}
          <code>metadata.quantity</code> how much of a pack without items. Subscriptions:{" "}
          <code>subscription_data.metadata.user</code>. Invoices: <code>metadata.user</code>. Payment intents:{" "}
          <code>metadata.user</code> and <code>metadata.pack</code>.
        </p>
        <CopyBox label="Metadata of a checkout" value="metadata[pack]=PACK&client_reference_id=USER" />
      </Card>
      <FormCard
        action="payments/stripe"
        title="Setting"
        form={{ ...stored, ...(c.var.form.prices === undefined ? {} : c.var.form) }}
        rejection={rejection}
        button="Save setting"
        beside={setting !== null && <LinkButton text="Stop accepting events" to="stripe-off" />}
      >
        <Field
          label="Signing secret"
          name="secret"
          value=""
          type="password"
          hint={setting === null ? "whsec_…" : `empty keeps ${setting.signingSecrets.join(" and ")}`}
          autocomplete="new-password"
          param="setting.signingSecrets"
        />
        <Field
          label="Previous secret"
          name="previous"
          value=""
          type="password"
          hint="while it is rotated"
          autocomplete="new-password"
        />
        <Field label="Currency of wallets" name="currency" param="setting.currency" />
        <LongText label="Prices of invoices, one a line" name="prices" param="setting.prices" />
        <p class="soft wide">
          A line: price, pack, quantity of a pack without items, <code>period</code> if the credits expire with it,{" "}
          <code>trial</code> if a line of 0 grants once a user, <code>amount=1000</code> for the full price in the
          smallest unit, for switches of plans.
        </p>
      </FormCard>
    </>
  );
};

/** Asks for confirmation before the setting and its secrets are deleted. */
const confirmOff = (c: PageContext) =>
  confirmPage(
    c,
    {
      section: "payments",
      action: "payments/stripe",
      fields: { off: "yes" },
      button: "Stop accepting events",
      cancel: "payments",
      isDangerous: true,
    },
    `From then on, Purser answers 404 to Stripe's events of ${c.var.ctx.environment.mode} mode. They grant nothing and take nothing back. The signing secrets and the prices are deleted, and must be entered again. Granted credits stay.`,
  );

/**
 * Reads `price_…, Pack, 100, period, trial, amount=1000` into the form of the API. All other parts are the quantity, so that the
 * schema rejects `1,000` and a misspelt word.
 */
function readPrice(text: string) {
  const [price = "", packId = "", ...more] = text.split(",").map((part) => part.trim());
  const amount = more.find((part) => part.startsWith("amount="))?.slice("amount=".length);
  const quantity = more.filter((part) => !["", "period", "trial", `amount=${amount}`].includes(part)).join(", ");
  const numberOf = (part: string) => (/^\d+(\.\d+)?$/.test(part) ? exactNumber(part) : part);
  return {
    ...{ price, packId, expires: more.includes("period") ? "period" : "pack" },
    ...(more.includes("trial") ? { trial: true } : {}),
    ...(amount === undefined ? {} : { amount: numberOf(amount) }),
    ...(quantity === "" ? {} : { quantity: numberOf(quantity) }),
  };
}

/** Stores the setting of the form. Throws the rejections of the API. */
export async function saveStripe(c: PageContext) {
  const { appId, mode } = c.var;
  const { form } = c.var;
  const [secret, previous] = [textField(form, "secret"), textField(form, "previous")];
  if (secret === undefined && previous !== undefined) {
    throw invalid("setting.signingSecrets", "must be given too, or the previous secret would replace it");
  }
  const secrets = [secret, previous].filter((text) => text !== undefined);
  const lines = (form.prices ?? "").split("\n").filter((text) => text.trim() !== "");
  const setting = {
    ...(secrets.length === 0 ? {} : { signingSecrets: secrets }),
    currency: form.currency,
    prices: lines.map(readPrice),
  };
  return setStripe(
    c.var.admin,
    appId,
    parseForm(setStripeInput, { mode, setting: form.off === "yes" ? null : setting }),
  );
}

export const stripePages = createDashboardRoutes().get("/stripe-off", confirmOff);
