import { expect, it } from "vitest";
import { moneyText } from "../../src/dashboard/format.tsx";

it("shows amounts in Stripe's smallest units as amounts of their currency", () => {
  expect(moneyText(150_000, "usd")).toBe("$1,500.00");
  expect(moneyText(1, "eur")).toBe("€0.01");
  expect(moneyText(1_500, "jpy")).toBe("¥1,500");
  expect(moneyText(1_500, "kwd")).toBe("KWD\u00a01.500");
  // Stripe counts Icelandic krónur in hundredths, although the currency has none.
  expect(moneyText(1_500, "isk")).toBe("ISK\u00a015.00");
  expect(moneyText(0, null)).toBe("–");
});

it("leaves out parts of the smallest unit, unless there is nothing else", () => {
  expect(moneyText(279.999999, "usd")).toBe("$2.79");
  expect(moneyText(-279.9, "usd")).toBe("-$2.79");
  expect(moneyText(100_000, "usd")).toBe("$1,000.00");
  expect(moneyText(0.25, "usd")).toBe("$0.0025");
  expect(moneyText(0.000001, "usd")).toBe("$0.00000001");
  expect(moneyText(0, "usd")).toBe("$0.00");
  expect(moneyText(1_500.75, "jpy")).toBe("¥1,500");
});
