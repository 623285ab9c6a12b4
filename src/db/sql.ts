/** A value of a statement, as D1 takes it. */
export type Value = string | number | null;

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
