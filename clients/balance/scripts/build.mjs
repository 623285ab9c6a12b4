/** Builds dist/: the element as one ES module, as Purser serves it at /purser-balance.js, and its types. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..");
await build({
  absWorkingDir: root,
  entryPoints: ["purser-balance.ts"],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  outfile: "dist/purser-balance.js",
});
execFileSync("tsc", ["--project", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
