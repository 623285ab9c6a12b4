/**
 * The Worker that `npm start` seeds the demonstration through: Purser, at the time that each request names. It is no part of
 * the deployed Worker, which has no such clock.
 */
import { createWorkerApp } from "../src/app.ts";
import { scheduled } from "../src/cron.ts";
import { flushActivity } from "../src/db/count-activity.ts";
import { createRuntime } from "../src/runtime.ts";

const runtime = createRuntime();
const runtimeAt = (nowMs) => ({ ...runtime, now: () => nowMs });
const app = createWorkerApp(({ NOW_MS }) => runtimeAt(NOW_MS));

export default {
  fetch: async (request, env, ctx) => {
    const { pathname } = new URL(request.url);
    const nowMs = Number(request.headers.get("x-now") ?? Date.now());
    // The endpoint of the demonstration, which works for the month. The Worker that is served later has no such path.
    if (pathname === "/order-system") return new Response(null, { status: 204 });
    if (pathname === "/cron") {
      await scheduled(env, runtimeAt(nowMs));
      return new Response();
    }
    const response = await app.fetch(request, { ...env, NOW_MS: nowMs }, ctx);
    await flushActivity(env);
    return response;
  },
};
