import { and, eq, sql } from "drizzle-orm";
import { type NextExpiry, selectNextExpiry, sendNotices } from "../books/alerts/find-expiries.ts";
import { settleDueHolds } from "../books/ledger/write.ts";
import { type NextPeriod, selectNextPeriod } from "../books/recurring/grant-due.ts";
import { type NextHold, selectNextHold } from "../books/usage/expire.ts";
import { isConflict } from "../db/attempt.ts";
import { cronIn, hasFailed, isPassing, mayTry, reportFailures, tryPiece, workOnEach } from "../db/cron-work.ts";
import { asInteger, boundLimit, computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { environments } from "../db/schema.ts";
import { changeFeature, clockOf, guardClock, readClock, type TestClock } from "../db/settings-snapshot.ts";
import { all, batch, type Statement, type StatementRow } from "../db/sql.ts";
import { rejectionIn } from "../errors.ts";
import { MINUTE_MS } from "../lib/time.ts";
import { type NextUnmatched, reportPayment, selectNextUnmatched } from "../payments/report-unmatched.ts";
import type { Allowance, CronCtx, CronPart, Environment, SystemCtx, TenantCtx } from "../runtime.ts";

/**
 * An event that is due in an environment: a period begins, a hold ends, a balance expires or soon expires, a payment is still
 * unmatched.
 */
export type DueEvent =
  | { readonly kind: "period"; readonly momentMs: number; readonly row: NextPeriod }
  | { readonly kind: "hold"; readonly momentMs: number; readonly row: NextHold }
  | { readonly kind: "expiry"; readonly momentMs: number; readonly row: NextExpiry }
  | { readonly kind: "unmatched"; readonly momentMs: number; readonly row: NextUnmatched };

/**
 * Returns the next due event up to `untilMs`, or null. At equal times periods come first, then holds, so that notices include
 * returned holds.
 */
async function findNextDue(ctx: TenantCtx, untilMs: number): Promise<DueEvent | null> {
  const { id } = ctx.environment;
  const [[period], [hold], [expiry], [unmatched]] = await batch(ctx.db, [
    selectNextPeriod(id, ctx.realNow(), untilMs),
    selectNextHold(id, ctx.realNow(), untilMs),
    selectNextExpiry(id, ctx.now(), untilMs),
    selectNextUnmatched(id, untilMs),
  ] as const);
  const dueEvents: DueEvent[] = [];
  if (period !== undefined) dueEvents.push({ kind: "period", momentMs: period.momentMs, row: period });
  if (hold !== undefined) dueEvents.push({ kind: "hold", momentMs: hold.momentMs, row: hold });
  if (expiry !== undefined) dueEvents.push({ kind: "expiry", momentMs: expiry.momentMs, row: expiry });
  if (unmatched !== undefined) dueEvents.push({ kind: "unmatched", momentMs: unmatched.momentMs, row: unmatched });
  return dueEvents.toSorted((a, b) => a.momentMs - b.momentMs)[0] ?? null;
}

/**
 * Processes a due event at the environment's time. It does nothing if another call has processed it. A user whose write fails is set
 * aside, so that the clock goes on without what is due for this user.
 */
async function processDue(ctx: TenantCtx, due: DueEvent): Promise<void> {
  if (due.kind === "expiry") return reportFailures("expiries_not_found", await sendNotices(ctx, due.row));
  if (due.kind === "unmatched") return reportPayment(ctx, due.row);
  const part = due.kind === "hold" ? "holds_not_returned" : "periods_not_granted";
  const { accountId, hasFailed } = due.row;
  const piece = { part, environmentId: ctx.environment.id, subject: accountId, hasFailed } as const;
  const errors = await tryPiece({ db: ctx.db, now: ctx.realNow }, piece, () => settleDueHolds(ctx, { accountId }));
  // Nobody was set aside.
  if (errors.some(isPassing)) throw errors[0];
  reportFailures(part, errors);
}

/** How many queries a step usually takes, including its messages. */
const QUERIES_A_STEP = 20;

const mayStep = ({ now }: Pick<SystemCtx, "now">, { has, untilMs }: Allowance): boolean =>
  now() < untilMs && has(QUERIES_A_STEP);

const selectClock = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(computed({ clock: clockOf() }))
    .from(environments)
    .where(eq(environments.id, value("environmentId"))),
);

/**
 * Returns statements that change a test clock from `before` to `after`. The batch aborts with `guard_environment` if the
 * clock is another one.
 */
export function clockWrites(environmentId: number, before: string | null, after: TestClock | null): Statement[] {
  return [guardClock({ environmentId, clock: before }), changeFeature(environmentId, "clock", after)];
}

/**
 * Advances an environment's test clock to the time that was set (D3), step by step: all events due at one moment are
 * processed before the events of the next. Each step is one batch, so calls may be interrupted and may run at the same time.
 * Returns `ready` when the clock runs again.
 */
export async function advanceClock(
  root: SystemCtx,
  environment: Environment,
  allowance: Allowance,
): Promise<"advancing" | "ready"> {
  for (;;) {
    const [row] = await all(root.db, selectClock({ environmentId: environment.id }));
    const clock = row?.clock ?? null;
    if (clock === null || readClock(clock).atMs === undefined) return "ready";
    if (!mayStep(root, allowance)) return "advancing";
    await ignoreConflict(() => advanceOneStep(cronIn(root, environment, clock), readClock(clock)));
  }
}

/**
 * Processes the first due event. If none is due, moves the clock to the next event. If there is no next event, lets the clock
 * run.
 */
async function advanceOneStep(ctx: TenantCtx, clock: TestClock): Promise<void> {
  const { atMs: _, ...running } = clock;
  const { setMs, aheadMs } = running;
  const due = await findNextDue(ctx, setMs);
  if (due !== null && isDueAt(due, ctx.now())) return processDue(ctx, due);
  const after: TestClock =
    due === null
      ? { ...running, aheadMs: Math.max(aheadMs, setMs - ctx.realNow()) }
      : { ...running, atMs: due.momentMs };
  await batch(ctx.db, clockWrites(ctx.environment.id, ctx.clock, after));
}

const isDueAt = ({ momentMs }: DueEvent, atMs: number): boolean => momentMs <= atMs;

/** Processes all due events of an environment whose clock runs. */
async function processAllDue(
  root: SystemCtx,
  environment: Environment,
  clock: string,
  allowance: Allowance,
): Promise<void> {
  const ctx = cronIn(root, environment, clock);
  while (mayStep(root, allowance)) {
    const due = await findNextDue(ctx, ctx.now());
    if (due === null) return;
    await ignoreConflict(() => processDue(ctx, due));
  }
}

/** Ignores a conflict with another call that advanced the clock. The caller then reads the clock again. */
async function ignoreConflict(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isConflict(error) && rejectionIn(error)?.fault !== "clock_moved") throw error;
  }
}

const CLOCKS = "clocks_not_run";
const CLOCKS_A_RUN_MAX = 100;

/**
 * The environments with a test clock. First those whose clock is being advanced, then the others in an order that changes
 * with each run.
 */
const selectEnvironmentsWithClock = query((value: ValueOf<{ run: number; realMs: number; limit: number }>) => {
  const { id, settingsSnapshot } = environments;
  return drizzle
    .select({
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: sql<string>`${clockOf()}`, hasFailed: hasFailed(CLOCKS, id) }),
    })
    .from(sql`${environments} INDEXED BY environments_clock`)
    .where(and(sql`${settingsSnapshot} ->> '$.clock' IS NOT NULL`, mayTry(CLOCKS, value, id)))
    .orderBy(
      sql`${settingsSnapshot} ->> '$.clock.atMs' IS NULL`,
      sql`(${id} + ${asInteger(value("run"))}) * 104729 % 15485863`,
    )
    .limit(boundLimit(value("limit")));
});

type EnvironmentWithClock = StatementRow<typeof selectEnvironmentsWithClock>;

/**
 * Continues test clocks that are being advanced, and processes due events of environments whose clock runs (D3). Returns errors: an
 * error stops the work only in its own environment.
 */
async function runClocks(root: CronCtx): Promise<readonly unknown[]> {
  const { allowance, database } = root;
  const run = Math.floor(root.now() / MINUTE_MS);
  const page = { run, realMs: root.now(), limit: CLOCKS_A_RUN_MAX };
  const environmentsWithClock = await all(root.db, selectEnvironmentsWithClock(page));
  const pieces = {
    queries: QUERIES_A_STEP,
    pieceOf: ({ id, hasFailed }: EnvironmentWithClock) =>
      ({ part: CLOCKS, environmentId: id, subject: id, hasFailed }) as const,
  };
  return workOnEach(root, environmentsWithClock, pieces, async ({ id, appId, mode, clock }) => {
    const environment = { id, appId, mode, database };
    const isAdvancing = readClock(clock).atMs !== undefined;
    await (isAdvancing
      ? advanceClock(root, environment, allowance)
      : processAllDue(root, environment, clock, allowance));
  });
}

export const clocksPart: CronPart = {
  code: CLOCKS,
  weight: 3,
  queriesOfStep: QUERIES_A_STEP + 2,
  work: runClocks,
};
