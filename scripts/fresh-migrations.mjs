/**
 * Writes drizzle/0000_tables.sql and its snapshot anew from src/db/schema.ts, for as long as no release has frozen them. Keeps the head
 * of the file, and each table's options (STRICT, WITHOUT ROWID), which drizzle-kit does not know. A new table is STRICT: add WITHOUT ROWID
 * by hand where it is wanted. drizzle/0001_invariants.sql is written by hand and stays.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "..");
const drizzle = join(root, "drizzle");
const tables = join(drizzle, "0000_tables.sql");

const old = readFileSync(tables, "utf8");
const head = old.slice(0, old.indexOf("CREATE TABLE `"));
const options = new Map(
  [...old.slice(head.length).matchAll(/CREATE TABLE `(\w+)` \([\s\S]*?\n\)([^;]*);/g)].map(([, name, after]) => [
    name,
    after,
  ]),
);

const scratch = mkdtempSync(join(root, ".purser-migrations-"));
try {
  const kit = join(root, "node_modules/drizzle-kit/bin.cjs");
  const args = [
    "generate",
    "--dialect=sqlite",
    "--schema=./src/db/schema.ts",
    `--out=${relative(root, scratch)}`,
    "--name=tables",
  ];
  const { status, stdout, stderr } = spawnSync(process.execPath, [kit, ...args], { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`${stdout}${stderr}`);
  const made = readFileSync(join(scratch, "0000_tables.sql"), "utf8").replace(
    /CREATE TABLE `(\w+)` \(([\s\S]*?\n\));/g,
    (_, name, columns) => `CREATE TABLE \`${name}\` (${columns}${options.get(name) ?? " STRICT"};`,
  );
  writeFileSync(tables, head + made);

  const snapshot = JSON.parse(readFileSync(join(scratch, "meta/0000_snapshot.json"), "utf8"));
  const ids = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"];
  for (const file of readdirSync(join(drizzle, "meta"))) rmSync(join(drizzle, "meta", file));
  ids.forEach((id, index) => {
    const prevId = ids[index - 1] ?? snapshot.prevId;
    writeFileSync(
      join(drizzle, `meta/000${index}_snapshot.json`),
      JSON.stringify({ ...snapshot, id, prevId }, null, 2),
    );
  });
  const entry = (tag, idx) => ({ idx, version: "6", when: 1795298741781 + idx, tag, breakpoints: true });
  const entries = ["0000_tables", "0001_invariants"].map(entry);
  writeFileSync(join(scratch, "journal"), JSON.stringify({ version: "7", dialect: "sqlite", entries }, null, 2));
  renameSync(join(scratch, "journal"), join(drizzle, "meta/_journal.json"));
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
