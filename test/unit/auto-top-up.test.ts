import { expect, it } from "vitest";
import { PLAN, topUp } from "../../examples/auto-top-up.mjs";

const message = (seq: number, type = "credits.low") => ({
  ...{ type, timestamp: "2026-01-15T12:00:00.000Z", appId: "app_1", mode: "live" },
  data: { userId: "u", alertId: "alr_1", seq },
});

/** A shop whose Stripe charges once for each idempotency key that it has not forgotten, until `error` is set. */
function shop() {
  const charged = new Map<string, object>();
  const intents: { status: string; metadata: Record<string, string> }[] = [];
  const reserved = new Map<string, number>();
  const state = { isOff: false, error: null as object | null, status: "succeeded", isAnswerLost: false };
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
    if (!charged.has(idempotencyKey)) {
      const { metadata } = params as { metadata: Record<string, string> };
      intents.push({ status: state.status, metadata });
    }
    charged.set(idempotencyKey, params);
    if (state.isAnswerLost) throw { type: "StripeConnectionError" };
    return { status: state.status };
  };
  const search = async ({ query }: { query: string }) => ({
    data: intents.filter(({ metadata }) => query === `metadata["topup"]:"${metadata.topup}"`),
  });
  return { charged, intents, reserved, state, given: { store, stripe: { paymentIntents: { create, search } } } };
}

it("the example for auto top-up charges once for each credits.low message, even if it repeats, and sends the pack and the user as metadata", async () => {
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

it("the example for auto top-up charges once when a message is sent again after Stripe has forgotten its key, even if the first answer was lost", async () => {
  const { charged, intents, state, given } = shop();
  state.isAnswerLost = true;
  await expect(topUp(message(7), given)).rejects.toMatchObject({ type: "StripeConnectionError" });
  state.isAnswerLost = false;
  charged.clear();
  for (let replay = 0; replay < 3; replay++) expect(await topUp(message(7), given)).toBe("succeeded");
  expect([intents.length, charged.size]).toEqual([1, 0]);
});

it("the example for auto top-up treats a declined charge that it finds as declined, and sends it no second time", async () => {
  const { charged, intents, reserved, state, given } = shop();
  Object.assign(state, { status: "requires_payment_method", isAnswerLost: true });
  await expect(topUp(message(7), given)).rejects.toBeDefined();
  charged.clear();
  Object.assign(state, { status: "succeeded", isAnswerLost: false });
  expect(await topUp(message(7), given)).toBe("declined");
  expect([intents.length, charged.size, reserved.size, state.isOff]).toEqual([1, 0, 0, true]);
});

it("the example for auto top-up looks for the charge before it sends the key, and sends nothing if the search fails", async () => {
  const { charged, given } = shop();
  const search = () => Promise.reject(new Error("search is down"));
  const stripe = { paymentIntents: { ...given.stripe.paymentIntents, search } };
  await expect(topUp(message(7), { ...given, stripe })).rejects.toThrow("search is down");
  expect(charged.size).toBe(0);
});

it("the example for auto top-up makes a key that Stripe accepts for users of every id", async () => {
  const { charged, given } = shop();
  for (const userId of ["é".repeat(200), 'a"b', "a:1", "a"]) {
    const each = { ...message(7), data: { ...message(7).data, userId } };
    expect(await topUp(each, given)).toBe("succeeded");
  }
  expect([...charged.keys()].every((key) => /^topup_[0-9a-f]{64}$/.test(key))).toBe(true);
  expect(charged.size).toBe(4);
});

it("the example for auto top-up stops at the monthly maximum", async () => {
  const { charged, given } = shop();
  const outcomes: string[] = [];
  for (let seq = 1; seq <= 6; seq++) outcomes.push(await topUp(message(seq), given));
  expect(outcomes).toEqual([...Array(PLAN.monthlyMax / PLAN.amount).fill("succeeded"), "capped"]);
  expect(charged.size).toBe(5);
});

it("the example for auto top-up throws when a charge may have happened, and switches itself off when the card is declined", async () => {
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
