import { and, eq, exists, lte, not, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { hasFailed, mayTry } from "../../db/cron-work.ts";
import {
  asInteger,
  type ColumnsOf,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  names,
  query,
  returning,
  type ValueOf,
} from "../../db/query.ts";
import {
  accounts,
  balanceExpiries,
  creditBalances,
  expiryNotices,
  reservations,
  webhookMessages,
} from "../../db/schema.ts";
import { hasSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { guards } from "../../db/views.ts";
import { amountOf } from "../amounts/amount-sql.ts";
import { insertFiredAlerts } from "../ledger/alert-writes.ts";
import { isOpen } from "../ledger/hold.ts";
import { found, noChange } from "../ledger/watched.ts";

const PAGE_MAX = 1_000;

/** A page of an environment's balances that expire in `days` days, with its start position and the time. */
export type ExpiryPage = {
  environmentId: number;
  days: number;
  /** Balances that expire before this moment are not in the page. */
  fromMs: number;
  doneMs: number;
  doneAccountId: number;
  doneSeq: number;
  nowMs: number;
  /** The real time, by which failed periods are tried again. */
  realMs: number;
};

interface PagePosition {
  readonly fromMs: SQL | SQLiteColumn;
  readonly doneMs: SQL | SQLiteColumn;
  readonly doneAccountId: SQL | SQLiteColumn;
  readonly doneSeq: SQL | SQLiteColumn;
}

/**
 * Returns a condition: a row of `balanceExpiries` comes after the finished rows, and expires at or after `fromMs`. The condition is
 * one range of the key.
 */
export const isAfter = (
  row: Pick<ColumnsOf<typeof balanceExpiries>, "expiresAtMs" | "accountId" | "grantSeq">,
  { fromMs, doneMs, doneAccountId, doneSeq }: PagePosition,
): SQL => sql`(${row.expiresAtMs}, ${row.accountId}, ${row.grantSeq}) > (
  max(${doneMs}, ${fromMs} - 1), iif(${fromMs} > ${doneMs}, 9007199254740991, ${doneAccountId}), ${doneSeq}
)`;

/** Returns how long before its expiry a balance of the page gets its notice. */
const leadMs = (value: ValueOf<ExpiryPage>) => sql`${asInteger(value("days"))} * 86400000`;

/** Selects the rows of the page, the first to expire first. */
function selectExpiryPage(value: ValueOf<ExpiryPage>): SQL {
  const { environmentId, expiresAtMs, accountId, grantSeq } = balanceExpiries;
  const start = {
    fromMs: asInteger(value("fromMs")),
    doneMs: asInteger(value("doneMs")),
    doneAccountId: asInteger(value("doneAccountId")),
    doneSeq: asInteger(value("doneSeq")),
  };
  return sql`SELECT * FROM ${balanceExpiries}
    WHERE ${environmentId} = ${value("environmentId")} AND ${isAfter(balanceExpiries, start)}
      AND ${expiresAtMs} <= ${asInteger(value("nowMs"))} + ${leadMs(value)}
    ORDER BY ${expiresAtMs}, ${accountId}, ${grantSeq} LIMIT ${PAGE_MAX}`;
}

const expiryPage = alias(balanceExpiries, "page");

/** Selects the last row of the page; no row if the page is empty. */
const lastOfPage = (
  rows: SQL,
) => sql`SELECT ${expiryPage.expiresAtMs}, ${expiryPage.accountId}, ${expiryPage.grantSeq} FROM ${rows}
  ORDER BY ${expiryPage.expiresAtMs} DESC, ${expiryPage.accountId} DESC, ${expiryPage.grantSeq} DESC LIMIT 1`;

/**
 * Selects the balances of the page that are not revoked. Omits users who are being erased, because no message may mention them
 * (E6).
 */
const fromPage = (rows: SQL) => sql`FROM ${rows}
  CROSS JOIN ${creditBalances} ON ${creditBalances.accountId} = ${expiryPage.accountId}
    AND ${creditBalances.grantSeq} = ${expiryPage.grantSeq} AND ${creditBalances.revokedAtMs} IS NULL
  CROSS JOIN ${accounts} ON ${accounts.id} = ${creditBalances.accountId} AND ${accounts.isErased} = 0`;

const ofNotice = (value: ValueOf<ExpiryPage>) =>
  and(eq(expiryNotices.environmentId, value("environmentId")), eq(expiryNotices.days, value("days")));
const { doneExpiresAtMs, doneAccountId, doneGrantSeq } = expiryNotices;

/** Selects the users of the page's expired balances whose next period has begun but is not granted yet. */
const usersWithDuePeriods = (value: ValueOf<ExpiryPage>) =>
  drizzle
    .selectDistinct({
      ...fields(accounts, { accountId: "id" }),
      ...computed({ hasFailed: hasFailed("periods_not_granted", accounts.id) }),
    })
    .from(sql`(${selectExpiryPage(value)}) AS ${expiryPage}`)
    .crossJoin(accounts)
    .where(
      and(
        sql`${value("days")} = 0`,
        eq(accounts.id, expiryPage.accountId),
        lte(accounts.recurringDueAtMs, value("nowMs")),
        eq(accounts.isErased, 0),
        // Nobody waits for a user whose periods cannot be granted.
        mayTry("periods_not_granted", value, accounts.id),
      ),
    );

const USERS_DUE_MAX = 50;

/** Selects some users whose due periods must be granted before the page is processed (R3). */
export const selectUsersToGrant = query((value: ValueOf<ExpiryPage>) =>
  usersWithDuePeriods(value).limit(USERS_DUE_MAX),
);

/**
 * Aborts the batch with `guard_environment` if another run processed the page, or if the settings snapshot changed. If `awaitsPeriods` is 1,
 * also aborts if a user of the page has a due period, because alerts are evaluated after due periods (R3).
 */
export const guardPage = query(
  (value: ValueOf<ExpiryPage & { settingsSnapshot: string | null; awaitsPeriods: 0 | 1 }>) => {
    const isWaiting = sql`(${value("awaitsPeriods")} = 1 AND ${exists(usersWithDuePeriods(value))})`;
    const isDone = sql`(${doneExpiresAtMs}, ${doneAccountId}, ${doneGrantSeq})
    = (${value("doneMs")}, ${value("doneAccountId")}, ${value("doneSeq")})`;
    const holds = and(hasSettingsSnapshot(value), hasRow(expiryNotices, and(ofNotice(value), isDone)), not(isWaiting));
    return insertFrom(guards, { name: sql`'environment'`, holds: sql`${holds}` }, sql``);
  },
);

/** Moves the position past the page. */
export const advance = query(
  (value: ValueOf<ExpiryPage>) => sql`UPDATE ${expiryNotices}
    SET (${names(doneExpiresAtMs, doneAccountId, doneGrantSeq)}) = (${lastOfPage(sql`(${selectExpiryPage(value)}) AS ${expiryPage}`)})
    WHERE ${ofNotice(value)} AND EXISTS (${selectExpiryPage(value)})`,
);

const smaller = alias(expiryNotices, "smaller");
const firstBalance = alias(expiryNotices, "first");

/** Returns a condition: a notice with fewer days is also due and may be sent. Then only that notice is sent (H6). */
const isSmallerDue = (value: ValueOf<ExpiryPage>) => sql`EXISTS (
  SELECT 1 FROM ${expiryNotices} AS ${smaller} CROSS JOIN ${expiryNotices} AS ${firstBalance}
    ON ${firstBalance.environmentId} = ${smaller.environmentId} AND ${firstBalance.days} = 0
  WHERE ${smaller.environmentId} = ${value("environmentId")}
    AND ${smaller.days} > 0 AND ${smaller.days} < ${value("days")}
    AND ${expiryPage.expiresAtMs} - ${smaller.days} * 86400000
      BETWEEN max(${smaller.sinceMs}, ${firstBalance.sinceMs}) AND ${asInteger(value("nowMs"))}
)`;

/** Writes the notices of the page, for balances that are not empty and were granted before the notice was due. */
export const insertNotices = query((value: ValueOf<ExpiryPage & { messageId: string }>) => {
  const { id, packId, unit, remainingMinor, hasRemaining, grantedAtMs } = creditBalances;
  const { expiresAtMs, accountId, grantSeq } = expiryPage;
  const isExpiry = sql`${value("days")} = 0`;
  const expiresAt = sql`strftime('%Y-%m-%dT%H:%M:%S', ${expiresAtMs} / 1000, 'unixepoch')
    || printf('.%03dZ', ${expiresAtMs} % 1000)`;
  const insert = insertFrom(
    webhookMessages,
    {
      id: sql`${value("messageId")}
        || printf('%06d', row_number() OVER (ORDER BY ${expiresAtMs}, ${accountId}, ${grantSeq}))`,
      environmentId: accounts.environmentId,
      type: sql`iif(${isExpiry}, 'balance.expired', 'balance.expiring')`,
      atMs: asInteger(value("nowMs")),
      subject: accounts.userId,
      data: sql`json_patch(json_object(
        'userId', ${accounts.userId}, 'balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit},
        'remaining', ${amountOf(remainingMinor, unit)}, 'expiresAt', ${expiresAt}
      ), iif(${isExpiry}, '{}', json_object('days', ${asInteger(value("days"))})))`,
    },
    sql`${fromPage(sql`(${selectExpiryPage(value)}) AS ${expiryPage}`)}
      WHERE ${hasRemaining} = 1 AND ${grantedAtMs} <= ${expiresAtMs} - ${leadMs(value)} AND NOT ${isSmallerDue(value)}`,
  );
  return returning(fields(webhookMessages, "id"), (list) => sql`${insert} RETURNING ${list}`);
});

/** Writes the messages of alerts that fire because the balances of the page expired (H5). */
export const insertAlertsOfExpiries = query((value: ValueOf<ExpiryPage & { messageId: string; endpoints: string }>) => {
  const { accountId, hasRemaining } = creditBalances;
  const hasHold = hasRow(reservations, and(eq(reservations.accountId, accountId), isOpen()));
  // The users of balances that expired with a remaining or a held amount.
  const watched = sql`SELECT DISTINCT ${accountId} ${fromPage(sql`${expiryPage}`)} WHERE ${hasRemaining} = 1 OR ${hasHold}`;
  return insertFiredAlerts(value, {
    from: sql`${expiryPage} AS MATERIALIZED (${selectExpiryPage(value)}), watched (account) AS MATERIALIZED (${watched}), ${noChange}`,
    expiresNow: sql`(${found.expiresAtMs}, ${found.accountId}, ${found.grantSeq}) <= (${lastOfPage(sql`${expiryPage}`)})`,
  });
});
