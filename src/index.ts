import { createApp, isForDashboard } from "./app.ts";
import { dashboardRoutes } from "./dashboard/routes.tsx";
import { scheduled } from "./scheduled.ts";

const app = createApp();
let whole: typeof app | undefined;

function withDashboard() {
  whole ??= createApp().route("/admin", dashboardRoutes());
  return whole;
}

export default {
  fetch: (request, env, ctx) => (isForDashboard(request) ? withDashboard() : app).fetch(request, env, ctx),
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
