import { fragment, select, statement } from "../db/sql.ts";
import { creditBalances, creditLedger } from "../db/tables.ts";
import { aboutAccount, type User } from "../ledger/account.ts";
import type { Standing, VerifiedBalance, VerifiedEntry } from "../ledger/verify-entries.ts";
import type { TenantCtx } from "../runtime.ts";
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

interface VerifyRange extends VerifyPosition {
  readonly endSeq: number;
}

type Range = { afterSeq: number; endSeq: number; ends: string };

const selectLastSeq = aboutAccount<Range, { lastSeq: number }>(
  (account) => statement`
    SELECT seq AS lastSeq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1`,
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
    WHERE account_id = ${account} AND grant_seq > :afterSeq AND (grant_seq <= :endSeq OR :endSeq >= (
      SELECT seq FROM credit_ledger WHERE account_id = ${account} ORDER BY seq DESC LIMIT 1
    ))
    UNION
    SELECT ${select(balanceColumns)} FROM credit_balances WHERE +account_id = ${account} AND id IN (
      SELECT balance_id FROM credit_ledger WHERE account_id = ${account} AND seq > :afterSeq AND seq <= :endSeq
    )
    UNION
    SELECT ${select(balanceColumns)} FROM credit_balances WHERE +account_id = ${account} AND id IN (
      SELECT balance_id FROM credit_ledger WHERE account_id = ${account} AND seq IN (SELECT value FROM json_each(:ends))
    )`,
);

/** All balances, for when where they stand is found again. */
const selectAllBalances = aboutAccount<Range, VerifiedBalance>(
  (account) => statement`SELECT ${select(balanceColumns)} FROM credit_balances WHERE account_id = ${account}`,
);

/** A sum of any number of amounts is kept in two parts, because SQLite's integers hold a thousand of the largest. */
export const STEPS_APART = 1_000_000n;
type EndRow = Omit<Standing, "total"> & { readonly whole: number; readonly rest: number };
const endColumns = fragment`seq, balance_id AS balanceId, balance_after_steps AS afterSteps`;

/** The last entries of balances that go on, by their seqs. */
const selectEnds = aboutAccount<Range, EndRow>(
  (account) => statement`
    SELECT ${endColumns}, 0 AS whole, 0 AS rest FROM credit_ledger
    WHERE account_id = ${account} AND seq IN (SELECT value FROM json_each(:ends))`,
);

/** The last entry of every balance up to a seq, and the sum of its deltas. */
const selectAllEnds = aboutAccount<Range, EndRow>(
  (account) => statement`
    SELECT max(seq) AS seq, balance_id AS balanceId, balance_after_steps AS afterSteps,
      sum(delta_steps / ${`${STEPS_APART}`}) AS whole, sum(delta_steps % ${`${STEPS_APART}`}) AS rest
    FROM credit_ledger WHERE account_id = ${account} AND seq <= :afterSeq GROUP BY balance_id`,
);

/** What the verification of a stretch reads. */
export function selectStretch(ctx: TenantCtx, user: User, { afterSeq, endSeq, ends }: VerifyRange) {
  const range = { afterSeq, endSeq, ends: JSON.stringify([...(ends?.keys() ?? [])]) };
  return [
    selectLastSeq(ctx, user, range),
    selectEntries(ctx, user, range),
    ends === null ? selectAllBalances(ctx, user, range) : selectBalances(ctx, user, range),
    ends === null ? selectAllEnds(ctx, user, range) : selectEnds(ctx, user, range),
  ] as const;
}
