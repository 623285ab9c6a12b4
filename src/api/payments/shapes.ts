import { EXAMPLE } from "../common.ts";

const { packId } = EXAMPLE;

export const prices = [{ price: "price_1PgafmB7WZ01zgkW6dKueIc5", packId, expires: "period" }];

export const exampleStripeSettings = {
  mode: "live",
  setting: { signingSecrets: ["whsec_…AbCd"], currency: "usd", prices },
  lastEventAt: "2026-01-15T12:00:00.000Z",
  refused: { at: "2026-01-15T11:58:00.000Z", reason: "wrong_secret" },
};
