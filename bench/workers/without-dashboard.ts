/** The Worker of src/index.ts without its dashboard: what is left is the bundle whose size has a bound. */
import { createApp } from "../../src/app.ts";
import { scheduled } from "../../src/scheduled.ts";

const app = createApp();

export default {
  fetch: app.fetch,
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
