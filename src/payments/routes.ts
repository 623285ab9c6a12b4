import { createMiddleware } from "hono/factory";
import * as z from "zod";
import { limitStripe } from "../auth/arrivals.ts";
import { inDatabaseOf, openRoot, requireAdmin } from "../auth/require-admin.ts";
import { all } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { bodyTextOf, limitBody, readBody } from "../http/body.ts";
import { type AppEnv, answerOutcome, callVerb, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { listPayments, listStripeEvents } from "./list.ts";
import { logIgnored } from "./log.ts";
import { hintOf, NO_FACTS } from "./reasons.ts";
import { checkSignature, noteRefused, type Receiver, SignatureRefusal, selectReceiver, tenantOf } from "./receiver.ts";
import {
  listPaymentsInput,
  listStripeEventsInput,
  readStripeInput,
  setCarryInput,
  setStripeInput,
  settlePaymentInput,
  stripeEventInput,
} from "./schemas.ts";
import { setCarry } from "./set-carry.ts";
import { settlePayment } from "./settle.ts";
import { openSecrets, readStoredSetting, readStripe, setStripe } from "./stripe-setting.ts";
import { takeEvent } from "./take-event.ts";

/** Finds the environment of the URL, and sets `ctx`. Throws `not_found` when it has no Stripe setting. */
const openReceiver = createMiddleware<AppEnv & { Variables: { receiver: Receiver } }>(async (c, next) => {
  const [appId = "", mode = ""] = [c.req.param("appId"), c.req.param("mode")];
  const root = inDatabaseOf(c.var.root, appId);
  const [receiver] = await all(root.db, selectReceiver({ appId, mode }));
  if (receiver === undefined) {
    throw new PurserError("not_found", "No application accepts Stripe's events at this URL in this mode.");
  }
  c.set("ctx", tenantOf(root, appId, mode, receiver));
  c.set("receiver", receiver);
  await next();
});

/** Checks the signature before anything is parsed. */
const requireSignature = createMiddleware<AppEnv & { Variables: { receiver: Receiver } }>(async (c, next) => {
  const { ctx, receiver, bodyBytes, runtime } = c.var;
  const secrets = await openSecrets(ctx, ctx.environment, readStoredSetting(receiver.stored));
  try {
    await checkSignature(c.req.header("stripe-signature"), bodyBytes, secrets, runtime.now());
  } catch (error) {
    if (error instanceof SignatureRefusal) await noteRefused(ctx, receiver, error.reason);
    throw error;
  }
  c.set("bodyText", bodyTextOf(bodyBytes));
  await next();
});

/** The most characters of an id or a type. Stripe's are shorter. */
const SIGNED_ID_MAX = 200;
const signedInput = z.lazy(() =>
  z.looseObject({
    id: z.string().max(SIGNED_ID_MAX),
    type: z.string().max(SIGNED_ID_MAX),
    object: z.unknown(),
    data: z
      .looseObject({ object: z.looseObject({ id: z.string() }) })
      .optional()
      .catch(undefined),
    related_object: z.looseObject({ id: z.string() }).optional().catch(undefined),
  }),
);

/** Logs events that have a valid signature but are refused. */
const logRefused = createMiddleware<AppEnv>(async (c, next) => {
  await next();
  const { error } = c;
  if (!(error instanceof PurserError) || error.code !== "invalid_request") return;
  const signed = signedInput.safeParse(parseOrNull(c.var.bodyText)).data;
  if (signed === undefined) return;
  const { id: eventId, type, object, data, related_object: related } = signed;
  const isThin = object === "v2.core.event";
  const reason = isThin ? "thin_event" : error.param === "livemode" ? "livemode" : "shape";
  const hint =
    reason === "shape" ? `The event differs from what Stripe sends: ${error.message}` : hintOf(reason, type, NO_FACTS);
  const objectId = data?.object.id ?? related?.id ?? null;
  const asked = { pack: null, user: null };
  await logIgnored(c.var.ctx, { eventId, type, reason, objectId, asked, hint, paymentKey: null });
});

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The route for Stripe's events (S1). The events are signed, so it needs no key. */
export const stripeRoutes = createRoutes().post(
  "/:appId/:mode",
  limitStripe,
  openRoot,
  openReceiver,
  limitBody,
  requireSignature,
  logRefused,
  validate("json", stripeEventInput),
  async (c) => {
    const { ctx, receiver } = c.var;
    const event = c.req.valid("json");
    if (event.livemode !== (ctx.environment.mode === "live")) {
      throw invalid(
        "livemode",
        "does not match the mode of this URL. Send the events of each mode to the URL of that mode",
      );
    }
    const output = await callVerb(c, (at) => takeEvent(at, readStoredSetting(receiver.stored), event));
    return c.json(output);
  },
);

/** Administration routes of payments. */
export const paymentRoutes = createRoutes()
  .put("/apps/:appId/stripe", requireAdmin, readBody, validate("json", setStripeInput), async (c) =>
    c.json(await setStripe(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/stripe", requireAdmin, validate("query", readStripeInput), async (c) =>
    c.json(await readStripe(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .get("/apps/:appId/stripe/events", requireAdmin, validate("query", listStripeEventsInput), async (c) =>
    c.json(await listStripeEvents(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
  )
  .get("/apps/:appId/payments", requireAdmin, validate("query", listPaymentsInput), async (c) =>
    c.json(await listPayments(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
  )
  .post("/apps/:appId/payments/carry", requireAdmin, readBody, validate("json", setCarryInput), async (c) =>
    c.json(await setCarry(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .post(
    "/apps/:appId/payments/:paymentKey/settle",
    requireAdmin,
    readBody,
    validate("json", settlePaymentInput),
    async (c) => {
      const { appId, paymentKey } = c.req.param();
      return answerOutcome(c, await settlePayment(c.var.admin, appId, paymentKey, c.req.valid("json")));
    },
  );
