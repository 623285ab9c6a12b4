import { createApp } from "../../src/app.ts";
import { scheduled } from "../../src/cron.ts";
import { type Cost, countingD1 } from "../../test/support/counting-d1.ts";

const app = createApp();
let counting: ReturnType<typeof countingD1> | undefined;

/** Purser over a D1 that counts; `GET /bench/cost` answers what was spent since it was last asked, `/bench/cron` runs the cron. */
export default {
  async fetch(request, env, ctx) {
    counting ??= countingD1(env.DB);
    if (new URL(request.url).pathname === "/bench/cost") return Response.json(counting.spent() satisfies Cost);
    if (new URL(request.url).pathname === "/bench/cron") {
      await scheduled({ ...env, DB: counting.d1 });
      return Response.json({});
    }
    // Every request has a session; what is written behind the answers (db/activity.ts) has none, and is no request's.
    const { withSession } = counting.d1;
    const DB = { withSession, prepare: env.DB.prepare.bind(env.DB) } as unknown as D1Database;
    return app.fetch(request, { ...env, DB }, ctx);
  },
  scheduled: (_controller, env, ctx) => ctx.waitUntil(scheduled(env)),
} satisfies ExportedHandler<Env>;
