import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const VACUUM =
  "new (require('node:sqlite').DatabaseSync)(process.argv[1]).prepare('VACUUM INTO ?').run(process.argv[2])";

/** Returns which of the texts the vacuumed databases of a directory contain (E7). The server must not be running. */
export function findInCopies(state: string, texts: readonly string[]): string[] {
  const node = join(import.meta.dirname, "../../../node_modules/.bin/node");
  const names = readdirSync(state, { recursive: true, encoding: "utf8" });
  const found = new Set<string>();
  for (const name of names.filter((each) => each.endsWith(".sqlite"))) {
    const copy = join(state, "copy");
    execFileSync(node, ["-e", VACUUM, join(state, name), copy], { stdio: "pipe" });
    const bytes = readFileSync(copy);
    rmSync(copy);
    for (const each of texts) if (bytes.includes(each)) found.add(each);
  }
  return [...found].sort();
}
