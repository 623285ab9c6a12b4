// `npm run reference`: makes the files that the Worker serves: the reference, the balance element, llms.txt, and what the pages of
// the dashboard load. It also makes the TypeScript client's tables and bundles. Wrangler and Vitest run it themselves.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";

// Wrangler and the clients' builds run this script too. In a run of the tests its files are up to date.
if (process.env.REFERENCE_IS_MADE === "true") process.exit();

const root = join(import.meta.dirname, "..");
const directory = join(root, ".purser/reference");

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ["src/reference/files.ts"],
  bundle: true,
  format: "esm",
  platform: "node",
  mainFields: ["module", "main"],
  define: { WITH_REFERENCE: "true" },
  write: false,
});
const reference = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`
);

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

const element = await build({
  absWorkingDir: root,
  entryPoints: ["clients/balance/purser-balance.ts"],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  write: false,
});
const dashboard = await build({
  absWorkingDir: root,
  entryPoints: ["clients/dashboard/dashboard.ts", "clients/dashboard/dashboard.css"],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: ["es2022", "chrome125", "firefox125", "safari18"],
  outdir: directory,
  write: false,
});
const dashboardFiles = {
  ...Object.fromEntries(dashboard.outputFiles.map(({ path, text }) => [basename(path), text])),
  "dashboard.svg": readFileSync(join(root, "clients/dashboard/icon.svg"), "utf8"),
};
const docs = await build({
  absWorkingDir: root,
  entryPoints: ["clients/docs/docs.ts", "clients/docs/docs.css"],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: "es2022",
  outdir: directory,
  write: false,
});
const files = {
  ...reference.referenceFiles(),
  ...dashboardFiles,
  // The addresses of the dashboard's files contain this version, so that browsers may cache the files forever.
  "dashboard.version": createHash("sha256").update(JSON.stringify(dashboardFiles)).digest("hex").slice(0, 12),
  "docs.html": readFileSync(join(root, "clients/docs/docs.html"), "utf8"),
  ...Object.fromEntries(docs.outputFiles.map(({ path, text }) => [basename(path), text])),
  "scalar.js": readFileSync(join(root, "node_modules/@scalar/api-reference/dist/browser/standalone.js"), "utf8"),
  "purser-balance.js": element.outputFiles[0].text,
  "llms.txt": readFileSync(join(root, "docs/llms.txt"), "utf8"),
};

mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(files)) {
  const file = join(directory, name);
  // Wrangler watches these files and would reload, so an unchanged file is not written.
  if (read(file) !== text) writeFileSync(file, text);
}

// It reads openapi.json.
await import("../clients/typescript/scripts/operations.mjs");
