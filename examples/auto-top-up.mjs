/**
 * Auto top-up with Stripe: when credits run low, the saved card is charged off session, and Purser grants by the payment intent's
 * metadata. Needs an alert of Purser's (docs/payments.md) whose `credits.low` an endpoint of yours receives and verifies, as
 * examples/webhook-receiver.mjs does. Hand each verified message to `topUp`.
 */

/** The price and the pack of one top-up, and how much a user may spend on top-ups in a month. */
export const PLAN = { amount: 1000, currency: "usd", pack: "Wallet", monthlyMax: 5000 };

/**
 * Charges the user's saved card for one crossing of the alert's threshold. `store` is yours:
 * - `customerOf(userId)` → `{ customer, paymentMethod, isOff }`, or null for a user without a saved card
 * - `reserve(key, userId, month, amount, monthlyMax)` → whether the month has room; the same key again is answered as the first time
 * - `release(key)` gives a reservation back; `switchOff(userId, why)` ends auto top-up and tells the user to pay by hand
 */
export async function topUp(message, { stripe, store, plan = PLAN }) {
  if (message.type !== "credits.low") return "ignored";
  const { userId, alertId, seq } = message.data;
  const card = await store.customerOf(userId);
  if (card === null || card.isOff) return "off";
  // One crossing, one key: a message that is delivered twice charges once.
  const key = `topup:${message.appId}:${message.mode}:${alertId}:${userId}:${seq}`;
  const month = message.timestamp.slice(0, 7);
  if (!(await store.reserve(key, userId, month, plan.amount, plan.monthlyMax))) return "capped";
  try {
    const intent = await stripe.paymentIntents.create(
      {
        amount: plan.amount,
        currency: plan.currency,
        customer: card.customer,
        payment_method: card.paymentMethod,
        off_session: true,
        confirm: true,
        metadata: { pack: plan.pack, user: userId },
      },
      { idempotencyKey: key },
    );
    // Purser grants when Stripe says `payment_intent.succeeded`. Nothing is granted here.
    return intent.status;
  } catch (error) {
    // Whether the card was charged is not known: Stripe is asked again with the same key when the message is delivered again.
    if (error.type !== "StripeCardError") throw error;
    // Declined, or the bank wants the user to authenticate: another try by itself would fail again.
    await store.release(key);
    await store.switchOff(userId, error.code);
    return "declined";
  }
}
