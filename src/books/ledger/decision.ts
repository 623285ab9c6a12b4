import { sql } from "drizzle-orm";
import type { Act } from "../../catalog/audit.ts";
import { presenter, wire } from "../../db/presenter.ts";
import { creditLedger } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { fromSteps } from "../amounts/amount.ts";
import { amountJson } from "../amounts/filter-sql.ts";
import type { NewCount } from "./counters.ts";
import type { LedgerRow } from "./insert-entries.ts";
import type { StateChanges } from "./memory.ts";
import type { LedgerMessage } from "./messages.ts";

const { plain, time } = wire(creditLedger);

/** A ledger entry in a person's export. Its id combines the balance's id and the entry's seq, which are unique together. */
export const exportedEntryFields = {
  id: {
    of: ({ balanceId, seq }: Pick<LedgerRow, "balanceId" | "seq">) => `led_${balanceId.slice("crb_".length)}_${seq}`,
    json: () => sql`json_quote('led_' || substr(${creditLedger.balanceId}, 5) || '_' || ${creditLedger.seq})`,
  },
  balanceId: plain("balanceId"),
  packId: plain("packId"),
  delta: {
    of: ({ unit, deltaSteps }: Pick<LedgerRow, "unit" | "deltaSteps">) => fromSteps(unit, deltaSteps),
    json: () => amountJson(creditLedger.deltaSteps, creditLedger.unit),
  },
  unit: plain("unit"),
  reason: plain("reason"),
  cause: plain("cause"),
  eventId: plain("eventId"),
  reservationId: plain("reservationId"),
  occurredAt: time("occurredAtMs"),
  note: plain("note"),
};

/** A ledger entry as the API returns it (C16). */
export const entryFields = { ...exportedEntryFields, by: plain("writtenBy") };

export const presentEntry = presenter(entryFields);

/** A verb's decision from the rows that it read. To refuse, it throws instead. */
export type Decision<Answer> = Replay<Answer> | Write<Answer>;

/** The result of a verb that callers may repeat with the same id. */
export interface Outcome<Output> {
  readonly output: Output;
  /** Whether an equal request was processed before, so that this one changed nothing. */
  readonly replayed: boolean;
}

/** Nothing is written, because an equal request was processed before. */
interface Replay<Answer> {
  readonly kind: "replay";
  readonly answer: Answer;
}

export interface Write<Answer> {
  readonly kind: "write";
  readonly statements: readonly Statement[];
  readonly answer: (rows: readonly unknown[][]) => Answer;
  /**
   * The audit row of an administrator's call, for which it is required. Its details contain the last entry of each of `balanceIds`,
   * which this write made.
   */
  readonly act?: (Omit<Act, "appId"> & { readonly balanceIds?: readonly string[] }) | undefined;
  /** Its messages, in the order of its entries. They are sent if an endpoint wants them (H2). */
  readonly messages?: (() => readonly LedgerMessage[]) | undefined;
  /** Its amounts for usage limits (Q3). The written rows contain them too, in `counted`. */
  readonly counts?: readonly NewCount[] | undefined;
  /** Its changes to the account in this isolate's memory. If absent, the account is removed from memory. */
  readonly changes?: StateChanges | undefined;
  /** Whether credits are insufficient. This is never decided from memory, only after a read. */
  readonly isShort?: boolean | undefined;
}

export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

/** A write whose response needs no rows, or selects them from the rows of all its statements. */
export function writeAll<Answer>(
  statements: readonly Statement[],
  answer: Write<Answer>["answer"],
  more: Pick<Write<Answer>, "act" | "changes" | "messages"> = {},
): Decision<Answer> {
  return { ...more, kind: "write", statements, answer };
}

/** A write whose response is made from the rows of one statement, `returning`. */
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
    // A batch returns rows in the order of its statements, and this statement's type declares its rows.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
  };
}
