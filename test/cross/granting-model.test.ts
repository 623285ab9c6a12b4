import fc from "fast-check";
import { afterAll, beforeEach, it, vi } from "vitest";
import { comparePlot } from "../support/granting-shop.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { plots } from "../support/paid-history.ts";
import { FIXED_SEED, isSoak, RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";

// test/unit/granting-model.test.ts shows that the model keeps the properties of money, and that these histories find each mistake in a
// sentence of the rule. This test compares Purser with the model after each step.
afterAll(expectLedgerInvariants);

beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const HISTORIES = soakCount(6, 10);
const LENGTH = 25;
const seed = isSoak ? RANDOM_SEED : FIXED_SEED;

it("Stripe's events of customers who switch, cancel, pay late and dispute grant and take back what the model says, after each step", {
  timeout: timeoutOf(HISTORIES, 60_000),
}, async () => {
  const tell = soakPart("histories of plan switches", HISTORIES, "histories", seed);
  await fc.assert(
    fc.asyncProperty(plots(LENGTH), async (plot) => {
      await comparePlot(plot);
      tell();
    }),
    { seed, numRuns: HISTORIES, endOnFailure: true },
  );
});
