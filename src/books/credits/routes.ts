import { declareUser } from "../../auth/end-user.ts";
import { requireAdmin } from "../../auth/require-admin.ts";
import { requireKeyOrEndUser, requireSecretKey } from "../../auth/require-key.ts";
import { inEnvironmentOf, requireEnvironment } from "../../catalog/apps.ts";
import { readBody } from "../../http/body.ts";
import { answerOutcome, callVerb, createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { adjustBalance, findTenant } from "./adjust.ts";
import { grantPack } from "./grant.ts";
import { listEntries } from "./history.ts";
import { listBalances } from "./list.ts";
import { refundCredits } from "./refund.ts";
import { revokeBalance } from "./revoke.ts";
import {
  adjustInput,
  grantInput,
  historyInput,
  listInput,
  refundInput,
  revokeInput,
  usersInput,
  verifyInput,
  verifyUsersInput,
} from "./schemas.ts";
import { listUsers } from "./users.ts";
import { verifyUser, verifyUsers } from "./verify.ts";

export const creditRoutes = createRoutes()
  .post("/grant", requireSecretKey("forbidden"), readBody, validate("json", grantInput), async (c) =>
    answerOutcome(c, await callVerb(c, (ctx) => grantPack(ctx, c.req.valid("json")))),
  )
  .post("/revoke", requireSecretKey("forbidden"), readBody, validate("json", revokeInput), async (c) =>
    c.json(await callVerb(c, (ctx) => revokeBalance(ctx, c.req.valid("json")))),
  )
  .post("/refund", requireSecretKey("forbidden"), readBody, validate("json", refundInput), async (c) =>
    answerOutcome(c, await callVerb(c, (ctx) => refundCredits(ctx, c.req.valid("json")))),
  )
  .get("/", requireKeyOrEndUser(["externalRef", "asOf"]), validate("query", listInput), async (c) => {
    const input = c.req.valid("query");
    declareUser(c, "userId", input.userId);
    return c.json(await callVerb(c, (ctx) => listBalances(ctx, input)));
  })
  .get("/history", requireSecretKey("requires_secret_key"), validate("query", historyInput), async (c) =>
    c.json(await callVerb(c, (ctx) => listEntries(ctx, c.req.valid("query")))),
  )
  .get("/users", requireSecretKey("requires_secret_key"), validate("query", usersInput), async (c) =>
    c.json(await callVerb(c, (ctx) => listUsers(ctx, c.req.valid("query")))),
  )
  .get("/verify", requireSecretKey("requires_secret_key"), validate("query", verifyInput), async (c) =>
    c.json(await callVerb(c, (ctx) => verifyUser(ctx, c.req.valid("query")))),
  );

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
