import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { exactAmount, UNITS, type Unit, type UnitAmounts } from "../books/amounts/amount.ts";
import { minorOfSum, partsOf } from "../books/amounts/amount-sql.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../books/ledger/stored-legs.ts";
import { names } from "../db/query.ts";
import {
  accounts,
  consentLog,
  creditAdjustments,
  creditBalances,
  creditLedger,
  creditRefunds,
  distinctIds,
  exportAudit,
  idProperties,
  members,
  recurringGrants,
  rejections,
  reservations,
  stripeCustomers,
  usageEvents,
  userNotes,
  webhookMessages,
} from "../db/schema.ts";
import { id, namesId } from "./page-rows.ts";

export interface ErasureCounts {
  readonly erased: {
    readonly analytics: number;
    readonly ids: number;
    readonly properties: number;
    readonly notes: number;
    readonly messages: number;
    readonly customers: number;
    readonly refusals: number;
    readonly consent?: number | undefined;
  };
  readonly pseudonymised: {
    readonly balances: number;
    readonly ledger: number;
    readonly metering: number;
    readonly reservations: number;
    readonly recurring: number;
    readonly adjustments: number;
    readonly refunds: number;
    readonly exports: number;
  };
  readonly revoked: UnitAmounts;
}

const DELETED_KINDS = ["analytics", "ids", "properties", "notes", "messages", "customers", "refusals"] as const;
const KEPT_KINDS = [
  "balances",
  "ledger",
  "metering",
  "reservations",
  "recurring",
  "adjustments",
  "refunds",
  "exports",
] as const;

type CountedKind = (typeof DELETED_KINDS)[number] | "consent" | (typeof KEPT_KINDS)[number];

/** The rows of each kind, and the amount to revoke of each unit. The amount has two sums, because one sum could overflow. */
type Counts = Readonly<Record<CountedKind, number>> & {
  readonly revoked: Readonly<Record<Unit, readonly [high: number, low: number]>>;
};

/** The record and the account of an id. */
const record = alias(distinctIds, "d");
const account = alias(accounts, "a");

const countOfAccount = (table: { readonly accountId: SQLiteColumn }) => eq(table.accountId, account.id);
const count = (table: SQLiteTable, where: SQL | undefined) => sql`(SELECT count(*) FROM ${table} WHERE ${where})`;
/** SQL: the last seq, which is the number of rows because seqs have no gaps. */
const countBySeq = (seq: SQLiteColumn, where: SQL | undefined, ...order: readonly SQL[]) =>
  sql`coalesce((SELECT ${seq} FROM ${seq.table} WHERE ${where} ORDER BY ${sql.join([...order, desc(seq)], sql`, `)} LIMIT 1), 0)`;

const countsOf = (): Readonly<Record<CountedKind, SQL>> => ({
  analytics: sql`coalesce(${record.eventCount} - ${record.deletedCount} - ${record.replacedCount}, 0)`,
  consent: countBySeq(consentLog.seq, namesId(consentLog, consentLog.distinctId)),
  ids: sql`${record.distinctId} IS NOT NULL`,
  properties: count(idProperties, namesId(idProperties, idProperties.distinctId)),
  notes: count(userNotes, namesId(userNotes, userNotes.userId)),
  messages: count(webhookMessages, namesId(webhookMessages, webhookMessages.subject)),
  customers: count(stripeCustomers, namesId(stripeCustomers, stripeCustomers.userId)),
  refusals: count(rejections, namesId(rejections, rejections.userId)),
  balances: count(creditBalances, countOfAccount(creditBalances)),
  ledger: countBySeq(creditLedger.seq, countOfAccount(creditLedger)),
  metering: countBySeq(usageEvents.seq, countOfAccount(usageEvents)),
  reservations: countBySeq(reservations.reservationNumber, countOfAccount(reservations)),
  recurring: count(recurringGrants, countOfAccount(recurringGrants)),
  adjustments: count(creditAdjustments, countOfAccount(creditAdjustments)),
  refunds: count(creditRefunds, countOfAccount(creditRefunds)),
  exports: countBySeq(exportAudit.seq, namesId(exportAudit, exportAudit.distinctId)),
});

const memberRows = alias(members, "m");
const ownPayer = alias(accounts, "payer");
const ofMember = (table: typeof usageEvents | typeof reservations) =>
  sql`${table.accountId} = ${memberRows.accountId} AND ${table.memberNumber} = ${memberRows.memberNumber}`;

/** The kinds that also count what the ids used as members, once if the person pays for it too (ME6). */
function withMembers(from: SQL): Partial<Readonly<Record<CountedKind, SQL>>> {
  const { metering, reservations: holds, messages, refusals } = countsOf();
  const isOneOf = (userId: SQLiteColumn) => sql`${userId} IN (SELECT ${names(id.distinctId)} FROM ${from})`;
  const isOwn = sql`EXISTS (
    SELECT 1 FROM ${accounts} AS ${ownPayer} WHERE ${ownPayer.id} = ${memberRows.accountId} AND ${ownPayer.isErased} = 0
      AND ${isOneOf(ownPayer.userId)}
  )`;
  // The conditions repeat those of the partial indexes. A column with `+` has no affinity, so SQLite finds it by the index.
  const member = sql`${webhookMessages.data} ->> 'memberId'`;
  const isMessage = and(
    eq(webhookMessages.environmentId, id.environmentId),
    sql`${member} = +${id.distinctId} AND ${member} IS NOT NULL AND NOT coalesce(${isOneOf(webhookMessages.subject)}, 0)`,
  );
  const isRejection = and(
    namesId(rejections, rejections.memberId),
    sql`${rejections.memberId} <> '' AND NOT ${isOneOf(rejections.userId)}`,
  );
  const used = (table: typeof usageEvents | typeof reservations, index: SQL) => sql`(
    SELECT count(*) FROM ${members} AS ${memberRows} CROSS JOIN ${table} INDEXED BY ${index} ON ${ofMember(table)}
    WHERE ${namesId(memberRows, memberRows.memberId)} AND NOT ${isOwn}
  )`;
  return {
    metering: sql`${metering} + ${used(usageEvents, sql`usage_events_member`)}`,
    reservations: sql`${holds} + ${used(reservations, sql`reservations_member`)}`,
    messages: sql`${messages} + ${count(webhookMessages, isMessage)}`,
    refusals: sql`${refusals} + ${count(rejections, isRejection)}`,
  };
}

const selectSplitSums = (minor: SQL | SQLiteColumn, from: SQL) =>
  Object.values(partsOf(minor)).map((part) => sql`coalesce((SELECT sum(${part}) FROM ${from}), 0)`);

/** SQL: the remaining amount of a unit, including holds of open reservations on balances that are not revoked. */
function remainingOfUnit(unit: Unit): SQL {
  const isOfUnit = and(countOfAccount(creditBalances), eq(creditBalances.unit, unit));
  const remainingSums = selectSplitSums(creditBalances.remainingMinor, sql`${creditBalances} WHERE ${isOfUnit}`);
  const heldSums = selectSplitSums(
    storedLeg.minor,
    sql`${reservations}, ${eachLeg(reservations.legs)}
      CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)}
      WHERE ${countOfAccount(reservations)} AND ${reservations.state} = 'open' AND ${isOfUnit} AND ${creditBalances.revokedAtMs} IS NULL`,
  );
  const [whole, rest] = remainingSums.map((sum, index) => sql`coalesce(sum(${sum} + ${heldSums[index]}), 0)`);
  return sql`json_array(${whole}, ${rest})`;
}

/**
 * Counts the stored data about ids, as JSON for `readCounts`. The rows of `from` have the columns of `erasureIds` for an id.
 */
export function selectCountsOf(from: SQL): SQL {
  const counts = { ...countsOf(), ...withMembers(from) };
  const pairs = [
    ...Object.entries(counts).map(([name, counted]) => sql`${name}, coalesce(sum(${counted}), 0)`),
    sql`'revoked', json_object(${sql.join(
      UNITS.map((unit) => sql`${unit}, ${remainingOfUnit(unit)}`),
      sql`, `,
    )})`,
  ];
  return sql`SELECT json_object(${sql.join(pairs, sql`, `)}) FROM ${from} AS ${id}
    LEFT JOIN ${distinctIds} AS ${record} ON ${namesId(record, record.distinctId)}
    LEFT JOIN ${accounts} AS ${account} ON ${and(namesId(account, account.userId), sql`${account.isErased} = 0`)}`;
}

/** The sums of `stored`, a JSON list of results of `selectCountsOf`. A consent log that is kept is not counted. */
export function readCounts(stored: string, keepConsent: boolean): ErasureCounts {
  const counts = JSON.parse(stored) as readonly Counts[];
  const sum = (count: (part: Counts) => number): number => counts.reduce((total, part) => total + count(part), 0);
  // The record contains every name.
  const sumsOf = <Name extends CountedKind>(names: readonly Name[]) =>
    Object.fromEntries(names.map((name) => [name, sum((part) => part[name])])) as Record<Name, number>;
  const revoked: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const [whole = 0, rest = 0] = [0, 1].map((index) => sum((part) => part.revoked[unit][index] ?? 0));
    const minor = minorOfSum({ whole, rest });
    if (minor > 0n) revoked[unit] = exactAmount(unit, minor);
  }
  return {
    erased: { ...sumsOf(DELETED_KINDS), ...(keepConsent ? {} : sumsOf(["consent"])) },
    pseudonymised: sumsOf(KEPT_KINDS),
    revoked,
  };
}
