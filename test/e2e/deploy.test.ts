import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, it, onTestFinished } from "vitest";
import { makeCheckout } from "./support/checkout.ts";

const root = join(import.meta.dirname, "../..");
const config = readFileSync(join(root, "wrangler.toml"), "utf8");
const page = readFileSync(join(root, "docs/deployment.md"), "utf8");
const [, staging = ""] = /^```toml\n(\[env\.staging\][\s\S]*?)^```$/m.exec(page) ?? [];

/** Returns what Wrangler prints of the bindings in the environment `staging` of docs/deployment.md. */
async function deployToStaging(): Promise<string> {
  const directory = makeCheckout(["wrangler.toml"]);
  onTestFinished(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, "wrangler.toml"), `${config}\n${staging}`);
  const env = { ...process.env, CI: "1", NO_COLOR: "1", FORCE_COLOR: "0", WRANGLER_HIDE_BANNER: "true" };
  const built = join(inject("builtWorker"), "index.js");
  const args = ["deploy", built, "--no-bundle", "--dry-run", "--config", "wrangler.toml", "--env", "staging"];
  const { stdout } = await promisify(execFile)(join(root, "node_modules/.bin/wrangler"), args, { cwd: directory, env });
  return stdout;
}

const bindings = (output: string) => [...output.matchAll(/^env\.(.*?) {2,}/gm)].map(([, binding]) => binding);

it("Wrangler binds the same in staging as in production, with a separate database", async () => {
  const production = bindings(inject("buildLog"));
  expect(production).toContain("DB (purser)");
  expect(production.length).toBeGreaterThan(8);
  const shown = bindings(await deployToStaging());
  expect(shown).toEqual(production.map((binding) => (binding === "DB (purser)" ? "DB (purser-staging)" : binding)));
});
