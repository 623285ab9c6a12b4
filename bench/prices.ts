/** `npm run bench:prices`: the CPU time in which a price list of 2,000 rules prices an event. Below 1 ms is wanted. */
import { type PriceRule, preparePrices, priceUsage } from "../src/books/prices/price.ts";

const RULES = 2_000;
const ROUNDS = 2_000;
const WANTED_MS = 1;

const rules: PriceRule[] = Array.from({ length: RULES }, (_, n) => ({
  ...{ event: "chat.*", model: `model-${n}-20*`, unit: n % 2 === 0 ? "cents" : "tokens" },
  per: { input: { amount: n + 0.25, units: 1_000_000 }, output: { amount: n + 1, units: 1_000_000 } },
}));
const prepared = preparePrices(rules);
/** The last rules of both units match, so that all others are tried. */
const usages = [RULES - 2, RULES - 1].map((n) => ({
  ...{ event: "chat.completed", model: `model-${n}-2026-01-15` },
  meters: new Map([
    ["input", 1_200_000n],
    ["output", 300_000n],
  ]),
}));

const price = () => usages.map((usage) => priceUsage(prepared, usage).kind);
for (let n = 0; n < ROUNDS / 10; n++) price();
const { user } = process.cpuUsage();
for (let n = 0; n < ROUNDS; n++) price();
const microseconds = process.cpuUsage().user - user;
const each = microseconds / 1_000 / ROUNDS / usages.length;
console.log(
  `An event by ${RULES} rules: ${each.toFixed(3)} ms of CPU (${each < WANTED_MS ? "below" : "ABOVE"} ${WANTED_MS} ms)`,
);
