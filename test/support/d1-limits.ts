/** The limits of the hosted D1 that a local one does not enforce. */
const VALUE_BYTES_MAX = 2_000_000;
const TEXT_BYTES_MAX = 100_000;
const VALUES_MAX = 100;

const utf8 = new TextEncoder();

/** The bytes of a text. A text that is short enough even with three bytes a character is not encoded. */
const bytesOfText = (text: string, max: number): number =>
  text.length * 3 <= max ? text.length : utf8.encode(text).length;

/** The bytes of a value as D1 counts them. */
function bytesOf(value: unknown): number {
  if (typeof value === "string") return bytesOfText(value, VALUE_BYTES_MAX);
  return value instanceof ArrayBuffer ? value.byteLength : 8;
}

function requireLimit(bytes: number, max: number, what: string, text: string): void {
  if (bytes > max) throw new Error(`D1_ERROR: ${what} has ${bytes} bytes, of at most ${max}: ${text.slice(0, 300)}`);
}

function checkSent(text: string, values: readonly unknown[]): void {
  requireLimit(bytesOfText(text, TEXT_BYTES_MAX), TEXT_BYTES_MAX, "a statement's text", text);
  if (values.length > VALUES_MAX) throw new Error(`D1_ERROR: ${values.length} values: ${text.slice(0, 300)}`);
  for (const value of values) requireLimit(bytesOf(value), VALUE_BYTES_MAX, "a bound value", text);
}

function checkRows(text: string, rows: readonly unknown[]): void {
  for (const row of rows) {
    const columns = Array.isArray(row) ? row : Object.values(row as object);
    requireLimit(
      columns.reduce((sum: number, value) => sum + bytesOf(value), 0),
      VALUE_BYTES_MAX,
      "a row",
      text,
    );
  }
}

const prepared = new WeakMap<D1PreparedStatement, string>();

/** Makes a statement check what it sends and what it returns. */
function checking(statement: D1PreparedStatement, text: string): D1PreparedStatement {
  const { bind, all, run, raw } = statement;
  prepared.set(statement, text);
  return Object.assign(statement, {
    bind: (...values: unknown[]) => {
      checkSent(text, values);
      return checking(bind.apply(statement, values), text);
    },
    all: async () => {
      const answer = await all.call(statement);
      checkRows(text, answer.results);
      return answer;
    },
    run: async () => {
      const answer = await run.call(statement);
      checkRows(text, answer.results);
      return answer;
    },
    raw: async () => {
      const rows = await raw.call(statement);
      checkRows(text, rows);
      return rows;
    },
  });
}

/**
 * Makes every session of D1, and so everything that Purser sends, throw for a value, a row or a statement that the hosted D1 rejects.
 * A test that sends without a session is not checked, so that it may prepare or compare more.
 */
export function enforceD1Limits(d1: D1Database): void {
  const prototype = Object.getPrototypeOf(d1) as D1Database & { hasLimits?: true };
  if (prototype.hasLimits === true) return;
  const { withSession } = prototype;
  prototype.hasLimits = true;
  prototype.withSession = function checkedSession(this: D1Database, start?: string) {
    const session = withSession.call(this, start);
    const { prepare, batch } = session;
    return Object.assign(session, {
      prepare: (text: string) => checking(prepare.call(session, text), text),
      batch: async (statements: D1PreparedStatement[]) => {
        const answers = await batch.call(session, statements);
        for (const [index, { results }] of answers.entries()) {
          const statement = statements[index];
          checkRows((statement && prepared.get(statement)) ?? "", results);
        }
        return answers;
      },
    } as unknown as Partial<D1DatabaseSession>);
  };
}
