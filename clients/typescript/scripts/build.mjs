/** Builds dist/: the client as one ES module, and its types. Needs openapi.json, which `npm run reference` makes. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import "./operations.mjs";
import "./types.mjs";

execFileSync("tsc", ["--project", "tsconfig.json"], { cwd: join(import.meta.dirname, ".."), stdio: "inherit" });
