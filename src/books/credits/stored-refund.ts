import { and, between, eq, sql } from "drizzle-orm";
import { asInteger, drizzle, fields, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditBalances, creditLedger, creditRefunds, type Minor } from "../../db/schema.ts";
import type { StatementRow } from "../../db/sql.ts";
import { addFractions, type Fraction, ONE, ZERO } from "../amounts/fraction.ts";
import { accountOfWrite, accountQuery, type WriteContext } from "../ledger/account.ts";
import { isBalanceOfEntry, lastSeqOf } from "../ledger/insert-entries.ts";

/** A share of a balance's initial amount: `part` of `of`. Null for everything that earlier refunds left. */
export type Share = { readonly part: number; readonly of: number } | null;

/** The share of an earlier refund, and the packs whose balances it covered. */
export interface EarlierShare {
  readonly packIds: ReadonlySet<string>;
  readonly share: Share;
}

/** The amount that a refund takes from one balance. */
export interface DueShare<Balance> {
  readonly balance: Balance;
  readonly dueMinor: Minor;
  /** Whether all shares, including this one, total 1. Then the refund takes the whole remaining amount and revokes the balance. */
  readonly revokes: boolean;
  /** Whether the shares totalled 1 before this refund. */
  readonly wasWhole: boolean;
}

/**
 * Returns the amount that a refund takes from each balance: the sum of all shares with it, less the sum of the earlier shares, each
 * rounded down to a step (C21). So the refunds of a balance add up exactly. Returns null if a sum would be above 1.
 */
export function planRefund<Balance extends { readonly packId: string; readonly initialMinor: Minor }>(
  balances: readonly Balance[],
  earlier: readonly EarlierShare[],
  share: Share,
): DueShare<Balance>[] | null {
  const due: DueShare<Balance>[] = [];
  for (const balance of balances) {
    const shares = earlier.filter(({ packIds }) => packIds.has(balance.packId)).map((refund) => refund.share);
    const before = shares.reduce(addShare, ZERO);
    const after = addShare(before, share);
    if (after.numerator > after.denominator) return null;
    const dueMinor = roundDown(balance.initialMinor, after) - roundDown(balance.initialMinor, before);
    due.push({
      balance,
      dueMinor: Number(dueMinor) as Minor,
      revokes: isWholeShare(after),
      wasWhole: isWholeShare(before),
    });
  }
  return due;
}

function addShare(sum: Fraction, share: Share): Fraction {
  if (share === null) return ONE;
  return addFractions(sum, { numerator: BigInt(share.part), denominator: BigInt(share.of) });
}

function isWholeShare({ numerator, denominator }: Fraction): boolean {
  return numerator === denominator;
}

function roundDown(initialMinor: Minor, sum: Fraction): bigint {
  return (BigInt(initialMinor) * sum.numerator) / sum.denominator;
}

type RefundsKey = { externalRef: string };

/**
 * Selects the balances under a reference, in the order of their grants. The index is named, because SQLite might otherwise read all
 * balances.
 */
export const selectIssued = accountQuery((value: ValueOf<RefundsKey>, account) => {
  const { accountId, externalRef, grantSeq } = creditBalances;
  return drizzle
    .select(fields(creditBalances, "id", "packId", "packName", "packItemId", "unit", "initialMinor", "remainingMinor"))
    .from(sql`${creditBalances} INDEXED BY credit_balances_external_ref`)
    .where(and(eq(accountId, account), eq(externalRef, value("externalRef"))))
    .orderBy(grantSeq);
});
export type IssuedRow = StatementRow<typeof selectIssued>;

/** Selects the refunds of a reference, in their order. */
export const selectRefunds = accountQuery((value: ValueOf<RefundsKey>, account) => {
  const { accountId, externalRef, ordinal } = creditRefunds;
  return drizzle
    .select(fields(creditRefunds, "refundRef", "packIds", "part", "ofParts", "requestHash"))
    .from(creditRefunds)
    .where(and(eq(accountId, account), eq(externalRef, value("externalRef"))))
    .orderBy(ordinal);
});
export type RefundRow = StatementRow<typeof selectRefunds>;

/** Selects the amounts that one refund took from the balances, by its ledger entries. */
export const selectTaken = accountQuery((value: ValueOf<RefundsKey & { refundRef: string }>, account) => {
  const { accountId, externalRef, refundRef, firstSeq, lastSeq } = creditRefunds;
  return drizzle
    .select({
      ...fields(creditBalances, { balanceId: "id" }),
      ...fields(creditLedger, { deltaMinor: "deltaMinor", remainingMinor: "balanceAfterMinor" }),
    })
    .from(creditRefunds)
    .crossJoin(creditLedger)
    .crossJoin(creditBalances)
    .where(
      and(
        eq(accountId, account),
        eq(externalRef, value("externalRef")),
        eq(refundRef, value("refundRef")),
        eq(creditLedger.accountId, accountId),
        between(creditLedger.seq, firstSeq, lastSeq),
        isBalanceOfEntry(),
      ),
    );
});
export type ClawbackRow = StatementRow<typeof selectTaken>;

type NewRefund = Omit<typeof creditRefunds.$inferInsert, "accountId" | "firstSeq" | "lastSeq"> & { entries: number };

/** Inserts the refund's row. Its ledger entries must follow in the same batch, as the account's next entries. */
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
export function balancesOfRefund({ packIds }: RefundRow, issued: readonly IssuedRow[]): readonly IssuedRow[] {
  return issued.filter(({ packId }) => packIds.includes(packId));
}

export function earlierShare(row: RefundRow): EarlierShare {
  return { packIds: new Set(row.packIds), share: storedShare(row) };
}

export function storedShare({ part, ofParts }: RefundRow): Share {
  return part === null || ofParts === null ? null : { part, of: ofParts };
}
