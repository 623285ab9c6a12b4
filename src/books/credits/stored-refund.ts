import type { Steps } from "../../db/schema.ts";
import { type RowOf, select, statement } from "../../db/sql.ts";
import { creditBalances, creditRefunds } from "../../db/tables.ts";
import { aboutAccount, accountSql, type WriteContext } from "../ledger/account.ts";
import { lastSeq } from "../ledger/insert-entries.ts";
import type { EarlierShare, Share } from "./refund-shares.ts";

/** A balance under a reference, with the columns that a refund needs. */
const issuedColumns = {
  id: creditBalances.id,
  packId: creditBalances.packId,
  packName: creditBalances.packName,
  packItemId: creditBalances.packItemId,
  unit: creditBalances.unit,
  initialSteps: creditBalances.initialSteps,
};
export type IssuedRow = RowOf<typeof issuedColumns>;

/** The balances under a reference, in their first order. The index is named, because SQLite might otherwise read them all. */
export const selectIssued = aboutAccount<{ externalRef: string }, IssuedRow>(
  (account) => statement`
    SELECT ${select(issuedColumns)} FROM credit_balances INDEXED BY credit_balances_external_ref
    WHERE account_id = ${account} AND external_ref = :externalRef ORDER BY grant_seq`,
);

const refundColumns = {
  refundRef: creditRefunds.refundRef,
  packIds: creditRefunds.packIds,
  part: creditRefunds.part,
  of: creditRefunds.ofParts,
  requestHash: creditRefunds.requestHash,
};
export type RefundRow = RowOf<typeof refundColumns>;

/** The refunds of a reference, in their order. */
export const selectRefunds = aboutAccount<{ externalRef: string }, RefundRow>(
  (account) => statement`
    SELECT ${select(refundColumns)} FROM credit_refunds WHERE account_id = ${account} AND external_ref = :externalRef
    ORDER BY ordinal`,
);

export interface TakenRow {
  readonly balanceId: string;
  readonly deltaSteps: Steps;
  readonly remainingSteps: Steps;
}

/** What the balances gave to one refund, by its ledger entries. */
export const selectTaken = aboutAccount<{ externalRef: string; refundRef: string }, TakenRow>(
  (account) => statement`
    SELECT l.balance_id AS balanceId, l.delta_steps AS deltaSteps, l.balance_after_steps AS remainingSteps
    FROM credit_refunds AS r
    CROSS JOIN credit_ledger AS l ON l.account_id = r.account_id AND l.seq BETWEEN r.first_seq AND r.last_seq
    WHERE r.account_id = ${account} AND r.external_ref = :externalRef AND r.refund_ref = :refundRef`,
);

/** The refund's own row. In the same batch its ledger entries must follow, as the account's next entries. */
export const insertRefund = statement<
  WriteContext & {
    externalRef: string;
    ordinal: number;
    refundRef: string;
    packIds: string;
    part: number | null;
    of: number | null;
    entries: number;
    requestHash: string;
  }
>`
  INSERT INTO credit_refunds (
    account_id, external_ref, ordinal, refund_ref, pack_ids, part, of_parts, first_seq, last_seq, request_hash
  )
  SELECT ${accountSql}, :externalRef, CAST(:ordinal AS INTEGER), :refundRef, :packIds, CAST(:part AS INTEGER),
    CAST(:of AS INTEGER), last.seq + 1, last.seq + CAST(:entries AS INTEGER), :requestHash
  FROM (SELECT ${lastSeq} AS seq) AS last`;

/** The balances that a stored refund was about. A pack is granted once under a reference, so its balances are the same. */
export function coveredBy(refund: RefundRow, issued: readonly IssuedRow[]): readonly IssuedRow[] {
  const packIds = packIdsOf(refund);
  return issued.filter(({ packId }) => packIds.has(packId));
}

function packIdsOf({ packIds }: RefundRow): ReadonlySet<string> {
  // Purser wrote this list.
  return new Set(JSON.parse(packIds) as string[]);
}

export function earlierShare(row: RefundRow): EarlierShare {
  return { packIds: packIdsOf(row), share: shareOf(row) };
}

export function shareOf({ part, of }: RefundRow): Share {
  return part === null || of === null ? null : { part, of };
}
