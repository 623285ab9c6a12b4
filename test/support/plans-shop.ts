import { type PaymentsWorld, paymentsWorld, SIGNING_SECRET } from "./payments.ts";
import { eventOf, type TestEvent } from "./stripe-events.ts";
import { type Invoice, invoice, type Line } from "./stripe-invoices.ts";
import type { ApiVersion } from "./stripe-versions.ts";
import { type Bindings, makePack } from "./world.ts";

/** A shop with two plans: Basic is $10 for 1,000 tokens, Pro $30 for 4,000. `more` has further fields of their prices. */
export async function plansShop(
  version: ApiVersion,
  more: { readonly basic?: object; readonly pro?: object } = {},
  bindings: Bindings = {},
) {
  const w: PaymentsWorld = await paymentsWorld(bindings);
  const basic = await makePack(w.app.appId, "Basic", [{ amountMinor: 1_000_000, unit: "tokens" }]);
  const pro = await makePack(w.app.appId, "Pro", [{ amountMinor: 4_000_000, unit: "tokens" }]);
  const prices = [
    { price: "price_basic", packId: basic, amount: 1000, ...more.basic },
    { price: "price_pro", packId: pro, amount: 3000, ...more.pro },
  ];
  const answer = await w.set({ signingSecrets: [SIGNING_SECRET], prices });
  if (answer.status !== 200) throw new Error(`The setting got ${answer.status}: ${JSON.stringify(answer.body)}`);
  let seconds = 0;
  const paid = (id: string, lines: readonly Line[], about: Partial<Invoice> = {}): TestEvent => {
    seconds += 1;
    const sum = lines.reduce(
      (total, { amount = 1000, discount = 0 }) => total + amount - Math.sign(amount) * discount,
      0,
    );
    const whole = { lines, subscription: { user: "u" }, paid: Math.max(0, sum), total: sum, ...about };
    return eventOf("invoice.paid", w.nowS + seconds, invoice(id, whole, version), version);
  };
  const spend = async (eventId: string, tokens: number, userId = "u") => {
    const answer = await w.post("usage/events", { userId, event: "chat", eventId, quantities: { tokens } });
    if (answer.status !== 200) throw new Error(`The usage event got ${answer.status}.`);
  };
  return {
    ...{ w, paid, spend, prices },
    basic: (id: string, amount = 1000): Line => ({ id, price: "price_basic", amount, unitAmount: 1000 }),
    pro: (id: string, amount = 3000): Line => ({ id, price: "price_pro", amount, unitAmount: 3000 }),
    /** The remaining amounts of a user's balances, in ascending order. */
    tokens: async (userId = "u") => (await w.balances(userId)).map(([, amount]) => amount).toSorted((a, b) => a - b),
    /** Adds steps, because a sum of decimal amounts may have more digits than the unit. */
    total: async (userId = "u") =>
      (await w.balances(userId)).reduce((sum, [, amount]) => sum + Math.round(amount * 1_000), 0) / 1_000,
    /** The carry of the only customer. */
    carry: async (userId = "u"): Promise<number> => {
      const [first] = await w.carries(userId);
      return first?.amount ?? 0;
    },
  };
}

/** A line for the rest of a period. */
export const prorated = (line: Line): Line => ({ ...line, proration: true });
/** A negative line, for what is given back. */
export const credit = (line: Line): Line => ({ ...line, amount: -Math.abs(line.amount ?? 0), proration: true });
