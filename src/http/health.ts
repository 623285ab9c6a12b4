import { temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { createRoutes } from "./factory.ts";

const EVERY_MS = 1_000;
const LOOK_EVERY_MS = 20;

/** The latest answer of D1 in an isolate. `isReached` is null while the query runs. */
interface HealthAnswer {
  readonly atMs: number;
  isReached: boolean | null;
}

const lastOf = new WeakMap<object, HealthAnswer>();

type Isolate = Pick<Runtime, "isolate" | "now">;

async function ask({ isolate, now }: Isolate, d1: D1Database): Promise<boolean> {
  const asked: HealthAnswer = { atMs: now(), isReached: null };
  lastOf.set(isolate, asked);
  try {
    await d1.prepare("SELECT 1").first();
    asked.isReached = true;
  } catch {
    asked.isReached = false;
  }
  return asked.isReached;
}

/** Returns whether D1 answers a trivial query. An isolate sends that query at most once a second. */
async function isReached(runtime: Isolate, d1: D1Database): Promise<boolean> {
  const last = lastOf.get(runtime.isolate);
  if (last === undefined || runtime.now() - last.atMs >= EVERY_MS) return ask(runtime, d1);
  for (let waited = 0; last.isReached === null && waited < EVERY_MS; waited += LOOK_EVERY_MS) {
    await scheduler.wait(LOOK_EVERY_MS);
  }
  // The request that sent the query may have been cancelled.
  return last.isReached ?? ask(runtime, d1);
}

/** `GET /health` reports whether the database answers. It needs no key (W15). */
export const healthRoutes = createRoutes().get("/", async (c) => {
  if (await isReached(c.var.runtime, c.env.DB)) return c.json({ status: "ok" as const });
  throw temporarilyUnavailable("The database cannot be reached.", undefined, "database_unreachable");
});
