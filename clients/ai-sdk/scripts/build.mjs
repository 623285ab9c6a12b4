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
  // The paths of tsconfig.json lead to the sources of purser-client, which would then be bundled, with an error class of its own.
  tsconfig: "tsconfig.build.json",
  format: "esm",
  target: "es2022",
  charset: "utf8",
  outfile: "dist/index.js",
});
execFileSync("tsc", ["--project", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
