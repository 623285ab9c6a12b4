/** Purser, over a D1 that counts trips and rows; `GET /spent` answers what was spent since it was last asked. */
import { createApp } from "../../src/app.ts";
import { countingD1 } from "../../test/support/counting-d1.ts";

const app = createApp();
let counting: ReturnType<typeof countingD1> | undefined;

export default {
  fetch(request, env, ctx) {
    counting ??= countingD1(env.DB);
    if (new URL(request.url).pathname === "/spent") return Response.json(counting.spent());
    return app.fetch(request, { ...env, DB: counting.d1 }, ctx);
  },
} satisfies ExportedHandler<Env>;
