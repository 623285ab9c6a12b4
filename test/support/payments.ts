import { env } from "cloudflare:workers";
import { PRICES } from "./payment-story.ts";
import type { TestEvent } from "./stripe-events.ts";
import { stripeSignature } from "./stripe-signature.ts";
import { type Answer, type Bindings, Clock, makeApp, makeClient, makeLegacyPack, makePack } from "./world.ts";

export const SIGNING_SECRET = "whsec_of_the_tests_0001";

export const signatureOf = (payload: string, clock: Clock, secret = SIGNING_SECRET): Promise<string> =>
  stripeSignature(payload, secret, Math.floor(clock.ms / 1_000));

/** An application with a Stripe setting, a pack of two items, a wallet in cents and a pack in tokens. */
export async function paymentsWorld(bindings: Bindings = {}, walletDays: number | null = null) {
  const clock = new Clock();
  const app = await makeApp();
  const admin = makeClient(clock);
  const items = await makePack(app.appId, "Two", [
    { amountSteps: 400_000, unit: "tokens" },
    { amountSteps: 5_000_000, unit: "cents" },
  ]);
  const wallet = await makeLegacyPack(app.appId, "Wallet", "cents");
  const tokens = await makeLegacyPack(app.appId, "Tokens", "tokens");
  if (walletDays !== null) {
    await env.DB.prepare(
      "UPDATE credit_packs SET default_expiry_days = CAST(? AS INTEGER), version = version + 1 WHERE id = ?",
    )
      .bind(walletDays, wallet)
      .run();
  }
  const setting = {
    signingSecrets: [SIGNING_SECRET],
    prices: [
      { price: PRICES.items, packId: items },
      { price: PRICES.wallet, packId: "wallet", quantity: 250.5 },
      { price: PRICES.period, packId: tokens, quantity: 100, expires: "period" },
    ],
  };
  const path = `/api/v1/admin/apps/${app.appId}`;
  const set = (value: object | null, mode = "live"): Promise<Answer> =>
    admin("PUT", `${path}/stripe`, { key: env.ADMIN_TOKEN, body: { mode, setting: value } });
  const answer = await set(setting);
  if (answer.status !== 200) throw new Error(`The setting got ${answer.status}: ${JSON.stringify(answer.body)}`);

  const call = makeClient(clock, bindings);
  const send = async (event: TestEvent, client = call): Promise<Answer> => {
    const body = JSON.stringify(event);
    const headers = { "stripe-signature": await signatureOf(body, clock) };
    return client("POST", `/api/v1/stripe/${app.appId}/live`, { body, headers });
  };
  const key = app.keys.sk_live;
  return {
    ...{ clock, app, call, admin, set, send, path, packs: { items, wallet, tokens } },
    nowS: Math.floor(clock.ms / 1_000),
    /** Delivers an event, and returns the outcome. */
    deliver: async (event: TestEvent): Promise<string> => {
      const { status, body } = await send(event);
      if (status !== 200) throw new Error(`${event.type} got ${status}: ${JSON.stringify(body)}`);
      return body.outcome;
    },
    payments: async (query = "") =>
      (await admin("GET", `${path}/payments?mode=live${query}`, { key: env.ADMIN_TOKEN })).body.payments,
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
    /** The remaining and taken steps of each balance that payments granted this user, and whether it is revoked. */
    standing: async (userId: string): Promise<string[]> => {
      const { results } = await env.DB.prepare(
        `SELECT b.remaining_steps || ' ' || g.taken_steps || ' ' || iif(b.revoked_at_ms IS NULL, 'false', 'true') AS stands
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
        ...["payment_debts", "payment_debt_payers"],
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
