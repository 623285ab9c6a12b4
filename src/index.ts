import { createApp } from "./app.ts";
import { scheduled } from "./scheduled.ts";

const app = createApp();

export default {
  fetch: app.fetch,
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
