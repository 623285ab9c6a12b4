import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { attempt as runAttempts } from "../../src/db/attempt.ts";
import { PurserError } from "../../src/errors.ts";

const ids = (nonce = "someNonceOf22Characters") => ({ newId: () => nonce });
const conflict = () => new Error("D1_ERROR: reservations_settled_once: SQLITE_CONSTRAINT");

const wait = vi.fn(async (_ms: number) => {});
beforeEach(() => {
  wait.mockClear();
  vi.stubGlobal("scheduler", { wait });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

/** An attempt that conflicts this number of times and then succeeds, with the number of pauses before each try. */
function conflicting(times: number, errorOf: () => unknown = conflict) {
  const pausesBefore: number[] = [];
  const attempt = vi.fn(async () => {
    pausesBefore.push(wait.mock.calls.length);
    if (pausesBefore.length <= times) throw errorOf();
    return "done";
  });
  return { attempt, pausesBefore };
}

const errorOf = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

it("attempt returns after the first attempt without a conflict, and does not wait before the second attempt", async () => {
  const none = conflicting(0);
  expect(await runAttempts(ids(), none.attempt)).toBe("done");
  expect(none.attempt).toHaveBeenCalledTimes(1);
  const once = conflicting(1);
  expect(await runAttempts(ids(), once.attempt)).toBe("done");
  expect(once.attempt).toHaveBeenCalledTimes(2);
  expect(wait).not.toHaveBeenCalled();
});

it("attempt gives up with 503 after 64 attempts, with the last conflict as its cause, and no pause after the last", async () => {
  const always = conflicting(Number.POSITIVE_INFINITY);
  const error = await errorOf(runAttempts(ids(), always.attempt));
  expect(error).toBeInstanceOf(PurserError);
  expect(error).toMatchObject({
    code: "temporarily_unavailable",
    headers: { "Retry-After": "1" },
    cause: conflict(),
  });
  expect(always.attempt).toHaveBeenCalledTimes(64);
  // A pause before the third attempt and each later one, and no other pause.
  expect(always.pausesBefore).toEqual([0, ...Array.from({ length: 63 }, (_, index) => index)]);
  expect(wait).toHaveBeenCalledTimes(62);
});

it("attempt returns when the 64th attempt succeeds", async () => {
  expect(await runAttempts(ids(), conflicting(63).attempt)).toBe("done");
});

it("attempt throws an error that is not a conflict at once, on later attempts too", async () => {
  const others = [
    new Error("D1_ERROR: Network connection lost."),
    new Error("D1_ERROR: environments_test_quota: SQLITE_CONSTRAINT"),
    new PurserError("insufficient_credits", "short"),
    new PurserError("temporarily_unavailable", "another call gave up", { cause: conflict() }),
    "no error at all",
  ];
  for (const other of others) {
    const { attempt } = conflicting(5, () => other);
    expect(await errorOf(runAttempts(ids(), attempt))).toBe(other);
    expect(attempt).toHaveBeenCalledTimes(1);
  }
  let count = 0;
  const late = conflicting(5, () => (++count === 3 ? others[0] : conflict()));
  expect(await errorOf(runAttempts(ids(), late.attempt))).toBe(others[0]);
  expect(late.attempt).toHaveBeenCalledTimes(3);
});

it("attempt repeats after a conflict that is the cause of another error", async () => {
  const wrapped = conflicting(2, () => new Error("The batch failed.", { cause: conflict() }));
  expect(await runAttempts(ids(), wrapped.attempt)).toBe("done");
});

it("attempt limits each wait to twice the limit before and to a second, and waits differently for another nonce", async () => {
  const pausesOf = async (nonce: string): Promise<number[]> => {
    wait.mockClear();
    await errorOf(runAttempts(ids(nonce), conflicting(Number.POSITIVE_INFINITY).attempt));
    return wait.mock.calls.map(([ms]) => ms);
  };
  const pauses = await pausesOf("someNonceOf22Characters");
  for (const [index, ms] of pauses.entries()) {
    expect(Number.isInteger(ms)).toBe(true);
    expect(ms).toBeGreaterThanOrEqual(0);
    expect(ms).toBeLessThanOrEqual(Math.min(1_000, 4 * 2 ** (index + 2)));
  }
  expect(Math.max(...pauses)).toBeGreaterThan(500);
  expect(await pausesOf("someNonceOf22Characters")).toEqual(pauses);
  expect(await pausesOf("0123456789abcdefghijkl")).not.toEqual(pauses);
});
