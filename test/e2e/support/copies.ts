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

/**
 * Returns the columns of all tables, as `table.column`, in which a value contains one of the texts, in any case. The server must not
 * be running.
 */
export function findColumns(state: string, texts: readonly string[]): string[] {
  const names = readdirSync(state, { recursive: true, encoding: "utf8" });
  const found: string[] = [];
  for (const name of names.filter((each) => each.endsWith(".sqlite"))) {
    const database = new DatabaseSync(join(state, name));
    const columns = database.prepare(
      "SELECT t.name AS tableName, c.name AS columnName FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'",
    );
    for (const { tableName, columnName } of columns.all()) {
      const holds = database.prepare(
        `SELECT 1 FROM "${tableName}" AS t, json_each(?) AS j WHERE instr(lower(CAST(t."${columnName}" AS TEXT)), lower(j.value)) > 0 LIMIT 1`,
      );
      if (holds.get(JSON.stringify(texts)) !== undefined) found.push(`${tableName}.${columnName}`);
    }
    database.close();
  }
  return found.sort();
}
