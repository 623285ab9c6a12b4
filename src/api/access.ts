import type { Context, MiddlewareHandler } from "hono";
import { assertOwnUser } from "../auth/end-user.ts";
import { checkRow } from "../auth/scopes.ts";
import { changeIfLatest } from "../catalog/audit.ts";
import { invalid } from "../errors.ts";
import { type AppEnv, allowBrowsers, allowCaptureClients, callVerb } from "../http/factory.ts";
import type { AdminCtx, Mode, RouteRequirement, Scope, ScopeChoice, TenantCtx } from "../runtime.ts";
import {
  limitArrivals,
  requireAdmin,
  requireCaptureKey,
  requireKey,
  requireKeyOrEndUser,
  requireSecretKey,
} from "./enter.ts";

/** Who may call an operation, and what its handler receives. */
export interface Access<Ctx, Params = unknown> {
  /** For the reference. */
  readonly kind: "open" | "publishable" | "secret" | "end-user" | "admin" | "client" | "key-inside";
  /** Checks the address's share, the key and its kind. */
  readonly enter: readonly MiddlewareHandler<AppEnv>[];
  /** Calls the handler with its context. `input` is validated. */
  readonly call: <Result>(
    c: Context<AppEnv>,
    input: { readonly params: Params; readonly query: unknown; readonly body: unknown },
    handler: (ctx: Ctx) => Result | Promise<Result>,
  ) => Promise<Result>;
  /** The rights that an administration key needs. Null: only the admin token will do. */
  readonly requirement?: RouteRequirement | null;
  /** Runs around every request to its paths, whatever the method. It answers preflights (W11). */
  readonly around?: MiddlewareHandler<AppEnv>;
  /** The error code for a publishable key, where it is not the usual one of the method (W13). */
  readonly publishableGets?: "forbidden" | "requires_secret_key";
}

/** Hands the request itself to the handler, which is for a protocol that is not Purser's own. */
const withRequest: Access<Context<AppEnv>>["call"] = async (c, _input, handler) => handler(c);

/** Without a key. `enter` runs before the arguments are read. */
export const open = (
  enter: readonly MiddlewareHandler<AppEnv>[] = [limitArrivals],
  around?: MiddlewareHandler<AppEnv>,
): Access<Context<AppEnv>> => ({ kind: "open", enter, call: withRequest, ...(around === undefined ? {} : { around }) });

/** With a key of any kind that may send analytics, in the header. */
export const analyticsKey: Access<Context<AppEnv>> = {
  kind: "client",
  enter: [requireCaptureKey],
  call: withRequest,
  around: allowCaptureClients,
};

/** With a key in the body or in the path, which the handler checks (P1). */
export const keyInside: Access<Context<AppEnv>> = {
  kind: "key-inside",
  enter: [],
  call: withRequest,
  around: allowCaptureClients,
};

/**
 * With a secret key. A publishable one gets `forbidden`, and where `rejects` says so `requires_secret_key` (W13). Set `reads` for a
 * POST that only reads.
 */
export function secretKey({
  rejects = "forbidden",
  reads = false,
}: {
  rejects?: "forbidden" | "requires_secret_key";
  reads?: boolean;
} = {}): Access<TenantCtx> {
  return {
    kind: "secret",
    enter: [requireSecretKey(rejects, reads ? { reads } : {})],
    call: (c, _input, handler) => callVerb(c, handler),
    publishableGets: rejects,
  };
}

/**
 * With a secret key, or with a publishable one and the token of the user whom the argument `named` names. A query with one of
 * `secretParams` needs a secret key. With `isForMembers`, the token may be that of a member of the user (ME5).
 */
export function secretKeyOrUser(
  secretParams: readonly string[] = [],
  { named = "userId", isForMembers = false }: { named?: "userId" | "distinctId"; isForMembers?: boolean } = {},
): Access<TenantCtx> {
  return {
    kind: "end-user",
    enter: [requireKeyOrEndUser(secretParams)],
    call: (c, { query, body }, handler) => {
      const sent: Readonly<Record<string, unknown>> = { ...Object(query), ...Object(body) };
      const { [named]: userId, memberId } = sent;
      if (typeof userId === "string") {
        const member = typeof memberId === "string" ? memberId : undefined;
        const requested = { param: named, userId, memberId: member, isForMembers };
        c.set("requestedUser", requested);
        assertOwnUser(requested, c.get("endUser"));
      }
      return callVerb(c, handler);
    },
    around: allowBrowsers,
  };
}

/** With a secret or publishable key. A publishable one needs no user's token. */
export const anyKey = (): Access<TenantCtx> => ({
  kind: "publishable",
  enter: [requireKey],
  call: (c, _input, handler) => callVerb(c, handler),
  around: allowBrowsers,
});

const LATEST = "if-latest-audit-entry";

/**
 * Calls the handler with the audit entry that must still be the application's latest when it changes something. Throws
 * `changed_meanwhile` if another one follows it, and `invalid_request` for a malformed header.
 */
async function callIfLatest<Result>(
  c: Context<AppEnv>,
  handler: (admin: AdminCtx) => Result | Promise<Result>,
): Promise<Result> {
  const sent = c.req.header(LATEST);
  if (sent === undefined) return handler(c.var.admin);
  if (!/^\d{1,15}$/.test(sent))
    throw invalid(LATEST, "must be the `latest-audit-entry` of the audit log, a whole number");
  const message = "The application was changed after this entry. Read the audit log, and what you change, again.";
  return changeIfLatest(c.var.admin, Number(sent), { message, param: LATEST }, handler);
}

/** With the admin token, or an administration key that has these rights. `null`: only the admin token will do. */
export function administration(
  scope: Scope | ScopeChoice | null,
  mode: Exclude<RouteRequirement["mode"], "row"> = "none",
  needsAllApps = false,
): Access<AdminCtx> {
  const requirement = scope === null ? null : { scope, mode, ...(needsAllApps ? { needsAllApps } : {}) };
  return {
    kind: "admin",
    enter: [requireAdmin(requirement)],
    call: (c, _input, handler) => callIfLatest(c, handler),
    requirement,
  };
}

/**
 * With the admin token, or an administration key whose rights the row of the id in the path decides. `load` returns that row, and
 * throws `not_found`. The handler gets the row when the key's rights are checked.
 */
export function administrationOfRow<Params, Row extends { readonly mode: Mode }>(
  scope: Scope | ScopeChoice,
  load: (admin: AdminCtx, params: Params) => Promise<Row>,
): Access<{ readonly admin: AdminCtx; readonly row: Row }, Params> {
  const requirement = { scope, mode: "row" } as const;
  return {
    kind: "admin",
    enter: [requireAdmin(requirement)],
    call: (c, { params }, handler) =>
      callIfLatest(c, async (admin) => {
        const row = await load(admin, params);
        checkRow(admin, row);
        return handler({ admin, row });
      }),
    requirement,
  };
}

/** The rights for a key of an application: a publishable key opens nothing, and every other kind opens its data. */
export const BY_KIND: ScopeChoice = { by: "kind", is: "publishable", needs: "settings", otherwise: "access" };
export const BY_GROUP: ScopeChoice = { by: "groupBy", is: ["user", "member"], needs: "people", otherwise: "read" };
export const BY_USER: ScopeChoice = { by: "userId", needs: "people", otherwise: "read" };
