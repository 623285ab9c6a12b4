import type { Context, Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { findConstraint } from "../db/attempt.ts";
import { errorStatus, PurserError, presentRejection, rejectionIn } from "../errors.ts";
import type { ErrorBody } from "./error-body.ts";
import { type AppEnv, allowBrowsers, allowCaptureClients } from "./factory.ts";
import { plainName } from "./wrong-names.ts";

/**
 * Logs a bug by the kinds of its errors and their places in the code. Does not log messages, which can contain a caller's
 * data.
 */
export function logBug(error: unknown, requestId: string): void {
  const chain: { name: string; constraint: string | null; frames: string[] }[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // A message may have lines that look like stack frames.
    const stack = (cause.stack ?? "").replace(cause.message, "");
    const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
    chain.push({ name: cause.name, constraint: findConstraint(cause), frames: frames.slice(0, 8) });
  }
  console.error(JSON.stringify({ level: "error", code: "internal_error", requestId, chain }));
}

/** Logs the fault of a 503. Does not log other rejections. */
export function logUnavailable({ code, fault }: PurserError, requestId: string): void {
  if (errorStatus[code] === 503) console.warn(JSON.stringify({ level: "warn", code, fault, requestId }));
}

function asPurserError(error: unknown, requestId: string): PurserError {
  const rejection = rejectionIn(error);
  if (rejection !== null) return rejection;
  logBug(error, requestId);
  return new PurserError("internal_error", "An internal error occurred.", { cause: error });
}

/**
 * Turns an error into a response: `{ error: { code, message, param?, details?, requestId } }` (W4). No other code does this.
 */
export function answerError(thrown: unknown, c: Context<AppEnv>): Response {
  const requestId = c.get("requestId");
  const error = asPurserError(thrown, requestId);
  logUnavailable(error, requestId);
  for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
  const body: ErrorBody = { error: { ...presentRejection(error), requestId } };
  return c.json(body, errorStatus[error.code] satisfies ContentfulStatusCode);
}

/** The router and the routes of an app. */
type RoutedApp = Pick<Hono<AppEnv>, "router" | "routes">;

/** The method that Hono gives to a middleware. */
const ANY_METHOD = "ALL";

/** Returns the methods that a path supports, in alphabetical order. */
function methodsAt({ router, routes }: RoutedApp, path: string): string[] {
  const allMethods = new Set(routes.map((route) => route.method).filter((method) => method !== ANY_METHOD));
  const matched = [...allMethods].flatMap((method) => router.match(method, path)[0].map(([[, route]]) => route));
  const methods = new Set(matched.map((route) => route.method).filter((method) => method !== ANY_METHOD));
  if (methods.size === 0) return [];
  if (methods.has("GET")) methods.add("HEAD");
  if (matched.some((route) => route.handler === allowBrowsers || route.handler === allowCaptureClients))
    methods.add("OPTIONS");
  return [...methods].sort();
}

/** Returns `not_found` (404) for a path, with a link to the reference. `similarRoute` is the route that the caller may mean. */
export function pathNotFound(similarRoute: string | null = null): PurserError {
  const suggestion = similarRoute === null ? "" : ` Did you mean \`${similarRoute}\`?`;
  const message = `There is nothing at this path.${suggestion} All paths are described at /docs.`;
  return new PurserError("not_found", message, { headers: { Link: '</docs>; rel="help"' } });
}

/** Returns a sentence that names the paths directly below this path that support the method. */
function pathsBelowHint({ routes }: RoutedApp, method: string, path: string): string {
  const below = routes.filter((route) => route.method === method && route.path.startsWith(`${path}/`));
  const directlyBelow = below.map((route) => route.path).filter((route) => /^\/[\w-]+$/.test(route.slice(path.length)));
  const quoted = [...new Set(directlyBelow)].map((route) => `\`${route}\``);
  return quoted.length === 0 ? "" : ` ${method} is for ${quoted.join(", ")}.`;
}

/** Throws 405 with `Allow` if the path supports other methods, otherwise 404. The app's own router decides. */
export function answerUnknownPath(app: RoutedApp) {
  return (c: Context<AppEnv>): never => {
    const methods = methodsAt(app, c.req.path);
    if (methods.length === 0) {
      const routes = app.routes.filter(({ method }) => method !== ANY_METHOD);
      throw pathNotFound(
        findSimilarRoute(
          routes.map((route) => route.path),
          c.req.path,
        ),
      );
    }
    const allow = methods.join(", ");
    const usual = methods.filter((method) => method !== "HEAD" && method !== "OPTIONS").join(" or ");
    const message = `Send ${usual}. This path supports ${allow}.${pathsBelowHint(app, c.req.method, c.req.path)}`;
    throw new PurserError("method_not_allowed", message, {
      headers: { Allow: allow },
    });
  };
}

const PATH_CHARACTERS_MAX = 200;

/** The beginnings of a path that integrators omit, the most frequently omitted first. */
const PREFIXES = ["", "/api/v1", "/api/v1/usage", "/api/v1/credits", "/api/v1/admin"];

/** Routes to suggest by the last segment of a path: words that other services use for what the route does. */
const OTHER_WORDS: readonly (readonly [route: string, words: string])[] = [
  ["/api/v1/credits", "balance balances wallet"],
  ["/api/v1/usage/reservations/:reservationId/commit", "capture settle confirm finalize"],
  ["/api/v1/usage/reservations/:reservationId/release", "cancel void rollback"],
  ["/api/v1/admin/balances/:balanceId/adjust", "adjust adjustment adjustments"],
  ["/api/v1/credits/history", "ledger transactions entries"],
  ["/api/v1/usage/events", "consume spend debit deduct meter track record ingest"],
  ["/api/v1/usage/reservations", "hold holds reserve"],
  ["/api/v1/export-person", "export exports gdpr dsar"],
  ["/api/v1/openapi.json", "swagger swagger.json openapi openapi.yaml"],
  ["/api/v1/admin/apps/:appId/packs", "packs pack products"],
  ["/api/v1/admin/apps/:appId/keys", "keys api-keys"],
  ["/health", "healthz livez readyz ping status"],
];

const splitPath = (path: string): string[] => path.split("/").filter((segment) => segment !== "");

/** Returns a segment in a form that ignores case, separators and a plural's s. */
const plainSegment = (segment: string): string => plainName(segment).replace(/s$/, "");

/**
 * Returns the spellings to compare with routes: the path without extra slashes, and with each prefix in place of a missing,
 * partial or wrong one.
 */
function listPathVariants(path: string): string[][] {
  const segments = splitPath(path);
  const rest = splitPath(`/${segments.join("/")}`.replace(/^\/(api(?=\/|$))?(\/?v\d+(?=\/|$))?/i, "/"));
  return rest.length === 0 ? [segments] : [segments, ...PREFIXES.map((prefix) => [...splitPath(prefix), ...rest])];
}

/** Returns whether a path resembles a route, in which parameters stand for any text. */
const resembles = (route: readonly string[], path: readonly string[]): boolean =>
  route.length === path.length &&
  route.every((segment, index) => segment.startsWith(":") || plainSegment(segment) === plainSegment(path[index] ?? ""));

/** Returns the route that is similar to an unknown path, such as `/api/v1/admin/apps/{appId}/keys`. Null when there is none. */
function findSimilarRoute(routePaths: Iterable<string>, path: string): string | null {
  const end = splitPath(path).at(-1)?.toLowerCase();
  if (path.length > PATH_CHARACTERS_MAX || end === undefined) return null;
  const routes = [...new Set(routePaths)].filter((route) => !route.includes("*") && splitPath(route).length > 0);
  const similar = listPathVariants(path)
    .map((variant) => routes.find((route) => resembles(splitPath(route), variant)))
    .find((route) => route !== undefined);
  const route = similar ?? OTHER_WORDS.find(([, words]) => words.split(" ").includes(end))?.[0];
  // The message shows a segment such as `:appId{[a-z]+}` as `{appId}`.
  return route?.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}").replace(/(.)\/$/, "$1") ?? null;
}
