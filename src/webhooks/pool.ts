/** What the pool needs to know of an attempt: whose it is, and whether that endpoint failed last. */
export interface PoolJob {
  readonly endpointId: string;
  readonly isFailing: boolean;
}

/** How an attempt ended. An endpoint of which one was `silent` or `closed` is asked nothing more. */
export type AttemptEnd = "delivered" | "failed" | "silent" | "closed" | "left";

/** The platform opens six connections at a time. The sixth is for the database. */
export const AT_A_TIME = 5;

export interface Pool<Job extends PoolJob> {
  readonly add: (jobs: readonly Job[]) => void;
  /** Work that the pool's end waits for, and after which jobs may follow, before those that wait. */
  readonly follow: (work: Promise<readonly Job[]>) => void;
  /** The endpoints that get nothing more for now: those that wait for a turn, and those that are asked nothing more. */
  readonly busy: () => readonly string[];
  /** How many jobs wait, run, or may follow. */
  readonly size: () => number;
  /** Resolves when more could run at once than waits. */
  readonly room: () => Promise<void>;
  /** Resolves when the next job ends or follows; never where none is left. */
  readonly changed: () => Promise<void>;
  /** Resolves when nothing is left. Rejects with the first error of an attempt or of what followed one. */
  readonly done: () => Promise<void>;
}

/**
 * Runs attempts, five at a time, so that no endpoint waits for another (H4): an endpoint has one of the five until it has taken
 * a delivery, and those that are failing share one.
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
    // One that failed takes one at a time again.
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
