import type { Context, MiddlewareHandler } from "hono";
import { createMiddleware } from "hono/factory";
import * as z from "zod";
import { inDatabaseOf } from "../../auth/system-ctx.ts";
import { all } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import { limitBody } from "../../http/body.ts";
import { type AppEnv, callVerb } from "../../http/factory.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { logIgnored } from "../../payments/log.ts";
import { findHint, NO_FACTS } from "../../payments/reasons.ts";
import {
  checkSignature,
  createTenantCtx,
  noteRejected,
  type Receiver,
  SignatureRejection,
  selectReceiver,
} from "../../payments/receiver.ts";
import { openSecrets, readStoredSetting } from "../../payments/stripe-setting.ts";
import { handleStripeEvent } from "../../payments/take-event.ts";
import type { Access } from "../access.ts";
import { appId } from "../common.ts";
import { limitStripe, openRoot } from "../enter.ts";
import { operation } from "../operation.ts";
import { stripeOutcome as outcome } from "./payment-shapes.ts";

const stripeEventOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      received: z.literal(true).meta(words("Always true.")),
      outcome: outcome.meta(
        words("The effect of this delivery. `ignored`: no effect, for example because it is a repeat.", "taken"),
      ),
      paymentKey: z
        .string()
        .optional()
        .meta(words("The payment's id at Stripe: its payment intent, if it has one.", "pi_3Q5vXK2eZvKYlo2C1a2b3c4d")),
    })
    .meta({ id: "StripeEventReceived" }),
);

const exampleCharge = {
  id: "ch_1a",
  object: "charge",
  payment_intent: "pi_3Q5vXK2eZvKYlo2C1a2b3c4d",
  amount_captured: 1_500,
  amount_refunded: 500,
  currency: "usd",
};

export const stripeEventInput = lazy(() =>
  z
    .looseObject({
      id: z.string().meta(words("The event's id at Stripe.", "evt_1a")),
      type: z.string().meta(words("The event's type.", "charge.refunded")),
      created: z.int().meta(words("In seconds since 1970.", 1_768_478_400)),
      livemode: z.boolean().meta(words("Whether it is an event of Stripe's live mode.", true)),
      account: z
        .string()
        .nullish()
        .meta(words("Set in Stripe Connect events, which are ignored.", "acct_1PgafmB7WZ01zgkW")),
      data: z
        .looseObject({
          object: z.looseObject({}).meta(words("The object that the event is about.", exampleCharge)),
        })
        .meta(words("The data.")),
    })
    .meta({ id: "StripeEvent" }),
);

type WithReceiver = AppEnv & { Variables: { receiver: Receiver } };

/** Finds the environment of the URL, and sets `ctx`. Throws `not_found` when it has no Stripe setting. */
const openReceiver = createMiddleware<WithReceiver>(async (c, next) => {
  const [appId = "", mode = ""] = [c.req.param("appId"), c.req.param("mode")];
  const root = inDatabaseOf(c.var.root, appId);
  const [receiver] = await all(root.db, selectReceiver({ appId, mode }));
  if (receiver === undefined) {
    throw new PurserError(
      "not_found",
      "No application accepts Stripe's events at this URL in this mode. Enter the signing secret in Purser first.",
    );
  }
  c.set("ctx", createTenantCtx(root, appId, mode, receiver));
  c.set("receiver", receiver);
  await next();
});

/** Checks the signature before anything is parsed. */
const requireSignature = createMiddleware<WithReceiver>(async (c, next) => {
  const { ctx, receiver, bodyBytes, runtime } = c.var;
  const secrets = await openSecrets(ctx, ctx.environment, readStoredSetting(receiver.stored));
  try {
    await checkSignature(c.req.header("stripe-signature"), bodyBytes, secrets, runtime.now());
  } catch (error) {
    if (error instanceof SignatureRejection) await noteRejected(ctx, receiver, error.reason);
    throw error;
  }
  await next();
});

/** The most characters of an id or a type. Stripe's are shorter. */
const SIGNED_ID_MAX = 200;
const signedInput = lazy(() =>
  z.looseObject({
    id: z.string().max(SIGNED_ID_MAX),
    type: z.string().max(SIGNED_ID_MAX),
    object: z.unknown().meta(words("The object that the event is about.")),
    data: z
      .looseObject({ object: z.looseObject({ id: z.string() }).meta(words("The object that the event is about.")) })
      .optional()
      .catch(undefined)
      .meta(words("The data.", {})),
    related_object: z.looseObject({ id: z.string() }).optional().catch(undefined),
  }),
);

/** Logs events that have a valid signature but are rejected. */
const logRejected = createMiddleware<AppEnv>(async (c, next) => {
  try {
    await next();
  } catch (error) {
    if (error instanceof PurserError && error.code === "invalid_request") await logRejection(c.var, error);
    throw error;
  }
});

async function logRejection({ bodyText, ctx }: AppEnv["Variables"], { param, message }: PurserError): Promise<void> {
  const signed = signedInput.safeParse(parseOrNull(bodyText)).data;
  if (signed === undefined) return;
  const { id: eventId, type, object, data, related_object: related } = signed;
  const isThin = object === "v2.core.event";
  const reason = isThin ? "thin_event" : param === "livemode" ? "livemode" : "shape";
  const hint =
    reason === "shape" ? `The event differs from what Stripe sends: ${message}` : findHint(reason, type, NO_FACTS);
  const objectId = data?.object.id ?? related?.id ?? null;
  const asked = { pack: null, user: null };
  await logIgnored(ctx, { eventId, type, reason, objectId, asked, hint, paymentKey: null });
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The request of an event whose signature is valid. */
const signedByStripe: Access<Context<WithReceiver>> = {
  kind: "open",
  // Their types have `receiver`, which the other operations' environment lacks.
  enter: [limitStripe, openRoot, openReceiver, limitBody, requireSignature, logRejected] as MiddlewareHandler<AppEnv>[],
  // `openReceiver`, which `enter` runs first, sets `receiver`. Contexts of two environments cannot be cast directly.
  call: async (c, _input, handler) => handler(c as unknown as Context<WithReceiver>),
};

/** Stripe's events (S1). They are signed, so the operation needs no key. */
export default operation({
  id: "receiveStripeEvent",
  method: "post",
  path: "/api/v1/stripe/{appId}/{mode}",
  tag: "Payments",
  access: signedByStripe,
  // `openReceiver` reads them first: an application or a mode that does not exist is `not_found`.
  params: lazy(() => z.object({ appId, mode: mode.meta(words("The mode of the events.", "live")) })),
  body: stripeEventInput,
  errors: ["invalid_signature", "not_found", "secrets_unavailable"],
  ...(WITH_REFERENCE && {
    output: () => stripeEventOutput,
    summary: "Receive an event from Stripe",
    description:
      "For Stripe, not for you. Set this URL as an endpoint at Stripe, and its signing secret by `setStripe`. Events " +
      "may come in any order, and repeatedly. It needs no key: `Stripe-Signature` proves the sender.",
    returns: "The event was processed, or ignored.",
    example: () => ({
      body: {
        id: "evt_1a",
        object: "event",
        type: "charge.refunded",
        created: 1_768_478_400,
        livemode: true,
        data: { object: exampleCharge },
      },
      output: { received: true, outcome: "taken", paymentKey: exampleCharge.payment_intent },
    }),
  }),
  handler: (c, { body: event }) => {
    const { ctx, receiver } = c.var;
    if (event.livemode !== (ctx.environment.mode === "live")) {
      throw invalid(
        "livemode",
        "does not match the mode of this URL. Send the events of each mode to the URL of that mode",
      );
    }
    return callVerb(c, (at) => handleStripeEvent(at, readStoredSetting(receiver.stored), event));
  },
});
