/** An attempt in the pool: its endpoint, and whether that endpoint is failing. */
export interface PoolJob {
  readonly endpointId: string;
  readonly isFailing: boolean;
}

/** How an attempt ended. After `silent` or `closed`, the pool makes no more attempts at that endpoint. */
export type AttemptEnd = "delivered" | "failed" | "silent" | "closed" | "left";

/** The platform allows six connections at a time. The sixth is for the database. */
export const AT_A_TIME = 5;

export interface Pool<Job extends PoolJob> {
  readonly add: (jobs: readonly Job[]) => void;
  /** Adds work that may produce further jobs. They run before waiting jobs, and the pool's end waits for the work. */
  readonly follow: (work: Promise<readonly Job[]>) => void;
  /** The endpoints that take no further jobs now: those with waiting jobs, and those after `silent` or `closed`. */
  readonly busy: () => readonly string[];
  /** The number of jobs that wait, run or may follow. */
  readonly size: () => number;
  /** Resolves when fewer jobs wait than could run. */
  readonly room: () => Promise<void>;
  /** Resolves when a job ends or is added. Never resolves when no job is left. */
  readonly changed: () => Promise<void>;
  /** Resolves when no job is left. Rejects with the first error of an attempt or of added work. */
  readonly done: () => Promise<void>;
}

/**
 * Runs attempts, five at a time, so that no endpoint delays another (H4). An endpoint uses one of the five until a delivery has
 * succeeded, and all failing endpoints share one.
 */
export function openPool<Job extends PoolJob>(attempt: (job: Job) => Promise<AttemptEnd>): Pool<Job> {
  const waiting: Job[] = [];
  const running = new Set<Job>();
  const ends = new Map<string, AttemptEnd>();
  const failures: unknown[] = [];
  let following = 0;
  const watchers: (() => void)[] = [];

  const isOver = ({ endpointId }: Job) => ends.get(endpointId) === "silent" || ends.get(endpointId) === "closed";
  const isFailing = ({ endpointId, isFailing: before }: Job) => before && ends.get(endpointId) !== "delivered";
  const mayRun = (job: Job): boolean => {
    if (ends.get(job.endpointId) === "delivered") return true;
    const others = [...running];
    if (others.some(({ endpointId }) => endpointId === job.endpointId)) return false;
    return !isFailing(job) || !others.some(isFailing);
  };
  const run = async (job: Job): Promise<void> => {
    const end = await attempt(job);
    // After a failure an endpoint gets one attempt at a time again.
    if (end !== "left" && !isOver(job)) ends.set(job.endpointId, end);
  };
  const begin = (): void => {
    for (const job of waiting.splice(0)) if (!isOver(job) && failures.length === 0) waiting.push(job);
    while (running.size < AT_A_TIME) {
      const index = waiting.findIndex(mayRun);
      const [job] = index < 0 ? [] : waiting.splice(index, 1);
      if (job === undefined) break;
      running.add(job);
      const ended = () => {
        running.delete(job);
        begin();
      };
      run(job)
        .catch((error: unknown) => failures.push(error))
        .then(ended);
    }
    for (const watcher of watchers.splice(0)) watcher();
  };
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await new Promise<void>((resolve) => watchers.push(resolve));
  };
  const isEmpty = () => waiting.length + running.size + following === 0;

  return {
    add: (jobs) => {
      waiting.push(...jobs);
      begin();
    },
    follow: (work) => {
      following++;
      work
        .then((jobs) => waiting.unshift(...jobs))
        .catch((error: unknown) => failures.push(error))
        .then(() => {
          following--;
          begin();
        });
    },
    busy: () => [
      ...waiting.map(({ endpointId }) => endpointId),
      ...[...ends].filter(([, end]) => end === "silent" || end === "closed").map(([endpointId]) => endpointId),
    ],
    size: () => waiting.length + running.size + following,
    room: () => until(() => running.size < AT_A_TIME),
    changed: () => new Promise<void>((resolve) => watchers.push(resolve)),
    done: async () => {
      await until(isEmpty);
      if (failures.length > 0) throw failures[0];
    },
  };
}
