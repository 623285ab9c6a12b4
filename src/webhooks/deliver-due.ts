import { all, type Db } from "../db/sql.ts";
import type { CronCtx, CronPart, Outbox, SystemCtx } from "../runtime.ts";
import { ATTEMPT_MS_MAX, attemptDelivery } from "./attempt-delivery.ts";
import { failAllPending, selectDisabledWithPending } from "./endpoint.ts";
import { type LeasedDelivery, leaseRound, readLeased, releaseLeases } from "./lease.ts";
import { FIRST_ATTEMPTS_MAX, LEASE_MS } from "./outbox.ts";
import { openPool, type Pool, type PoolJob } from "./pool.ts";
import { type AttemptOutcome, openRecorder } from "./record-outcomes.ts";

/** The platform ends an invocation 30 seconds after its response, and an attempt takes up to 10. */
const START_WITHIN_MS = 18_000;

/**
 * Makes the first attempts of the oldest twenty messages that an invocation wrote, after its response (H4). Its other messages are
 * due immediately, so the cron attempts them.
 */
export async function makeFirstAttempts(root: SystemCtx, outbox: Outbox): Promise<void> {
  const pool = openDeliveries(root, root.now() + START_WITHIN_MS);
  const byDatabase = Map.groupBy(outbox, ({ database }) => database);
  let attemptsLeft = FIRST_ATTEMPTS_MAX;
  for (const { index, db } of root.databases) {
    const messages = byDatabase.get(index) ?? [];
    if (messages.length === 0) continue;
    const leased = await readLeased(root, db, messages.slice(0, attemptsLeft), attemptsLeft + 1);
    const attempted = leased.slice(0, attemptsLeft);
    if (messages.length > attemptsLeft || leased.length > attemptsLeft)
      await releaseLeases(root, db, messages, attempted);
    attemptsLeft -= attempted.length;
    pool.add(db, attempted);
  }
  await pool.done();
}

/** How many deliveries are leased at a time: few enough to be started before their lease ends. */
const DELIVERIES_A_ROUND = 10;
/** The queries to lease a round, and to record an attempt. Attempts are usually recorded together. */
const QUERIES_A_LEASE = 2;
const QUERIES_A_RECORD = 2;
const QUERIES_A_ROUND = QUERIES_A_LEASE + DELIVERIES_A_ROUND * QUERIES_A_RECORD;

/**
 * Attempts due deliveries (H4) while the queries and the time of the run last. The endpoints take turns, and a random
 * endpoint is the first. Before that, it fails the pending deliveries of disabled endpoints.
 */
export async function deliverDue(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance } = root;
  const disabled = (await all(db, selectDisabledWithPending({}))).map(({ id }) => id);
  if (disabled.length > 0) await failAllPending(db, disabled, () => allowance.has(QUERIES_A_ROUND));
  const pool = openDeliveries(root, allowance.untilMs);
  let start = root.newId("whk_");
  while (root.now() <= allowance.untilMs && allowance.has(QUERIES_A_ROUND + pool.size() * QUERIES_A_RECORD)) {
    const round = await leaseRound(root, db, { start, excluded: pool.busy() }, DELIVERIES_A_ROUND);
    if (round.length === 0 && start === "") {
      if (pool.size() === 0) break;
      // The round leaves out busy endpoints, so they may have more due deliveries.
      await pool.changed();
      continue;
    }
    // Wraps around to the first endpoint.
    if (round.length === 0) start = "";
    pool.add(db, round);
    await pool.room();
  }
  await pool.done();
  return [];
}

export const deliveriesPart: CronPart = {
  code: "messages_not_sent",
  weight: 8,
  queriesOfStep: QUERIES_A_ROUND + 1,
  work: deliverDue,
};

/** A leased delivery in the pool. */
type PooledDelivery = LeasedDelivery & Pick<PoolJob, "isFailing"> & { readonly db: Db };

type DeliveryPool = Omit<Pool<PooledDelivery>, "add" | "follow"> & {
  readonly add: (db: Db, leased: readonly LeasedDelivery[]) => void;
};

/**
 * Attempts leased deliveries and records the results. A few seconds after a failed first attempt it makes the second (H4). No
 * attempt starts after `untilMs`, or so late that its lease could end before it. The cron makes the remaining attempts.
 */
function openDeliveries(ctx: SystemCtx, untilMs: number): DeliveryPool {
  const record = openRecorder();
  const toJobs = (db: Db, leased: readonly LeasedDelivery[]): readonly PooledDelivery[] =>
    leased.map((delivery) => ({ ...delivery, db, isFailing: delivery.failingSinceMs !== null }));
  const finish = async (db: Db, outcome: AttemptOutcome): Promise<readonly PooledDelivery[]> => {
    await record(db, outcome);
    const { again } = outcome;
    if (again === undefined) return [];
    await scheduler.wait(Math.max(0, again.dueAtMs - LEASE_MS - ctx.now()));
    return toJobs(db, await readLeased(ctx, db, [again]));
  };
  const pool = openPool<PooledDelivery>(async (delivery) => {
    const nowMs = ctx.now();
    if (nowMs > untilMs || nowMs + ATTEMPT_MS_MAX >= delivery.dueAtMs) return "skipped";
    const outcome = await attemptDelivery(ctx, delivery, untilMs);
    pool.follow(finish(delivery.db, outcome));
    if (outcome.status === "delivered") return "delivered";
    if (outcome.disablesEndpoint === true) return "disabled";
    return outcome.attempt.error === "timeout" ? "timed out" : "failed";
  });
  return { ...pool, add: (db, leased) => pool.add(toJobs(db, leased)) };
}
