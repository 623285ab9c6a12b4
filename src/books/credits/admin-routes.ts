import { requireAdmin } from "../../auth/require-admin.ts";
import { inEnvironmentOf, requireEnvironment } from "../../catalog/apps/apps.ts";
import { readBody } from "../../http/body.ts";
import { answerOutcome, createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { adjustBalance, findTenant } from "./adjust.ts";
import { adjustInput, verifyUsersInput } from "./schemas.ts";
import { verifyUsers } from "./verify-users.ts";

/** The administration routes of balances. */
export const balanceRoutes = createRoutes()
  .post("/apps/:appId/verify", requireAdmin, readBody, validate("json", verifyUsersInput), async (c) => {
    const { mode, cursor } = c.req.valid("json");
    const environment = await requireEnvironment(c.var.admin, c.req.param("appId"), mode);
    return c.json(await verifyUsers(inEnvironmentOf(c.var.admin, environment), cursor));
  })
  .post("/balances/:balanceId/adjust", requireAdmin, readBody, validate("json", adjustInput), async (c) => {
    const balanceId = c.req.param("balanceId");
    const tenant = await findTenant(c.var.admin, balanceId);
    return answerOutcome(c, await adjustBalance(tenant, { balanceId, ...c.req.valid("json") }));
  });
