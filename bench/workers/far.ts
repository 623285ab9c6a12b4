import { createWorkerApp } from "../../src/app.ts";
import { farD1, type Trips } from "../../test/support/far-d1.ts";
import { DISTANCES } from "../distances.ts";

const app = createWorkerApp();
let far: ReturnType<typeof farD1> | undefined;

/** Purser with its database far away; `GET /bench/trips` answers the trips that were made since it was last asked. */
export default {
  fetch(request, env, ctx) {
    far ??= farD1(env.DB, DISTANCES);
    if (new URL(request.url).pathname === "/bench/trips") return Response.json(far.spent() satisfies Trips);
    // Every request has a session; what is written after the responses (activity/record.ts) has none, and is no request's.
    const { withSession } = far.d1;
    const DB = { withSession, prepare: env.DB.prepare.bind(env.DB) } as unknown as D1Database;
    return app.fetch(request, { ...env, DB }, ctx);
  },
} satisfies ExportedHandler<Env>;
