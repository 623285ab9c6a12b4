import { factory } from "../http/factory.ts";
import { nothingHere } from "../http/not-found.ts";
import { isAdminToken } from "./admin-tries.ts";
import { countArrival } from "./arrivals.ts";
import { invalidKey } from "./bearer.ts";
import { readKey } from "./key.ts";
import { adminTokenAdvice } from "./key-mistakes.ts";
import { inDatabaseOf, systemCtx } from "./open-root.ts";
import { refusePage } from "./refuse-page.ts";
import { keyInHeader } from "./require-key.ts";

/** Requires the administrator's token, and sets `admin`. Without a token in the settings there is no administration: 404. */
export const requireAdmin = factory.createMiddleware(async (c, next) => {
  const root = systemCtx(c.env, c.var.runtime);
  const { adminToken } = root.settings;
  if (adminToken === null) throw nothingHere();
  const token = await keyInHeader(c);
  if (!(await isAdminToken(c, token, adminToken))) {
    await countArrival(c);
    const kind = readKey(token)?.kind;
    if (kind === "secret" || kind === "relay") refusePage(c, kind);
    throw invalidKey(adminTokenAdvice(token));
  }
  refusePage(c, "admin");
  const id = c.req.param("appId") ?? c.req.param("balanceId") ?? "";
  c.set("admin", { ...inDatabaseOf(root, id), caller: { kind: "admin", by: "api" } });
  await next();
});
