import { env } from "cloudflare:workers";
import { wrappedD1 } from "./wrapped-d1.ts";

/** Both databases of a deployment, which record the text of each statement once. */
export function recordingDatabases() {
  const texts = new Set<string>();
  const recording = (d1: D1Database) =>
    wrappedD1(d1, (send, statements) => {
      for (const { text } of statements) texts.add(text.replace(/\s+/g, " ").trim());
      return send(statements);
    });
  return { databases: { DB: recording(env.DB), SPARE: recording(env.SPARE) }, texts: texts as ReadonlySet<string> };
}

export interface Reading {
  readonly table: string;
  /** A line of SQLite's query plan. */
  readonly detail: string;
  readonly text: string;
}

/** Explains statements. SQLite's plans include the steps of triggers and foreign keys. */
export async function planReader(d1: D1Database = env.DB): Promise<(text: string) => Promise<Reading[]>> {
  const { results: schema } = await d1
    .prepare("SELECT type, name, rootpage, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    .all<{ type: string; name: string; rootpage: number; sql: string }>();
  const roots = new Map(schema.filter(({ type }) => type === "table").map(({ name, rootpage }) => [name, rootpage]));
  const triggers = schema.filter(({ type }) => type === "trigger").map(({ sql }) => sql);

  /** The tables that a name in a plan may refer to, directly or by an alias. */
  const tablesOf = (name: string, text: string): readonly string[] =>
    roots.has(name)
      ? [name]
      : [...text.matchAll(new RegExp(`(\\w+)"?\\s+(?:AS )?"?${name}\\b`, "gi"))]
          .map(([, table = ""]) => table)
          .filter((table) => roots.has(table));

  /** Returns the steps that read a whole table or index, or all rows of one tenant or one state. */
  return async (text) => {
    const numbered = [...text.matchAll(/\?(\d+)/g)].map(([, number]) => Number(number));
    // Drizzle does not number values. A quoted text may also contain a question mark.
    const inOrder = text.replace(/'[^']*'/g, "").match(/\?(?!\d)/g)?.length ?? 0;
    const count = Math.max(inOrder, ...numbered);
    const explain = async <Row>(how: string): Promise<Row[]> =>
      (
        await d1
          .prepare(`${how} ${text}`)
          .bind(...Array(count).fill(null))
          .all<Row>()
      ).results;
    const steps = (await explain<{ detail: string }>("EXPLAIN QUERY PLAN"))
      .map(({ detail }) => detail)
      .filter((detail) => /^SCAN \w(?!.*VIRTUAL TABLE)|^SEARCH .*\((environment_id|app_id|state)=\?\)/.test(detail));
    if (steps.length === 0) return [];
    // A table and a subquery may have the same alias. The program names the first table of a scan unambiguously.
    const program = await explain<{ opcode: string; p1: number; p2: number }>("EXPLAIN");
    const rewound = new Set(program.filter(({ opcode }) => /^(Rewind|Last)$/.test(opcode)).map(({ p1 }) => p1));
    const scanned = new Set(
      program.filter(({ opcode, p1 }) => /^Open(Read|Write)$/.test(opcode) && rewound.has(p1)).map(({ p2 }) => p2),
    );
    return steps.flatMap((detail) => {
      const name = /^\w+ (\w+)/.exec(detail)?.[1] ?? "";
      const ofText = tablesOf(name, text);
      const tables = new Set(ofText.length > 0 ? ofText : triggers.flatMap((sql) => tablesOf(name, sql)));
      const isBare = /^SCAN \w+$/.test(detail);
      return [...tables]
        .filter((table) => !isBare || scanned.has(roots.get(table) ?? 0))
        .map((table) => ({ table, detail, text }));
    });
  };
}
