import { createMiddleware } from "hono/factory";
import { type DashboardFile, referenceFile } from "../http/reference-file.ts";
import type { DashboardEnv } from "./form.ts";

/** The files that the pages load, built from clients/dashboard. The pages load nothing from another site. */
const CONTENT_TYPES: Readonly<Record<string, readonly [file: DashboardFile, type: string]>> = {
  "dashboard.css": ["dashboard.css", "text/css; charset=utf-8"],
  "dashboard.js": ["dashboard.js", "text/javascript; charset=utf-8"],
  "icon.svg": ["dashboard.svg", "image/svg+xml"],
};

/** Returns a file of the pages with its type, or null if there is no such file. */
export async function readAsset(env: Env, name: string): Promise<{ text: string; type: string } | null> {
  if (!Object.hasOwn(CONTENT_TYPES, name)) return null;
  const [file, type] = CONTENT_TYPES[name] ?? [];
  return file === undefined || type === undefined ? null : { text: await referenceFile(env, file), type };
}

let version: string | undefined;

/** Reads the version of the files once in each isolate, because a new version is a new deployment. */
export const withAssets = createMiddleware<DashboardEnv>(async (c, next) => {
  version ??= await referenceFile(c.env, "dashboard.version");
  await next();
});

/** Returns the address of a file. It changes with the file, so that browsers may cache it forever. */
export const assetPath = (name: "dashboard.css" | "dashboard.js" | "icon.svg"): string =>
  `/admin/assets/${name}?v=${version ?? ""}`;
