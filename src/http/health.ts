import { temporarilyUnavailable } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { createRoutes } from "./factory.ts";

const EVERY_MS = 1_000;
const LOOK_EVERY_MS = 20;

/** What D1 last said to an isolate. `isReached` is null while it is asked. */
interface Asked {
  readonly atMs: number;
  isReached: boolean | null;
}

const lastOf = new WeakMap<object, Asked>();

type Isolate = Pick<Runtime, "isolate" | "now">;

async function ask({ isolate, now }: Isolate, d1: D1Database): Promise<boolean> {
  const asked: Asked = { atMs: now(), isReached: null };
  lastOf.set(isolate, asked);
  try {
    await d1.prepare("SELECT 1").first();
    asked.isReached = true;
  } catch {
    asked.isReached = false;
  }
  return asked.isReached;
}

/** Whether D1 answers one trivial query, which an isolate sends at most once a second. */
async function isReached(runtime: Isolate, d1: D1Database): Promise<boolean> {
  const last = lastOf.get(runtime.isolate);
  if (last === undefined || runtime.now() - last.atMs >= EVERY_MS) return ask(runtime, d1);
  for (let waited = 0; last.isReached === null && waited < EVERY_MS; waited += LOOK_EVERY_MS) {
    await scheduler.wait(LOOK_EVERY_MS);
  }
  // Whoever asked may have been cut off.
  return last.isReached ?? ask(runtime, d1);
}

/** `GET /health`: whether the database answers, without a key (W15). */
export const healthRoutes = createRoutes().get("/", async (c) => {
  if (await isReached(c.var.runtime, c.env.DB)) return c.json({ status: "ok" as const });
  throw temporarilyUnavailable("The database cannot be reached.", undefined, "database_unreachable");
});
