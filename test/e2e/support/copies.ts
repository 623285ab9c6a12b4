import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/**
 * Returns which of the texts the bytes of the vacuumed databases of a directory contain, in any case (E7). The server must not be
 * running.
 */
export function findInCopies(state: string, texts: readonly string[]): string[] {
  const names = readdirSync(state, { recursive: true, encoding: "utf8" });
  const found = new Set<string>();
  for (const name of names.filter((each) => each.endsWith(".sqlite"))) {
    const copy = join(state, "copy");
    const database = new DatabaseSync(join(state, name));
    database.prepare("VACUUM INTO ?").run(copy);
    database.close();
    // Latin-1 keeps each byte as one character. The texts are ASCII.
    const bytes = readFileSync(copy).toString("latin1").toLowerCase();
    rmSync(copy);
    for (const each of texts) if (bytes.includes(each.toLowerCase())) found.add(each);
  }
  return [...found].sort();
}
