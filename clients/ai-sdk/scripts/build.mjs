/** Builds dist/: one ES module and its types. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..");
await build({
  absWorkingDir: root,
  entryPoints: ["src/index.ts"],
  bundle: true,
  packages: "external",
  format: "esm",
  target: "es2022",
  charset: "utf8",
  outfile: "dist/index.js",
});
execFileSync("tsc", ["--project", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
