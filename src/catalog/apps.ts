import { and, eq, not, sql } from "drizzle-orm";
import { verifyEndUser } from "../auth/end-user.ts";
import {
  type EndUserSetting,
  openEndUserSetting,
  sealEndUserSetting,
  showEndUserSetting,
} from "../auth/end-user-setting.ts";
import { mayUseApp } from "../auth/scopes.ts";
import { boundLimit, computed, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { apps, environments } from "../db/schema.ts";
import { idIn, parseDatabaseIndex } from "../db/session.ts";
import { clockOf, timesOf } from "../db/settings-snapshot.ts";
import { all, batch } from "../db/sql.ts";
import { assert, invalid, PurserError } from "../errors.ts";
import { warn } from "../http/warnings.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx, Environment, Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "./audit.ts";

export interface AppOutput {
  readonly appId: string;
  readonly name: string;
  readonly database: string;
  readonly createdAt: string;
}

export interface EndUserAuthOutput {
  readonly appId: string;
  readonly mode: Mode;
  readonly setting: {
    readonly type: "hs256" | "jwks";
    readonly url?: string | undefined;
    readonly issuer?: string | undefined;
    readonly audience?: string | null | undefined;
    readonly claim?: string | undefined;
    readonly payerClaim?: string | undefined;
    readonly payerPrefix?: string | undefined;
    readonly trustUnverified?: boolean | undefined;
    readonly trustUserWritten?: boolean | undefined;
    readonly origins?: string[] | undefined;
  } | null;
}

export interface CreateAppInput {
  readonly name: string;
  readonly database?: string | undefined;
}

export interface SetEndUserAuthInput {
  readonly mode: Mode;
  readonly setting: EndUserSetting | null;
}

export interface ListAppsOutput {
  readonly apps: AppOutput[];
  readonly unreachable?: string[] | undefined;
}

export type AppRow = typeof apps.$inferSelect;

const selectApp = query((value: ValueOf<{ appId: string }>) =>
  drizzle
    .select(fields(apps))
    .from(apps)
    .where(eq(apps.id, value("appId"))),
);

/** Returns an application. Throws `not_found` if it does not exist. */
export async function requireApp(root: SystemCtx, appId: string): Promise<AppRow> {
  const [app] = await all(root.db, selectApp({ appId }));
  if (app === undefined)
    throw new PurserError(
      "not_found",
      "There is no application with this id. Ids are compared exactly, and begin with `app_`.",
      { param: "appId" },
    );
  return app;
}

export interface StoredEnvironment extends Environment {
  /** The end-user token setting as JSON, or null. */
  readonly endUserAuth: string | null;
  /** The names of units as JSON, or null (PR7). */
  readonly unitNames: string | null;
  /** The test clock as text (db/settings-snapshot.ts), or null. */
  readonly clock: string | null;
}

const selectEnvironment = query((value: ValueOf<{ appId: string; mode: Mode }>) =>
  drizzle
    .select({
      ...fields(environments, "id", "appId", "mode", "endUserAuth", "unitNames"),
      ...computed({ clock: clockOf() }),
    })
    .from(environments)
    .where(and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")))),
);

/**
 * Returns an application's environment for a mode. Each application has both environments from the start. Throws `not_found`.
 */
export async function requireEnvironment(root: SystemCtx, appId: string, mode: Mode): Promise<StoredEnvironment> {
  const [found] = await all(root.db, selectEnvironment({ appId, mode }));
  if (found !== undefined) return { ...found, database: parseDatabaseIndex(appId) ?? 0 };
  await requireApp(root, appId);
  assert(false, "an application has both its environments");
}

/** Returns the administrator's context in an environment, with all that a tenant's context has. */
export function inEnvironmentOf<Ctx extends SystemCtx>(
  admin: Ctx,
  { id, appId, mode, database, clock }: Omit<StoredEnvironment, "endUserAuth" | "unitNames">,
): Ctx & Omit<TenantCtx, "caller"> {
  return { ...admin, ...timesOf(clock, admin), environment: { id, appId, mode, database } };
}

const auditAppCreated = insertAuditEntry((value) => not(hasRow(apps, eq(apps.id, value("appId")))));
const insertApp = query((value: ValueOf<{ appId: string; name: string; createdAtMs: number }>) =>
  drizzle
    .insert(apps)
    .values({ id: value("appId"), name: value("name"), createdAtMs: value("createdAtMs") })
    .onConflictDoNothing(),
);
const insertEnvironments = query((value: ValueOf<{ appId: string }>) =>
  insertFrom(
    environments,
    { appId: value("appId"), mode: sql`value` },
    sql`FROM json_each('["live", "test"]') WHERE ${not(hasRow(environments, eq(environments.appId, value("appId"))))}`,
  ),
);

/**
 * Creates an application with its two environments, live and test, in the named database or in the default for new ones (D1). It
 * has no keys yet. Throws `invalid_request` for a database that is not bound.
 */
export async function createApp(admin: AdminCtx, { name, database }: CreateAppInput): Promise<AppOutput> {
  const databaseName = database ?? admin.settings.newAppsDatabase;
  const chosen = admin.databases.find(({ name }) => name === databaseName);
  if (chosen === undefined) {
    throw invalid("database", `must be one of ${admin.databases.map(({ name }) => name).join(", ")}`);
  }
  const appId = idIn(chosen.index, admin.newId("app_"));
  const createdAtMs = admin.now();
  await batch(chosen.db, [
    auditAppCreated(newAuditEntry(admin, { appId, action: "app.created", target: appId })),
    insertApp({ appId, name, createdAtMs }),
    insertEnvironments({ appId }),
  ]);
  return { appId, name, database: chosen.name, createdAt: iso(createdAtMs) };
}

/** SQLite reads a negative LIMIT as no limit. */
const NO_LIMIT = -1;

const selectApps = query((value: ValueOf<{ limit: number }>) =>
  drizzle
    .select(fields(apps))
    .from(apps)
    .limit(boundLimit(value("limit"))),
);

/**
 * Returns the applications of every database, oldest first: all, or at most `limit` of each database. If a database fails, only
 * its own applications are missing, and the result names it (D2).
 */
export async function listApps(root: SystemCtx, limit: number = NO_LIMIT): Promise<ListAppsOutput> {
  const answers = await Promise.allSettled(root.databases.map(({ db }) => all(db, selectApps({ limit }))));
  const unreachable = root.databases.filter((_, index) => answers[index]?.status === "rejected");
  if (unreachable.length === root.databases.length) throw noDatabase(answers[0]);
  const found = root.databases.flatMap(({ name }, index) => {
    const answer = answers[index];
    return answer?.status === "fulfilled" ? answer.value.map((row) => ({ ...row, database: name })) : [];
  });
  return {
    apps: found
      .filter(({ id }) => mayUseApp(root, id))
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map(({ id, name, database, createdAtMs }) => ({ appId: id, name, database, createdAt: iso(createdAtMs) })),
    ...(unreachable.length === 0 ? {} : { unreachable: unreachable.map(({ name }) => name) }),
  };
}

const noDatabase = (answer: PromiseSettledResult<unknown> | undefined): unknown =>
  answer?.status === "rejected" ? answer.reason : new Error("There is no database.");

const presentEndUserAuth = (appId: string, mode: Mode, stored: string | null): EndUserAuthOutput => ({
  appId,
  mode,
  setting: showEndUserSetting(stored),
});

type EndUserAuthSetting = { environmentId: number; stored: string | null };
const authOfEnvironment = (value: ValueOf<EndUserAuthSetting>) => eq(environments.id, value("environmentId"));
const auditEndUserAuthSet = insertAuditEntry<EndUserAuthSetting>((value) =>
  hasRow(environments, and(authOfEnvironment(value), sql`${environments.endUserAuth} IS NOT ${value("stored")}`)),
);
const updateEndUserAuth = query((value: ValueOf<EndUserAuthSetting & AuditEntryKey>) =>
  drizzle
    .update(environments)
    .set({ endUserAuth: value("stored", environments.endUserAuth) })
    .where(and(authOfEnvironment(value), auditEntryIsLatest(value))),
);

/**
 * Sets how end-user tokens are verified; `setting: null` stops publishable keys from reading. W3a says when this takes effect.
 * Throws `not_found`, and `secrets_unavailable` for a secret that cannot be stored.
 */
export async function setEndUserAuth(
  admin: AdminCtx,
  appId: string,
  input: SetEndUserAuthInput,
): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(admin, appId, input.mode);
  const stored = input.setting === null ? null : await sealEndUserSetting(admin, environment, input.setting);
  const details = { mode: input.mode, type: input.setting?.type ?? null };
  const auditEntry = newAuditEntry(admin, { appId, action: "end_user_auth.set", target: appId, details });
  const values = { ...auditEntry, environmentId: environment.id, stored };
  await batch(admin.db, [auditEndUserAuthSet(values), updateEndUserAuth(values)]);
  if (input.setting?.type === "jwks" && input.setting.audience === null) warn(admin, "audience_missing");
  return presentEndUserAuth(appId, input.mode, stored);
}

/** Returns the shared secret of the current setting, for a form that keeps it; null without one. Throws `secrets_unavailable`. */
export async function readEndUserSecret(root: SystemCtx, appId: string, mode: Mode): Promise<string | null> {
  const environment = await requireEnvironment(root, appId, mode);
  const setting = await openEndUserSetting(root, environment, environment.endUserAuth);
  return setting?.type === "hs256" ? setting.secret : null;
}

/** Returns the current setting. Throws `not_found`. */
export async function readEndUserAuth(root: SystemCtx, appId: string, mode: Mode): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(root, appId, mode);
  return presentEndUserAuth(appId, mode, environment.endUserAuth);
}

export type TokenTest = { readonly userId: string } | { readonly rejectionReason: string };

/**
 * Returns whether an end-user token verifies under the current setting, and which user it proves. Throws `not_found`,
 * `secrets_unavailable`.
 */
export async function testUserToken(root: SystemCtx, appId: string, mode: Mode, token: string): Promise<TokenTest> {
  const environment = await requireEnvironment(root, appId, mode);
  const setting = await openEndUserSetting(root, environment, environment.endUserAuth);
  if (setting === null) return { rejectionReason: "No setting: publishable keys read nothing, whatever the token." };
  try {
    const { userId } = await verifyEndUser(root, setting, token);
    return { userId };
  } catch (error) {
    if (error instanceof PurserError) return { rejectionReason: error.message };
    throw error;
  }
}
