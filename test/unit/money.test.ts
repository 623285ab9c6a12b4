import { expect, it } from "vitest";
import { money } from "../../src/dashboard/money.ts";

it("shows what Stripe counts in smallest units as amounts of their currency", () => {
  expect(money(150_000, "usd")).toBe("1,500.00 USD");
  expect(money(1, "eur")).toBe("0.01 EUR");
  expect(money(1_500, "jpy")).toBe("1,500 JPY");
  expect(money(1_500, "kwd")).toBe("1.500 KWD");
  // Stripe counts it in hundredths, though it has none.
  expect(money(1_500, "isk")).toBe("15.00 ISK");
  expect(money(0, null)).toBe("0 (smallest unit)");
});
