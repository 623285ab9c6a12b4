import { env } from "cloudflare:workers";
import { noteOf, REFUNDS, type StripeRequest } from "./model-payments.ts";
import { SIGNING_SECRET, signatureOf } from "./payments.ts";
import { dispute } from "./stripe-disputes.ts";
import { charge, eventOf, paymentIntent, refund, session, type TestEvent } from "./stripe-events.ts";
import type { Answer, Client, Clock } from "./world.ts";

/** The earliest time of a history's payments, in seconds. */
const SINCE = 1_768_478_400;

function objectOf(request: StripeRequest): Parameters<typeof eventOf>[2] {
  const { of } = request;
  const [pi, ch] = [`pi_${of}`, `ch_${of}`];
  switch (request.what) {
    case "paid": {
      const { userId, pack, quantity, by } = request;
      const metadata = { pack, ...(quantity === undefined ? {} : { quantity: `${quantity}` }) };
      if (by === "intent") return paymentIntent(pi, { metadata: { ...metadata, user: userId } });
      return session(`cs_${of}`, { client_reference_id: userId, metadata, payment_intent: pi });
    }
    case "refunded":
      return charge(ch, pi, request.amount);
    case "refundFailed":
      return refund(`re_${of}_${request.which}`, ch, pi, REFUNDS[request.which] ?? 0, "failed");
    default: {
      const moved = request.what === "withdrawn" ? [-250] : [-250, 250 - request.out];
      return dispute(`dp_${of}_${request.which}`, ch, pi, 250, moved);
    }
  }
}

/** Delivers an event of a history, and adds the payment's balances to the response. */
export async function sendStripe(
  { call, clock, appId, environmentId }: { call: Client; clock: Clock; appId: string; environmentId: number },
  request: StripeRequest,
): Promise<Answer> {
  const type = noteOf(request).split(/[ :]/)[1] ?? "";
  const event: TestEvent = {
    ...eventOf(type, SINCE + request.at, objectOf(request)),
    id: `evt_${JSON.stringify(request)}`,
  };
  const body = JSON.stringify(event);
  const headers = { "stripe-signature": await signatureOf(body, clock) };
  const answer = await call("POST", `/api/v1/stripe/${appId}/live`, { body, headers });
  const { results } = await env.DB.prepare(
    `SELECT b.id, b.pack_item_id AS packItemId FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
     WHERE a.environment_id = ? AND b.external_ref = ?`,
  )
    .bind(environmentId, `stripe:pi_${request.of}`)
    .all();
  return answer.status === 200 ? { ...answer, body: { outcome: answer.body.outcome, balances: results } } : answer;
}

/** Sets the application's Stripe setting. */
export async function takeStripe(call: Client, appId: string): Promise<void> {
  const body = { mode: "live", setting: { signingSecrets: [SIGNING_SECRET] } };
  const answer = await call("PUT", `/api/v1/admin/apps/${appId}/stripe`, { key: env.ADMIN_TOKEN, body });
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
}
