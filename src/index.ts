import { pendingFlush } from "./activity/count.ts";
import { createApp, isForDashboard } from "./app.ts";
import { dashboardRoutes } from "./dashboard/routes.tsx";
import { scheduled } from "./scheduled.ts";

const app = createApp();
let appWithDashboard: typeof app | undefined;

function getAppWithDashboard() {
  appWithDashboard ??= createApp().route("/admin", dashboardRoutes());
  return appWithDashboard;
}

export default {
  fetch: async (request, env, ctx) => {
    const answer = await (isForDashboard(request) ? withDashboard() : app).fetch(request, env, ctx);
    const writing = pendingFlush(env, Date.now());
    if (writing !== null) ctx.waitUntil(writing);
    return answer;
  },
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
