import type { Context, Hono } from "hono";
import { PurserError } from "../errors.ts";
import { allowBrowsers } from "./cors.ts";
import type { AppEnv } from "./factory.ts";

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

/** Throws 405 with `Allow` if the path supports other methods, otherwise 404. The app's own router decides. */
export function answerUnknownPath(app: RoutedApp) {
  return (c: Context<AppEnv>): never => {
    const allow = methodsAt(app, c.req.path).join(", ");
    if (allow === "") throw new PurserError("not_found", "There is nothing at this path.");
    throw new PurserError("method_not_allowed", `This path supports ${allow}.`, { headers: { Allow: allow } });
  };
}
