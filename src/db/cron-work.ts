import { and, count, eq, gt, not, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { type Fault, rejectionIn, temporarilyUnavailable } from "../errors.ts";
import { DAY_MS } from "../lib/time.ts";
import type { CronCtx, CronPart, Environment, SystemCtx, TenantCtx } from "../runtime.ts";
import { findConstraint } from "./attempt.ts";
import {
  asInteger,
  assignments,
  boundLimit,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  names,
  query,
  type ValueOf,
} from "./query.ts";
import { cronFaults } from "./schema.ts";
import { timesOf } from "./settings-snapshot.ts";
import { all, batch } from "./sql.ts";

/** Counts the queries of one invocation, over all databases. */
export interface QueryBudget {
  readonly left: () => number;
  /** Counts queries before they are sent. Throws `temporarily_unavailable` if the platform would reject them. */
  readonly spend: (queries: number) => void;
}

export function queryBudget(queriesMax: number): QueryBudget {
  let left = queriesMax;
  return {
    left: () => left,
    spend: (queries) => {
      if (queries > left) throw temporarilyUnavailable("No queries are left.", undefined, "queries_exhausted");
      left -= queries;
    },
  };
}

/**
 * Returns the context of the cron's work in an environment, with the environment's time. `clock` is its test clock, as text.
 */
export function cronIn(root: SystemCtx, environment: Environment, clock: string | null): TenantCtx {
  return { ...root, ...timesOf(clock, root), environment, caller: { kind: "cron" } };
}

/** Faults that end by themselves and concern no single piece of work. The next run tries again. */
const PASSING_FAULTS: ReadonlySet<Fault> = new Set<Fault>([
  "clock_moved",
  "database_full",
  "database_overloaded",
  "database_unreachable",
  "queries_exhausted",
]);

/** Returns whether an error is a fault that ends by itself. */
export const isPassing = (error: unknown): boolean => PASSING_FAULTS.has(rejectionIn(error)?.fault ?? "contention");

/** The codes of the cron's parts whose work has pieces. */
type PartCode =
  | "clocks_not_run"
  | "erasures_not_continued"
  | "expiries_not_found"
  | "holds_not_returned"
  | "payments_not_told"
  | "periods_not_granted"
  | "statements_not_made"
  | "usage_not_summed";

/** A piece of work of the cron's part `part`: an account, an environment, an erasure or a statement. */
export interface Piece {
  readonly part: PartCode;
  readonly environmentId: number;
  /** Its id, which is unique in the database. */
  readonly subject: string | number;
  /** Whether its last attempt failed. */
  readonly hasFailed: 0 | 1;
}

const ofPiece = (part: PartCode, subject: SQL | SQLiteColumn) =>
  and(eq(cronFaults.part, part), sql`${cronFaults.subject} = CAST(${subject} AS TEXT)`);

/** Returns a condition: the last attempt at a piece of work has not failed, or its pause has ended at the real time `realMs`. */
export const mayTry = (part: PartCode, value: ValueOf<{ realMs: number }>, subject: SQL | SQLiteColumn): SQL =>
  not(hasRow(cronFaults, and(ofPiece(part, subject), gt(cronFaults.retryAtMs, value("realMs")))));

/** SQL: whether the last attempt at a piece of work failed. */
export const hasFailed = (part: PartCode, subject: SQL | SQLiteColumn) =>
  sql<0 | 1>`${hasRow(cronFaults, ofPiece(part, subject))}`;

type PieceKey = { part: string; subject: string };
const isPiece = (value: ValueOf<PieceKey>) =>
  and(eq(cronFaults.part, value("part")), eq(cronFaults.subject, value("subject")));

const selectFault = query((value: ValueOf<PieceKey>) =>
  drizzle.select(fields(cronFaults, "kind")).from(cronFaults).where(isPiece(value)),
);
const deleteFault = query((value: ValueOf<PieceKey>) => drizzle.delete(cronFaults).where(isPiece(value)));

/** The pause doubles from two minutes to an hour and four minutes. */
const PAUSE_DOUBLINGS_MAX = 6;
const noteFault = query((value: ValueOf<PieceKey & { environmentId: number; kind: string; nowMs: number }>) => {
  const { part, subject, environmentId, kind, tries, failedAtMs } = cronFaults;
  const nowMs = asInteger(value("nowMs"));
  const pauseAfter = (count: SQL) => sql`${nowMs} + (60000 << min(${count}, ${PAUSE_DOUBLINGS_MAX}))`;
  const insert = insertFrom(
    cronFaults,
    {
      part: value("part"),
      subject: value("subject"),
      environmentId: asInteger(value("environmentId")),
      kind: value("kind"),
      tries: sql`1`,
      failedAtMs: nowMs,
      retryAtMs: pauseAfter(sql`1`),
    },
    sql`WHERE true`,
  );
  const again = assignments(cronFaults, {
    environmentId: sql`excluded.${names(environmentId)}`,
    kind: sql`excluded.${names(kind)}`,
    tries: sql`${tries} + 1`,
    failedAtMs: sql`excluded.${names(failedAtMs)}`,
    retryAtMs: pauseAfter(sql`${tries} + 1`),
  });
  return sql`${insert} ON CONFLICT (${names(part, subject)}) DO UPDATE SET ${again}`;
});

/** Returns the kind of a failure, for the log: a message could contain a user's id. */
const failureKind = (error: unknown): string => rejectionIn(error)?.code ?? findConstraint(error) ?? "unknown";

/** Logs only the kinds of failures of a part. */
export function reportFailures(code: string, failures: readonly unknown[]): void {
  if (failures.length === 0) return;
  console.error(JSON.stringify({ level: "error", code, kinds: [...new Set(failures.map(failureKind))] }));
}

/**
 * Does one piece of the cron's work. If it fails, sets it aside: the next attempts come after growing pauses, and everything else
 * goes on. Returns the errors to log: a failure is logged once, until it succeeds or fails for another reason.
 */
export async function tryPiece(
  { db, now }: Pick<SystemCtx, "db" | "now">,
  { part, environmentId, subject: id, hasFailed }: Piece,
  work: () => Promise<unknown>,
): Promise<unknown[]> {
  const subject = String(id);
  try {
    await work();
    if (hasFailed === 1) await batch(db, [deleteFault({ part, subject })]);
    return [];
  } catch (error) {
    if (isPassing(error)) return [error];
    const kind = failureKind(error);
    try {
      const [before] = await batch(db, [
        selectFault({ part, subject }),
        noteFault({ part, subject, environmentId, kind, nowMs: now() }),
      ] as const);
      return before[0]?.kind === kind ? [] : [error];
    } catch (fault) {
      return [error, fault];
    }
  }
}

/** Works on each row in turn, by `tryPiece`, while at least `queries` queries are left. Returns the errors to log. */
export async function workOnEach<Row>(
  root: CronCtx,
  rows: readonly Row[],
  { queries, pieceOf }: { readonly queries: number; readonly pieceOf: (row: Row) => Piece },
  work: (row: Row) => Promise<unknown>,
): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const row of rows) {
    if (!root.allowance.has(queries)) break;
    failures.push(...(await tryPiece(root, pieceOf(row), () => work(row))));
  }
  return failures;
}

const selectFaultCount = query((value: ValueOf<{ environmentId: number; limit: number }>) => {
  const ofEnvironment = drizzle
    .select(fields(cronFaults, "failedAtMs"))
    .from(cronFaults)
    .where(eq(cronFaults.environmentId, value("environmentId")))
    .limit(boundLimit(value("limit")));
  return drizzle.select(computed({ count: count() })).from(sql`${ofEnvironment}`);
});

/** The most pieces of work that are counted. */
export const COUNTED_FAULTS_MAX = 100;

/** Returns how many pieces of the cron's work failed in an environment and are tried again, at most one more than `COUNTED_FAULTS_MAX`. */
export async function countFaults({ db, environment }: TenantCtx): Promise<number> {
  const [row] = await all(db, selectFaultCount({ environmentId: environment.id, limit: COUNTED_FAULTS_MAX + 1 }));
  return row?.count ?? 0;
}

/** How long after its pause a fault is kept, if nothing tries again, for example because the user's next write did the work. */
const FAULT_KEPT_MS = DAY_MS;
const FAULTS_A_RUN_MAX = 500;
const deleteOldFaults = query((value: ValueOf<{ beforeMs: number }>) => {
  const { part, subject, retryAtMs } = cronFaults;
  return drizzle.delete(cronFaults).where(
    sql`(${names(part, subject)}) IN (
      SELECT ${part}, ${subject} FROM ${cronFaults} INDEXED BY cron_faults_retry
      WHERE ${retryAtMs} < ${value("beforeMs")} LIMIT ${FAULTS_A_RUN_MAX}
    )`,
  );
});

export const oldFaultsPart: CronPart = {
  code: "faults_not_deleted",
  weight: 1,
  queriesOfStep: 1,
  work: async ({ db, now }) => {
    await batch(db, [deleteOldFaults({ beforeMs: now() - FAULT_KEPT_MS })]);
    return [];
  },
};
