/** An attempt in the pool: its endpoint, and whether the endpoint is failing. */
export interface PoolJob {
  readonly endpointId: string;
  readonly isFailing: boolean;
}

/**
 * How an attempt ended. After `timed out` or `disabled`, the pool makes no more attempts at the endpoint. `skipped`: it was
 * not made.
 */
export type AttemptEnd = "delivered" | "failed" | "timed out" | "disabled" | "skipped";

/** How many attempts run at a time. The platform allows six connections, and the sixth is for the database. */
export const AT_A_TIME = 5;

export interface Pool<Job extends PoolJob> {
  readonly add: (jobs: readonly Job[]) => void;
  /** Adds work that may return further jobs. They run before waiting jobs. `done` also waits for the work. */
  readonly follow: (work: Promise<readonly Job[]>) => void;
  /**
   * The endpoints that take no further jobs now: they have waiting jobs, or an attempt ended with `timed out` or `disabled`.
   */
  readonly busy: () => readonly string[];
  /** The number of waiting jobs, running jobs and added work. */
  readonly size: () => number;
  /** Resolves when a further job could run. */
  readonly room: () => Promise<void>;
  /** Resolves when a job ends or is added. Never resolves when no job is left. */
  readonly changed: () => Promise<void>;
  /** Resolves when no job is left. Rejects with the first error of an attempt or of added work. */
  readonly done: () => Promise<void>;
}

/**
 * Runs attempts, five at a time, so that no endpoint delays another (H4). An endpoint has one attempt at a time until a
 * delivery has succeeded. All failing endpoints together have one attempt at a time.
 */
export function openPool<Job extends PoolJob>(attempt: (job: Job) => Promise<AttemptEnd>): Pool<Job> {
  const waiting: Job[] = [];
  const running = new Set<Job>();
  const ends = new Map<string, AttemptEnd>();
  const failures: unknown[] = [];
  let workCount = 0;
  const watchers: (() => void)[] = [];

  const isClosed = (endpointId: string) => ends.get(endpointId) === "timed out" || ends.get(endpointId) === "disabled";
  const isFailing = ({ endpointId, isFailing: before }: Job) => before && ends.get(endpointId) !== "delivered";
  const mayRun = (job: Job): boolean => {
    if (ends.get(job.endpointId) === "delivered") return true;
    const others = [...running];
    if (others.some(({ endpointId }) => endpointId === job.endpointId)) return false;
    return !isFailing(job) || !others.some(isFailing);
  };
  const run = async (job: Job): Promise<void> => {
    const end = await attempt(job);
    // After a failure an endpoint has one attempt at a time again.
    if (end !== "skipped" && !isClosed(job.endpointId)) ends.set(job.endpointId, end);
  };
  const startJobs = (): void => {
    for (const job of waiting.splice(0)) if (!isClosed(job.endpointId) && failures.length === 0) waiting.push(job);
    while (running.size < AT_A_TIME) {
      const index = waiting.findIndex(mayRun);
      const [job] = index < 0 ? [] : waiting.splice(index, 1);
      if (job === undefined) break;
      running.add(job);
      run(job)
        .catch((error: unknown) => failures.push(error))
        .then(() => {
          running.delete(job);
          startJobs();
        });
    }
    for (const watcher of watchers.splice(0)) watcher();
  };
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await new Promise<void>((resolve) => watchers.push(resolve));
  };
  const isEmpty = () => waiting.length + running.size + workCount === 0;

  return {
    add: (jobs) => {
      waiting.push(...jobs);
      startJobs();
    },
    follow: (work) => {
      workCount++;
      work
        .then((jobs) => waiting.unshift(...jobs))
        .catch((error: unknown) => failures.push(error))
        .then(() => {
          workCount--;
          startJobs();
        });
    },
    busy: () => [...waiting.map(({ endpointId }) => endpointId), ...[...ends.keys()].filter(isClosed)],
    size: () => waiting.length + running.size + workCount,
    room: () => until(() => running.size < AT_A_TIME),
    changed: () => new Promise<void>((resolve) => watchers.push(resolve)),
    done: async () => {
      await until(isEmpty);
      if (failures.length > 0) throw failures[0];
    },
  };
}
