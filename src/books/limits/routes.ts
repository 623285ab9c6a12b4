import { declareUser } from "../../auth/end-user.ts";
import { requireAdmin } from "../../auth/require-admin.ts";
import { requireKeyOrEndUser, requireSecretKey } from "../../auth/require-key.ts";
import { readBody } from "../../http/body.ts";
import { callVerb, createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { changeLimit, deleteLimit } from "./change.ts";
import { createLimit, listLimits } from "./limits.ts";
import {
  changeLimitInput,
  createLimitInput,
  limitParams,
  listLimitsInput,
  ownAmountInput,
  readUserLimitsInput,
  removeOwnAmountInput,
} from "./schemas.ts";
import { readUserLimits, removeOwnAmount, setOwnAmount } from "./user-limits.ts";

/** Administration routes of usage limits. */
export const usageLimitRoutes = createRoutes()
  .post("/apps/:appId/usage-limits", requireAdmin, readBody, validate("json", createLimitInput), async (c) =>
    c.json(await createLimit(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/usage-limits", requireAdmin, validate("query", listLimitsInput), async (c) =>
    c.json(await listLimits(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .patch("/apps/:appId/usage-limits/:limitId", requireAdmin, readBody, validate("json", changeLimitInput), async (c) =>
    c.json(await changeLimit(c.var.admin, c.req.param("appId"), c.req.param("limitId"), c.req.valid("json"))),
  )
  .delete("/apps/:appId/usage-limits/:limitId", requireAdmin, async (c) =>
    c.json(await deleteLimit(c.var.admin, c.req.param("appId"), c.req.param("limitId"))),
  );

/** Routes for users' usage against the limits, and for their own amounts. */
export const userLimitRoutes = createRoutes()
  .get("/", requireKeyOrEndUser([]), validate("query", readUserLimitsInput), async (c) => {
    const input = c.req.valid("query");
    declareUser(c, "userId", input.userId);
    return c.json(await callVerb(c, (ctx) => readUserLimits(ctx, input)));
  })
  .put(
    "/:limitId/amount",
    requireSecretKey("forbidden"),
    readBody,
    validate("param", limitParams),
    validate("json", ownAmountInput),
    async (c) =>
      c.json(await callVerb(c, (ctx) => setOwnAmount(ctx, c.req.valid("param").limitId, c.req.valid("json")))),
  )
  .delete(
    "/:limitId/amount",
    requireSecretKey("forbidden"),
    validate("param", limitParams),
    validate("query", removeOwnAmountInput),
    async (c) =>
      c.json(
        await callVerb(c, (ctx) => removeOwnAmount(ctx, c.req.valid("param").limitId, c.req.valid("query").userId)),
      ),
  );
