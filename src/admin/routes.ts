import { requireAdmin } from "../access/require-admin.ts";
import { inEnvironmentOf, requireApp, requireEnvironment } from "../apps/app.ts";
import { createApp } from "../apps/create-app.ts";
import { createKey } from "../apps/create-key.ts";
import { setEndUserAuth } from "../apps/end-user-auth.ts";
import { listApps } from "../apps/list-apps.ts";
import { listKeys } from "../apps/list-keys.ts";
import { revokeKey } from "../apps/revoke-key.ts";
import { createAppInput, createKeyInput, listKeysInput, setEndUserAuthInput } from "../apps/schemas.ts";
import { listAudit } from "../audit/list.ts";
import { listAuditInput } from "../audit/schemas.ts";
import { adjustBalance, findTenant } from "../credits/adjust.ts";
import { adjustInput, verifyUsersInput } from "../credits/schemas.ts";
import { verifyUsers } from "../credits/verify-users.ts";
import { answerOutcome } from "../http/answer-outcome.ts";
import { readBody, readNoFields } from "../http/body.ts";
import { createRoutes } from "../http/factory.ts";
import { noFields } from "../http/fields.ts";
import { validate } from "../http/validate.ts";
import { readLimits } from "../limits/read.ts";
import { readLimitsInput, setLimitsInput } from "../limits/schemas.ts";
import { setLimits } from "../limits/set.ts";
import { archivePack } from "../packs/archive.ts";
import { createPack } from "../packs/create.ts";
import { listPacks } from "../packs/list.ts";
import { patchPack } from "../packs/patch.ts";
import { restorePack } from "../packs/restore.ts";
import { createPackInput, patchPackInput } from "../packs/schemas.ts";
import { listPayments } from "../payments/list.ts";
import { listPaymentsInput, readStripeInput, setStripeInput, settlePaymentInput } from "../payments/schemas.ts";
import { settlePayment } from "../payments/settle.ts";
import { readStripe, setStripe } from "../payments/stripe-setting.ts";

export const adminRoutes = createRoutes()
  .post("/apps", requireAdmin, readBody, validate("json", createAppInput), async (c) =>
    c.json(await createApp(c.var.admin, c.req.valid("json"))),
  )
  .get("/apps", requireAdmin, async (c) => c.json(await listApps(c.var.admin)))
  .post("/apps/:appId/keys", requireAdmin, readBody, validate("json", createKeyInput), async (c) =>
    c.json(await createKey(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/keys", requireAdmin, validate("query", listKeysInput), async (c) =>
    c.json(await listKeys(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
  )
  .delete("/apps/:appId/keys/:keyId", requireAdmin, async (c) =>
    c.json(await revokeKey(c.var.admin, c.req.param("appId"), c.req.param("keyId"))),
  )
  .put("/apps/:appId/end-user-auth", requireAdmin, readBody, validate("json", setEndUserAuthInput), async (c) =>
    c.json(await setEndUserAuth(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .put("/apps/:appId/limits", requireAdmin, readBody, validate("json", setLimitsInput), async (c) =>
    c.json(await setLimits(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/limits", requireAdmin, validate("query", readLimitsInput), async (c) =>
    c.json(await readLimits(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .put("/apps/:appId/stripe", requireAdmin, readBody, validate("json", setStripeInput), async (c) =>
    c.json(await setStripe(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/stripe", requireAdmin, validate("query", readStripeInput), async (c) =>
    c.json(await readStripe(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .get("/apps/:appId/payments", requireAdmin, validate("query", listPaymentsInput), async (c) =>
    c.json(await listPayments(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
  )
  .post(
    "/apps/:appId/payments/:paymentKey/settle",
    requireAdmin,
    readBody,
    validate("json", settlePaymentInput),
    async (c) => {
      const { appId, paymentKey } = c.req.param();
      return answerOutcome(c, await settlePayment(c.var.admin, appId, paymentKey, c.req.valid("json")));
    },
  )
  .post("/apps/:appId/packs", requireAdmin, readBody, validate("json", createPackInput), async (c) => {
    const { id } = await requireApp(c.var.admin, c.req.param("appId"));
    return c.json(await createPack(c.var.admin, id, c.req.valid("json")));
  })
  .get("/apps/:appId/packs", requireAdmin, async (c) => {
    const { id } = await requireApp(c.var.admin, c.req.param("appId"));
    return c.json(await listPacks(c.var.admin, id));
  })
  .patch("/apps/:appId/packs/:packId", requireAdmin, readBody, validate("json", patchPackInput), async (c) =>
    c.json(await patchPack(c.var.admin, c.req.param("appId"), c.req.param("packId"), c.req.valid("json"))),
  )
  .post("/apps/:appId/packs/:packId/archive", requireAdmin, readNoFields, validate("json", noFields), async (c) =>
    c.json(await archivePack(c.var.admin, c.req.param("appId"), c.req.param("packId"))),
  )
  .post("/apps/:appId/packs/:packId/restore", requireAdmin, readNoFields, validate("json", noFields), async (c) =>
    c.json(await restorePack(c.var.admin, c.req.param("appId"), c.req.param("packId"))),
  )
  .get("/apps/:appId/audit", requireAdmin, validate("query", listAuditInput), async (c) => {
    const { id } = await requireApp(c.var.admin, c.req.param("appId"));
    return c.json(await listAudit(c.var.admin, id, c.req.valid("query")));
  })
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
