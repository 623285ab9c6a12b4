import { createApp } from "../src/app.ts";
import { scheduled } from "../src/scheduled.ts";
import { type Cost, countingD1 } from "../test/support/counting-d1.ts";

const app = createApp();
let counting: ReturnType<typeof countingD1> | undefined;

/** Purser over a D1 that counts; `GET /bench/cost` answers what was spent since it was last asked. */
export default {
  async fetch(request, env, ctx) {
    counting ??= countingD1(env.DB);
    if (new URL(request.url).pathname === "/bench/cost") return Response.json(counting.spent() satisfies Cost);
    return app.fetch(request, { ...env, DB: counting.d1 }, ctx);
  },
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
