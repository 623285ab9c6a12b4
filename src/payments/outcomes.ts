/** How much of a payment was refunded. */
export const REFUNDS = ["none", "part", "whole"] as const;

/** Who granted a payment's balances: a Stripe event, or the administrator by hand. */
export const SETTLERS = ["stripe", "admin"] as const;

/** The outcomes of an event, the most important first (S5). */
export const OUTCOMES = ["granted", "taken", "restored", "remembered", "unmatched", "ignored"] as const;
/** The outcome of a delivery (S5). */
export type PaymentOutcome = (typeof OUTCOMES)[number];

/** Returns the more important of two outcomes. */
export const moreImportant = (a: PaymentOutcome, b: PaymentOutcome): PaymentOutcome =>
  OUTCOMES.indexOf(a) <= OUTCOMES.indexOf(b) ? a : b;
