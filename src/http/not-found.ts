import type { Context, Hono } from "hono";
import { PurserError } from "../errors.ts";
import { allowBrowsers } from "./cors.ts";
import type { AppEnv } from "./factory.ts";
import { pathMeant } from "./wrong-paths.ts";

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
