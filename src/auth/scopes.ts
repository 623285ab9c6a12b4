import { assert, PurserError } from "../errors.ts";
import type { AdminRights, Mode, RouteRequirement, Scope, ScopeChoice, SystemCtx } from "../runtime.ts";

/** The scopes, each with its meaning for the reference. */
export const SCOPES: Readonly<Record<Scope, string>> = {
  read: "Read settings and figures that name no user.",
  people:
    "Read what names users: payments, Stripe's events, deliveries, the audit and the usage by user, the users of an alert, verification.",
  write: "Change packs, prices, unit names, alerts, usage limits and expiry notices, and create statements.",
  grants: "Adjust balances, settle payments and set carries.",
  settings: "Change applications, publishable keys, the test clock and the limits of analytics.",
  access:
    "Change secret and relay keys, end-user sign-in, Stripe's settings and webhooks. This scope gives access to all data that the " +
    "applications hold.",
};

export const MODES: readonly Mode[] = ["live", "test"];

const SCOPE_CHOICES: Readonly<Record<ScopeChoice["by"], string>> = {
  kind: "for a publishable key",
  userId: "with `userId`",
  groupBy: "with `groupBy=user`",
};

/** Returns the sentence of the reference about the rights that an administration key needs. */
export function requirementText(requirement: RouteRequirement | null): string {
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
  is === undefined ? facts[by] !== undefined : [is].flat().some((value) => value === facts[by]);

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
  const { requirement } = rights;
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

/** Checks an administration key by the row of the id in the path, if its rights depend on it. Throws `forbidden`. */
export function checkRow({ rights }: KeyCaller, row: { readonly mode: Mode }): void {
  if (rights?.requirement?.mode === "row") checkFacts(rights, rights.requirement, { ...row });
}

/** Returns whether the caller may see users, and links to them. */
export const maySeeUsers = ({ rights }: KeyCaller): boolean => rights === undefined || rights.scopes.includes("people");

/** Returns whether the caller may use an application. */
export const mayUseApp = ({ rights }: KeyCaller, appId: string): boolean => rights?.apps?.includes(appId) ?? true;

/** Returns the only mode that the caller may see; null for both. */
export const onlyModeOf = ({ rights }: KeyCaller): Mode | null =>
  rights === undefined || rights.modes === null || rights.modes.length > 1 ? null : (rights.modes[0] ?? null);
