import { env } from "cloudflare:workers";
import { setStripeInput } from "../../src/api/payments/set-stripe.ts";
import { sealStripeSetting } from "../../src/payments/stripe-setting.ts";
import type { Environment } from "../../src/runtime.ts";
import { readSettings } from "../../src/settings.ts";
import { PRICES } from "./payment-story.ts";
import type { TestEvent } from "./stripe-events.ts";
import { stripeSignature } from "./stripe-signature.ts";
import { type Answer, type Bindings, Clock, makeClient, newApp, newOpenAmountPack, newPack } from "./world.ts";

export const SIGNING_SECRET = "whsec_of_the_tests_0001";

export const signatureOf = (payload: string, clock: Clock, secret = SIGNING_SECRET): Promise<string> =>
  stripeSignature(payload, secret, Math.floor(clock.ms / 1_000));

/** Returns the statement that stores the Stripe setting of a new application. */
export async function newStripeSetting(
  environment: Environment,
  prices: readonly object[],
): Promise<D1PreparedStatement> {
  const sent = { mode: environment.mode, setting: { signingSecrets: [SIGNING_SECRET], prices } };
  const { setting } = setStripeInput.parse(sent);
  if (setting === null) throw new Error("The setting is null.");
  const stored = await sealStripeSetting({ settings: readSettings(env) }, environment, setting);
  return env.DB.prepare("INSERT INTO stripe_settings (environment_id, setting) VALUES (CAST(? AS INTEGER), ?)").bind(
    ...[environment.id, stored],
  );
}

/** An application with a Stripe setting, a pack of two items, a wallet in cents and a pack in tokens. */
export async function paymentsWorld(bindings: Bindings = {}, walletDays: number | null = null) {
  const clock = new Clock();
  const { app, inserts } = await newApp();
  const admin = makeClient(clock);
  const items = newPack(app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens" },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  const wallet = newOpenAmountPack(app.appId, "Wallet", "cents", { expiryDays: walletDays });
  const tokens = newOpenAmountPack(app.appId, "Tokens", "tokens");
  const insertSetting = await newStripeSetting(app.environments.live, [
    { price: PRICES.items, packId: items.packId },
    { price: PRICES.wallet, packId: "wallet", quantity: 250.5 },
    { price: PRICES.period, packId: tokens.packId, quantity: 100, expires: "period" },
  ]);
  await env.DB.batch([...inserts, ...items.inserts, wallet.insert, tokens.insert, insertSetting]);
  const path = `/api/v1/admin/apps/${app.appId}`;
  const set = (value: object | null, mode = "live"): Promise<Answer> =>
    admin("PUT", `${path}/stripe`, { key: env.ADMIN_TOKEN, body: { mode, setting: value } });

  const call = makeClient(clock, bindings);
  const send = async (event: TestEvent, client = call): Promise<Answer> => {
    const body = JSON.stringify(event);
    const headers = { "stripe-signature": await signatureOf(body, clock) };
    return client("POST", `/api/v1/stripe/${app.appId}/live`, { body, headers });
  };
  const key = app.keys.sk_live;
  return {
    ...{
      clock,
      app,
      call,
      admin,
      set,
      send,
      path,
      packs: { items: items.packId, wallet: wallet.packId, tokens: tokens.packId },
    },
    nowS: Math.floor(clock.ms / 1_000),
    /** Delivers an event, and returns the outcome. */
    deliver: async (event: TestEvent): Promise<string> => {
      const { status, body } = await send(event);
      if (status !== 200) throw new Error(`${event.type} got ${status}: ${JSON.stringify(body)}`);
      return body.outcome;
    },
    payments: async (query = "") =>
      (await admin("GET", `${path}/payments?mode=live${query}`, { key: env.ADMIN_TOKEN })).body.payments,
    /** The carries of a user's customers. */
    carries: async (userId: string) =>
      (await admin("GET", `${path}/payments?mode=live&userId=${userId}`, { key: env.ADMIN_TOKEN })).body.carry,
    setCarry: (body: object) =>
      admin("POST", `${path}/payments/carry`, { key: env.ADMIN_TOKEN, body: { mode: "live", ...body } }),
    /** The log of events as the API lists it, newest first. */
    events: async (query = "") =>
      (await admin("GET", `${path}/stripe/events?mode=live${query}`, { key: env.ADMIN_TOKEN })).body.events,
    settle: (paymentKey: string, body: object) =>
      admin("POST", `${path}/payments/${paymentKey}/settle`, { key: env.ADMIN_TOKEN, body: { mode: "live", ...body } }),
    /** A user's balances: the remaining amount and the status, by unit. */
    balances: async (userId: string): Promise<[string, number, string][]> => {
      const { credits } = (await call("GET", `/api/v1/credits?userId=${userId}&includeExpired=true`, { key })).body;
      const balances = credits.map((b: { unit: string; remaining: number; status: string }) => [
        b.unit,
        b.remaining,
        b.status,
      ]);
      return balances.toSorted().toReversed();
    },
    history: async (userId: string) =>
      (await call("GET", `/api/v1/credits/history?userId=${userId}&limit=500`, { key })).body.entries,
    post: (route: string, body: object) => call("POST", `/api/v1/${route}`, { key, body }),
    /** The remaining and taken minor units of each balance that payments granted this user, and whether it is revoked. */
    standing: async (userId: string): Promise<string[]> => {
      const { results } = await env.DB.prepare(
        `SELECT b.remaining_minor || ' ' || g.clawed_back_minor || ' ' || iif(b.revoked_at_ms IS NULL, 'false', 'true') AS stands
         FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
         CROSS JOIN payment_grants AS g ON g.balance_id = b.id
         WHERE a.environment_id = ? AND a.user_id = ?`,
      )
        .bind(app.environments.live.id, userId)
        .all<{ stands: string }>();
      return results.map(({ stands }) => stands).toSorted();
    },
    /** The stored log of events. */
    log: async () => {
      const { results } = await env.DB.prepare("SELECT * FROM stripe_log WHERE environment_id = ? ORDER BY at_ms")
        .bind(app.environments.live.id)
        .all();
      return results;
    },
    /** All stored rows of payments. */
    stored: async () => {
      const tables = [
        ...["payments", "payment_names", "payment_facts", "payment_grants", "payment_events"],
        ...["stripe_payers", "payer_users"],
      ];
      const answers = await env.DB.batch(
        tables.map((table) =>
          env.DB.prepare(`SELECT * FROM ${table} WHERE environment_id = ?`).bind(app.environments.live.id),
        ),
      );
      return answers.map(({ results }) => results);
    },
  };
}
export type PaymentsWorld = Awaited<ReturnType<typeof paymentsWorld>>;
