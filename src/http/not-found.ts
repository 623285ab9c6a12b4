import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import { browsers } from "./cors.ts";
import type { AppEnv } from "./factory.ts";

/** What the fallback must know of an app: its routes, as Hono lists them. */
interface Routed {
  readonly routes: readonly { readonly method: string; readonly path: string; readonly handler: unknown }[];
}

/** `:name` stands for one segment, `:name{pattern}` for what the pattern says, all else for itself. */
const matcher = (path: string): RegExp => {
  const pattern = path.replace(/:[A-Za-z]+(?:\{([^}]*)\})?|[.+?^$()|[\]\\]/g, (found: string, within?: string) => {
    if (!found.startsWith(":")) return `\\${found}`;
    return within === undefined ? "[^/]+" : `(?:${within})`;
  });
  return new RegExp(`^${pattern}$`);
};

/** What an app answers: with which methods, and what of it to browsers. */
function pathsOf({ routes }: Routed) {
  return {
    known: routes
      .filter((route) => route.method !== "ALL" && !route.path.includes("*"))
      .map((route) => ({ method: route.method, matches: matcher(route.path) })),
    forBrowsers: routes.filter((route) => route.handler === browsers).map((route) => matcher(route.path)),
  };
}

/** For a path that is known with another method 405 and `Allow`; for any other 404. An app's paths are read once, late. */
export function refuseUnrouted(app: Routed) {
  let paths: ReturnType<typeof pathsOf> | undefined;
  return (c: Context<AppEnv>): never => {
    paths ??= pathsOf(app);
    const { known, forBrowsers } = paths;
    const methods = new Set(known.filter((route) => route.matches.test(c.req.path)).map((route) => route.method));
    if (methods.size === 0) throw new PurserError("not_found", "There is nothing at this path.");
    if (methods.has("GET")) methods.add("HEAD");
    if (forBrowsers.some((pattern) => pattern.test(c.req.path))) methods.add("OPTIONS");
    const allow = [...methods].sort().join(", ");
    throw new PurserError("method_not_allowed", `This path answers ${allow}.`, { headers: { Allow: allow } });
  };
}
