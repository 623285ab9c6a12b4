import { timesOf } from "../../db/clock.ts";
import { constraintOf } from "../../db/constraint.ts";
import { all, batch, fragment, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import type { CronCtx, CronPart, Environment, TenantCtx } from "../../runtime.ts";
import type { MessageType } from "../../webhooks/message.ts";
import { deliveryTimes, type Outgoing, wantedMessages } from "../../webhooks/outbox.ts";
import { ALERT_TYPES, deliverOwn, endpointsByType, keepGoneOff } from "../ledger/judge-alerts.ts";
import { advance, goOffByExpiries, guardPage, insertNotices, type Page, startOf } from "./expiry-page.ts";

/** Of each database. A page has up to 1,000 balances. */
const PAGES_A_RUN_MAX = 16;
const QUERIES_A_PAGE = 8;

type Due = Omit<Environment, "database"> & { features: string | null; momentMs: number } & Omit<
    Page,
    "environmentId" | "nowMs"
  >;

/**
 * From where each count of days goes on, and the first balance from there whose moment is at `untilMs` at the latest. The moment
 * that is longest past comes first. `first` and `e` are SQL: conditions of the environment's row for the expiry, and of its own.
 */
const dueSql = (first: string, e: string) => fragment`
  SELECT e.id AS "id", e.app_id AS "appId", e.mode AS "mode", e.features AS "features", s.days AS "days",
    s.at_ms AS "doneMs", s.account_id AS "doneAccountId", s.grant_seq AS "doneSeq", s.from_ms AS "fromMs",
    x.expires_at_ms - s.days * 86400000 AS "momentMs"
  FROM (
    SELECT n.environment_id, n.days, n.done_expires_at_ms AS at_ms, n.done_account_id AS account_id,
      n.done_grant_seq AS grant_seq,
      max(max(n.since_ms, first.since_ms) + n.days * 86400000, iif(n.days = 0, 0, ${nowMsSql} + 1)) AS from_ms
    FROM expiry_notices AS first CROSS JOIN expiry_notices AS n ON n.environment_id = first.environment_id
    WHERE first.days = 0 AND ${first}
  ) AS s
  CROSS JOIN balance_expiries AS x ON x.environment_id = s.environment_id AND (x.expires_at_ms, x.account_id, x.grant_seq) = (
    SELECT expires_at_ms, account_id, grant_seq FROM balance_expiries AS y
    WHERE y.environment_id = s.environment_id AND ${startOf("y", fragment`s.from_ms`, fragment`s.at_ms`, fragment`s.account_id`, fragment`s.grant_seq`)}
      AND y.expires_at_ms <= CAST(:untilMs AS INTEGER) + s.days * 86400000
    ORDER BY y.expires_at_ms, y.account_id, y.grant_seq LIMIT 1
  )
  CROSS JOIN environments AS e ON e.id = s.environment_id AND ${e}
  ORDER BY x.expires_at_ms - s.days * 86400000, s.days DESC, e.id LIMIT CAST(:limit AS INTEGER)`;

// The others have their own time (src/clocks).
const selectDue = statement<{ nowMs: number; untilMs: number; limit: number }, Due>`
  ${dueSql("1", fragment`e.features ->> '$.clock' IS NULL`)}`;

const selectNext = statement<{ environmentId: number; nowMs: number; untilMs: number; limit: number }, NextExpiry>`
  ${dueSql("first.environment_id = :environmentId", "1")}`;

/** The next page of an environment's notices, with the features by which it is told. */
export type NextExpiry = Due;

/** The query of the next moment up to `untilMs` at which an environment has something to tell, seen from `nowMs`. */
export const selectNextExpiry = (environmentId: number, nowMs: number, untilMs: number): Statement<NextExpiry> =>
  selectNext({ environmentId, nowMs, untilMs, limit: 1 });

/** Tells what is due of it, at the environment's time. */
export async function tellExpiries(
  ctx: TenantCtx,
  { id, appId: _, mode: __, features, momentMs: ___, ...page }: NextExpiry,
): Promise<void> {
  await findPage(ctx, features, { ...page, environmentId: id, nowMs: ctx.now() });
}

/**
 * Finds the balances that expire, and those that do so in some days: tells of them (H6), and judges the alerts of what expired
 * (H5). A run looks at a bounded number; the next goes on from there. Answers the errors of pages, which take only their own down.
 */
export async function findExpiries(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const failures: unknown[] = [];
  for (let pages = PAGES_A_RUN_MAX; pages > 0; ) {
    const nowMs = root.now();
    const due = await all(db, selectDue({ nowMs, untilMs: nowMs, limit: pages }));
    if (due.length === 0) break;
    for (const { id, appId, mode, features, momentMs: _, ...page } of due) {
      if (!allowance.has(QUERIES_A_PAGE + 1)) return failures;
      const environment = { id, appId, mode, database };
      const ctx: TenantCtx = { ...root, ...timesOf(null, root), environment, caller: { kind: "cron" } };
      await findPage(ctx, features, { ...page, environmentId: id, nowMs }).catch((error: unknown) =>
        failures.push(error),
      );
      pages--;
    }
  }
  return failures;
}

export const expiriesPart: CronPart = {
  code: "expiries_not_found",
  weight: 5,
  queriesOfStep: QUERIES_A_PAGE + 2,
  work: findExpiries,
};

/** Tells of one page of an environment's balances. Where another run was faster, it does nothing. */
async function findPage(ctx: TenantCtx, features: string | null, page: Page): Promise<void> {
  const isExpiry = page.days === 0;
  const notice = { type: isExpiry ? "balance.expired" : "balance.expiring" } as const;
  const [told] = wantedMessages(ctx, features, () => [notice]);
  const alerts = wantedMessages(ctx, features, () => (isExpiry ? ALERT_TYPES : []));
  const [alert] = alerts;
  const own = (messageId: string, wanted: readonly Outgoing<{ readonly type: MessageType }>[]) => ({
    environmentId: page.environmentId,
    messageId,
    endpoints: endpointsByType(wanted),
    ...deliveryTimes(ctx),
  });
  const notices =
    told === undefined ? [] : [insertNotices({ ...page, messageId: told.id }), deliverOwn(own(told.id, [told]))];
  const judged =
    alert === undefined
      ? []
      : [
          goOffByExpiries({ ...page, ...own(alert.id, alerts) }),
          deliverOwn(own(alert.id, alerts)),
          keepGoneOff(own(alert.id, alerts)),
        ];
  try {
    await batch(ctx.db, [guardPage({ ...page, features }), ...notices, ...judged, advance(page)]);
  } catch (error) {
    if (constraintOf(error) !== "guard_environment") throw error;
  }
}
