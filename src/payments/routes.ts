import { createMiddleware } from "hono/factory";
import { limitStripe } from "../auth/arrivals.ts";
import { inDatabaseOf, openRoot } from "../auth/open-root.ts";
import { clockSql, timesOf } from "../db/clock.ts";
import { databaseIndexOf } from "../db/databases.ts";
import { all, statement } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { bodyTextOf, limitBody } from "../http/body.ts";
import { callVerb } from "../http/call-verb.ts";
import { type AppEnv, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import type { Environment, SystemCtx, TenantCtx } from "../runtime.ts";
import { stripeEventInput } from "./event.ts";
import { openSecrets, readStored } from "./setting.ts";
import { checkSignature } from "./signature.ts";
import { takeEvent } from "./take-event.ts";

interface Receiver {
  readonly environmentId: number;
  readonly stored: string;
  readonly lastEventAtMs: number | null;
  readonly clock: string | null;
}

const selectReceiver = statement<{ appId: string; mode: string }, Receiver>`
  SELECT e.id AS environmentId, s.setting AS stored, s.last_event_at_ms AS lastEventAtMs,
    ${clockSql("e.features")} AS clock
  FROM environments AS e CROSS JOIN stripe_settings AS s ON s.environment_id = e.id
  WHERE e.app_id = :appId AND e.mode = :mode AND s.setting IS NOT NULL`;

const LAST_EVENT_EVERY_MS = 60_000;
const updateLastEvent = statement<{ environmentId: number; nowMs: number; beforeMs: number }>`
  UPDATE stripe_settings SET last_event_at_ms = :nowMs
  WHERE environment_id = :environmentId AND coalesce(last_event_at_ms, 0) < :beforeMs`;

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
