import { and, eq, sql } from "drizzle-orm";
import { createMiddleware } from "hono/factory";
import { limitStripe } from "../auth/arrivals.ts";
import { inDatabaseOf, openRoot, requireAdmin } from "../auth/require-admin.ts";
import { clockOf, timesOf } from "../db/clock.ts";
import { databaseIndexOf } from "../db/databases.ts";
import { computed, drizzle, fields, query, type RowOf, read, type ValueOf } from "../db/query.ts";
import { environments, stripeSettings } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { bodyTextOf, limitBody, readBody } from "../http/body.ts";
import { callVerb } from "../http/call-verb.ts";
import { type AppEnv, answerOutcome, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import type { Environment, SystemCtx, TenantCtx } from "../runtime.ts";
import { stripeEventInput } from "./event.ts";
import { listPayments } from "./list.ts";
import { listPaymentsInput, readStripeInput, setStripeInput, settlePaymentInput } from "./schemas.ts";
import { openSecrets, readStored } from "./setting.ts";
import { settlePayment } from "./settle.ts";
import { checkSignature } from "./signature.ts";
import { readStripe, setStripe } from "./stripe-setting.ts";
import { takeEvent } from "./take-event.ts";

const receiverFields = {
  ...fields(environments, { environmentId: "id" }),
  ...fields(stripeSettings, "lastEventAtMs"),
  // The condition says that there is one.
  ...computed({ stored: sql<string>`${stripeSettings.setting}`, clock: clockOf() }),
};
type Receiver = RowOf<typeof receiverFields>;

const selectReceiver = query((value: ValueOf<{ appId: string; mode: string }>) =>
  read(
    receiverFields,
    (list) => sql`SELECT ${list} FROM ${environments}
      CROSS JOIN ${stripeSettings} ON ${stripeSettings.environmentId} = ${environments.id}
      WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
      AND ${stripeSettings.setting} IS NOT NULL`,
  ),
);

const LAST_EVENT_EVERY_MS = 60_000;
const updateLastEvent = query((value: ValueOf<{ environmentId: number; nowMs: number; beforeMs: number }>) =>
  drizzle
    .update(stripeSettings)
    .set({ lastEventAtMs: value("nowMs", stripeSettings.lastEventAtMs) })
    .where(
      and(
        eq(stripeSettings.environmentId, value("environmentId")),
        sql`coalesce(${stripeSettings.lastEventAtMs}, 0) < ${value("beforeMs")}`,
      ),
    ),
);

function tenantOf(root: SystemCtx, appId: string, mode: string, { environmentId, clock }: Receiver): TenantCtx {
  const environment: Environment = {
    id: environmentId,
    appId,
    // An environment has no other mode.
    mode: mode === "live" ? "live" : "test",
    database: databaseIndexOf(appId) ?? 0,
  };
  return { ...root, ...timesOf(clock, root), environment, caller: { kind: "stripe" } };
}

/** Finds whose events these are, and sets `ctx`. Throws `not_found` where none are taken. */
const openReceiver = createMiddleware<AppEnv & { Variables: { receiver: Receiver } }>(async (c, next) => {
  const [appId = "", mode = ""] = [c.req.param("appId"), c.req.param("mode")];
  const root = inDatabaseOf(c.var.root, appId);
  const [receiver] = await all(root.db, selectReceiver({ appId, mode }));
  if (receiver === undefined) {
    throw new PurserError("not_found", "No application takes Stripe's events here in this mode.");
  }
  c.set("ctx", tenantOf(root, appId, mode, receiver));
  c.set("receiver", receiver);
  await next();
});

/** Checks the signature before anything is parsed. */
const requireSignature = createMiddleware<AppEnv & { Variables: { receiver: Receiver } }>(async (c, next) => {
  const { ctx, receiver, bodyBytes, runtime } = c.var;
  const secrets = await openSecrets(ctx, ctx.environment, readStored(receiver.stored));
  await checkSignature(c.req.header("stripe-signature"), bodyBytes, secrets, runtime.now());
  c.set("bodyText", bodyTextOf(bodyBytes));
  await next();
});

/** Stripe's events (S1). No key: they are signed. */
export const stripeRoutes = createRoutes().post(
  "/:appId/:mode",
  limitStripe,
  openRoot,
  openReceiver,
  limitBody,
  requireSignature,
  validate("json", stripeEventInput),
  async (c) => {
    const { ctx, receiver } = c.var;
    const event = c.req.valid("json");
    if (event.livemode !== (ctx.environment.mode === "live")) {
      throw invalid("livemode", "is not that of this URL's mode. Send the events of each mode to its own URL");
    }
    const output = await callVerb(c, (at) => takeEvent(at, readStored(receiver.stored), event));
    await noteEvent(ctx, receiver);
    return c.json(output);
  },
);

/** Notes when an event came last, once a minute at most. */
async function noteEvent(ctx: TenantCtx, { environmentId, lastEventAtMs }: Receiver): Promise<void> {
  const nowMs = ctx.realNow();
  const beforeMs = nowMs - LAST_EVENT_EVERY_MS;
  if ((lastEventAtMs ?? 0) < beforeMs) await all(ctx.db, updateLastEvent({ environmentId, nowMs, beforeMs }));
}

/** Administration of this room. */
export const paymentRoutes = createRoutes()
  .put("/apps/:appId/stripe", requireAdmin, readBody, validate("json", setStripeInput), async (c) =>
    c.json(await setStripe(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/stripe", requireAdmin, validate("query", readStripeInput), async (c) =>
    c.json(await readStripe(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .get("/apps/:appId/payments", requireAdmin, validate("query", listPaymentsInput), async (c) =>
    c.json(await listPayments(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
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
