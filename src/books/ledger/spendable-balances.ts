import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  boundLimit,
  type ColumnsOf,
  computed,
  drizzle,
  fields,
  read,
  type ValueOf,
} from "../../db/query.ts";
import { creditBalances, creditLedger, type Minor, reservations } from "../../db/schema.ts";
import { hasReservationId } from "../../db/usage-ids.ts";
import { accountQuery } from "./account.ts";
import { BALANCE_FIELDS, FIXED_FIELDS, PAYING_FIELDS, PRESENTED_FIELDS } from "./balance.ts";
import { dueFields } from "./due-holds.ts";
import { isDue } from "./hold.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "./stored-legs.ts";
import { back, isLastOf, walkBack } from "./walk-back.ts";

/** Returns a condition: a balance can pay now. It repeats the condition of the partial index, so that only such balances are read. */
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

/** The most balances in a list. More could exceed the isolate's memory (L6). */
export const LISTED_MAX = 40_000;

/** All balances of the user, at most one more than a list may have. */
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
 * Returns the query for balances as they were at a time. It follows each balance's entries backwards to the last entry at that time,
 * which also says whether the balance was revoked then. A payment may have restored the balance since.
 */
function asOf(value: ValueOf<AsOf>, account: SQL, source: SQL, where: SQL | undefined) {
  const { grantSeq, balanceAfterMinor, isRevoked, occurredAtMs } = back;
  const remainingMinor = sql<Minor>`${balanceAfterMinor}`;
  const revokedAtMs = sql<number | null>`iif(${isRevoked}, ${occurredAtMs}, NULL)`;
  const walk = walkBack({
    columns: ["grantSeq", "balanceAfterMinor", "isRevoked", "occurredAtMs"],
    start: sql`${source} CROSS JOIN ${creditLedger} ON ${isLastOf(creditBalances)} WHERE ${where}`,
    continues: sql`${occurredAtMs} > ${value("asOfMs")}`,
  });
  return read(
    { ...fields(creditBalances, ...FIXED_FIELDS), ...computed({ remainingMinor, revokedAtMs }) },
    (list) => sql`WITH RECURSIVE ${walk}
    SELECT ${list} FROM ${back} CROSS JOIN ${creditBalances} ON ${ofAccount(account)} AND ${creditBalances.grantSeq} = ${grantSeq}
    WHERE ${occurredAtMs} <= ${value("asOfMs")} LIMIT ${LISTED_MAX + 1}`,
  );
}

/** All balances that were issued up to a time, as they were then. */
export const selectAsOf = accountQuery((value: ValueOf<AsOf>, account) =>
  asOf(value, account, sql`${creditBalances}`, ofAccount(account)),
);

/** The balances under a reference that were issued up to a time, as they were then. */
export const selectUnderReferenceAsOf = accountQuery((value: ValueOf<AsOf & OfReference>, account) =>
  asOf(value, account, byReference, isUnderReference(value, account)),
);

/** The most balances that are read although they cannot pay. */
const UNSPENDABLE_BALANCES_MAX = 100;

/** The newest balances that cannot pay now. */
export const selectNewestUnspendable = accountQuery((value: ValueOf<AtNow>, account) =>
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
    .limit(UNSPENDABLE_BALANCES_MAX),
);

const listedBalanceFields = () => drizzle.select(fields(creditBalances, ...BALANCE_FIELDS));

/** All public fields of up to `limit` balances that can pay now. */
export const selectActiveUpTo = accountQuery((value: ValueOf<AtNow & { limit: number }>, account) =>
  listedBalanceFields()
    .from(creditBalances)
    .where(isSpendable(value, account))
    .limit(boundLimit(value("limit"))),
);

/** All public fields of up to `limit` balances of the user. */
export const selectBalancesUpTo = accountQuery((value: ValueOf<{ limit: number }>, account) =>
  listedBalanceFields()
    .from(creditBalances)
    .where(ofAccount(account))
    .limit(boundLimit(value("limit"))),
);

type AtNow = { nowMs: number };

/** Returns the end of the first due hold that is charged (U15), with the account. No row if there is none. */
const firstCharge = (value: ValueOf<AtNow>, account: SQL): SQL => {
  const { accountId, expiresAtMs, onExpiry } = reservations;
  return sql`SELECT ${accountId} AS account, ${expiresAtMs} AS since FROM ${reservations}
    WHERE ${isDue(value, account)} AND ${onExpiry} = 'charge' ORDER BY ${expiresAtMs} LIMIT 1`;
};

/** The CTE `payer (account, since)`: balances that could pay since then are needed. The account is looked up once. */
const ofPlan = (value: ValueOf<AtNow>, account: SQL): SQL => sql`payer (account, since) AS (
    SELECT given.account, coalesce(
      (SELECT first.since FROM (${firstCharge(value, sql`given.account`)}) AS first), ${asInteger(value("nowMs"))}
    ) FROM (SELECT ${account} AS account) AS given
  )`;

/** The balances that could pay since `payer.since`. It repeats the condition of the partial index. */
const couldPay = sql`FROM payer CROSS JOIN ${creditBalances} WHERE ${creditBalances.accountId} = payer.account
  AND ${creditBalances.hasRemaining} = 1 AND ${creditBalances.expiresAtMs} > payer.since`;

/** The balances of which some reservations hold credits. */
const isHeldBy = (reserving: SQL | undefined): SQL => sql`FROM payer CROSS JOIN ${creditBalances}
  WHERE ${creditBalances.accountId} = payer.account AND ${creditBalances.grantSeq} IN (${heldSeqs(reserving)})`;
const heldSeqs = (reserving: SQL | undefined): SQL =>
  sql`SELECT ${storedLeg.grantSeq} FROM ${reservations}, ${eachLeg(reservations.legs)} WHERE ${reserving}`;

const isHeldByDue = (value: ValueOf<AtNow>): SQL => isHeldBy(isDue(value, sql`payer.account`));

const selectPaying = (payer: SQL, sources: readonly SQL[]) =>
  read(
    fields(creditBalances, ...PAYING_FIELDS),
    (list) =>
      sql`WITH ${payer} ${sql.join(
        sources.map((source) => sql`SELECT ${list} ${source}`),
        sql` UNION ALL `,
      )}`,
  );

/** The balances that can pay now, or could pay for the charge of a due hold. */
export const selectPayingOrChargeable = accountQuery((value: ValueOf<AtNow>, account) =>
  selectPaying(ofPlan(value, account), [couldPay]),
);

/** The balances that can pay now, and those that the settlement of due holds needs. Some may occur twice. */
export const selectPayingBalances = accountQuery((value: ValueOf<AtNow>, account) =>
  selectPaying(ofPlan(value, account), [couldPay, isHeldByDue(value)]),
);

/** The balances that a commit may debit: also those of which its reservation holds credits. */
export const selectBalancesForCommit = accountQuery(
  (value: ValueOf<AtNow & { forms: string; environmentId: number }>, account) => {
    const ofReservation = hasReservationId(value, value("forms"));
    return selectPaying(ofPlan(value, account), [couldPay, isHeldByDue(value), isHeldBy(ofReservation)]);
  },
);

/**
 * The balances that the charges of due holds need. None if no due hold is charged. One search finds both kinds, because this is part
 * of most writes, and each further one reads a row.
 */
export const selectBalancesOfCharges = accountQuery((value: ValueOf<AtNow>, account) => {
  const paying = alias(creditBalances, "paying");
  const canPay = sql`SELECT ${paying.grantSeq} FROM ${creditBalances} AS ${paying} WHERE ${paying.accountId} = payer.account
    AND ${paying.hasRemaining} = 1 AND ${paying.expiresAtMs} > payer.since`;
  return read(
    fields(creditBalances, ...PAYING_FIELDS),
    (list) => sql`SELECT ${list} FROM (${firstCharge(value, account)}) AS payer CROSS JOIN ${creditBalances}
      WHERE ${creditBalances.accountId} = payer.account
      AND ${creditBalances.grantSeq} IN (${canPay} UNION ${heldSeqs(isDue(value, sql`payer.account`))})`,
  );
});

/**
 * The user's due holds, a row for each balance to which they return, even if it cannot pay. Only the first row of a hold has its legs,
 * because a hold of thousands of balances has a megabyte of them.
 */
export const selectDueLegs = accountQuery((value: ValueOf<AtNow>, account) =>
  drizzle
    .select({ ...dueFields(sql`leg.key = 0`), ...fields(creditBalances, ...PAYING_FIELDS) })
    .from(reservations)
    .crossJoin(eachLeg(reservations.legs))
    .crossJoin(creditBalances)
    .where(and(isDue(value, account), isBalanceOfLeg(reservations.accountId))),
);
