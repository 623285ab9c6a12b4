/** `npm run deploy`: migrates every database that wrangler.toml binds, then deploys. A failure ends it before the next step. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { deploySteps } from "./databases.mjs";

const WRANGLER = join(import.meta.dirname, "../node_modules/wrangler/bin/wrangler.js");

for (const args of deploySteps(readFileSync("wrangler.toml", "utf8"), process.argv.slice(2))) {
  const { status } = spawnSync(process.execPath, [WRANGLER, ...args], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
