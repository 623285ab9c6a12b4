import { requireAdmin } from "../../auth/require-admin.ts";
import { readBody } from "../../http/body.ts";
import { createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { createAlert, listAlerts, listAlertUsers } from "./alerts.ts";
import { changeAlert, deleteAlert } from "./change.ts";
import { readExpiryNotices, setExpiryNotices } from "./expiry-notices.ts";
import {
  changeAlertInput,
  createAlertInput,
  listAlertsInput,
  listAlertUsersInput,
  readExpiryNoticesInput,
  setExpiryNoticesInput,
} from "./schemas.ts";

/** The administration routes of alerts. */
export const alertRoutes = createRoutes()
  .post("/apps/:appId/alerts", requireAdmin, readBody, validate("json", createAlertInput), async (c) =>
    c.json(await createAlert(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/alerts", requireAdmin, validate("query", listAlertsInput), async (c) =>
    c.json(await listAlerts(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .patch("/apps/:appId/alerts/:alertId", requireAdmin, readBody, validate("json", changeAlertInput), async (c) =>
    c.json(await changeAlert(c.var.admin, c.req.param("appId"), c.req.param("alertId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/alerts/:alertId/users", requireAdmin, validate("query", listAlertUsersInput), async (c) =>
    c.json(await listAlertUsers(c.var.admin, c.req.param("appId"), c.req.param("alertId"), c.req.valid("query"))),
  )
  .delete("/apps/:appId/alerts/:alertId", requireAdmin, async (c) =>
    c.json(await deleteAlert(c.var.admin, c.req.param("appId"), c.req.param("alertId"))),
  )
  .put("/apps/:appId/expiry-notices", requireAdmin, readBody, validate("json", setExpiryNoticesInput), async (c) =>
    c.json(await setExpiryNotices(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/expiry-notices", requireAdmin, validate("query", readExpiryNoticesInput), async (c) =>
    c.json(await readExpiryNotices(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  );
