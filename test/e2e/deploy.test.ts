import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { withDatabases } from "../../scripts/databases.mjs";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const config = readFileSync(join(root, "wrangler.toml"), "utf8");
const page = readFileSync(join(root, "docs/deployment.md"), "utf8");
const [, staging = ""] = /^```toml\n(\[env\.staging\][\s\S]*?)^```$/m.exec(page) ?? [];

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "purser-deploy-"));
  for (const name of [
    "src",
    "drizzle",
    "scripts",
    "clients",
    "docs",
    "node_modules",
    "package.json",
    "tsconfig.json",
  ]) {
    symlinkSync(join(root, name), join(directory, name));
  }
  symlinkSync(join(root, ".purser"), join(directory, ".purser"));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** What Wrangler says of a command, in a checkout with this wrangler.toml. */
async function wrangler(text: string, ...args: string[]): Promise<string> {
  writeFileSync(join(directory, "wrangler.toml"), text);
  const env = { ...process.env, CI: "1", NO_COLOR: "1", FORCE_COLOR: "0", WRANGLER_HIDE_BANNER: "true" };
  const { stdout, stderr } = await run(join(root, "node_modules/.bin/wrangler"), args, { cwd: directory, env });
  return stdout + stderr;
}

const bindings = (said: string) => [...said.matchAll(/^env\.(.*?) {2,}/gm)].map(([, binding]) => binding);

/** Wrangler builds the Worker twice in one of them. */
const MS_MAX = 180_000;

describe("what docs/deployment.md has wrangler do", { timeout: MS_MAX }, () => {
  it("binds the same in staging as in production, with a separate database", async () => {
    const production = bindings(await wrangler(config, "deploy", "--dry-run"));
    expect(production).toContain("DB (purser)");
    expect(production.length).toBeGreaterThan(8);
    const shown = bindings(await wrangler(`${config}\n${staging}`, "deploy", "--dry-run", "--env", "staging"));
    expect(shown).toEqual(production.map((binding) => (binding === "DB (purser)" ? "DB (purser-staging)" : binding)));
  });

  it("migrates each database by its binding, whatever its name", async () => {
    const renamed = withDatabases(config, 2).replaceAll(/^database_name = ".*"$/gm, 'database_name = "renamed"');
    for (const binding of ["DB", "DB_1"]) {
      const said = await wrangler(renamed, "d1", "migrations", "apply", binding, "--local");
      expect(said).toContain("0001_invariants.sql");
      expect(said).toContain("✅");
      const tables = await wrangler(
        renamed,
        "d1",
        "execute",
        binding,
        "--local",
        "--json",
        "--command",
        "SELECT count(*) AS n FROM credit_balances",
      );
      expect(tables).toContain('"n": 0');
    }
    // By the name that it had the same command fails: nothing here may use it.
    await expect(wrangler(renamed, "d1", "migrations", "apply", "purser", "--local")).rejects.toThrow("purser");
  });
});
