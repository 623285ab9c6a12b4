import { eq } from "drizzle-orm";
import { clockOf, guardClock, readClock, type TestClock, timesOf } from "../db/clock.ts";
import { constraintOf } from "../db/constraint.ts";
import { changeFeature } from "../db/features.ts";
import { computed, drizzle, query, type ValueOf } from "../db/query.ts";
import { environments } from "../db/schema.ts";
import { all, batch, type Statement } from "../db/sql.ts";
import { refusalIn } from "../errors.ts";
import type { Allowance, Environment, SystemCtx, TenantCtx } from "../runtime.ts";
import { type Due, findNextDue, settleDue } from "./next-due.ts";

/** What a step takes, as a rule, with the messages that it sends. */
export const QUERIES_A_STEP = 20;

const mayStep = ({ now }: Pick<SystemCtx, "now">, { has, untilMs }: Allowance): boolean =>
  now() < untilMs && has(QUERIES_A_STEP);

const selectClock = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(computed({ clock: clockOf() }))
    .from(environments)
    .where(eq(environments.id, value("environmentId"))),
);

/** The statements that set a test clock, once, where it still is `before`. Else the batch aborts with `guard_environment`. */
export function clockWrites(environmentId: number, before: string | null, after: TestClock | null): Statement[] {
  return [guardClock({ environmentId, clock: before }), changeFeature(environmentId, "clock", after)];
}

/**
 * Moves an environment's test clock on to the time that it was set to (D3), from moment to moment: what is due at each is done
 * before the next is reached. It may be cut anywhere, and several may do it at once: each step is a batch of its own. Answers
 * whether the clock runs again.
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
    await unlessFaster(() => step(tenantOf(root, environment, clock), readClock(clock)));
  }
}

/** Does the first thing that is due, else goes to the next moment at which something is, else has the clock run. */
async function step(ctx: TenantCtx, clock: TestClock): Promise<void> {
  const { setMs, aheadMs } = clock;
  const due = await findNextDue(ctx, setMs);
  if (due !== null && isDueAt(due, ctx.now())) return settleDue(ctx, due);
  const after: TestClock =
    due === null ? { aheadMs: Math.max(aheadMs, setMs - ctx.realNow()), setMs } : { ...clock, atMs: due.momentMs };
  await batch(ctx.db, clockWrites(ctx.environment.id, ctx.clock, after));
}

const isDueAt = ({ momentMs }: Due, atMs: number): boolean => momentMs <= atMs;

/** Does what is due in an environment whose clock runs. */
export async function settleAllDue(
  root: SystemCtx,
  environment: Environment,
  clock: string,
  allowance: Allowance,
): Promise<void> {
  const ctx = tenantOf(root, environment, clock);
  while (mayStep(root, allowance)) {
    const due = await findNextDue(ctx, ctx.now());
    if (due === null) return;
    await unlessFaster(() => settleDue(ctx, due));
  }
}

function tenantOf(root: SystemCtx, environment: Environment, clock: string): TenantCtx {
  return { ...root, ...timesOf(clock, root), environment, caller: { kind: "cron" } };
}

/** Where somebody else moved the clock on meanwhile, it is looked at again. */
async function unlessFaster(step: () => Promise<void>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (constraintOf(error) !== "guard_environment" && refusalIn(error)?.fault !== "clock_moved") throw error;
  }
}
