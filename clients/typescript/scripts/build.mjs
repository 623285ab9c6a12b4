/** Builds dist/: the client's modules, for `import` and for `require`, and their types, from the schemas of this commit. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const dist = join(import.meta.dirname, "../dist");

const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: "inherit" });

// Generates openapi.json, the table of operations and the bundle.
run(process.execPath, ["scripts/reference.mjs"], join(import.meta.dirname, "../../.."));
await import("./types.mjs");
run("tsc", ["--project", "tsconfig.json"], join(import.meta.dirname, ".."));

// Writes the same types for `require`. In both forms, imports use the module names of dist/.
for (const name of readdirSync(dist, { recursive: true }).filter((one) => one.endsWith(".d.ts"))) {
  const text = readFileSync(join(dist, name), "utf8");
  const importing = (extension) => text.replaceAll(/((?:from |import\()"\.[^"]*)\.[jt]s"/g, `$1.${extension}"`);
  writeFileSync(join(dist, name.replace(/\.d\.ts$/, ".d.cts")), importing("cjs"));
  writeFileSync(join(dist, name), importing("js"));
}
