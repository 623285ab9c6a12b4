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

/**
 * A scope that depends on an argument or a field of the row: `needs` if the field `by` equals `is`, or has any value when `is` is
 * absent. Otherwise `otherwise`.
 */
export interface ScopeChoice {
  readonly by: "kind" | "userId" | "groupBy";
  readonly is?: string;
  readonly needs: Scope;
  readonly otherwise: Scope;
}

/**
 * Where to find the mode of a route: in the argument `mode`, in the row of the id in its path, or always `test`. `none`: the
 * route has no mode, and needs a key for both modes. `own`: the route accepts a key for any mode, and returns only rows of
 * that mode.
 */
export type ModeOf = "argument" | "row" | "test" | "none" | "own";

export interface RouteRequirement {
  readonly scope: Scope | ScopeChoice;
  readonly mode: ModeOf;
  /** Whether the key must be for all applications. */
  readonly needsAllApps?: boolean;
}

const needs = (scope: Scope | ScopeChoice, mode: ModeOf): RouteRequirement => ({ scope, mode });
const byKind: ScopeChoice = { by: "kind", is: "publishable", needs: "settings", otherwise: "access" };
const byGroup: ScopeChoice = { by: "groupBy", is: "user", needs: "people", otherwise: "read" };
const byUser: ScopeChoice = { by: "userId", needs: "people", otherwise: "read" };

/**
 * Every administration route below `/api/v1/admin`. Null: the route accepts only the admin token. An administration key is refused
 * on a route that is missing here. A test finds missing routes.
 */
export const ROUTES: Readonly<Record<string, RouteRequirement | null>> = {
  "POST /keys": null,
  "GET /keys": null,
  "DELETE /keys/:adminKeyId": null,
  "GET /audit": null,
  "POST /apps/:appId/tombstones/forget": null,

  "POST /apps": { ...needs("settings", "none"), needsAllApps: true },
  "GET /apps": needs("read", "none"),
  "POST /apps/:appId/keys": needs(byKind, "argument"),
  "GET /apps/:appId/keys": needs("read", "own"),
  "DELETE /apps/:appId/keys/:keyId": needs(byKind, "row"),
  "PUT /apps/:appId/end-user-auth": needs("access", "argument"),
  "GET /apps/:appId/audit": needs(byUser, "none"),

  "POST /apps/:appId/packs": needs("write", "none"),
  "GET /apps/:appId/packs": needs("read", "own"),
  "PATCH /apps/:appId/packs/:packId": needs("write", "none"),
  "POST /apps/:appId/packs/:packId/archive": needs("write", "none"),
  "POST /apps/:appId/packs/:packId/restore": needs("write", "none"),

  "PUT /apps/:appId/limits": needs("settings", "argument"),
  "GET /apps/:appId/limits": needs("read", "argument"),
  "PUT /apps/:appId/clock": needs("settings", "test"),
  "GET /apps/:appId/clock": needs("read", "test"),
  "DELETE /apps/:appId/clock": needs("settings", "test"),

  "PUT /apps/:appId/stripe": needs("access", "argument"),
  "GET /apps/:appId/stripe": needs("read", "argument"),
  "GET /apps/:appId/stripe/events": needs("people", "argument"),
  "GET /apps/:appId/payments": needs("people", "argument"),
  "POST /apps/:appId/payments/carry": needs("grants", "argument"),
  "POST /apps/:appId/payments/:paymentKey/settle": needs("grants", "argument"),

  "POST /apps/:appId/verify": needs("people", "argument"),
  "POST /balances/:balanceId/adjust": needs("grants", "row"),

  "POST /apps/:appId/webhooks": needs("access", "argument"),
  "GET /apps/:appId/webhooks": needs("read", "argument"),
  "PATCH /apps/:appId/webhooks/:webhookId": needs("access", "row"),
  "DELETE /apps/:appId/webhooks/:webhookId": needs("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/rotate": needs("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/test": needs("access", "row"),
  "GET /apps/:appId/webhooks/:webhookId/deliveries": needs("people", "row"),
  "POST /apps/:appId/webhooks/:webhookId/deliveries/:messageId/resend": needs("access", "row"),
  "POST /apps/:appId/webhooks/:webhookId/replay": needs("access", "row"),

  "POST /apps/:appId/alerts": needs("write", "argument"),
  "GET /apps/:appId/alerts": needs("read", "argument"),
  "PATCH /apps/:appId/alerts/:alertId": needs("write", "row"),
  "GET /apps/:appId/alerts/:alertId/users": needs("people", "row"),
  "DELETE /apps/:appId/alerts/:alertId": needs("write", "row"),
  "PUT /apps/:appId/expiry-notices": needs("write", "argument"),
  "GET /apps/:appId/expiry-notices": needs("read", "argument"),

  "GET /apps/:appId/usage": needs(byGroup, "argument"),
  "POST /apps/:appId/statements": needs("write", "argument"),
  "GET /apps/:appId/statements": needs("read", "argument"),
  "GET /apps/:appId/statements/:statementId": needs("read", "row"),

  "POST /apps/:appId/usage-limits": needs("write", "argument"),
  "GET /apps/:appId/usage-limits": needs("read", "argument"),
  "PATCH /apps/:appId/usage-limits/:limitId": needs("write", "row"),
  "DELETE /apps/:appId/usage-limits/:limitId": needs("write", "row"),
};

const SCOPE_CHOICES: Readonly<Record<ScopeChoice["by"], string>> = {
  kind: "for a publishable key",
  userId: "with `userId`",
  groupBy: "with `groupBy=user`",
};

/** Returns the sentence of the reference about the rights that an administration key needs for a route. */
export function requirementText(route: string): string {
  const requirement = ROUTES[route];
  assert(requirement !== undefined, "every route of administration has a scope");
  if (requirement === null) return "It accepts only the admin token, no administration key.";
  const { scope, mode, needsAllApps } = requirement;
  const scopes =
    typeof scope === "string"
      ? `\`${scope}\``
      : `\`${scope.needs}\` ${SCOPE_CHOICES[scope.by]}, otherwise \`${scope.otherwise}\``;
  const apps = needsAllApps === true ? " The key must be for all applications." : "";
  const modes =
    mode === "none" ? " The key must be for both modes." : mode === "test" ? " The key must be for test mode." : "";
  return `Scope of an administration key: ${scopes}.${apps}${modes}`;
}

/** The arguments or the row on which a key's rights depend. */
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
function checkFacts(rights: AdminRights, { scope, mode }: RouteRequirement, facts: RequestFacts): void {
  if (typeof scope !== "string") requireScope(rights, isChosen(scope, facts) ? scope.needs : scope.otherwise);
  if (mode !== "argument" && mode !== "row") return;
  const factMode = MODES.find((each) => each === facts.mode);
  assert(factMode !== undefined, "an argument or a row with a mode names it");
  requireMode(rights, factMode);
}

/**
 * Checks an administration key by the route and its application, before anything else is read. Returns a check of the
 * arguments, or null if no right depends on them. Throws `forbidden`.
 */
export function checkRoute(rights: AdminRights, appId: string | undefined): ((values: object) => void) | null {
  const requirement = ROUTES[rights.route];
  assert(requirement !== undefined, "every route of administration has a scope");
  if (requirement === null) throw forbidden("This operation accepts only the admin token, no administration key.");
  const { scope, mode, needsAllApps } = requirement;
  if (typeof scope === "string") requireScope(rights, scope);
  if (needsAllApps === true && rights.apps !== null) {
    throw forbidden("The administration key is not for all applications.", { appId: null });
  }
  if (appId !== undefined && !mayUseApp({ rights }, appId)) {
    throw forbidden("The administration key is not for this application.", { appId });
  }
  if (mode === "test") requireMode(rights, "test");
  if (mode === "none") for (const each of MODES) requireMode(rights, each);
  if (mode === "row" || (mode !== "argument" && typeof scope === "string")) return null;
  return (values) => checkFacts(rights, requirement, { ...values });
}

type KeyCaller = Pick<SystemCtx, "rights">;

/**
 * Checks an administration key by the row of the id in the path, and returns the row. Every verb of a route with `mode:
 * "row"` calls it. Throws `forbidden`.
 */
export function admitRow<Row extends { readonly mode: Mode }>({ rights }: KeyCaller, row: Row): Row {
  const requirement = rights === undefined ? undefined : ROUTES[rights.route];
  if (rights !== undefined && requirement?.mode === "row") checkFacts(rights, requirement, { ...row });
  return row;
}

/** Returns whether the caller may see users, and links to them. */
export const maySeeUsers = ({ rights }: KeyCaller): boolean => rights === undefined || rights.scopes.includes("people");

/** Returns whether the caller may use an application. */
export const mayUseApp = ({ rights }: KeyCaller, appId: string): boolean => rights?.apps?.includes(appId) ?? true;

/** Returns the only mode that the caller may see; null for both. */
export const onlyModeOf = ({ rights }: KeyCaller): Mode | null =>
  rights === undefined || rights.modes === null || rights.modes.length > 1 ? null : (rights.modes[0] ?? null);
