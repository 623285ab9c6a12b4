import { requireAdmin } from "../auth/require-admin.ts";
import { readBody, readNoFields } from "../http/body.ts";
import { createRoutes } from "../http/factory.ts";
import { noFields } from "../http/fields.ts";
import { validate } from "../http/validate.ts";
import { changeWebhook, createWebhook, deleteWebhook, listWebhooks, rotateSecret } from "./endpoints.ts";
import { listDeliveries } from "./list-deliveries.ts";
import { replayMessages, resendMessage, sendTest } from "./resend.ts";
import {
  changeWebhookInput,
  createWebhookInput,
  listDeliveriesInput,
  listWebhooksInput,
  replayInput,
} from "./schemas.ts";

const ENDPOINT_PATH = "/apps/:appId/webhooks/:webhookId";

/** Administration routes of webhooks. */
export const webhookRoutes = createRoutes()
  .post("/apps/:appId/webhooks", requireAdmin, readBody, validate("json", createWebhookInput), async (c) =>
    c.json(await createWebhook(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/webhooks", requireAdmin, validate("query", listWebhooksInput), async (c) =>
    c.json(await listWebhooks(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .patch(ENDPOINT_PATH, requireAdmin, readBody, validate("json", changeWebhookInput), async (c) =>
    c.json(await changeWebhook(c.var.admin, c.req.param("appId"), c.req.param("webhookId"), c.req.valid("json"))),
  )
  .delete(ENDPOINT_PATH, requireAdmin, async (c) =>
    c.json(await deleteWebhook(c.var.admin, c.req.param("appId"), c.req.param("webhookId"))),
  )
  .post(`${ENDPOINT_PATH}/rotate`, requireAdmin, readNoFields, validate("json", noFields), async (c) =>
    c.json(await rotateSecret(c.var.admin, c.req.param("appId"), c.req.param("webhookId"))),
  )
  .post(`${ENDPOINT_PATH}/test`, requireAdmin, readNoFields, validate("json", noFields), async (c) =>
    c.json(await sendTest(c.var.admin, c.req.param("appId"), c.req.param("webhookId"))),
  )
  .get(`${ENDPOINT_PATH}/deliveries`, requireAdmin, validate("query", listDeliveriesInput), async (c) =>
    c.json(await listDeliveries(c.var.admin, c.req.param("appId"), c.req.param("webhookId"), c.req.valid("query"))),
  )
  .post(
    `${ENDPOINT_PATH}/deliveries/:messageId/resend`,
    requireAdmin,
    readNoFields,
    validate("json", noFields),
    async (c) => {
      const { appId, webhookId, messageId } = c.req.param();
      return c.json(await resendMessage(c.var.admin, appId, webhookId, messageId));
    },
  )
  .post(`${ENDPOINT_PATH}/replay`, requireAdmin, readBody, validate("json", replayInput), async (c) =>
    c.json(await replayMessages(c.var.admin, c.req.param("appId"), c.req.param("webhookId"), c.req.valid("json"))),
  );
