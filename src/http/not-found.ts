import type { Context, Hono } from "hono";
import { PurserError } from "../errors.ts";
import { allowBrowsers } from "./cors.ts";
import type { AppEnv } from "./factory.ts";

/** What is asked of an app: its router, and the methods that its routes name. */
type RoutedApp = Pick<Hono<AppEnv>, "router" | "routes">;

/** Hono's name for the method of a middleware, which answers nothing by itself. */
const ANY = "ALL";

/** The methods that a path answers, in the order of the alphabet. */
function methodsAt({ router, routes }: RoutedApp, path: string): string[] {
  const known = new Set(routes.map((route) => route.method).filter((method) => method !== ANY));
  const matched = [...known].flatMap((method) => router.match(method, path)[0].map(([[, route]]) => route));
  const methods = new Set(matched.map((route) => route.method).filter((method) => method !== ANY));
  if (methods.size === 0) return [];
  if (methods.has("GET")) methods.add("HEAD");
  if (matched.some((route) => route.handler === allowBrowsers)) methods.add("OPTIONS");
  return [...methods].sort();
}

/** For a path that is known with another method 405 and `Allow`; for any other 404. The app's own router is asked. */
export function answerUnknownPath(app: RoutedApp) {
  return (c: Context<AppEnv>): never => {
    const allow = methodsAt(app, c.req.path).join(", ");
    if (allow === "") throw new PurserError("not_found", "There is nothing at this path.");
    throw new PurserError("method_not_allowed", `This path supports ${allow}.`, { headers: { Allow: allow } });
  };
}
