import { and, eq, isNull } from "drizzle-orm";
import { isAdminKey, readKey } from "../db/key-form.ts";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { adminKeys } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import { equalSecrets, sha256 } from "../lib/encoding.ts";
import type { AdminCtx, AdminRights, RouteRequirement, SystemCtx } from "../runtime.ts";
import { countArrival, countKey, type IncomingRequest, isKnownInvalid, noteKeyCheck, readAddress } from "./arrivals.ts";
import { adminTokenAdvice, invalidKey, rejectBrowserPage } from "./key.ts";
import { MinuteCounts, mayPass } from "./minute-counts.ts";
import { keyInHeader } from "./serve-key.ts";
import { inDatabaseOf } from "./system-ctx.ts";

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
  incoming: IncomingRequest,
  root: SystemCtx,
  key: string,
): Promise<Omit<AdminRights, "requirement">> {
  await countKey(incoming, KIND, key, false);
  const [storedRights] = isKnownInvalid(incoming, key)
    ? []
    : await all(root.db, selectRights({ hash: await sha256(key) }));
  noteKeyCheck(incoming, KIND, key, storedRights !== undefined);
  if (storedRights === undefined) {
    await countArrival(incoming);
    throw invalidKey("The administration key is unknown or was revoked. Send one that this deployment has.");
  }
  rejectBrowserPage(incoming.request, "adminKey");
  return storedRights;
}

const FAILURES_A_MINUTE_MAX = 10;

/** The longest token that is hashed. No token sent by mistake is longer. */
const TOKEN_CHARACTERS_MAX = 1_000;

const failuresOf = rememberPerObject(() => new MinuteCounts());

/**
 * Returns whether `token` is the admin token. Throws `rate_limited` for an address that failed ten times in a minute, even if
 * the token is right, so that the address cannot guess on (L2). The platform and the isolate both count failures.
 */
export async function isAdminToken(incoming: IncomingRequest, token: string, adminToken: string): Promise<boolean> {
  const { isolate, now } = incoming.runtime;
  const nowMs = now();
  const address = readAddress(incoming);
  const failures = failuresOf(isolate);
  const reject = () => {
    const seconds = failures.secondsLeft(address, nowMs);
    const message = `Too many attempts with a wrong admin token. Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`;
    return new PurserError("rate_limited", message, { headers: { "Retry-After": String(seconds) } });
  };
  if (failures.count(address, nowMs) >= FAILURES_A_MINUTE_MAX) throw reject();
  const mayBeRight = token.length <= Math.max(TOKEN_CHARACTERS_MAX, adminToken.length);
  const isRight = mayBeRight && (await equalSecrets(token, adminToken));
  // Nothing is awaited between this check and the count, so at most ten simultaneous guesses are answered.
  if (failures.count(address, nowMs) >= FAILURES_A_MINUTE_MAX) throw reject();
  if (isRight) return true;
  failures.add(address, nowMs);
  if ((await mayPass(incoming.env.ADMIN_TRIES, address)) !== false) return false;
  // Other isolates counted the other failures of this address.
  failures.add(address, nowMs, FAILURES_A_MINUTE_MAX);
  throw reject();
}

/**
 * Returns administration's context for the holder of the admin token, or of an administration key, in the database of the id in the
 * path. Does not yet check the key's rights by `requirement`.
 */
export async function openAdmin(
  incoming: IncomingRequest,
  root: SystemCtx,
  adminToken: string,
  requirement: RouteRequirement | null,
  id: string,
): Promise<AdminCtx> {
  const token = await keyInHeader(incoming);
  if (isAdminKey(token)) {
    const rights = { ...(await openAdminKey(incoming, root, token)), requirement };
    return { ...inDatabaseOf(root, id), rights, caller: { kind: "admin", by: `ak:${rights.adminKeyId}` } };
  }
  if (!(await isAdminToken(incoming, token, adminToken))) {
    await countArrival(incoming);
    const kind = readKey(token)?.kind;
    if (kind === "secret" || kind === "relay") rejectBrowserPage(incoming.request, kind);
    throw invalidKey(adminTokenAdvice(token));
  }
  rejectBrowserPage(incoming.request, "admin");
  return { ...inDatabaseOf(root, id), caller: { kind: "admin", by: "api" } };
}
