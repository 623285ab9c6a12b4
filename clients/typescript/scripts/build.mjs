/** Builds dist/: the client as one ES module, and its types, from the schemas of this commit. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: "inherit" });

// Makes openapi.json, the table of operations and the bundle.
run("npm", ["run", "--silent", "reference"], join(import.meta.dirname, "../../.."));
await import("./types.mjs");
run("tsc", ["--project", "tsconfig.json"], join(import.meta.dirname, ".."));
