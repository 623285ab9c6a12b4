/**
 * Fails when src/db/schema.ts and drizzle/ differ: drizzle-kit must have nothing to generate from a copy. Fails also when a migration
 * of a release has changed, because databases that ran it never run it again.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "..");

/** The SHA-256 of each migration by release. docs/development.md says what a release adds. */
const released = JSON.parse(readFileSync(join(root, "drizzle/released.json"), "utf8"));
const { version: current } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
if (released[current] === undefined) {
  console.error(`drizzle/released.json has no migrations of release ${current}, which package.json names.`);
  process.exitCode = 1;
}
for (const [version, files] of Object.entries(released)) {
  for (const [file, hash] of Object.entries(files)) {
    const path = join(root, "drizzle", file);
    const now = existsSync(path) ? createHash("sha256").update(readFileSync(path)).digest("hex") : null;
    if (now === hash) continue;
    console.error(`drizzle/${file} is part of release ${version} and may not change. Write a new migration instead.`);
    process.exitCode = 1;
  }
}

const scratch = mkdtempSync(join(tmpdir(), "purser-migrations-"));
try {
  cpSync(join(root, "drizzle"), join(scratch, "drizzle"), { recursive: true });
  const before = readdirSync(join(scratch, "drizzle")).length;
  const out = relative(root, join(scratch, "drizzle"));
  const kit = join(root, "node_modules/drizzle-kit/bin.cjs");
  const args = [kit, "generate", "--dialect=sqlite", "--schema=./src/db/schema.ts", `--out=${out}`];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  if (status !== 0 || readdirSync(join(scratch, "drizzle")).length !== before) {
    console.error(`${stdout}${stderr}\nThe schema has changes that no migration makes: run \`npm run migrations\`.`);
    process.exitCode = 1;
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
