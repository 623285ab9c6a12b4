/** Lists the scope that each administration route needs from an administration key, and checks such keys. */

import { assert, PurserError } from "../errors.ts";
import type { AdminRights, Mode, Scope, SystemCtx } from "../runtime.ts";

/** The scopes, each with its meaning for the reference. */
export const SCOPES: Readonly<Record<Scope, string>> = {
  read: "Read settings and figures that name no user.",
  people: "Read what names users: payments, Stripe's events, deliveries, the audit by user, verification.",
  write: "Change packs, alerts, usage limits, expiry notices and statements.",
  grants: "Adjust balances and settle payments.",
  settings: "Change applications, publishable keys, the test clock and the limits of analytics.",
  access:
    "Change secret and relay keys, end-user sign-in, Stripe's settings and webhooks. This scope gives access to all data that the " +
    "applications hold.",
};

export const MODES: readonly Mode[] = ["live", "test"];

/** A scope that is needed only if an argument or the row has a value. Without `is`, any value. */
export interface ScopeChoice {
  readonly by: "kind" | "userId" | "groupBy";
  readonly is?: string;
  readonly needs: Scope;
  readonly otherwise: Scope;
}

/**
 * Says where to find the mode of a route: in an argument `mode`, in the row of the id in its path, or always `test`. `none`: the
 * route has no mode, and needs a key for both modes. `own`: the route accepts a key of any mode, and returns only what the key may see.
 */
export type ModeOf = "argument" | "row" | "test" | "none" | "own";

export interface ScopeDemand {
  readonly scope: Scope | ScopeChoice;
  readonly mode: ModeOf;
  /** Whether it needs a key for all applications. */
  readonly needsAllApps?: boolean;
}

const demand = (scope: Scope | ScopeChoice, mode: ModeOf): ScopeDemand => ({ scope, mode });
const byKind: ScopeChoice = { by: "kind", is: "publishable", needs: "settings", otherwise: "access" };
const byGroup: ScopeChoice = { by: "groupBy", is: "user", needs: "people", otherwise: "read" };
const byUser: ScopeChoice = { by: "userId", needs: "people", otherwise: "read" };

/**
 * Every administration route below `/api/v1/admin`. Null: the route accepts only the admin token. An administration key on a route
 * that is missing here is refused, and a test fails.
 */
export const ROUTES: Readonly<Record<string, ScopeDemand | null>> = {
  "POST /keys": null,
  "GET /keys": null,
  "DELETE /keys/:adminKeyId": null,
  "GET /audit": null,
  "POST /apps/:appId/tombstones/forget": null,

  "POST /apps": { ...demand("settings", "none"), needsAllApps: true },
  "GET /apps": demand("read", "none"),
  "POST /apps/:appId/keys": demand(byKind, "argument"),
  "GET /apps/:appId/keys": demand("read", "own"),
  "DELETE /apps/:appId/keys/:keyId": demand(byKind, "row"),
  "PUT /apps/:appId/end-user-auth": demand("access", "argument"),
  "GET /apps/:appId/audit": demand(byUser, "none"),

  "POST /apps/:appId/packs": demand("write", "none"),
  "GET /apps/:appId/packs": demand("read", "own"),
  "PATCH /apps/:appId/packs/:packId": demand("write", "none"),
  "POST /apps/:appId/packs/:packId/archive": demand("write", "none"),
  "POST /apps/:appId/packs/:packId/restore": demand("write", "none"),

  "PUT /apps/:appId/limits": demand("settings", "argument"),
  "GET /apps/:appId/limits": demand("read", "argument"),
  "PUT /apps/:appId/clock": demand("settings", "test"),
  "GET /apps/:appId/clock": demand("read", "test"),
  "DELETE /apps/:appId/clock": demand("settings", "test"),

  "PUT /apps/:appId/stripe": demand("access", "argument"),
  "GET /apps/:appId/stripe": demand("read", "argument"),
  "GET /apps/:appId/stripe/events": demand("people", "argument"),
  "GET /apps/:appId/payments": demand("people", "argument"),
  "POST /apps/:appId/payments/:paymentKey/settle": demand("grants", "argument"),

  "POST /apps/:appId/verify": demand("people", "argument"),
  "POST /balances/:balanceId/adjust": demand("grants", "row"),

  "POST /apps/:appId/webhooks": demand("access", "argument"),
  "GET /apps/:appId/webhooks": demand("read", "argument"),
  "PATCH /apps/:appId/webhooks/:webhookId": demand("access", "row"),
  "DELETE /apps/:appId/webhooks/:webhookId": demand("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/rotate": demand("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/test": demand("access", "row"),
  "GET /apps/:appId/webhooks/:webhookId/deliveries": demand("people", "row"),
  "POST /apps/:appId/webhooks/:webhookId/deliveries/:messageId/resend": demand("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/replay": demand("access", "row"),

  "POST /apps/:appId/alerts": demand("write", "argument"),
  "GET /apps/:appId/alerts": demand("read", "argument"),
  "PATCH /apps/:appId/alerts/:alertId": demand("write", "row"),
  "GET /apps/:appId/alerts/:alertId/users": demand("people", "row"),
  "DELETE /apps/:appId/alerts/:alertId": demand("write", "row"),
  "PUT /apps/:appId/expiry-notices": demand("write", "argument"),
  "GET /apps/:appId/expiry-notices": demand("read", "argument"),

  "GET /apps/:appId/usage": demand(byGroup, "argument"),
  "POST /apps/:appId/statements": demand("write", "argument"),
  "GET /apps/:appId/statements": demand("read", "argument"),
  "GET /apps/:appId/statements/:statementId": demand("read", "row"),

  "POST /apps/:appId/usage-limits": demand("write", "argument"),
  "GET /apps/:appId/usage-limits": demand("read", "argument"),
  "PATCH /apps/:appId/usage-limits/:limitId": demand("write", "row"),
  "DELETE /apps/:appId/usage-limits/:limitId": demand("write", "row"),
};

const SCOPE_CHOICES: Readonly<Record<ScopeChoice["by"], string>> = {
  kind: "for a publishable key",
  userId: "with `userId`",
  groupBy: "with `groupBy=user`",
};

/** Returns the reference's sentence about the rights that a route needs from an administration key. Throws for a route without a scope. */
export function demandText(route: string): string {
  const found = ROUTES[route];
  assert(found !== undefined, "every route of administration has a scope");
  if (found === null) return "It takes the admin token alone, and no administration key.";
  const { scope, mode, needsAllApps } = found;
  const scopes =
    typeof scope === "string"
      ? `\`${scope}\``
      : `\`${scope.needs}\` ${SCOPE_CHOICES[scope.by]}, otherwise \`${scope.otherwise}\``;
  const apps = needsAllApps === true ? " The key must be for all applications." : "";
  const modes =
    mode === "none" ? " The key must be for both modes." : mode === "test" ? " The key must be for test mode." : "";
  return `Scope of an administration key: ${scopes}.${apps}${modes}`;
}

/** The values of an argument or a row that decide about a key's rights. */
type RequestFacts = Readonly<Record<string, unknown>>;

const forbidden = (message: string, details: Readonly<Record<string, string | null>> = {}) =>
  new PurserError("forbidden", message, { details });

function requireScope({ scopes }: AdminRights, scope: Scope): void {
  if (scopes.includes(scope)) return;
  throw forbidden(`The administration key lacks the scope \`${scope}\`.`, { scope });
}

function requireMode({ modes }: AdminRights, mode: Mode): void {
  if (modes === null || modes.includes(mode)) return;
  throw forbidden(`The administration key is not for ${mode} mode.`, { mode });
}

const isChosen = ({ by, is }: ScopeChoice, facts: RequestFacts): boolean =>
  is === undefined ? facts[by] !== undefined : facts[by] === is;

/** Checks the rights that depend on an argument or a row. Throws `forbidden`. */
function judgeFacts(rights: AdminRights, { scope, mode }: ScopeDemand, facts: RequestFacts): void {
  if (typeof scope !== "string") requireScope(rights, isChosen(scope, facts) ? scope.needs : scope.otherwise);
  if (mode !== "argument" && mode !== "row") return;
  const found = MODES.find((each) => each === facts.mode);
  assert(found !== undefined, "an argument or a row with a mode names it");
  requireMode(rights, found);
}

/**
 * Checks an administration key by the route and its application, before anything else of the request is read. Returns a check for
 * the arguments, or null if they decide nothing. Throws `forbidden`.
 */
export function judgeRoute(rights: AdminRights, appId: string | undefined): ((values: object) => void) | null {
  const found = ROUTES[rights.route];
  assert(found !== undefined, "every route of administration has a scope");
  if (found === null) throw forbidden("This operation takes the admin token alone, and no administration key.");
  const { scope, mode, needsAllApps } = found;
  if (typeof scope === "string") requireScope(rights, scope);
  if (needsAllApps === true && rights.apps !== null) {
    throw forbidden("The administration key is not for all applications.", { appId: null });
  }
  if (appId !== undefined && !ownsApp({ rights }, appId)) {
    throw forbidden("The administration key is not for this application.", { appId });
  }
  if (mode === "test") requireMode(rights, "test");
  if (mode === "none") for (const each of MODES) requireMode(rights, each);
  if (mode === "row" || (mode !== "argument" && typeof scope === "string")) return null;
  return (values) => judgeFacts(rights, found, { ...values });
}

type KeyCaller = Pick<SystemCtx, "rights">;

/**
 * Returns the row of an id in the path, after checking an administration key by this row. Every verb that finds a row of a mode
 * calls it (`mode: "row"`). Throws `forbidden`.
 */
export function admitRow<Row extends { readonly mode: Mode }>({ rights }: KeyCaller, row: Row): Row {
  const found = rights === undefined ? undefined : ROUTES[rights.route];
  if (rights !== undefined && found?.mode === "row") judgeFacts(rights, found, { ...row });
  return row;
}

/** Returns whether the caller may see users, and links to them. */
export const mayName = ({ rights }: KeyCaller): boolean => rights === undefined || rights.scopes.includes("people");

/** Returns whether the caller may use an application. */
export const ownsApp = ({ rights }: KeyCaller, appId: string): boolean => rights?.apps?.includes(appId) ?? true;

/** Returns the only mode that the caller may see; null for both. */
export const onlyModeOf = ({ rights }: KeyCaller): Mode | null =>
  rights === undefined || rights.modes === null || rights.modes.length > 1 ? null : (rights.modes[0] ?? null);
