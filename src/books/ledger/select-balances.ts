import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { asInteger, type ColumnsOf, computed, drizzle, fields, read, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, type Steps } from "../../db/schema.ts";
import { accountQuery } from "./account.ts";
import { BALANCE_FIELDS, FIXED_FIELDS, PAYING_FIELDS, PRESENTED_FIELDS } from "./balance.ts";

type AtNow = { nowMs: number };

/** Whether a balance can pay now. It repeats the condition of the partial index, so only balances that can pay are read. */
export const isSpendable = (
  value: ValueOf<AtNow>,
  account: SQL,
  balance: Pick<ColumnsOf<typeof creditBalances>, "accountId" | "hasRemaining" | "expiresAtMs"> = creditBalances,
): SQL => sql`${balance.accountId} = ${account} AND ${balance.hasRemaining} = 1
  AND ${balance.expiresAtMs} > ${asInteger(value("nowMs"))}`;

const presented = () => drizzle.select(fields(creditBalances, ...PRESENTED_FIELDS));
const ofAccount = (account: SQL): SQL => eq(creditBalances.accountId, account);

/** The user's balances that can pay now. */
export const selectActive = accountQuery((value: ValueOf<AtNow>, account) =>
  presented().from(creditBalances).where(isSpendable(value, account)),
);

/** How many balances a list has. More could end the isolate (L6). */
export const LISTED_MAX = 40_000;

/** All balances of the user, or one more than a list has. */
export const selectAllBalances = accountQuery((_value: ValueOf<Record<never, never>>, account) =>
  presented()
    .from(creditBalances)
    .where(ofAccount(account))
    .limit(LISTED_MAX + 1),
);

type OfReference = { externalRef: string };

// The index is named, because SQLite might otherwise read all balances of the user.
const byReference = sql`${creditBalances} INDEXED BY credit_balances_external_ref`;
const isUnderReference = (value: ValueOf<OfReference>, account: SQL) =>
  and(ofAccount(account), eq(creditBalances.externalRef, value("externalRef")));

/** The user's balances under a reference. */
export const selectUnderReference = accountQuery((value: ValueOf<OfReference>, account) =>
  presented().from(byReference).where(isUnderReference(value, account)),
);

type AsOf = { asOfMs: number };

/**
 * Balances as they were at a moment: each goes back along its own entries to the last one up to then. That entry says whether it was
 * revoked; the balance says it of now alone, and a payment may have restored it since.
 */
function asOf(value: ValueOf<AsOf>, account: SQL, source: SQL, where: SQL | undefined) {
  const remainingSteps = sql<Steps>`entry.after`;
  const revokedAtMs = sql<number | null>`iif(entry.revoked, entry.at, NULL)`;
  return read(
    { ...fields(creditBalances, ...FIXED_FIELDS), ...computed({ remainingSteps, revokedAtMs }) },
    (list) => sql`WITH RECURSIVE entry (issue, previous, after, revoked, at) AS (
      SELECT ${creditBalances.grantSeq}, ${creditLedger.previousSeq}, ${creditLedger.balanceAfterSteps},
        ${creditLedger.isRevoked}, ${creditLedger.occurredAtMs}
      FROM ${source} CROSS JOIN ${creditLedger}
      ON ${creditLedger.accountId} = ${creditBalances.accountId} AND ${creditLedger.seq} = ${creditBalances.lastSeq}
      WHERE ${where}
      UNION ALL
      SELECT entry.issue, ${creditLedger.previousSeq}, ${creditLedger.balanceAfterSteps},
        ${creditLedger.isRevoked}, ${creditLedger.occurredAtMs}
      FROM entry CROSS JOIN ${creditLedger}
      WHERE entry.at > ${value("asOfMs")} AND ${creditLedger.accountId} = ${account} AND ${creditLedger.seq} = entry.previous
    )
    SELECT ${list} FROM entry CROSS JOIN ${creditBalances} ON ${ofAccount(account)} AND ${creditBalances.grantSeq} = entry.issue
    WHERE entry.at <= ${value("asOfMs")} LIMIT ${LISTED_MAX + 1}`,
  );
}

/** All balances that were issued up to a moment, as they were then. */
export const selectAsOf = accountQuery((value: ValueOf<AsOf>, account) =>
  asOf(value, account, sql`${creditBalances}`, ofAccount(account)),
);

/** The same of a reference. */
export const selectUnderReferenceAsOf = accountQuery((value: ValueOf<AsOf & OfReference>, account) =>
  asOf(value, account, byReference, isUnderReference(value, account)),
);

/** How many balances that cannot pay are looked at, at the most. */
const deadBalancesMax = 100;

/** Of the balances that cannot pay now, the newest. */
export const selectNewestDead = accountQuery((value: ValueOf<AtNow>, account) =>
  drizzle
    .select(fields(creditBalances, ...PAYING_FIELDS))
    .from(sql`${creditBalances} NOT INDEXED`)
    .where(
      and(
        ofAccount(account),
        sql`NOT (${creditBalances.hasRemaining} = 1 AND ${creditBalances.expiresAtMs} > ${value("nowMs")})`,
      ),
    )
    .orderBy(desc(creditBalances.grantSeq))
    .limit(deadBalancesMax),
);

const shown = () => drizzle.select(fields(creditBalances, ...BALANCE_FIELDS));

/** All that is shown of up to `limit` balances that can pay now. */
export const selectActiveUpTo = accountQuery((value: ValueOf<AtNow & { limit: number }>, account) =>
  shown().from(creditBalances).where(isSpendable(value, account)).limit(value("limit")),
);

/** All that is shown of up to `limit` balances of the user. */
export const selectBalancesUpTo = accountQuery((value: ValueOf<{ limit: number }>, account) =>
  shown().from(creditBalances).where(ofAccount(account)).limit(value("limit")),
);
