import { and, type Column, desc, eq, gt, lte, type SQL, sql } from "drizzle-orm";
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
import { isOpen } from "../ledger/hold.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import { memberIdOf } from "../ledger/payer-members.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../ledger/stored-legs.ts";
import type { Checkpoint, LedgerStretch } from "./verify-entries.ts";

/**
 * The progress of a user's verification, which reads the ledger in passes. One pass covers all balances, unless more balances continue
 * on the next page than a cursor can hold. Then the next pass covers the balances that were granted later.
 */
export interface VerifyPosition {
  readonly afterSeq: number;
  /** The pass covers the balances granted after `fromSeq`, up to `toSeq`. Null: all later balances. */
  readonly fromSeq: number;
  readonly toSeq: number | null;
  /**
   * The seqs of the last entries of balances that continue. The value is the sum of the deltas minus the entry's
   * `balance_after_minor`.
   */
  readonly ends: ReadonlyMap<number, bigint>;
}

export const VERIFY_START: VerifyPosition = { afterSeq: 0, fromSeq: 0, toSeq: null, ends: new Map() };

/** The most characters of `ends` in a cursor. It keeps a cursor far below the longest URL. */
const ENDS_CHARACTERS_MAX = 3_000;

/** Writes each seq as the difference from the previous one, which is short. Omits differences of 0 between sums, as most are. */
function writeEnds(ends: VerifyPosition["ends"]): string {
  let before = 0;
  return [...ends]
    .toSorted(([a], [b]) => a - b)
    .map(([seq, above]) => {
      const text = `${(seq - before).toString(36)}${above === 0n ? "" : `:${above}`}`;
      before = seq;
      return text;
    })
    .join();
}

function readEnds(text: string): VerifyPosition["ends"] {
  const ends = new Map<number, bigint>();
  let seq = 0;
  for (const end of text === "" ? [] : text.split(",")) {
    const [delta = "", above = "0"] = end.split(":");
    seq += Number.parseInt(delta, 36);
    ends.set(seq, BigInt(above));
  }
  return ends;
}

/** Returns how many of these ends, in their order, a cursor can hold. If not all fit, halves their number until they do. */
function countThatFits(ends: readonly (readonly [seq: number, above: bigint])[], charactersMax: number): number {
  let count = ends.length;
  while (count > 1 && writeEnds(new Map(ends.slice(0, count))).length > charactersMax) count = Math.ceil(count / 2);
  return count;
}

/** Returns where verification continues after a stretch with these checkpoints. Null at the end of the last pass. */
export function nextPosition(
  { fromSeq, toSeq }: VerifyPosition,
  { isEnd, endSeq, balances }: Pick<LedgerStretch, "isEnd" | "endSeq" | "balances">,
  checkpoints: readonly Checkpoint[],
  charactersMax = ENDS_CHARACTERS_MAX,
): VerifyPosition | null {
  if (isEnd) return toSeq === null ? null : { ...VERIFY_START, afterSeq: toSeq, fromSeq: toSeq };
  const grantSeqs = new Map(balances.map(({ id, grantSeq }) => [id, grantSeq]));
  // Entries of balances that do not exist come last, because they already count as errors.
  const grantSeqOf = ({ balanceId }: Checkpoint) => grantSeqs.get(balanceId) ?? Number.MAX_SAFE_INTEGER;
  const open = checkpoints.toSorted((a, b) => grantSeqOf(a) - grantSeqOf(b));
  const ends = open.map(({ seq, afterMinor, total }) => [seq, total - BigInt(afterMinor)] as const);
  const count = countThatFits(ends, charactersMax);
  const lastKept = open[count - 1];
  const isTruncated = count < open.length && lastKept !== undefined && grantSeqs.has(lastKept.balanceId);
  return {
    ...{ afterSeq: endSeq, fromSeq, ends: new Map(ends.slice(0, count)) },
    toSeq: isTruncated ? grantSeqOf(lastKept) : toSeq,
  };
}

/** Writes a position as text for a cursor. */
export const writePosition = ({ afterSeq, fromSeq, toSeq, ends }: VerifyPosition): string =>
  JSON.stringify([afterSeq, fromSeq, toSeq, writeEnds(ends)]);

export function readVerifyPosition(text: string): VerifyPosition {
  // The cursor's checksum proves that `writePosition` wrote it.
  const [afterSeq, fromSeq, toSeq, ends] = JSON.parse(text) as [number, number, number | null, string];
  return { afterSeq, fromSeq, toSeq, ends: readEnds(ends) };
}

type SeqRange = { afterSeq: number; endSeq: number; ends: string };

const verifiedEntriesOf = (account: SQL) => eq(creditLedger.accountId, account);
const inRange = ({ seq }: { readonly seq: Column }, value: ValueOf<SeqRange>) =>
  and(gt(seq, value("afterSeq")), lte(seq, value("endSeq")));
const isEnd = (value: ValueOf<SeqRange>) => sql`${creditLedger.seq} IN (SELECT value FROM json_each(${value("ends")}))`;

/** Selects the seqs of the last entry and of the last grant, because the last entries may be missing. */
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
      ...fields(creditLedger, "seq", "grantSeq", "deltaMinor", "previousSeq"),
      ...fields(creditLedger, { afterMinor: "balanceAfterMinor" }),
      ...computed({ isGrant: sql<0 | 1>`${creditLedger.reason} = 'grant'` }),
    })
    .from(creditLedger)
    .where(and(verifiedEntriesOf(account), inRange(creditLedger, value)))
    .orderBy(creditLedger.seq),
);

/** Selects the balances that were granted in a range, have entries in it, or continue from an earlier range. */
const selectVerifiedBalances = accountQuery((value: ValueOf<SeqRange>, account) => {
  const { accountId, grantSeq } = creditBalances;
  const balancesWhere = (where: SQL | undefined) =>
    drizzle
      .select(fields(creditBalances, "id", "initialMinor", "remainingMinor", "grantSeq", "lastSeq"))
      .from(creditBalances)
      .where(where);
  const ofEntries = (where: SQL | undefined) => {
    const entries = drizzle.select(fields(creditLedger, "accountId", "grantSeq")).from(creditLedger);
    return sql`(${accountId}, ${grantSeq}) IN ${entries.where(and(verifiedEntriesOf(account), where))}`;
  };
  // The first SELECT has the balances that were granted in the range.
  const isOfOther = sql`NOT (${inRange({ seq: creditLedger.grantSeq }, value)})`;
  return balancesWhere(and(eq(accountId, account), inRange({ seq: grantSeq }, value)))
    .union(balancesWhere(ofEntries(and(inRange(creditLedger, value), isOfOther))))
    .union(balancesWhere(ofEntries(isEnd(value))));
});

/** Selects the last entries of balances that continue, by their seqs. */
const selectEnds = accountQuery((value: ValueOf<SeqRange>, account) =>
  drizzle
    .select(fields(creditLedger, { seq: "seq", grantSeq: "grantSeq", afterMinor: "balanceAfterMinor" }))
    .from(creditLedger)
    .where(and(verifiedEntriesOf(account), isEnd(value))),
);

/** Selects the balances that owe one refund more than reservations older than that refund hold. Only for the first page. */
const selectOwedTooMuch = accountQuery((value: ValueOf<SeqRange>, account) => {
  const { accountId, balanceId, seq, owedMinor } = refundOwed;
  const held = sql`(
    SELECT ${reservations.createdAtSeq} AS since, ${creditBalances.id} AS balance, ${storedLeg.minor} AS minor
    FROM ${reservations} CROSS JOIN ${eachLeg(reservations.legs)}
    CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)}
    WHERE ${reservations.accountId} = ${account} AND ${isOpen()}
  ) AS held`;
  return drizzle
    .selectDistinct(fields(refundOwed, "balanceId"))
    .from(refundOwed)
    .leftJoin(held, sql`held.balance = ${balanceId} AND held.since < ${seq}`)
    .where(and(eq(accountId, account), sql`${value("afterSeq")} = 0`))
    .groupBy(balanceId, seq, owedMinor)
    .having(sql`${owedMinor} > coalesce(sum(held.minor), 0)`);
});

/**
 * Selects the limits whose counter differs from the sum of the events and open holds that count in its window (Q3). Only for the
 * first page. For a user without counters it reads no event.
 */
const selectMiscounted = accountQuery((value: ValueOf<SeqRange & OfUser>, account) => {
  const { environmentId, limitId, accountId, memberNumber, endMs, usedMinor } = usageCounters;
  const sumOf = (
    { counted, memberNumber: member }: { counted: Column; memberNumber: Column },
    from: SQL,
  ) => sql`coalesce((
    SELECT sum(n.value ->> 'minor') FROM ${from} CROSS JOIN json_each(${counted}) AS n
    WHERE n.value ->> 'limitId' = ${limitId} AND n.value ->> 'endMs' = ${endMs}
      AND iif(n.value ->> 'isMember', ${member}, 0) = ${memberNumber}
  ), 0)`;
  const events = sql`(SELECT ${usageEvents.counted}, ${usageEvents.memberNumber} FROM ${usageEvents}
    WHERE ${usageEvents.accountId} = ${account} AND ${usageEvents.counted} IS NOT NULL) AS ${usageEvents}`;
  const holds = sql`(SELECT ${reservations.counted}, ${reservations.memberNumber} FROM ${reservations}
    WHERE ${reservations.accountId} = ${account} AND ${isOpen()}) AS ${reservations}`;
  return drizzle
    .select({ ...fields(usageCounters, "limitId"), ...computed({ memberId: memberIdOf(usageCounters) }) })
    .from(usageLimits)
    .crossJoin(usageCounters)
    .where(
      and(
        eq(usageLimits.environmentId, value("environmentId")),
        eq(environmentId, usageLimits.environmentId),
        eq(limitId, usageLimits.id),
        eq(accountId, account),
        sql`${value("afterSeq")} = 0`,
        sql`${usedMinor} <> ${sumOf(usageEvents, events)} + ${sumOf(reservations, holds)}`,
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
