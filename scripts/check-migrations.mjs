/** Fails when src/db/schema.ts and drizzle/ differ: drizzle-kit must have nothing to generate from a copy. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "..");
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
