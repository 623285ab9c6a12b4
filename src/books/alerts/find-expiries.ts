import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { isConflict } from "../../db/attempt.ts";
import { cronIn, hasFailed, isPassing, mayTry, tryPiece } from "../../db/cron-work.ts";
import { asInteger, computed, fields, query, read, type ValueOf } from "../../db/query.ts";
import { balanceExpiries, environments, expiryNotices } from "../../db/schema.ts";
import { clockOf } from "../../db/settings-snapshot.ts";
import { all, batch, type Statement, type StatementRow } from "../../db/sql.ts";
import type { CronCtx, CronPart, TenantCtx } from "../../runtime.ts";
import type { MessageType } from "../../webhooks/message-data.ts";
import { deliveryTimes, noteMessages, type Outgoing, wantedMessages } from "../../webhooks/outbox.ts";
import { ALERT_TYPES, insertAlertStates } from "../ledger/alert-writes.ts";
import { deliverPrefixed, endpointsByType, messagesAmong } from "../ledger/messages.ts";
import { settleDueHolds } from "../ledger/write.ts";
import {
  advance,
  type ExpiryPage,
  guardPage,
  insertAlertsOfExpiries,
  insertNotices,
  isAfter,
  selectUsersToGrant,
} from "./expiry-page.ts";

/** How many pages of each database a run reads. A page has up to 1,000 balances. */
const EXPIRY_PAGES_A_RUN_MAX = 16;
const EXPIRY_QUERIES_A_PAGE = 8;
/** How many queries it takes to grant the due periods of a user. */
const QUERIES_A_USER_TO_GRANT = 12;
/** Each round grants 50 users, and a page has 1,000 balances. */
const GRANT_ROUNDS_MAX = 20;

const EXPIRIES = "expiries_not_found";
type ExpiriesUntil = { nowMs: number; untilMs: number; limit: number };

const firstExpiry = alias(expiryNotices, "first");
const notice = alias(expiryNotices, "notice");
/** A notice with the column `start.begin`. Balances that expire before that moment are skipped. */
const start = alias(expiryNotices, "start");
const candidate = alias(balanceExpiries, "candidate");

/**
 * Returns the query for each number of days with its position and the next balance whose notice is due by `untilMs`. The notice that
 * has been due for the longest time comes first. `isOfExpiry` is a condition on `first`, the environment's row for the expiry itself.
 */
function readDue(value: ValueOf<ExpiriesUntil>, isOfExpiry: SQL | undefined, isEnvironment: SQL | undefined) {
  const { environmentId, expiresAtMs, accountId, grantSeq } = balanceExpiries;
  const moment = sql<number>`${expiresAtMs} - ${start.days} * 86400000`;
  return read(
    {
      ...fields(environments, "id", "appId", "mode", "settingsSnapshot"),
      ...fields(start, {
        days: "days",
        doneMs: "doneExpiresAtMs",
        doneAccountId: "doneAccountId",
        doneSeq: "doneGrantSeq",
      }),
      ...computed({
        fromMs: sql<number>`start.begin`,
        momentMs: moment,
        hasFailed: hasFailed(EXPIRIES, environments.id),
      }),
    },
    (list) => sql`SELECT ${list}
      FROM (
        SELECT ${notice}.*, max(
          max(${notice.sinceMs}, ${firstExpiry.sinceMs}) + ${notice.days} * 86400000,
          iif(${notice.days} = 0, 0, ${asInteger(value("nowMs"))} + 1)
        ) AS begin
        FROM ${expiryNotices} AS ${firstExpiry} CROSS JOIN ${expiryNotices} AS ${notice}
        WHERE ${and(eq(firstExpiry.days, 0), isOfExpiry, eq(notice.environmentId, firstExpiry.environmentId))}
      ) AS ${start}
      CROSS JOIN ${balanceExpiries}
        ON ${environmentId} = ${start.environmentId} AND (${expiresAtMs}, ${accountId}, ${grantSeq}) = (
          SELECT ${candidate.expiresAtMs}, ${candidate.accountId}, ${candidate.grantSeq}
          FROM ${balanceExpiries} AS ${candidate}
          WHERE ${candidate.environmentId} = ${start.environmentId}
            AND ${isAfter(candidate, {
              fromMs: sql`start.begin`,
              doneMs: start.doneExpiresAtMs,
              doneAccountId: start.doneAccountId,
              doneSeq: start.doneGrantSeq,
            })}
            AND ${candidate.expiresAtMs} <= ${asInteger(value("untilMs"))} + ${start.days} * 86400000
          ORDER BY ${candidate.expiresAtMs}, ${candidate.accountId}, ${candidate.grantSeq} LIMIT 1
        )
      CROSS JOIN ${environments} ON ${and(eq(environments.id, start.environmentId), isEnvironment)}
      ORDER BY ${moment}, ${start.days} DESC, ${environments.id} LIMIT ${asInteger(value("limit"))}`,
  );
}

// Environments with a test clock have their own time (src/clocks).
const selectDueNotices = query((value: ValueOf<ExpiriesUntil & { realMs: number }>) =>
  readDue(value, undefined, sql`${clockOf()} IS NULL AND ${mayTry(EXPIRIES, value, environments.id)}`),
);

const selectNextNotice = query((value: ValueOf<ExpiriesUntil & { environmentId: number }>) =>
  readDue(value, eq(firstExpiry.environmentId, value("environmentId")), undefined),
);

/** The next page of an environment's notices, with the settings snapshot that decides how they are sent. */
export type NextExpiry = StatementRow<typeof selectNextNotice>;

/** Selects the next moment after `nowMs`, up to `untilMs`, at which an environment has a notice to send. */
export const selectNextExpiry = (environmentId: number, nowMs: number, untilMs: number): Statement<NextExpiry> =>
  selectNextNotice({ environmentId, nowMs, untilMs, limit: 1 });

/** Sends the due notices of a page, at the environment's time. Returns errors of users who were set aside. */
export async function sendNotices(
  ctx: TenantCtx,
  { id, appId: _, mode: __, settingsSnapshot, momentMs: ___, hasFailed: ____, ...page }: NextExpiry,
): Promise<readonly unknown[]> {
  const times = { nowMs: ctx.now(), realMs: ctx.realNow() };
  return findPage(ctx, settingsSnapshot, { ...page, environmentId: id, ...times }, () => true);
}

/**
 * Finds the balances that expire now or in some days, sends their notices (H6), and evaluates the alerts of expired balances
 * (H5). A run processes a bounded number; the next run continues. An environment whose page fails is set aside. Returns errors.
 */
export async function findExpiries(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const failures: unknown[] = [];
  for (let pages = EXPIRY_PAGES_A_RUN_MAX; pages > 0; ) {
    const nowMs = root.now();
    const due = await all(db, selectDueNotices({ nowMs, realMs: nowMs, untilMs: nowMs, limit: pages }));
    if (due.length === 0) break;
    for (const { id, appId, mode, settingsSnapshot, momentMs: _, hasFailed, ...page } of due) {
      if (!allowance.has(EXPIRY_QUERIES_A_PAGE + 1)) return failures;
      const ctx = cronIn(root, { id, appId, mode, database }, null);
      const mayGrant = () => allowance.has(QUERIES_A_USER_TO_GRANT);
      const piece = { part: EXPIRIES, environmentId: id, subject: id, hasFailed } as const;
      const times = { nowMs, realMs: nowMs };
      const work = async () => {
        failures.push(...(await findPage(ctx, settingsSnapshot, { ...page, environmentId: id, ...times }, mayGrant)));
      };
      failures.push(...(await tryPiece(root, piece, work)));
      pages--;
    }
  }
  return failures;
}

export const expiriesPart: CronPart = {
  code: EXPIRIES,
  weight: 5,
  queriesOfStep: EXPIRY_QUERIES_A_PAGE + 2,
  work: findExpiries,
};

/**
 * Sends the notices of one page of an environment's balances, after the due periods of its users (R3). Does nothing if another run
 * has processed the page. If this run may grant no more periods, it leaves the page to the next run. A user whose periods cannot be
 * granted is set aside. Returns the errors of these users.
 */
async function findPage(
  ctx: TenantCtx,
  settingsSnapshot: string | null,
  page: ExpiryPage,
  mayGrant: () => boolean,
): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  if (await sendPage(ctx, settingsSnapshot, { ...page, awaitsPeriods: 1 })) return failures;
  const real = { db: ctx.db, now: ctx.realNow };
  for (let round = 0; round < GRANT_ROUNDS_MAX; round++) {
    const users = page.days === 0 ? await all(ctx.db, selectUsersToGrant(page)) : [];
    // No period was due, so another run has processed the page.
    if (users.length === 0 && round === 0) return failures;
    if (users.length === 0) break;
    for (const { accountId, hasFailed } of users) {
      if (!mayGrant()) return failures;
      const { environmentId } = page;
      const piece = { part: "periods_not_granted", environmentId, subject: accountId, hasFailed } as const;
      const work = async () => {
        while (await settleDueHolds(ctx, { accountId }));
      };
      const errors = await tryPiece(real, piece, work);
      failures.push(...errors);
      // Nobody was set aside, so the next run continues.
      if (errors.length > 1 || errors.some(isPassing)) return failures;
    }
  }
  await sendPage(ctx, settingsSnapshot, { ...page, awaitsPeriods: 0 });
  return failures;
}

/** Returns whether the page was sent. */
async function sendPage(
  ctx: TenantCtx,
  settingsSnapshot: string | null,
  page: ExpiryPage & { readonly awaitsPeriods: 0 | 1 },
): Promise<boolean> {
  const isExpiry = page.days === 0;
  const notice = { type: isExpiry ? "balance.expired" : "balance.expiring" } as const;
  const [firstNotice] = wantedMessages(ctx, settingsSnapshot, () => [notice]);
  const alerts = wantedMessages(ctx, settingsSnapshot, () => (isExpiry ? ALERT_TYPES : []));
  const [firstAlert] = alerts;
  const deliveryOf = (messageId: string, wanted: readonly Outgoing<{ readonly type: MessageType }>[]) => ({
    environmentId: page.environmentId,
    messageId,
    endpoints: endpointsByType(wanted),
    ...deliveryTimes(ctx),
  });
  const insertedNotices = firstNotice && insertNotices({ ...page, messageId: firstNotice.id });
  const alertDelivery = firstAlert && deliveryOf(firstAlert.id, alerts);
  const insertedAlerts = alertDelivery && insertAlertsOfExpiries({ ...page, ...alertDelivery });
  const statements: Statement[] = [
    guardPage({ ...page, settingsSnapshot }),
    ...(firstNotice && insertedNotices
      ? [insertedNotices, deliverPrefixed(deliveryOf(firstNotice.id, [firstNotice]))]
      : []),
    ...(alertDelivery && insertedAlerts
      ? [insertedAlerts, deliverPrefixed(alertDelivery), insertAlertStates(alertDelivery)]
      : []),
    advance(page),
  ];
  try {
    const rows = await batch(ctx.db, statements);
    for (const returning of [insertedNotices, insertedAlerts]) {
      if (returning !== undefined) noteMessages(ctx, messagesAmong({ returning }, statements, rows));
    }
  } catch (error) {
    if (!isConflict(error)) throw error;
    return false;
  }
  return true;
}
