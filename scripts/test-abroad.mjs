/**
 * Runs the tests of databases, schema, plans and files in other surroundings, so that they do not depend on these: in a clone whose
 * path has the other parity of its sum of characters, then here with another time zone, language and order of the databases.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const TESTS = [
  ...[
    "cross/table-scans",
    "cross/databases",
    "cross/deployment-costs",
    "worker/db/constraint",
    "worker/auth/reseal-secrets",
  ],
  ...[
    "worker/catalog/apps/admin",
    "unit/column-classes",
    "unit/databases",
    "unit/links",
    "unit/log",
    "unit/money",
    "unit/time",
  ],
  ...["unit/sign-in-guides"],
];
const ONLY_THERE = ["worker/db/schema", "worker/dashboard/dashboard"];
const ONLY_ABROAD = ["e2e/balance-element"];
const ABROAD = { TZ: "Pacific/Kiritimati", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8", SWAP_DATABASES: "1" };

const NOT_CLONED = new Set([".git", ".wrangler", ".purser", ".dev.vars", "dist", "coverage", "node_modules"]);
const root = join(import.meta.dirname, "..");
const parityOf = (path) => [...path].reduce((sum, character) => sum + character.charCodeAt(0), 0) % 2;

function cloneTo(folder) {
  cpSync(root, folder, { recursive: true, filter: (path) => path === root || !NOT_CLONED.has(basename(path)) });
  const packages = [join(root, "node_modules"), join(folder, "node_modules")];
  // Links take seconds, where the temporary folder is on the same disk.
  if (spawnSync("cp", ["-al", ...packages], { stdio: "ignore" }).status === 0) return;
  rmSync(join(folder, "node_modules"), { recursive: true, force: true });
  spawnSync("cp", ["-a", ...packages], { stdio: "inherit" });
}

function test(folder, names, env = {}) {
  const paths = names.map((name) => `test/${name}.test.ts`);
  const options = { cwd: folder, stdio: "inherit", env: { ...process.env, ...env } };
  return spawnSync("npx", ["vitest", "run", ...paths], options).status === 0;
}

const scratch = mkdtempSync(join(tmpdir(), "purser-abroad-"));
try {
  const clone = ["a", "b"].map((name) => join(scratch, name)).find((path) => parityOf(path) !== parityOf(root)) ?? "";
  console.log(`In ${clone}`);
  cloneTo(clone);
  const isGreenThere = test(clone, [...TESTS, ...ONLY_THERE]);
  console.log(`With ${JSON.stringify(ABROAD)}`);
  const isGreenAbroad = test(root, [...TESTS, ...ONLY_ABROAD], ABROAD);
  if (!isGreenThere || !isGreenAbroad) process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
