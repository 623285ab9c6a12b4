/**
 * Auto top-up with Stripe: when credits run low, the saved card is charged off session, and Purser grants by the payment intent's
 * metadata. It needs an alert in Purser (docs/payments.md), and an endpoint that receives and verifies `credits.low`, such as
 * examples/webhook-receiver.mjs. Pass each verified message to `topUp`.
 */
import { createHash } from "node:crypto";

/** The price and the pack of one top-up, and how much a user may spend on top-ups in a month. */
export const PLAN = { amount: 1000, currency: "usd", pack: "Wallet", monthlyMax: 5000 };

/** The statuses of a charge whose card was declined, or whose bank wants the user to authenticate. */
const FAILED = ["requires_payment_method", "requires_action"];

/**
 * Returns the charge that an earlier delivery made. Stripe's search finds it forever, about a minute after it was made. A charge that an
 * older version of this example made has no `metadata.topup`, so a search does not find it: do not send its message again
 * (docs/payments.md).
 */
async function findCharge(stripe, key) {
  const { data } = await stripe.paymentIntents.search({ query: `metadata["topup"]:"${key}"` });
  return data.find(({ metadata }) => metadata.topup === key) ?? null;
}

/**
 * Charges the user's saved card for one crossing of the alert's threshold. You provide `store`:
 * - `customerOf(userId)` → `{ customer, paymentMethod, isOff }`, or null for a user without a saved card
 * - `reserve(key, userId, month, amount, monthlyMax)` → whether the month's limit allows the amount; the same key returns the first result again
 * - `release(key)` releases a reservation; `switchOff(userId, why)` ends auto top-up, and tells the user to pay manually
 */
export async function topUp(message, { stripe, store, plan = PLAN }) {
  if (message.type !== "credits.low") return "ignored";
  const { userId, alertId, seq } = message.data;
  const card = await store.customerOf(userId);
  if (card === null || card.isOff) return "off";
  // Each crossing has one key, so a message that is delivered twice charges once.
  const crossing = JSON.stringify([message.appId, message.mode, alertId, userId, seq]);
  const key = `topup_${createHash("sha256").update(crossing).digest("hex")}`;
  const month = message.timestamp.slice(0, 7);
  if (!(await store.reserve(key, userId, month, plan.amount, plan.monthlyMax))) return "capped";
  const decline = async (why) => {
    await store.release(key);
    await store.switchOff(userId, why);
    return "declined";
  };
  // Stripe forgets an idempotency key after 24 hours, but a message may be sent again later. So look for its charge first.
  const earlier = await findCharge(stripe, key);
  if (earlier !== null) return FAILED.includes(earlier.status) ? decline(earlier.status) : earlier.status;
  try {
    const intent = await stripe.paymentIntents.create(
      {
        amount: plan.amount,
        currency: plan.currency,
        customer: card.customer,
        payment_method: card.paymentMethod,
        off_session: true,
        confirm: true,
        metadata: { pack: plan.pack, user: userId, topup: key },
      },
      { idempotencyKey: key },
    );
    // Purser grants the pack when Stripe sends `payment_intent.succeeded`.
    return intent.status;
  } catch (error) {
    // The card may have been charged. The message is delivered again, and the same key makes the repeat safe.
    if (error.type !== "StripeCardError") throw error;
    // The card was declined, or the bank wants the user to authenticate. A retry would fail again.
    return decline(error.code);
  }
}
