import type { Runtime } from "../runtime.ts";

const QUERY_EVERY_MS = 1_000;
const HEALTH_POLL_EVERY_MS = 20;

/** The latest query in an isolate. `isReached` is null while the query runs. */
interface HealthQuery {
  readonly atMs: number;
  isReached: boolean | null;
}

const lastQueries = new WeakMap<object, HealthQuery>();

type Isolate = Pick<Runtime, "isolate" | "now">;

async function sendQuery({ isolate, now }: Isolate, d1: D1Database): Promise<boolean> {
  const query: HealthQuery = { atMs: now(), isReached: null };
  lastQueries.set(isolate, query);
  try {
    await d1.prepare("SELECT 1").first();
    query.isReached = true;
  } catch {
    query.isReached = false;
  }
  return query.isReached;
}

/** Returns whether D1 answers a trivial query. An isolate sends that query at most once a second. */
export async function isReached(runtime: Isolate, d1: D1Database): Promise<boolean> {
  const last = lastQueries.get(runtime.isolate);
  if (last === undefined || runtime.now() - last.atMs >= QUERY_EVERY_MS) return sendQuery(runtime, d1);
  for (let waitedMs = 0; last.isReached === null && waitedMs < QUERY_EVERY_MS; waitedMs += HEALTH_POLL_EVERY_MS) {
    await scheduler.wait(HEALTH_POLL_EVERY_MS);
  }
  // The request that sent the query may have been cancelled.
  return last.isReached ?? sendQuery(runtime, d1);
}
