import { and, between, eq, sql } from "drizzle-orm";
import { asInteger, drizzle, fields, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, creditRefunds } from "../../db/schema.ts";
import type { RowsOf } from "../../db/sql.ts";
import { accountOfWrite, accountQuery, type WriteContext } from "../ledger/account.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import type { EarlierShare, Share } from "./refund-shares.ts";

type RefundsKey = { externalRef: string };

/**
 * Selects the balances under a reference, in their first order. The index is named, because SQLite might otherwise read all
 * balances.
 */
export const selectIssued = accountQuery((value: ValueOf<RefundsKey>, account) => {
  const { accountId, externalRef, grantSeq } = creditBalances;
  return drizzle
    .select(fields(creditBalances, "id", "packId", "packName", "packItemId", "unit", "initialSteps", "remainingSteps"))
    .from(sql`${creditBalances} INDEXED BY credit_balances_external_ref`)
    .where(and(eq(accountId, account), eq(externalRef, value("externalRef"))))
    .orderBy(grantSeq);
});
export type IssuedRow = RowsOf<[ReturnType<typeof selectIssued>]>[0][number];

/** Selects the refunds of a reference, in their order. */
export const selectRefunds = accountQuery((value: ValueOf<RefundsKey>, account) => {
  const { accountId, externalRef, ordinal } = creditRefunds;
  return drizzle
    .select(fields(creditRefunds, "refundRef", "packIds", "part", "ofParts", "requestHash"))
    .from(creditRefunds)
    .where(and(eq(accountId, account), eq(externalRef, value("externalRef"))))
    .orderBy(ordinal);
});
export type RefundRow = RowsOf<[ReturnType<typeof selectRefunds>]>[0][number];

/** Selects the amounts that one refund took from the balances, by its ledger entries. */
export const selectTaken = accountQuery((value: ValueOf<RefundsKey & { refundRef: string }>, account) => {
  const { accountId, externalRef, refundRef, firstSeq, lastSeq } = creditRefunds;
  return drizzle
    .select(
      fields(creditLedger, { balanceId: "balanceId", deltaSteps: "deltaSteps", remainingSteps: "balanceAfterSteps" }),
    )
    .from(creditRefunds)
    .crossJoin(creditLedger)
    .where(
      and(
        eq(accountId, account),
        eq(externalRef, value("externalRef")),
        eq(refundRef, value("refundRef")),
        eq(creditLedger.accountId, accountId),
        between(creditLedger.seq, firstSeq, lastSeq),
      ),
    );
});
export type TakenRow = RowsOf<[ReturnType<typeof selectTaken>]>[0][number];

type NewRefund = Omit<typeof creditRefunds.$inferInsert, "accountId" | "firstSeq" | "lastSeq"> & { entries: number };

/** Inserts the refund's own row. Its ledger entries must follow in the same batch, as the account's next entries. */
export const insertRefund = query((value: ValueOf<WriteContext & NewRefund>) =>
  insertFrom(
    creditRefunds,
    {
      accountId: accountOfWrite(value),
      externalRef: value("externalRef"),
      ordinal: asInteger(value("ordinal")),
      refundRef: value("refundRef"),
      packIds: value("packIds", creditRefunds.packIds),
      part: asInteger(value("part")),
      ofParts: asInteger(value("ofParts")),
      firstSeq: sql`last.entry + 1`,
      lastSeq: sql`last.entry + ${asInteger(value("entries"))}`,
      requestHash: value("requestHash"),
    },
    sql`FROM (SELECT ${lastSeqOf(accountOfWrite(value))} AS entry) AS last`,
  ),
);

/** Returns the balances that a stored refund covers. A pack is granted once under a reference, so its balances stay the same. */
export function coveredBy({ packIds }: RefundRow, issued: readonly IssuedRow[]): readonly IssuedRow[] {
  return issued.filter(({ packId }) => packIds.includes(packId));
}

export function earlierShare(row: RefundRow): EarlierShare {
  return { packIds: new Set(row.packIds), share: storedShare(row) };
}

export function storedShare({ part, ofParts }: RefundRow): Share {
  return part === null || ofParts === null ? null : { part, of: ofParts };
}
