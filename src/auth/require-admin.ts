import { and, eq, isNull } from "drizzle-orm";
import type { Context } from "hono";
import { isAdminKey, readKey } from "../db/key-form.ts";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { adminKeys } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { pathNotFound } from "../http/error-responses.ts";
import { type AppEnv, factory } from "../http/factory.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import { equalSecrets, sha256 } from "../lib/encoding.ts";
import type { AdminRights, RouteRequirement, Runtime, SystemCtx } from "../runtime.ts";
import { countArrival, countKey, isKnownInvalid, noteKeyCheck, type RequestHead, readAddress } from "./arrivals.ts";
import { adminTokenAdvice, invalidKey, rejectBrowserPage } from "./key.ts";
import { MinuteCounts, mayPass } from "./minute-counts.ts";
import { checkRoute } from "./scopes.ts";
import { keyInHeader } from "./serve-key.ts";
import { inDatabaseOf, systemCtx } from "./system-ctx.ts";

const KIND = { kind: "admin" } as const;

const selectRights = query((value: ValueOf<{ hash: string }>) =>
  drizzle
    .select(fields(adminKeys, { adminKeyId: "id", scopes: "scopes", apps: "apps", modes: "modes" }))
    .from(adminKeys)
    .where(and(eq(adminKeys.hash, value("hash")), isNull(adminKeys.revokedAtMs))),
);

/**
 * Returns the rights of an administration key, read from the primary of `DB` (W3a), with which `root` begins. Counts the
 * request (L2). Throws `invalid_key`, and `forbidden` for a page in a browser.
 */
async function openAdminKey(
  c: Context<AppEnv>,
  root: SystemCtx,
  key: string,
): Promise<Omit<AdminRights, "requirement">> {
  await countKey(c, KIND, key, false);
  const [storedRights] = isKnownInvalid(c, key) ? [] : await all(root.db, selectRights({ hash: await sha256(key) }));
  noteKeyCheck(c, KIND, key, storedRights !== undefined);
  if (storedRights === undefined) {
    await countArrival(c);
    throw invalidKey("The administration key is unknown or was revoked. Send one that this deployment has.");
  }
  rejectBrowserPage(c, "adminKey");
  return storedRights;
}

/** Sets `root` for a route without a key, such as a download link. The verb itself checks what the caller may see. */
export const openRoot = factory.createMiddleware(async (c, next) => {
  c.set("root", systemCtx(c.env, c.var.runtime));
  await next();
});

const FAILURES_A_MINUTE_MAX = 10;

/** The longest token that is hashed. No token sent by mistake is longer. */
const TOKEN_CHARACTERS_MAX = 1_000;

const failuresOf = rememberPerObject(() => new MinuteCounts());

/**
 * Returns whether `token` is the admin token. Throws `rate_limited` for an address that failed ten times in a minute, even if
 * the token is right, so that the address cannot guess on (L2). The platform and the isolate both count failures.
 */
export async function isAdminToken(
  c: RequestHead & { readonly var: { readonly runtime: Runtime } },
  token: string,
  adminToken: string,
): Promise<boolean> {
  const { isolate, now } = c.var.runtime;
  const nowMs = now();
  const address = readAddress(c);
  const failures = failuresOf(isolate);
  const reject = () => {
    const seconds = failures.secondsLeft(address, nowMs);
    const message = `Too many attempts with a wrong admin token. Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`;
    return new PurserError("rate_limited", message, { headers: { "Retry-After": String(seconds) } });
  };
  if (failures.count(address, nowMs) >= FAILURES_A_MINUTE_MAX) throw reject();
  const needsFreshRead = token.length <= Math.max(TOKEN_CHARACTERS_MAX, adminToken.length);
  const isRight = needsFreshRead && (await equalSecrets(token, adminToken));
  // Nothing is awaited between this check and the count, so at most ten simultaneous guesses are answered.
  if (failures.count(address, nowMs) >= FAILURES_A_MINUTE_MAX) throw reject();
  if (isRight) return true;
  failures.add(address, nowMs);
  if ((await mayPass(c.env.ADMIN_TRIES, address)) !== false) return false;
  // Other isolates counted the other failures of this address.
  failures.add(address, nowMs, FAILURES_A_MINUTE_MAX);
  throw reject();
}

/**
 * Requires the admin token, or an administration key with the required rights, and sets `admin`. If the settings have no admin
 * token, administration responds with 404.
 */
export function requireAdmin(requirement: RouteRequirement | null) {
  return factory.createMiddleware(async (c, next) => {
    const root = systemCtx(c.env, c.var.runtime);
    const { adminToken } = root.settings;
    if (adminToken === null) throw pathNotFound();
    const token = await keyInHeader(c);
    const id = c.req.param("appId") ?? c.req.param("balanceId") ?? "";
    if (isAdminKey(token)) {
      const rights = { ...(await openAdminKey(c, root, token)), requirement };
      const checkArguments = checkRoute(rights, c.req.param("appId"));
      if (checkArguments !== null) c.set("checkArguments", checkArguments);
      c.set("admin", { ...inDatabaseOf(root, id), rights, caller: { kind: "admin", by: `ak:${rights.adminKeyId}` } });
      return next();
    }
    if (!(await isAdminToken(c, token, adminToken))) {
      await countArrival(c);
      const kind = readKey(token)?.kind;
      if (kind === "secret" || kind === "relay") rejectBrowserPage(c, kind);
      throw invalidKey(adminTokenAdvice(token));
    }
    rejectBrowserPage(c, "admin");
    c.set("admin", { ...inDatabaseOf(root, id), caller: { kind: "admin", by: "api" } });
    await next();
  });
}
