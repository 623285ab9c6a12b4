import type { Act } from "../../catalog/audit/audit-statement.ts";
import type { Statement } from "../../db/sql.ts";
import type { NewCount } from "./counters.ts";
import type { StateChanges } from "./memory.ts";
import type { LedgerMessage } from "./messages.ts";

/** What a verb decided about what was read. To refuse, it throws instead. */
export type Decision<Answer> = Replay<Answer> | Write<Answer>;

/** What a verb answers that may be sent again under the same id. */
export interface Outcome<Output> {
  readonly output: Output;
  /** Whether an equal request did it before, so that nothing was done now. */
  readonly replayed: boolean;
}

/** Nothing is written, because it was done before. */
interface Replay<Answer> {
  readonly kind: "replay";
  readonly answer: Answer;
}

export interface Write<Answer> {
  readonly kind: "write";
  readonly statements: readonly Statement[];
  readonly answer: (rows: readonly unknown[][]) => Answer;
  /**
   * What the audit records if the administrator does it. Then it must be present. Of `balanceIds` its details have what the last
   * entry of each says: the write's own.
   */
  readonly act?: (Omit<Act, "appId"> & { readonly balanceIds?: readonly string[] }) | undefined;
  /** What it tells the environment's endpoints, if any of them wants it (H2). In the order of its entries. */
  readonly messages?: (() => readonly LedgerMessage[]) | undefined;
  /** What usage limits count of it (Q3): the rows that it writes say so too, in `counted`. */
  readonly counts?: readonly NewCount[] | undefined;
  /** How it changes the account in this isolate's memory. If absent, the account is removed from memory. */
  readonly changes?: StateChanges | undefined;
  /** Whether credits are insufficient. This is never decided from memory, only after a read. */
  readonly isShort?: boolean | undefined;
}

export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

/** A write whose answer needs no rows, or finds them by itself among those of its statements. */
export function write<Answer>(
  statements: readonly Statement[],
  answer: Write<Answer>["answer"],
  more: Pick<Write<Answer>, "act" | "changes" | "messages"> = {},
): Decision<Answer> {
  return { ...more, kind: "write", statements, answer };
}

/** A write whose answer is made from the rows of one statement, `returning`. */
export function writeReturning<Row, Answer>(
  parts: {
    readonly before?: readonly Statement[];
    readonly returning: Statement<Row>;
    readonly after?: readonly Statement[];
  } & Pick<Write<Answer>, "act" | "changes" | "counts" | "isShort" | "messages">,
  answer: (rows: readonly Row[]) => Answer,
): Decision<Answer> {
  const { before = [], returning, after = [], ...more } = parts;
  return {
    ...more,
    kind: "write",
    statements: [...before, returning, ...after],
    // A batch returns rows in the order of its statements, and the type of this statement says what its rows are.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
  };
}
