import { and, type Column, desc, eq, gt, inArray, lte, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, fields, read, scalar, type ValueOf } from "../../db/query.ts";
import {
  creditBalances,
  creditLedger,
  refundOwed,
  reservations,
  usageCounters,
  usageEvents,
  usageLimits,
} from "../../db/schema.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type OfUser, type User } from "../ledger/account.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import type { VerifyPosition } from "./verify-position.ts";

type SeqRange = { afterSeq: number; endSeq: number; ends: string };

const verifiedEntriesOf = (account: SQL) => eq(creditLedger.accountId, account);
const inRange = ({ seq }: { readonly seq: Column }, value: ValueOf<SeqRange>) =>
  and(gt(seq, value("afterSeq")), lte(seq, value("endSeq")));
const isEnd = (value: ValueOf<SeqRange>) => sql`${creditLedger.seq} IN (SELECT value FROM json_each(${value("ends")}))`;

/** Selects the last entry, and the seq of the last grant, because the entries at the very end may be missing. */
const selectLastSeqs = accountQuery((_value: ValueOf<OfUser>, account) => {
  const { accountId, grantSeq } = creditBalances;
  const grant = drizzle.select(fields(creditBalances, "grantSeq")).from(creditBalances).where(eq(accountId, account));
  const last = computed({
    lastSeq: lastSeqOf(account),
    lastGrantSeq: sql<number>`coalesce(${scalar(grant.orderBy(desc(grantSeq)).limit(1))}, 0)`,
  });
  return read(last, (list) => sql`SELECT ${list}`);
});

const selectVerifiedEntries = accountQuery((value: ValueOf<SeqRange>, account) =>
  drizzle
    .select({
      ...fields(creditLedger, "seq", "balanceId", "packId", "unit", "deltaSteps", "previousSeq"),
      ...fields(creditLedger, { afterSteps: "balanceAfterSteps" }),
      ...computed({ isGrant: sql<0 | 1>`${creditLedger.reason} = 'grant'` }),
    })
    .from(creditLedger)
    .where(and(verifiedEntriesOf(account), inRange(creditLedger, value)))
    .orderBy(creditLedger.seq),
);

/** Selects the balances that were granted in a range, have entries in it, or continue from an earlier range. */
const selectVerifiedBalances = accountQuery((value: ValueOf<SeqRange>, account) => {
  const { id, accountId, grantSeq } = creditBalances;
  const balancesWhere = (where: SQL | undefined) =>
    drizzle
      .select(fields(creditBalances, "id", "packId", "unit", "initialSteps", "remainingSteps", "grantSeq", "lastSeq"))
      .from(creditBalances)
      .where(where);
  // The plus makes SQLite find each balance by its id.
  const ofEntries = (where: SQL | undefined) =>
    and(
      sql`+${accountId} = ${account}`,
      inArray(
        id,
        drizzle
          .select(fields(creditLedger, "balanceId"))
          .from(creditLedger)
          .where(and(verifiedEntriesOf(account), where)),
      ),
    );
  return balancesWhere(and(eq(accountId, account), inRange({ seq: grantSeq }, value)))
    .union(balancesWhere(ofEntries(inRange(creditLedger, value))))
    .union(balancesWhere(ofEntries(isEnd(value))));
});

/** Selects the last entries of balances that continue, by their seqs. */
const selectEnds = accountQuery((value: ValueOf<SeqRange>, account) =>
  drizzle
    .select(fields(creditLedger, { seq: "seq", balanceId: "balanceId", afterSteps: "balanceAfterSteps" }))
    .from(creditLedger)
    .where(and(verifiedEntriesOf(account), isEnd(value))),
);

/** Selects the balances that owe more to one refund than reservations older than it still hold. Read with the first page. */
const selectOwedTooMuch = accountQuery((value: ValueOf<SeqRange>, account) => {
  const { accountId, balanceId, seq, owedSteps } = refundOwed;
  const held = sql`(
    SELECT ${reservations.madeSeq} AS since, leg.value ->> 'balanceId' AS balance, leg.value ->> 'amountSteps' AS steps
    FROM ${reservations} CROSS JOIN json_each(${reservations.legs}) AS leg
    WHERE ${reservations.accountId} = ${account} AND ${reservations.state} = 'open'
  ) AS held`;
  return drizzle
    .selectDistinct(fields(refundOwed, "balanceId"))
    .from(refundOwed)
    .leftJoin(held, sql`held.balance = ${balanceId} AND held.since < ${seq}`)
    .where(and(eq(accountId, account), sql`${value("afterSeq")} = 0`))
    .groupBy(balanceId, seq, owedSteps)
    .having(sql`${owedSteps} > coalesce(sum(held.steps), 0)`);
});

/**
 * Selects the limits whose counter differs from the sum of the events and open holds that count in its window (Q3). Read with
 * the first page. Costs nothing for a user without counters.
 */
const selectMiscounted = accountQuery((value: ValueOf<SeqRange & OfUser>, account) => {
  const { environmentId, limitId, accountId, windowMs, usedSteps } = usageCounters;
  const sumOf = (counted: Column, from: SQL) => sql`coalesce((
    SELECT sum(n.value ->> 'steps') FROM ${from} CROSS JOIN json_each(${counted}) AS n
    WHERE n.value ->> 'limitId' = ${limitId} AND n.value ->> 'windowMs' = ${windowMs}
  ), 0)`;
  const events = sql`(SELECT ${usageEvents.counted} FROM ${usageEvents}
    WHERE ${usageEvents.accountId} = ${account} AND ${usageEvents.counted} IS NOT NULL) AS ${usageEvents}`;
  const holds = sql`(SELECT ${reservations.counted} FROM ${reservations}
    WHERE ${reservations.accountId} = ${account} AND ${reservations.state} = 'open') AS ${reservations}`;
  return drizzle
    .select(fields(usageCounters, "limitId"))
    .from(usageLimits)
    .crossJoin(usageCounters)
    .where(
      and(
        eq(usageLimits.environmentId, value("environmentId")),
        eq(environmentId, usageLimits.environmentId),
        eq(limitId, usageLimits.id),
        eq(accountId, account),
        sql`${value("afterSeq")} = 0`,
        sql`${usedSteps} <> ${sumOf(usageEvents.counted, events)} + ${sumOf(reservations.counted, holds)}`,
      ),
    );
});

/** Selects some entries of a user, by their seqs. */
export const selectEntriesAt = (ctx: TenantCtx, user: User, seqs: readonly number[]) =>
  selectEnds(ctx, user, { afterSeq: 0, endSeq: 0, ends: JSON.stringify(seqs) });

/** Returns the queries that verify a stretch. They read rows in proportion to its entries, however many balances the user has. */
export function selectStretch(ctx: TenantCtx, user: User, { afterSeq, ends }: VerifyPosition, endSeq: number) {
  const range = { afterSeq, endSeq, ends: JSON.stringify([...ends.keys()]) };
  return [
    selectLastSeqs(ctx, user, range),
    selectVerifiedEntries(ctx, user, range),
    selectVerifiedBalances(ctx, user, range),
    selectEnds(ctx, user, range),
    selectOwedTooMuch(ctx, user, range),
    selectMiscounted(ctx, user, range),
  ] as const;
}
