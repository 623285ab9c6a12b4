import * as z from "zod";
import { temporarilyUnavailable } from "../../errors.ts";
import { isReached } from "../../http/health.ts";
import { words } from "../../lib/words.ts";
import { open } from "../access.ts";
import { operation } from "../operation.ts";

/** Reports whether the database answers. It needs no key (W15). */
export default operation({
  id: "checkHealth",
  method: "get",
  path: "/health",
  tag: "Service",
  access: open(),
  ...(WITH_REFERENCE && {
    output: () => z.strictObject({ status: z.literal("ok").meta(words("The status.")) }).meta({ id: "Health" }),
    summary: "Check health",
    description: "Runs one trivial query on the database.",
    returns: "The service is up.",
    example: () => ({ output: { status: "ok" } }),
  }),
  handler: async ({ var: { runtime }, env }) => {
    if (await isReached(runtime, env.DB)) return { status: "ok" as const };
    throw temporarilyUnavailable("The database cannot be reached.", undefined, "database_unreachable");
  },
});
