import { globSync, readFileSync } from "node:fs";
import { getTableColumns, is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, it } from "vitest";
import * as schema from "../../src/db/schema.ts";
import * as views from "../../src/db/views.ts";

// Tables and columns are never plain text in SQL, so that a renamed field is a type error wherever it is used.

const tables = [...Object.values(schema), ...Object.values(views)].filter((table) => is(table, SQLiteTable));
const columns = tables.flatMap((table) => Object.values(getTableColumns(table)).map(({ name }) => name));
const TABLES = new Set(tables.map((table) => getTableConfig(table).name));
const LONG = new Set(columns.filter((name) => name.includes("_")));
const SHORT = new Set(columns.filter((name) => !name.includes("_")));

interface Literal {
  /** True for a template with Drizzle's `sql` tag. Any other literal counts as SQL if it looks like SQL. */
  readonly isSql: boolean;
  /** Without interpolations. */
  readonly text: string;
}

/** Returns every string and template literal of a source, nested ones too. */
function literalsOf(source: string): Literal[] {
  const literals: Literal[] = [];
  let at = 0;
  /** Reads code up to the end, or to the brace that closes an interpolation. */
  const readCode = () => {
    for (let depth = 0; at < source.length; ) {
      const rest = source.slice(at, at + 2);
      if (rest === "//" || rest === "/*") {
        const end = source.indexOf(rest === "//" ? "\n" : "*/", at);
        at = end === -1 ? source.length : end + 1;
      } else if (source[at] === '"') {
        const [text = '"'] = /^"(?:[^"\\\n]|\\.)*"?/.exec(source.slice(at)) ?? [];
        literals.push({ isSql: false, text: text.slice(1, -1) });
        at += text.length;
      } else if (source[at] === "`") {
        readTemplate(/\bsql(<[^`]*>)?$/.test(source.slice(Math.max(0, at - 200), at)));
      } else {
        if (source[at] === "}" && depth-- === 0) return;
        if (source[at] === "{") depth++;
        at++;
      }
    }
  };
  const readTemplate = (isSql: boolean) => {
    let text = "";
    for (at++; at < source.length && source[at] !== "`"; at++) {
      if (source.startsWith("${", at)) {
        at += 2;
        readCode();
        text += " § ";
      } else {
        if (source[at] === "\\") at++;
        text += source[at];
      }
    }
    at++;
    literals.push({ isSql, text });
  };
  readCode();
  return literals;
}

const LOOKS_SQL = /\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|FROM|WHERE|JOIN|ORDER BY|EXISTS|IS NULL|IS NOT NULL)\b/;

/** The bare names in a literal, if it is SQL. */
function bareNames({ isSql, text }: Literal): string[] {
  if (!isSql && !LOOKS_SQL.test(text)) return [];
  const unquoted = text.replace(/'[^']*'/g, "''");
  const words = (of: string): string[] => of.match(/\b[a-z]\w*\b/g) ?? [];
  const lists = [
    ...[...unquoted.matchAll(/\(([\w\s,]+)\)/g)].map(([, list = ""]) => list),
    ...[...unquoted.matchAll(/\b(?:SELECT|RETURNING|SET|ORDER BY|GROUP BY)\s+([\w\s,]+)/g)].map(
      ([, list = ""]) => list,
    ),
    ...[...unquoted.matchAll(/\.\s*(\w+)/g)].map(([, name = ""]) => name),
  ];
  return [
    ...words(unquoted).filter((word) => TABLES.has(word) || LONG.has(word)),
    ...lists.flatMap((list) => words(list).filter((word) => SHORT.has(word))),
  ];
}

const namesIn = (source: string): string[] => literalsOf(source).flatMap(bareNames);
/** For sources in this file, which write `#{` for `${`. */
const namesInQuoted = (source: string): string[] => namesIn(source.replaceAll("#{", "${"));

it("the SQL in src has no bare names of tables or columns", () => {
  const files = globSync("src/**/*.{ts,tsx}").filter((file) => !/^src\/db\/(schema\/|schema\.ts|views\.ts)/.test(file));
  expect(files.length).toBeGreaterThan(300);
  const namesByFile = files.map((file) => [file, namesIn(readFileSync(file, "utf8"))] as const);
  expect(Object.fromEntries(namesByFile.filter(([, names]) => names.length > 0))).toEqual({});
});

it("the SQL in src uses sql.raw and sql.identifier only in db/query.ts", () => {
  const files = globSync("src/**/*.{ts,tsx}").filter((file) =>
    /\bsql\.(raw|identifier)\b/.test(readFileSync(file, "utf8")),
  );
  expect(files.filter((file) => !file.startsWith("src/db/schema"))).toEqual(["src/db/query.ts"]);
});

it("the SQL in src returns only `fields` or `computed` from a write", () => {
  const files = globSync("src/**/*.{ts,tsx}").filter((file) =>
    /\.returning\((?!fields\(|computed\()/.test(readFileSync(file, "utf8")),
  );
  expect(files).toEqual([]);
});

it("the search for bare names finds a table, a long column, and a short column after a dot or in a list", () => {
  expect(namesInQuoted("sql`SELECT 1 FROM environments`")).toEqual(["environments"]);
  expect(namesInQuoted("sql`#{t} WHERE user_id = #{value(`x`)}`")).toEqual(["user_id"]);
  expect(namesInQuoted("sql<number>`e.unit`")).toEqual(["unit"]);
  expect(namesInQuoted("insert(sql`ON CONFLICT (id, unit)`)")).toEqual(["id", "unit"]);
  expect(namesInQuoted("sql`SELECT seq, #{t.id}`")).toEqual(["seq"]);
  expect(namesInQuoted("const text = `SELECT 1 #{sql`FROM apps`}`;")).toEqual(["apps"]);
  expect(namesInQuoted('send("DELETE FROM accounts")')).toEqual(["accounts"]);
  expect(namesInQuoted("statement`UPDATE accounts SET x = 1`")).toEqual(["accounts"]);
});

it("the search for bare names ignores comments, SQL string literals, interpolations and messages", () => {
  expect(namesInQuoted("// sql`SELECT 1 FROM environments`\n/* `FROM apps` */")).toEqual([]);
  expect(namesInQuoted("sql`SELECT #{environments.id} FROM #{environments} WHERE 'user_id' = '$.accounts'`")).toEqual(
    [],
  );
  expect(namesInQuoted('"The payments of your accounts."')).toEqual([]);
  expect(namesInQuoted("sql`SELECT value FROM json_each(#{value('list')}) AS item`")).toEqual([]);
});
