import { select, statement } from "../../db/sql.ts";
import { creditBalances, creditLedger } from "../../db/tables.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount, type User } from "../ledger/account.ts";
import type { Standing, VerifiedBalance, VerifiedEntry } from "../ledger/verify-entries.ts";
import type { VerifyPosition } from "./verify-position.ts";

const entryColumns = {
  seq: creditLedger.seq,
  balanceId: creditLedger.balanceId,
  packId: creditLedger.packId,
  unit: creditLedger.unit,
  deltaSteps: creditLedger.deltaSteps,
  afterSteps: creditLedger.balanceAfterSteps,
  previousSeq: creditLedger.previousSeq,
};
const balanceColumns = {
  id: creditBalances.id,
  packId: creditBalances.packId,
  unit: creditBalances.unit,
  initialSteps: creditBalances.initialSteps,
  remainingSteps: creditBalances.remainingSteps,
  grantSeq: creditBalances.grantSeq,
  lastSeq: creditBalances.lastSeq,
};

type Range = { afterSeq: number; endSeq: number; ends: string };

/** The last entry, and the seq of the last grant: entries at the very end may be missing. */
const selectLast = aboutAccount<Range, { lastSeq: number; lastGrantSeq: number }>(
  (account) => statement`
    SELECT coalesce((SELECT seq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1), 0) AS lastSeq,
      coalesce((
        SELECT grant_seq FROM credit_balances WHERE account_id = ${account} ORDER BY grant_seq DESC LIMIT 1
      ), 0) AS lastGrantSeq`,
);

const selectEntries = aboutAccount<Range, VerifiedEntry>(
  (account) => statement`
    SELECT ${select(entryColumns)}, reason = 'grant' AS isGrant FROM credit_ledger
    WHERE account_id = ${account} AND seq > :afterSeq AND seq <= :endSeq ORDER BY seq`,
);

/** The balances that were granted in a range, and those that have entries in it or go on from before. */
const selectBalances = aboutAccount<Range, VerifiedBalance>(
  (account) => statement`
    SELECT ${select(balanceColumns)} FROM credit_balances
    WHERE account_id = ${account} AND grant_seq > :afterSeq AND grant_seq <= :endSeq
    UNION
    SELECT ${select(balanceColumns)} FROM credit_balances WHERE +account_id = ${account} AND id IN (
      SELECT balance_id FROM credit_ledger WHERE account_id = ${account} AND seq > :afterSeq AND seq <= :endSeq
    )
    UNION
    SELECT ${select(balanceColumns)} FROM credit_balances WHERE +account_id = ${account} AND id IN (
      SELECT balance_id FROM credit_ledger WHERE account_id = ${account} AND seq IN (SELECT value FROM json_each(:ends))
    )`,
);

type EndRow = Omit<Standing, "total">;

/** The last entries of balances that go on, by their seqs. */
const selectEnds = aboutAccount<Range, EndRow>(
  (account) => statement`
    SELECT seq, balance_id AS balanceId, balance_after_steps AS afterSteps FROM credit_ledger
    WHERE account_id = ${account} AND seq IN (SELECT value FROM json_each(:ends))`,
);

/** The balances that owe more to one refund than is held of them since before it. Read with the first page. */
const selectOwedTooMuch = aboutAccount<Range, { balanceId: string }>(
  (account) => statement`
    SELECT DISTINCT o.balance_id AS balanceId FROM refund_owed AS o LEFT JOIN (
      SELECT r.made_seq, leg.value ->> 'balanceId' AS balance_id, leg.value ->> 'amountSteps' AS steps
      FROM reservations AS r CROSS JOIN json_each(r.legs) AS leg WHERE r.account_id = ${account} AND r.state = 'open'
    ) AS held ON held.balance_id = o.balance_id AND held.made_seq < o.seq
    WHERE o.account_id = ${account} AND :afterSeq = 0
    GROUP BY o.balance_id, o.seq, o.owed_steps HAVING o.owed_steps > coalesce(sum(held.steps), 0)`,
);

/** Some entries of a user, by their seqs. */
export const selectEntriesAt = (ctx: TenantCtx, user: User, seqs: readonly number[]) =>
  selectEnds(ctx, user, { afterSeq: 0, endSeq: 0, ends: JSON.stringify(seqs) });

/** What the verification of a stretch reads: rows in proportion to its entries, however many balances the user has. */
export function selectStretch(ctx: TenantCtx, user: User, { afterSeq, ends }: VerifyPosition, endSeq: number) {
  const range = { afterSeq, endSeq, ends: JSON.stringify([...ends.keys()]) };
  return [
    selectLast(ctx, user, range),
    selectEntries(ctx, user, range),
    selectBalances(ctx, user, range),
    selectEnds(ctx, user, range),
    selectOwedTooMuch(ctx, user, range),
  ] as const;
}
