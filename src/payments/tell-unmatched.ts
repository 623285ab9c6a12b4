import { timesOf } from "../db/clock.ts";
import { constraintOf } from "../db/constraint.ts";
import { guardFeatures } from "../db/features.ts";
import { all, batch, fragment, nowMsSql, type Statement, statement } from "../db/sql.ts";
import type { CronCtx, CronPart, Mode, TenantCtx } from "../runtime.ts";
import { messageWrites, noteMessages, wantedMessages } from "../webhooks/outbox.ts";
import { shownKey } from "./state.ts";

const PAYMENTS_A_RUN_MAX = 50;
const QUERIES_A_PAYMENT = 5;

interface Due {
  readonly environmentId: number;
  readonly appId: string;
  readonly mode: Mode;
  readonly features: string | null;
  readonly id: string;
  readonly reason: string;
  readonly version: number;
  readonly names: string;
  readonly momentMs: number;
}

const dueSql = (e: string) => fragment`
  SELECT e.id AS environmentId, e.app_id AS appId, e.mode AS mode, e.features AS features, p.id AS id, p.reason AS reason,
    p.version AS version, p.tell_at_ms AS momentMs, (
      SELECT json_group_array(name) FROM payment_names WHERE environment_id = e.id AND payment_id = p.id
    ) AS names
  FROM payments AS p INDEXED BY payments_tell CROSS JOIN environments AS e ON e.id = p.environment_id AND ${e}
  WHERE p.tell_at_ms <= ${nowMsSql} ORDER BY p.tell_at_ms LIMIT :limit`;

// The others have their own time (src/clocks).
const selectDue = statement<
  { nowMs: number; limit: number },
  Due
>`${dueSql(fragment`e.features ->> '$.clock' IS NULL`)}`;

const selectNext = statement<{ environmentId: number; nowMs: number; limit: number }, Due>`
  ${dueSql("e.id = :environmentId")}`;

export type NextUnmatched = Due;

/** The query of an environment's next payment that is to be told of, up to `untilMs`. */
export const selectNextUnmatched = (environmentId: number, untilMs: number): Statement<Due> =>
  selectNext({ environmentId, nowMs: untilMs, limit: 1 });

type Told = { environmentId: number; id: string; version: number };
/** Aborts the batch with `guard_payment` where the payment moved meanwhile. */
const guardVersion = statement<Told>`
  INSERT INTO guards (name, holds) SELECT 'payment', EXISTS (
    SELECT 1 FROM payments WHERE environment_id = :environmentId AND id = :id AND version = :version
  )`;
const updateTold = statement<Told>`
  UPDATE payments SET tell_at_ms = NULL, version = version + 1 WHERE environment_id = :environmentId AND id = :id`;

/** Tells once of each payment that has been unmatched for ten minutes (S3), for the cron. Returns errors. */
export async function tellUnmatched(root: CronCtx): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  const nowMs = root.now();
  for (const due of await all(root.db, selectDue({ nowMs, limit: PAYMENTS_A_RUN_MAX }))) {
    if (!root.allowance.has(QUERIES_A_PAYMENT)) break;
    const { environmentId: id, appId, mode } = due;
    const environment = { id, appId, mode, database: root.database };
    await tellOne({ ...root, ...timesOf(null, root), environment, caller: { kind: "cron" } }, due).catch((error) =>
      failures.push(error),
    );
  }
  return failures;
}

export const unmatchedPart: CronPart = {
  code: "payments_not_told",
  weight: 2,
  queriesOfStep: QUERIES_A_PAYMENT + 1,
  work: tellUnmatched,
};

/** Tells of one, at the environment's time. */
export async function tellOne(ctx: TenantCtx, due: Due): Promise<void> {
  const { environmentId, features, id, version, reason } = due;
  // SQLite made this list.
  const data = { paymentKey: shownKey(JSON.parse(due.names) as string[]), reason };
  const type = "payment.unmatched" as const;
  const messages = wantedMessages(ctx, features, () => [{ type, subject: null, data }]);
  const values = { environmentId, id, version };
  try {
    await batch(ctx.db, [
      guardFeatures({ environmentId, features }),
      guardVersion(values),
      updateTold(values),
      ...messageWrites(ctx, messages, ctx.now()),
    ]);
    noteMessages(ctx, messages);
  } catch (error) {
    const constraint = constraintOf(error);
    // Something moved meanwhile. The next run looks again.
    if (constraint !== "guard_payment" && constraint !== "guard_environment") throw error;
  }
}
