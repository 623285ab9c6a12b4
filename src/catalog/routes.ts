import { requireAdmin } from "../auth/require-admin.ts";
import { onlyModeOf } from "../auth/scopes.ts";
import { readBody, readNoFields } from "../http/body.ts";
import { createRoutes } from "../http/factory.ts";
import { noFields } from "../http/fields.ts";
import { validate } from "../http/validate.ts";
import { createAdminKey, listAdminKeys, revokeAdminKey } from "./admin-keys.ts";
import { createApp, listApps, requireApp, setEndUserAuth } from "./apps.ts";
import { NO_APP } from "./audit.ts";
import { archivePack, patchPack, restorePack } from "./change-pack.ts";
import { createPack } from "./create-pack.ts";
import { createKey, listKeys, revokeKey } from "./keys.ts";
import { listAudit } from "./list-audit.ts";
import { listPacks } from "./pack.ts";
import {
  createAdminKeyInput,
  createAppInput,
  createKeyInput,
  createPackInput,
  listAuditInput,
  listKeysInput,
  pageInput,
  patchPackInput,
  setEndUserAuthInput,
} from "./schemas.ts";

/** The administration routes of the catalogue. */
export const catalogRoutes = createRoutes()
  .post("/keys", requireAdmin, readBody, validate("json", createAdminKeyInput), async (c) =>
    c.json(await createAdminKey(c.var.admin, c.req.valid("json"))),
  )
  .get("/keys", requireAdmin, async (c) => c.json(await listAdminKeys(c.var.admin)))
  .delete("/keys/:adminKeyId", requireAdmin, async (c) =>
    c.json(await revokeAdminKey(c.var.admin, c.req.param("adminKeyId"))),
  )
  .get("/audit", requireAdmin, validate("query", pageInput), async (c) =>
    c.json(await listAudit(c.var.admin, NO_APP, c.req.valid("query"))),
  )
  .post("/apps", requireAdmin, readBody, validate("json", createAppInput), async (c) =>
    c.json(await createApp(c.var.admin, c.req.valid("json"))),
  )
  .get("/apps", requireAdmin, async (c) => c.json(await listApps(c.var.admin)))
  .post("/apps/:appId/keys", requireAdmin, readBody, validate("json", createKeyInput), async (c) =>
    c.json(await createKey(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/keys", requireAdmin, validate("query", listKeysInput), async (c) =>
    c.json(await listKeys(c.var.admin, c.req.param("appId"), c.req.valid("query"), onlyModeOf(c.var.admin))),
  )
  .delete("/apps/:appId/keys/:keyId", requireAdmin, async (c) =>
    c.json(await revokeKey(c.var.admin, c.req.param("appId"), c.req.param("keyId"))),
  )
  .put("/apps/:appId/end-user-auth", requireAdmin, readBody, validate("json", setEndUserAuthInput), async (c) =>
    c.json(await setEndUserAuth(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
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
  });
