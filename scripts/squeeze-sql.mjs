/**
 * The white space of SQL is for its readers. In the bundle a line break of a statement, with the indentation after it, is one
 * space, and there is none after `(` and `,` or before `)`.
 */
import { RolldownMagicString } from "rolldown";
import { parseSync, Visitor } from "rolldown/utils";

/** The tags of SQL: those of src/db/sql.ts, and what `query` made, such as `queryPacks`. */
const SQL_TAG = /^(statement|fragment|query([A-Z]\w*)?)$/;
/** A quoted text, in which white space counts, or white space that says nothing, or a line break. */
const QUOTED_OR_WHITE = /'(?:[^']|'')*'|(?<=[(,])\s+|\s+(?=\))|\s*\n\s*/g;
const QUOTED = /'(?:[^']|'')*'/g;

const nameOf = ({ type, name, callee }) => (type === "CallExpression" ? callee.name : name);

/** Throws where the line breaks of SQL count: in a quoted text, and at the end of a comment. */
function assertFree(file, sql) {
  if (sql.match(QUOTED)?.some((text) => text.includes("\n")) || sql.replace(QUOTED, "").includes("--")) {
    throw new Error(
      `${file} has SQL in which a line break counts. Write its comment in TypeScript, its text with char(10):\n${sql}`,
    );
  }
}

/** The source with each of its statements on one line, as a string that knows what it was. */
export function squeezeSql(file, source) {
  const { program, errors } = parseSync(file, source);
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  const squeezed = new RolldownMagicString(source, { filename: file });
  new Visitor({
    TaggedTemplateExpression({ tag, quasi: { quasis } }) {
      if (!SQL_TAG.test(nameOf(tag))) return;
      // Each part has its delimiters, so that what is interpolated stands as `${}`: neither white space nor a quote.
      const sql = quasis.map(({ start, end }) => source.slice(start, end)).join("");
      assertFree(file, sql);
      const white = [...sql.matchAll(QUOTED_OR_WHITE)].filter(([found]) => !found.startsWith("'"));
      let before = 0;
      for (const { start, end } of quasis) {
        const length = end - start;
        for (const { index, 0: found } of white.filter(({ index }) => index >= before && index < before + length)) {
          const at = start + index - before;
          const isNeeded = !/[(,]/.test(sql[index - 1]) && sql[index + found.length] !== ")";
          squeezed.overwrite(at, at + found.length, isNeeded ? " " : "");
        }
        before += length;
      }
    },
  }).visit(program);
  return squeezed;
}
