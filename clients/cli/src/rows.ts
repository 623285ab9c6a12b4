import { createReadStream, openSync, readSync } from "node:fs";
import { createInterface } from "node:readline";
import { type CsvError, parse } from "csv-parse";
import { CliError } from "./connection.ts";
import { parseWithTexts } from "./decimal.ts";

/** A line of a file: its fields as texts, or why it cannot be read. */
export interface Row {
  readonly line: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly problem?: string;
}

const COLUMNS = ["userId", "pack", "unit", "remaining", "expiresAt", "ref"];
const RECORD_BYTES_MAX = 65_536;

function firstLine(file: string): string {
  const bytes = Buffer.alloc(RECORD_BYTES_MAX);
  const length = readSync(openSync(file, "r"), bytes);
  return (
    bytes
      .toString("utf8", 0, length)
      .replace(/^\uFEFF/, "")
      .split(/\r?\n/, 1)[0] ?? ""
  );
}

/** Returns a name of a column as it is known, whatever its case, underscores and spaces. */
function columnNamed(header: string): string {
  const plain = (name: string) => name.toLowerCase().replace(/[\s_-]/g, "");
  const found = COLUMNS.find((name) => plain(name) === plain(header));
  if (found === undefined)
    throw new CliError(`There is no column ${header.slice(0, 40)}. There are: ${COLUMNS.join(", ")}.`);
  return found;
}

async function* csvRows(file: string, header: string): AsyncGenerator<Row> {
  // The separator that the header has most of.
  const [delimiter] = [",", ";", "\t"].toSorted((a, b) => header.split(b).length - header.split(a).length);
  const skipped: Row[] = [];
  const problem = ({ lines, message }: CsvError & { lines?: number }): Row => ({
    line: lines ?? 0,
    fields: {},
    problem: message,
  });
  const parser = createReadStream(file).pipe(
    parse({
      bom: true,
      columns: (names: string[]) => names.map(columnNamed),
      delimiter: delimiter ?? ",",
      info: true,
      max_record_size: RECORD_BYTES_MAX,
      skip_empty_lines: true,
      skip_records_with_error: true,
      trim: true,
      on_skip: (error) => {
        if (error !== undefined) skipped.push(problem(error));
        return undefined;
      },
    }),
  );
  try {
    for await (const { record, info } of parser) {
      // The parser is ahead of this loop, and an import goes on after the last line that was done.
      while (skipped[0] !== undefined && skipped[0].line < info.lines) yield* skipped.splice(0, 1);
      yield { line: info.lines, fields: record };
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    // A quote that is never closed ends the file.
    skipped.push(problem(error as CsvError));
  }
  yield* skipped;
}

async function* jsonRows(file: string): AsyncGenerator<Row> {
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    line += 1;
    if (text.trim() === "") continue;
    try {
      const value = parseWithTexts(text);
      if (typeof value !== "object" || value === null || Array.isArray(value))
        throw new Error("The line is not an object.");
      const entries = Object.entries(value).filter(([, inner]) => inner !== null);
      const strange = entries.find(([name, inner]) => !COLUMNS.includes(name) || typeof inner !== "string");
      if (strange !== undefined)
        throw new Error(`The field ${strange[0].slice(0, 40)} is not known, or no text or number.`);
      yield { line, fields: Object.fromEntries(entries) };
    } catch (error) {
      yield { line, fields: {}, problem: error instanceof Error ? error.message : String(error) };
    }
  }
}

/** Reads a CSV or NDJSON file line by line, in bounded memory. */
export function rowsOf(file: string): AsyncGenerator<Row> {
  const header = firstLine(file);
  return header.trimStart().startsWith("{") ? jsonRows(file) : csvRows(file, header);
}
