/** The type of a named value. D1 binds numbers as REAL, so use `CAST(:n AS INTEGER)` in JSON, in text and in results. */
export type Value = string | number | null;
export type Values = Readonly<Record<string, Value>>;

/** A statement with its values. It is sent alone or in a batch. */
export interface Statement<Row = unknown> {
  readonly text: string;
  readonly params: readonly Value[];
  /** Whether it only reads: then it may travel beside the key's check (auth/key-session.ts). */
  readonly isRead?: boolean;
  /** Makes rows of lists of values in the order of its columns. Without it, rows are as D1 gives them. */
  readonly map?: (rows: readonly (readonly unknown[])[]) => unknown[];
  /** Never set. It gives TypeScript the type of the rows. */
  readonly row?: Row;
}

/** What a verb asks the database with. */
export interface Db {
  /** Sends statements as one batch: one trip, all or nothing. Answers the rows of each, in their order. */
  readonly send: (statements: readonly Statement[]) => Promise<unknown[][]>;
  /** Sends one statement, and answers its rows as arrays. */
  readonly sendForArrays: (statement: Statement) => Promise<unknown[][]>;
  /** Of a key's session: throws where the key, or the test clock that the verb was called with, is not in force. */
  readonly check?: () => Promise<void>;
}

/** A quoted text, in which a colon is a colon, a named value, or the space between words. */
const PARTS = /'(?:[^']|'')*'|:([a-z][A-Za-z0-9]*)|\s+/g;

/**
 * The text with numbers in place of names, as D1 takes it, and the names in the order of their numbers. Every trip carries the
 * text, so its line breaks are left out.
 */
function numberNames(text: string): { readonly text: string; readonly names: readonly string[] } {
  const names: string[] = [];
  const written = text.replace(PARTS, (found, name?: string) => {
    if (name === undefined) return found.startsWith("'") ? found : " ";
    if (!names.includes(name)) names.push(name);
    return `?${names.indexOf(name) + 1}`;
  });
  return { text: written, names };
}

/**
 * A statement of SQL with named values (`:userId`). Call it with the values. `Row` is the type of its rows: give each column
 * the alias of its field. Interpolated parts are SQL, never values.
 */
export function statement<Named extends Values, Row = never>(
  parts: TemplateStringsArray,
  ...fragments: readonly string[]
): (values: Named) => Statement<Row> {
  return prepare(() => String.raw({ raw: parts }, ...fragments));
}

/** A query of some columns, by their fields: of a table, or any SQL. `FROM …` is what follows them. */
export function query<Row>(columns: { readonly [Field in keyof Row]: string }) {
  const names = Object.keys(columns);
  const map = (rows: readonly (readonly unknown[])[]) => namedRows(names, rows);
  return (parts: TemplateStringsArray, ...fragments: readonly string[]): ((values: Values) => Statement<Row>) => {
    const made = prepare(() => `SELECT ${select(columns)} ${String.raw({ raw: parts }, ...fragments)}`);
    return (values) => ({ ...made(values), isRead: true, map });
  };
}

function prepare(write: () => string): (values: Values) => { text: string; params: Value[] } {
  let prepared: ReturnType<typeof numberNames> | undefined;
  return (values) => {
    // The text is built when it is first sent, so that an isolate starts faster.
    prepared ??= numberNames(write());
    const params = prepared.names.map((name) => {
      const value = values[name];
      if (value === undefined) throw new TypeError(`A statement was sent without its ${name}.`);
      return value;
    });
    return { text: prepared.text, params };
  };
}

/** A part of SQL that statements share. It uses the named values of the statement that contains it. */
export const fragment = String.raw;

/** The time of a write or a read, with the value `nowMs`. A statement that reads the clock takes its time from here. */
export const nowMsSql = fragment`CAST(:nowMs AS INTEGER)`;

declare const data: unique symbol;
/** The name of a column. `data` is never set: it gives TypeScript the type of the values. */
export type Column<Data = unknown> = string & { readonly [data]?: Data };
export type ColumnsOf<Row> = { readonly [Field in keyof Row]: Column<Row[Field]> };
/** A row of some columns, as D1 returns it. */
export type RowOf<C> = { [Field in keyof C]: C[Field] extends Column<infer Data> ? Data : never };

/** Columns for a SELECT, each with the alias of its field: `b.pack_id AS "packId", …`. Values are as SQLite stores them. */
export function select(columns: Readonly<Record<string, string>>, alias?: string): string {
  const from = alias === undefined ? "" : `${alias}.`;
  return Object.entries(columns)
    .map(([field, column]) => `${from}${column} AS "${field}"`)
    .join(", ");
}

/** Rows as objects, from arrays of values. */
function namedRows(names: readonly string[], rows: readonly (readonly unknown[])[]): Record<string, unknown>[] {
  return rows.map((values) => {
    const row: Record<string, unknown> = {};
    // An indexed loop: a query may have hundreds of rows.
    for (let index = 0; index < names.length; index++) row[names[index] ?? ""] = values[index];
    return row;
  });
}

/** The rows of each statement, in their order. */
export type RowsOf<Statements extends readonly Statement[]> = {
  -readonly [Index in keyof Statements]: Statements[Index] extends Statement<infer Row> ? Row[] : never;
};

/** Sends statements as one batch: one trip, all or nothing. Returns the rows of each. An empty list sends nothing. */
export async function batch<const Statements extends readonly Statement[]>(
  db: Db,
  statements: Statements,
): Promise<RowsOf<Statements>> {
  // A batch answers in the order of its statements, and each statement's type says what its rows are.
  return (await db.send(statements)) as unknown as RowsOf<Statements>;
}

/** Sends one statement, and answers its rows. */
export async function all<Row>(db: Db, statement: Statement<Row>): Promise<Row[]> {
  const [rows] = await batch(db, [statement]);
  return rows;
}

/** Sends one statement, and answers its rows as arrays: for pages of thousands of rows, whose keys would cost as much. */
export async function arrays<Row extends unknown[]>(db: Db, statement: Statement<Row>): Promise<Row[]> {
  // The statement's type says what its rows are.
  return (await db.sendForArrays(statement)) as Row[];
}
