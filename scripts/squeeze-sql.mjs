/** The white space of SQL is for its readers. In the bundle a line break of a statement, with the indentation after it, is one space. */
import { RolldownMagicString } from "rolldown";
import { parseSync, Visitor } from "rolldown/utils";

/** The tags of SQL: those of src/db/sql.ts, and what `query` made, such as `queryPacks`. */
const SQL_TAG = /^(statement|fragment|query([A-Z]\w*)?)$/;
const LINE_BREAK = /\s*\n\s*/g;
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
    TaggedTemplateExpression({ tag, quasi }) {
      if (!SQL_TAG.test(nameOf(tag))) return;
      assertFree(file, quasi.quasis.map(({ value }) => value.raw).join("?"));
      for (const { start, end } of quasi.quasis) {
        for (const { index, 0: found } of source.slice(start, end).matchAll(LINE_BREAK)) {
          squeezed.overwrite(start + index, start + index + found.length, " ");
        }
      }
    },
  }).visit(program);
  return squeezed;
}
