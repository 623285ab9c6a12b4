import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
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

/** Runs a command of Wrangler in a checkout with this wrangler.toml, and returns its output. */
async function wrangler(text: string, ...args: string[]): Promise<string> {
  writeFileSync(join(directory, "wrangler.toml"), text);
  const env = { ...process.env, CI: "1", NO_COLOR: "1", FORCE_COLOR: "0", WRANGLER_HIDE_BANNER: "true" };
  const { stdout, stderr } = await run(join(root, "node_modules/.bin/wrangler"), args, { cwd: directory, env });
  return stdout + stderr;
}

/** Returns the number of balances in each migrated local database. */
function balancesOfEach(): unknown[] {
  const folder = join(directory, ".wrangler/state/v3/d1/miniflare-D1DatabaseObject");
  const files = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  return files.flatMap((name) => {
    const database = new DatabaseSync(join(folder, name), { readOnly: true });
    const isThere = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'credit_balances'").get() !== undefined;
    const counts = isThere ? [database.prepare("SELECT count(*) AS n FROM credit_balances").get()?.n] : [];
    database.close();
    return counts;
  });
}

const bindings = (output: string) => [...output.matchAll(/^env\.(.*?) {2,}/gm)].map(([, binding]) => binding);

/** In one test Wrangler builds the Worker twice. */
const MS_MAX = 180_000;

describe("Wrangler, used as docs/deployment.md says,", { timeout: MS_MAX }, () => {
  it("binds the same in staging as in production, with a separate database", async () => {
    const production = bindings(inject("buildLog"));
    expect(production).toContain("DB (purser)");
    expect(production.length).toBeGreaterThan(8);
    const shown = bindings(await wrangler(`${config}\n${staging}`, "deploy", "--dry-run", "--env", "staging"));
    expect(shown).toEqual(production.map((binding) => (binding === "DB (purser)" ? "DB (purser-staging)" : binding)));
  });

  it("migrates each database by its binding, whatever its name", async () => {
    const renamed = withDatabases(config, 2).replaceAll(/^database_name = ".*"$/gm, 'database_name = "renamed"');
    for (const [index, binding] of ["DB", "DB_1"].entries()) {
      const output = await wrangler(renamed, "d1", "migrations", "apply", binding, "--local");
      expect(output).toContain("0001_invariants.sql");
      expect(output).toContain("✅");
      expect(balancesOfEach()).toEqual(Array(index + 1).fill(0));
    }
    // The same command with the old name fails, so the commands above did not use it.
    await expect(wrangler(renamed, "d1", "migrations", "apply", "purser", "--local")).rejects.toThrow("purser");
  });
});
