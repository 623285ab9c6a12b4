/** A value of a statement that D1 accepts. */
export type Value = string | number | null;

/** A statement with its values. It is sent alone or in a batch. */
export interface Statement<Row = unknown> {
  readonly text: string;
  readonly params: readonly Value[];
  /** Whether it only reads. Then it may be sent in one batch with the key's check (auth/key-session.ts). */
  readonly isRead?: boolean;
  /** Decodes D1's rows: booleans, JSON and the like. Without it, rows stay as D1 returns them. */
  readonly map?: (rows: readonly Readonly<Record<string, unknown>>[]) => unknown[];
  /** Never set. It tells TypeScript the type of the rows. */
  readonly row?: Row;
}

/** The database as verbs use it. */
export interface Db {
  /** Sends statements as one atomic batch, in one round trip. Returns the rows of each statement, in order. */
  readonly send: (statements: readonly Statement[]) => Promise<unknown[][]>;
  /** Sends one statement, and returns its rows as arrays. */
  readonly sendForArrays: (statement: Statement) => Promise<unknown[][]>;
  /** In a key's session: throws when the key is revoked, or when the test clock of the call has changed. */
  readonly check?: () => Promise<void>;
}

/** The row of a statement that a function makes: `StatementRow<typeof selectUser>`. */
export type StatementRow<Make extends (...values: never[]) => Statement> =
  ReturnType<Make> extends Statement<infer Row> ? Row : never;

/** The rows of each statement, in order. */
export type RowsOf<Statements extends readonly Statement[]> = {
  -readonly [Index in keyof Statements]: Statements[Index] extends Statement<infer Row> ? Row[] : never;
};

/** Sends statements as one atomic batch, in one round trip. Returns the rows of each. An empty list sends nothing. */
export async function batch<const Statements extends readonly Statement[]>(
  db: Db,
  statements: Statements,
): Promise<RowsOf<Statements>> {
  // A batch returns rows in the order of its statements, and each statement's type declares its rows.
  return (await db.send(statements)) as unknown as RowsOf<Statements>;
}

/** Sends one statement, and returns its rows. */
export async function all<Row>(db: Db, statement: Statement<Row>): Promise<Row[]> {
  const [rows] = await batch(db, [statement]);
  return rows;
}

/** Sends one statement, and returns its rows as arrays, for pages of thousands of rows: objects would double their cost. */
export async function arrays<Row extends unknown[]>(db: Db, statement: Statement<Row>): Promise<Row[]> {
  // The statement's type declares its rows.
  return (await db.sendForArrays(statement)) as Row[];
}
