import { requireAdmin } from "../../auth/require-admin.ts";
import { readBody } from "../../http/body.ts";
import { createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { readLimits, setLimits } from "./limits.ts";
import { readLimitsInput, setLimitsInput } from "./schemas.ts";

/** Administration routes of the limits of analytics. */
export const analyticsLimitRoutes = createRoutes()
  .put("/apps/:appId/limits", requireAdmin, readBody, validate("json", setLimitsInput), async (c) =>
    c.json(await setLimits(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/limits", requireAdmin, validate("query", readLimitsInput), async (c) =>
    c.json(await readLimits(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  );
