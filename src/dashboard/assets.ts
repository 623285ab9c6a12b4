import { script } from "./script.ts";
import { styles } from "./styles.ts";

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#1f5f8b"/><circle cx="16" cy="16" r="8" fill="none" stroke="#fff" stroke-width="3"/><path d="M16 12v8" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>`;

/** A hash of the text. It changes with the text, so that browsers may cache a file forever. */
function versionOf(text: string): string {
  let hash = 5381;
  for (let index = 0; index < text.length; index++) hash = ((hash * 33) ^ text.charCodeAt(index)) >>> 0;
  return hash.toString(36);
}

const path = (name: string, text: string) => `/admin/assets/${name}?v=${versionOf(text)}`;

interface AssetPaths {
  readonly styles: string;
  readonly script: string;
  readonly icon: string;
}

let paths: AssetPaths | undefined;

export function assetPaths(): AssetPaths {
  paths ??= {
    styles: path("dashboard.css", styles),
    script: path("dashboard.js", script),
    icon: path("icon.svg", icon),
  };
  return paths;
}

/** All files that the pages load. Nothing is loaded from another site. */
export const assets: ReadonlyMap<string, { readonly type: string; readonly text: string }> = new Map([
  ["dashboard.css", { type: "text/css; charset=utf-8", text: styles }],
  ["dashboard.js", { type: "text/javascript; charset=utf-8", text: script }],
  ["icon.svg", { type: "image/svg+xml", text: icon }],
]);
