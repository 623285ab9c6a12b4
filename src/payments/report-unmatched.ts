import { and, eq, lte, type SQL, sql } from "drizzle-orm";
import { isConflict } from "../db/attempt.ts";
import { cronIn, hasFailed, mayTry, workOnEach } from "../db/cron-work.ts";
import {
  boundLimit,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOf,
  type ValueOf,
} from "../db/query.ts";
import { environments, paymentNames, payments } from "../db/schema.ts";
import { guardSettingsSnapshot } from "../db/settings-snapshot.ts";
import { all, batch, type Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import type { CronCtx, CronPart, TenantCtx } from "../runtime.ts";
import { messageWrites, noteMessages, wantedMessages } from "../webhooks/outbox.ts";
import { shownKey } from "./state.ts";

const PAYMENTS_A_RUN_MAX = 50;
const QUERIES_A_PAYMENT = 5;

const unmatchedFields = {
  ...fields(environments, { environmentId: "id", appId: "appId", mode: "mode", settingsSnapshot: "settingsSnapshot" }),
  ...fields(payments, "id", "version"),
  ...computed({
    // An unmatched payment has both values.
    reason: sql<string>`${payments.reason}`,
    momentMs: sql<number>`${payments.notifyAtMs}`,
    hasFailed: hasFailed("payments_not_told", payments.id),
    namesJson: sql<string>`(
      SELECT json_group_array(${paymentNames.name}) FROM ${paymentNames}
      WHERE ${paymentNames.environmentId} = ${payments.environmentId} AND ${paymentNames.paymentId} = ${payments.id}
    )`,
  }),
};
type Due = RowOf<typeof unmatchedFields>;

type Until = { nowMs: number; limit: number };
const buildDue = (value: ValueOf<Until>, ofEnvironment: SQL) =>
  drizzle
    .select(unmatchedFields)
    .from(sql`${payments} INDEXED BY payments_notify`)
    .crossJoin(environments)
    .where(and(lte(payments.notifyAtMs, value("nowMs")), eq(environments.id, payments.environmentId), ofEnvironment))
    .orderBy(payments.notifyAtMs)
    .limit(boundLimit(value("limit")));

const UNMATCHED = "payments_not_told";

// Environments with a test clock are processed by src/clocks.
const selectDue = query((value: ValueOf<Until & { realMs: number }>) =>
  buildDue(
    value,
    sql`${environments.settingsSnapshot} ->> '$.clock' IS NULL AND ${mayTry(UNMATCHED, value, payments.id)}`,
  ),
);

const selectNext = query((value: ValueOf<Until & { environmentId: number }>) =>
  buildDue(value, eq(environments.id, value("environmentId"))),
);

export type NextUnmatched = Due;

/** Selects an environment's next unmatched payment to report, up to `untilMs`. */
export const selectNextUnmatched = (environmentId: number, untilMs: number): Statement<Due> =>
  selectNext({ environmentId, nowMs: untilMs, limit: 1 });

type ReportKey = { environmentId: number; id: string; version: number };
const ofUnmatched = (value: ValueOf<ReportKey>) =>
  and(eq(payments.environmentId, value("environmentId")), eq(payments.id, value("id")));

/** Aborts the batch with `guard_payment` if the payment has changed since it was read. */
const guardVersion = query((value: ValueOf<ReportKey>) =>
  insertFrom(
    guards,
    {
      name: sql`'payment'`,
      holds: hasRow(payments, and(ofUnmatched(value), eq(payments.version, value("version")))),
    },
    sql``,
  ),
);
const markReported = query((value: ValueOf<ReportKey>) =>
  drizzle
    .update(payments)
    .set({ notifyAtMs: null, version: sql`${payments.version} + 1` })
    .where(ofUnmatched(value)),
);

/** Sends one message for each payment that has been unmatched for ten minutes (S3), for the cron. Returns errors. */
export async function reportUnmatched(root: CronCtx): Promise<readonly unknown[]> {
  const nowMs = root.now();
  const found = await all(root.db, selectDue({ nowMs, realMs: nowMs, limit: PAYMENTS_A_RUN_MAX }));
  const pieces = {
    queries: QUERIES_A_PAYMENT,
    pieceOf: ({ environmentId, id, hasFailed }: Due) =>
      ({ part: UNMATCHED, environmentId, subject: id, hasFailed }) as const,
  };
  return workOnEach(root, found, pieces, (due) => {
    const { environmentId: id, appId, mode } = due;
    return reportPayment(cronIn(root, { id, appId, mode, database: root.database }, null), due);
  });
}

export const unmatchedPart: CronPart = {
  code: UNMATCHED,
  weight: 2,
  queriesOfStep: QUERIES_A_PAYMENT + 1,
  work: reportUnmatched,
};

/** Sends the message of one payment, at the environment's time. */
export async function reportPayment(ctx: TenantCtx, due: Due): Promise<void> {
  const { environmentId, settingsSnapshot, id, version, reason } = due;
  // SQLite built this JSON.
  const data = { paymentKey: shownKey(JSON.parse(due.namesJson) as string[]), reason };
  const type = "payment.unmatched" as const;
  const messages = wantedMessages(ctx, settingsSnapshot, () => [{ type, subject: null, data }]);
  const values = { environmentId, id, version };
  try {
    await batch(ctx.db, [
      guardSettingsSnapshot({ environmentId, settingsSnapshot }),
      guardVersion(values),
      markReported(values),
      ...messageWrites(ctx, messages, ctx.now()),
    ]);
    noteMessages(ctx, messages);
  } catch (error) {
    // The payment or the settings snapshot changed since they were read. The next run tries again.
    if (!isConflict(error)) throw error;
  }
}
