import type { Context, Hono } from "hono";
import { PurserError } from "../errors.ts";
import { type AppEnv, allowBrowsers } from "./factory.ts";
import { plainName } from "./wrong-names.ts";

/** The parts of an app that are used here: its router and its routes. */
type RoutedApp = Pick<Hono<AppEnv>, "router" | "routes">;

/** The method that Hono gives to a middleware. */
const ANY = "ALL";

/** The methods that a path supports, in alphabetical order. */
function methodsAt({ router, routes }: RoutedApp, path: string): string[] {
  const known = new Set(routes.map((route) => route.method).filter((method) => method !== ANY));
  const matched = [...known].flatMap((method) => router.match(method, path)[0].map(([[, route]]) => route));
  const methods = new Set(matched.map((route) => route.method).filter((method) => method !== ANY));
  if (methods.size === 0) return [];
  if (methods.has("GET")) methods.add("HEAD");
  if (matched.some((route) => route.handler === allowBrowsers)) methods.add("OPTIONS");
  return [...methods].sort();
}

/** `not_found` (404) for a path, with the way to the reference. `meant` is a route that the path is like. */
export function nothingHere(meant: string | null = null): PurserError {
  const suggestion = meant === null ? "" : ` Did you mean \`${meant}\`?`;
  const message = `There is nothing at this path.${suggestion} All paths are described at /docs.`;
  return new PurserError("not_found", message, { headers: { Link: '</docs>; rel="help"' } });
}

/** Throws 405 with `Allow` if the path supports other methods, otherwise 404. The app's own router decides. */
export function answerUnknownPath(app: RoutedApp) {
  return (c: Context<AppEnv>): never => {
    const methods = methodsAt(app, c.req.path);
    if (methods.length === 0) {
      // An integrator means no page of the dashboard.
      const routes = app.routes.filter(({ method, path }) => method !== ANY && !path.startsWith("/admin"));
      throw nothingHere(
        pathMeant(
          routes.map((route) => route.path),
          c.req.path,
        ),
      );
    }
    const allow = methods.join(", ");
    const sends = methods.filter((method) => method !== "HEAD" && method !== "OPTIONS").join(" or ");
    throw new PurserError("method_not_allowed", `Send ${sends}. This path supports ${allow}.`, {
      headers: { Allow: allow },
    });
  };
}

const PATH_CHARACTERS_MAX = 200;

/** What integrators leave out, most often first: the prefix, then the part of the interface. */
const PREFIXES = ["", "/api/v1", "/api/v1/usage", "/api/v1/credits", "/api/v1/admin"];

/** Where something is that other services have at a path of this end. */
const OTHER_ENDS: readonly (readonly [route: string, ends: string])[] = [
  ["/api/v1/credits", "balance balances wallet"],
  ["/api/v1/credits/history", "ledger transactions entries"],
  ["/api/v1/usage/events", "consume spend debit deduct meter track record ingest"],
  ["/api/v1/usage/reservations", "hold holds reserve"],
  ["/api/v1/export-person", "export exports gdpr dsar"],
  ["/api/v1/openapi.json", "swagger swagger.json openapi openapi.yaml"],
  ["/api/v1/admin/apps/:appId/packs", "packs pack products"],
  ["/api/v1/admin/apps/:appId/keys", "keys api-keys"],
  ["/health", "healthz livez readyz ping status"],
];

const segmentsOf = (path: string): string[] => path.split("/").filter((segment) => segment !== "");

/** A segment without case, separators and the plural's s. */
const plainSegment = (segment: string): string => plainName(segment).replace(/s$/, "");

/** The path without slashes too many, and with the prefix of the interface where it has another version's or half of it. */
function variantsOf(path: string): string[][] {
  const own = segmentsOf(path);
  const rest = segmentsOf(`/${own.join("/")}`.replace(/^\/(api(?=\/|$))?(\/?v\d+(?=\/|$))?/i, "/"));
  return rest.length === 0 ? [own] : [own, ...PREFIXES.map((prefix) => [...segmentsOf(prefix), ...rest])];
}

/** Whether a path is alike a route, whose parameters stand for anything. */
const isAlike = (route: readonly string[], path: readonly string[]): boolean =>
  route.length === path.length &&
  route.every((segment, index) => segment.startsWith(":") || plainSegment(segment) === plainSegment(path[index] ?? ""));

/** The route that an unknown path means, such as `/api/v1/admin/apps/{appId}/keys`. Null when it is like none. */
function pathMeant(routePaths: Iterable<string>, path: string): string | null {
  const end = segmentsOf(path).at(-1)?.toLowerCase();
  if (path.length > PATH_CHARACTERS_MAX || end === undefined) return null;
  const routes = [...new Set(routePaths)].filter((route) => !route.includes("*") && segmentsOf(route).length > 0);
  const alike = variantsOf(path)
    .map((variant) => routes.find((route) => isAlike(segmentsOf(route), variant)))
    .find((route) => route !== undefined);
  const meant = alike ?? OTHER_ENDS.find(([, ends]) => ends.split(" ").includes(end))?.[0];
  // A segment such as `:appId{[a-z]+}` is shown as `{appId}`.
  return meant?.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}").replace(/(.)\/$/, "$1") ?? null;
}
