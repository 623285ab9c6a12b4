import { createWorkerApp } from "./app.ts";
import { cronParts, scheduled } from "./cron.ts";
import { figuresPart } from "./dashboard/figures/business.ts";
import { pendingFlush } from "./db/count-activity.ts";

const app = createWorkerApp();

export default {
  fetch: async (request, env, ctx) => {
    const response = await app.fetch(request, env, ctx);
    const flush = pendingFlush(env, Date.now());
    if (flush !== null) ctx.waitUntil(flush);
    return response;
  },
  scheduled: async (_controller, env) => {
    // Only the dashboard uses the figures.
    await scheduled(env, undefined, [figuresPart, ...cronParts]);
    await pendingFlush(env, Date.now());
  },
} satisfies ExportedHandler<Env>;
