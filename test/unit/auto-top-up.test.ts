import { describe, expect, it } from "vitest";
import { PLAN, topUp } from "../../examples/auto-top-up.mjs";

const message = (seq: number, type = "credits.low") => ({
  ...{ type, timestamp: "2026-01-15T12:00:00.000Z", appId: "app_1", mode: "live" },
  data: { userId: "u", alertId: "alr_1", seq },
});

/** A shop whose Stripe charges once for each idempotency key, until `error` is set. */
function shop() {
  const charged = new Map<string, object>();
  const reserved = new Map<string, number>();
  const state = { isOff: false, error: null as object | null };
  const store = {
    customerOf: async () => ({ customer: "cus_1", paymentMethod: "pm_1", isOff: state.isOff }),
    reserve: async (key: string, _: string, __: string, amount: number, max: number) => {
      if (reserved.has(key)) return true;
      const sum = [...reserved.values()].reduce((all, one) => all + one, amount);
      if (sum <= max) reserved.set(key, amount);
      return sum <= max;
    },
    release: async (key: string) => {
      reserved.delete(key);
    },
    switchOff: async () => {
      state.isOff = true;
    },
  };
  const create = async (params: object, { idempotencyKey }: { idempotencyKey: string }) => {
    if (state.error !== null) throw state.error;
    charged.set(idempotencyKey, params);
    return { status: "succeeded" };
  };
  return { charged, reserved, state, given: { store, stripe: { paymentIntents: { create } } } };
}

describe("the example for auto top-up", () => {
  it("charges once for each credits.low message, even if it repeats, and sends the pack and the user as metadata", async () => {
    const { charged, given } = shop();
    for (const seq of [7, 7, 9]) expect(await topUp(message(seq), given)).toBe("succeeded");
    expect(charged.size).toBe(2);
    expect([...charged.values()][0]).toMatchObject({
      off_session: true,
      confirm: true,
      metadata: { pack: "Wallet", user: "u" },
    });
    expect(await topUp(message(1, "credits.depleted"), given)).toBe("ignored");
  });

  it("stops at the monthly maximum", async () => {
    const { charged, given } = shop();
    const outcomes: string[] = [];
    for (let seq = 1; seq <= 6; seq++) outcomes.push(await topUp(message(seq), given));
    expect(outcomes).toEqual([...Array(PLAN.monthlyMax / PLAN.amount).fill("succeeded"), "capped"]);
    expect(charged.size).toBe(5);
  });

  it("throws when a charge may have happened, and switches itself off when the card is declined", async () => {
    const { charged, reserved, state, given } = shop();
    state.error = { type: "StripeConnectionError" };
    await expect(topUp(message(1), given)).rejects.toBe(state.error);
    expect(reserved.size).toBe(1);
    state.error = { type: "StripeCardError", code: "authentication_required" };
    expect(await topUp(message(1), given)).toBe("declined");
    expect(reserved.size).toBe(0);
    state.error = null;
    expect(await topUp(message(2), given)).toBe("off");
    expect(charged.size).toBe(0);
  });
});
