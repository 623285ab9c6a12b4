import { temporarilyUnavailable } from "../errors.ts";
import { createRoutes } from "./factory.ts";

/** `GET /health`: one trivial query to D1, no key (W15). */
export const healthRoutes = createRoutes().get("/", async (c) => {
  try {
    await c.env.DB.prepare("SELECT 1").first();
  } catch (cause) {
    throw temporarilyUnavailable("The database cannot be reached.", cause, "database_unreachable");
  }
  return c.json({ status: "ok" as const });
});
