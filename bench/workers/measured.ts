import { createWorkerApp } from "../../src/app.ts";
import { type Cost, countingD1 } from "../../test/support/counting-d1.ts";
import { farD1, type Trips } from "../../test/support/far-d1.ts";

export type Spent = Cost & Trips;

const app = createWorkerApp();
let measured: { readonly d1: D1Database; readonly spent: () => Spent } | undefined;

/** A D1 that counts trips and rows, as far away as the bindings `PRIMARY_MS` and `REPLICA_MS` say. */
function measure(env: Env): NonNullable<typeof measured> {
  const { PRIMARY_MS: primaryMs = "0", REPLICA_MS: replicaMs = "0" } = env as unknown as Record<string, string>;
  const far = farD1(env.DB, { primaryMs: Number(primaryMs), replicaMs: Number(replicaMs) });
  const counting = countingD1(far.d1);
  return { d1: counting.d1, spent: () => ({ ...counting.spent(), ...far.spent() }) };
}

/** Purser. `GET /bench/spent` returns its trips and rows since the last such call. */
export default {
  fetch(request, env, ctx) {
    measured ??= measure(env);
    if (new URL(request.url).pathname === "/bench/spent") return Response.json(measured.spent());
    // Requests use sessions. The counters of activity, written after the response, use none and are not counted.
    const { withSession } = measured.d1;
    const DB = { withSession, prepare: env.DB.prepare.bind(env.DB) } as unknown as D1Database;
    return app.fetch(request, { ...env, DB }, ctx);
  },
} satisfies ExportedHandler<Env>;
