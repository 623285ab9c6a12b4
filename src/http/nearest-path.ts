import { nearness } from "../lib/nearest.ts";

const PATH_CHARACTERS_MAX = 200;

const segmentsOf = (path: string): string[] => path.split("/").filter((segment) => segment !== "");

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
];

function otherEndOf(path: string): string | undefined {
  const end = segmentsOf(path).at(-1)?.toLowerCase() ?? "";
  return OTHER_ENDS.find(([, ends]) => ends.split(" ").includes(end))?.[0];
}

/** The path without slashes too many, and with the prefix of the interface where it has another version's or half of it. */
function variantsOf(path: string): string[][] {
  const own = segmentsOf(path);
  const rest = segmentsOf(`/${own.join("/")}`.replace(/^\/(api(?=\/|$))?(\/?v\d+(?=\/|$))?/i, "/"));
  return rest.length === 0 ? [own] : [own, ...PREFIXES.map((prefix) => [...segmentsOf(prefix), ...rest])];
}

/** The sum of the distances of a path's segments to a route's, whose parameters stand for anything. */
function distanceTo(route: readonly string[], path: readonly string[]): number | null {
  if (route.length !== path.length) return null;
  let sum = 0;
  for (const [index, segment] of route.entries()) {
    if (segment.startsWith(":")) continue;
    const distance = nearness(path[index] ?? "", segment);
    if (distance === null) return null;
    sum += distance;
  }
  return sum;
}

/** The route that an unknown path most likely means, such as `/api/v1/admin/apps/{appId}/keys`. Null when it is near to none. */
export function nearestPath(routePaths: Iterable<string>, path: string): string | null {
  if (path.length > PATH_CHARACTERS_MAX || segmentsOf(path).length === 0) return null;
  const routes = [...new Set(routePaths)].filter((route) => !route.includes("*") && segmentsOf(route).length > 0);
  let best: { route: string; distance: number } | null = null;
  for (const variant of variantsOf(path)) {
    for (const route of routes) {
      const distance = distanceTo(segmentsOf(route), variant);
      if (distance !== null && (best === null || distance < best.distance)) best = { route, distance };
    }
  }
  // A segment such as `:appId{[a-z]+}` is shown as `{appId}`.
  return (best?.route ?? otherEndOf(path))?.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}").replace(/(.)\/$/, "$1") ?? null;
}
