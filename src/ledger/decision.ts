import type { Act } from "../audit/audit-statement.ts";
import type { Statement } from "../db/sql.ts";
import type { StateChanges } from "./memory.ts";

/** What a verb decided, on what was read. A refusal is thrown instead. */
export type Decision<Answer> = Replay<Answer> | Write<Answer>;

/** What a verb answers that may be sent again under the same id. */
export interface Outcome<Output> {
  readonly output: Output;
  /** Whether an equal request did it before, so that nothing was done now. */
  readonly replayed: boolean;
}

/** Nothing is written: it was done before. */
interface Replay<Answer> {
  readonly kind: "replay";
  readonly answer: Answer;
}

export interface Write<Answer> {
  readonly kind: "write";
  readonly statements: readonly Statement[];
  readonly answer: (rows: readonly unknown[][]) => Answer;
  /** What the audit says of it when the administrator does it: then it may not be missing. */
  readonly act?: Omit<Act, "appId"> | undefined;
  /** What it does to what this isolate remembers of the account; absent: the account is forgotten. */
  readonly changes?: StateChanges | undefined;
  /** Whether it says that credits are missing, which is never said without reading what there is. */
  readonly isShort?: boolean | undefined;
}

export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

/** A write whose rows nobody asks for. */
export function write<Answer>(
  statements: readonly Statement[],
  answer: () => Answer,
  { act, changes }: Pick<Write<Answer>, "act" | "changes"> = {},
): Decision<Answer> {
  return { kind: "write", statements, answer, act, changes };
}

/** A write that is answered by the rows of one of its statements. */
export function writeReturning<Row, Answer>(
  parts: {
    readonly before?: readonly Statement[];
    readonly returning: Statement<Row>;
    readonly after?: readonly Statement[];
  } & Pick<Write<Answer>, "act" | "changes" | "isShort">,
  answer: (rows: readonly Row[]) => Answer,
): Decision<Answer> {
  const { before = [], answering, after = [], act, changes, isShort } = parts;
  return {
    kind: "write",
    statements: [...before, returning, ...after],
    // The rows of a batch come in the order of its statements, and this statement's type says what its are.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
    act,
    changes,
    isShort,
  };
}
