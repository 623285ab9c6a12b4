import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { squeezeSql } from "../../scripts/squeeze-sql.mjs";

const squeezed = (source: string): string => squeezeSql("some.ts", source).toString();

describe("SQL in the bundle", () => {
  it("has one space for each line break and what is indented after it, and nothing else changed", () => {
    expect(
      squeezed(
        `const a = statement<Values, Row>\`\n  SELECT 'a  :b', \${list\n    .join()}  FROM t\n    WHERE a = :a\`;`,
      ),
    ).toBe(`const a = statement<Values, Row>\` SELECT 'a  :b',\${list\n    .join()}  FROM t WHERE a = :a\`;`);
    expect(
      squeezed("query<Row>({ id: '\\n' })`FROM t\n  `; queryPacks`\n`; fragment`a\r\n  b`; /* “ö😀” */ fragment`\n`"),
    ).toBe("query<Row>({ id: '\\n' })`FROM t `; queryPacks` `; fragment`a b`; /* “ö😀” */ fragment` `");
  });

  it("has no space after an opening bracket and a comma, or before a closing one, but in a quoted text", () => {
    expect(squeezed(`statement\`VALUES (\n  :a, '( a , b )',\n\n  \${c}, '\${d}, ', \n ( 'it''s, ' ) )\``)).toBe(
      `statement\`VALUES (:a,'( a , b )',\${c},'\${d}, ',('it''s, '))\``,
    );
  });

  it("is squeezed within what is interpolated too", () => {
    expect(squeezed(`statement\`\n  A \${rows.map((row) => fragment\`(\n  \${row})\`)}\n  B\``)).toBe(
      `statement\` A \${rows.map((row) => fragment\`(\${row})\`)} B\``,
    );
  });

  it("leaves every text alone that is not SQL", () => {
    const source = "const page = `\n  <p>\n`; const other = html`\n  <p>\n`; a.statement`\n `;";
    expect(squeezed(source)).toBe(source);
  });

  it.each(["'a\n  b'", "'it''s\n'", "SELECT 1 -- one\n, 2"])("is refused where a line break counts: %j", (sql) => {
    expect(() => squeezed(`statement\`${sql}\``)).toThrow("some.ts has SQL in which a line break counts");
  });

  it("has the same tokens in every statement of the sources", () => {
    // White space is all that differs, and no two words or signs meet.
    const tokens = (text: string) => text.match(/'(?:[^']|'')*'|[(),]|[^\s(),]+/g);
    let changed = 0;
    for (const file of globSync("src/**/*.ts")) {
      const source = readFileSync(file, "utf8");
      const made = squeezeSql(file, source).toString();
      if (made === source) continue;
      changed++;
      expect(tokens(made), file).toEqual(tokens(source));
    }
    expect(changed).toBeGreaterThan(100);
  });
});
