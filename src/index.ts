import { pendingFlush } from "./activity/count.ts";
import { createApp, isForDashboard } from "./app.ts";
import { createAppWithDashboard } from "./app-with-dashboard.ts";
import { computeFigures } from "./compute-figures.ts";
import { scheduled } from "./scheduled.ts";

const app = createApp();
let appWithDashboard: typeof app | undefined;

function getAppWithDashboard() {
  appWithDashboard ??= createAppWithDashboard();
  return appWithDashboard;
}

export default {
  fetch: async (request, env, ctx) => {
    const response = await (isForDashboard(request) ? getAppWithDashboard() : app).fetch(request, env, ctx);
    const flush = pendingFlush(env, Date.now());
    if (flush !== null) ctx.waitUntil(flush);
    return response;
  },
  scheduled: (_controller, env, ctx) => {
    ctx.waitUntil(scheduled(env));
    ctx.waitUntil(computeFigures(env));
  },
} satisfies ExportedHandler<Env>;
