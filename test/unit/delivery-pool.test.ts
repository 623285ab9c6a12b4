import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AT_A_TIME, type AttemptEnd, openPool, type Pool } from "../../src/webhooks/pool.ts";

// Rule H4: no endpoint waits for another.

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

interface Attempt {
  readonly endpointId: string;
  readonly isFailing: boolean;
  readonly message: number;
  readonly isSecond?: boolean;
}
interface TimedAttempt extends Attempt {
  readonly atMs: number;
}
/** How an endpoint responds to an attempt, and after how many milliseconds. */
type Behave = (attempt: Attempt) => { readonly ms: number; readonly end: AttemptEnd };

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const FINE = { ms: 100, end: "delivered" } as const;
const SILENT = { ms: 10_000, end: "timed out" } as const;

/** Makes all attempts in order. A first attempt that failed is repeated 5 s later. */
async function deliverAll(jobs: readonly Attempt[], behave: Behave) {
  const attempts: TimedAttempt[] = [];
  const running = new Map<string, number>();
  let most = 0;
  let mostOfOne = 0;
  const pool: Pool<Attempt> = openPool<Attempt>(async (job) => {
    attempts.push({ ...job, atMs: Date.now() });
    const { endpointId } = job;
    running.set(endpointId, (running.get(endpointId) ?? 0) + 1);
    most = Math.max(
      most,
      [...running.values()].reduce((sum, count) => sum + count, 0),
    );
    if (behave(job).end !== "delivered") mostOfOne = Math.max(mostOfOne, running.get(endpointId) ?? 0);
    const { ms, end } = behave(job);
    await wait(ms);
    running.set(endpointId, (running.get(endpointId) ?? 0) - 1);
    const mayFollow = end === "failed" && job.isSecond !== true;
    if (mayFollow) pool.follow(wait(5_000).then(() => [{ ...job, isSecond: true }]));
    return end;
  });
  pool.add(jobs);
  const done = pool.done();
  await vi.runAllTimersAsync();
  await done;
  const lastOf = (endpointIds: readonly string[]) =>
    Math.max(...attempts.filter(({ endpointId }) => endpointIds.includes(endpointId)).map(({ atMs }) => atMs));
  return { attempts, most, mostOfOne, lastOf };
}

const names = (count: number, prefix: string) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

it.each([1, 5, 9])(
  "ten endpoints with twenty messages each are delayed by less than two seconds if %i of them are silent",
  async (silentCount) => {
    const silent = names(silentCount, "silent");
    const fine = names(10 - silentCount, "fine");
    const jobsOf = (endpointIds: readonly string[]) =>
      Array.from({ length: 20 }, (_, message) =>
        endpointIds.map((endpointId) => ({ endpointId, message, isFailing: endpointId.startsWith("silent") })),
      ).flat();
    const behave: Behave = ({ endpointId }) => (endpointId.startsWith("silent") ? SILENT : FINE);
    const without = await deliverAll(jobsOf(fine), behave);
    vi.setSystemTime(0);
    const beside = await deliverAll(jobsOf([...silent, ...fine]), behave);
    expect(beside.lastOf(fine) - without.lastOf(fine)).toBeLessThan(2_000);
    for (const endpointId of fine) {
      expect(beside.attempts.filter((attempt) => attempt.endpointId === endpointId)).toHaveLength(20);
    }
    // An endpoint that timed out gets no further attempt.
    for (const endpointId of silent) {
      expect(beside.attempts.filter((attempt) => attempt.endpointId === endpointId)).toHaveLength(1);
    }
    expect(beside.most).toBe(AT_A_TIME);
    expect(beside.mostOfOne).toBeLessThanOrEqual(1);
  },
);

it("the pool makes a second attempt 5 s after the first failed, even while another endpoint is silent", async () => {
  const behave: Behave = ({ endpointId, isSecond }) => {
    if (endpointId === "silent") return SILENT;
    return isSecond ? FINE : { ms: 100, end: "failed" };
  };
  const jobs = ["silent", "fine"].map((endpointId) => ({ endpointId, message: 0, isFailing: false }));
  const { attempts } = await deliverAll(jobs, behave);
  expect(attempts.map(({ endpointId, atMs }) => [endpointId, atMs])).toEqual([
    ["silent", 0],
    ["fine", 0],
    ["fine", 5_100],
  ]);
});

it("the pool gives an endpoint one slot until its first delivery succeeds, then all slots", async () => {
  const jobs = Array.from({ length: 12 }, (_, message) => ({ endpointId: "fine", message, isFailing: false }));
  const { attempts, most } = await deliverAll(jobs, () => FINE);
  expect(attempts.map(({ atMs }) => atMs)).toEqual([0, ...Array(5).fill(100), ...Array(5).fill(200), 300]);
  expect(most).toBe(5);
});

it("the pool gives all failing endpoints one slot together, and an endpoint that recovered its own slots", async () => {
  const jobs = ["a", "b", "c", "a", "a"].map((endpointId, message) => ({ endpointId, message, isFailing: true }));
  const { attempts } = await deliverAll(jobs, ({ endpointId }) =>
    endpointId === "a" ? FINE : { ms: 100, end: "failed" },
  );
  const firsts = attempts.filter(({ isSecond }) => isSecond !== true);
  expect(firsts.map(({ endpointId, atMs }) => [endpointId, atMs])).toEqual([
    ["a", 0],
    ["b", 100],
    ["a", 100],
    ["a", 100],
    ["c", 200],
  ]);
});

it("the pool sends nothing more to a disabled endpoint, and continues with an endpoint that failed once", async () => {
  const jobs = ["gone", "gone", "once", "once"].map((endpointId, message) => ({
    endpointId,
    message,
    isFailing: false,
  }));
  const { attempts } = await deliverAll(jobs, ({ endpointId, message }) => {
    if (endpointId === "gone") return { ms: 1, end: "disabled" };
    return message === 2 ? { ms: 1, end: "failed" } : FINE;
  });
  expect(attempts.map(({ endpointId, message }) => [endpointId, message])).toEqual([
    ["gone", 0],
    ["once", 2],
    ["once", 3],
    ["once", 2],
  ]);
});

it("the pool rejects with the first error that an attempt throws, and starts no further attempt", async () => {
  let attempts = 0;
  const pool = openPool(async () => {
    attempts++;
    throw new Error(`attempt ${attempts}`);
  });
  pool.add([1, 2].map(() => ({ endpointId: "one", isFailing: false })));
  await expect(pool.done()).rejects.toThrow("attempt 1");
  expect(attempts).toBe(1);
});
