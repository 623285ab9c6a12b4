import { requireAdmin } from "../auth/require-admin.ts";
import { readBody } from "../http/body.ts";
import { createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { readTestClock, removeClock, setClock, setClockInput } from "./clock.ts";

/** Administration routes of test clocks. */
export const clockRoutes = createRoutes()
  .put("/apps/:appId/clock", requireAdmin, readBody, validate("json", setClockInput), async (c) => {
    const { output, replayed } = await setClock(c.var.admin, c.req.param("appId"), c.req.valid("json"));
    if (replayed) c.header("idempotent-replayed", "true");
    return c.json(output);
  })
  .get("/apps/:appId/clock", requireAdmin, async (c) => c.json(await readTestClock(c.var.admin, c.req.param("appId"))))
  .delete("/apps/:appId/clock", requireAdmin, async (c) =>
    c.json(await removeClock(c.var.admin, c.req.param("appId"))),
  );
