import { and, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { BALANCE_SOURCES, creditBalances, creditLedger, ENTRY_KINDS, recurringGrants } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountIdOfUser, type WriteContext, writingValues } from "./account.ts";
import { authorOfWrite } from "./author.ts";
import { lastSeqOf } from "./insert-entries.ts";
import { creditsGranted, type LedgerMessage } from "./messages.ts";
import { countBalances, issuedColumns, type Reader } from "./new-balances.ts";
import type { DuePeriod, PeriodPlan, RecurringChange } from "./plan-periods.ts";

type Changes = { changes: string };

/** Aborts the batch with `guard_recurring` when a recurring grant has changed since it was read. */
const updateRecurring = query((value: ValueOf<Changes>) => {
  const { state, lastN } = recurringGrants;
  const isSame = sql`${state} = change.value ->> '$.before.state' AND ${lastN} = change.value ->> '$.before.lastN'`;
  return drizzle
    .update(recurringGrants)
    .set({
      lastN: sql`iif(${isSame}, change.value ->> 'lastN', NULL)`,
      state: sql`change.value ->> 'state'`,
      reason: sql`change.value ->> 'reason'`,
      nextAtMs: sql`change.value ->> 'nextAtMs'`,
      utcOffsetMs: sql`change.value ->> 'utcOffsetMs'`,
      finalN: sql`iif(json_type(change.value, '$.finalN') IS NULL, ${recurringGrants.finalN}, change.value ->> 'finalN')`,
      countedBalances: sql`change.value ->> 'countedBalances'`,
    })
    .from(sql`json_each(${value("changes")}) AS change`)
    .where(
      and(
        sql`${recurringGrants.accountId} = change.value ->> 'accountId'`,
        sql`${recurringGrants.ordinal} = change.value ->> 'ordinal'`,
      ),
    );
});

/** A change of an account's recurring grant. A cancellation has `finalN`, and one that is undone null. */
export type ChangeOfAccount = RecurringChange & { readonly accountId: number | null; readonly finalN?: number | null };

export function changeRecurring(changes: readonly ChangeOfAccount[]): Statement[] {
  return jsonChunks(changes).map((chunk) => updateRecurring({ changes: chunk }));
}

const lastPeriodEntry = alias(creditLedger, "last");
type Issue = { environmentId: number; userId: string; nowMs: number; by: string; issued: string };

/** Inserts the balances of periods, for one account or many. A trigger writes their ledger entries, at `writtenAtMs`. */
const insertPeriodsSql = query((value: ValueOf<Issue>) => {
  const account = sql`coalesce(issued.value ->> 'accountId', ${accountIdOfUser(value)})`;
  const position = sql`row_number() OVER (PARTITION BY issued.value ->> 'accountId' ORDER BY issued.key)`;
  const seq = sql`coalesce(${lastPeriodEntry.seq}, 0) + ${position}`;
  return insertFrom(
    creditBalances,
    {
      accountId: account,
      ...issuedColumns,
      packId: sql`issued.value ->> 'packId'`,
      packName: sql`issued.value ->> 'packName'`,
      packNumber: sql`issued.value ->> 'packNumber'`,
      sourceNumber: sql`${BALANCE_SOURCES.grant}`,
      grantKind: sql`${ENTRY_KINDS.recurring}`,
      grantedBy: authorOfWrite(value),
      externalRef: sql`issued.value ->> 'externalRef'`,
      grantedAtMs: sql`issued.value ->> 'atMs'`,
      writtenAtMs: sql`max(coalesce(${lastPeriodEntry.occurredAtMs}, 0), ${asInteger(value("nowMs"))})`,
      expiresAtMs: sql`issued.value ->> 'expiresAtMs'`,
      grantSeq: seq,
      lastSeq: seq,
    },
    sql`FROM json_each(${value("issued")}) AS issued LEFT JOIN ${creditLedger} AS ${lastPeriodEntry}
      ON ${lastPeriodEntry.accountId} = ${account} AND ${lastPeriodEntry.seq} = ${lastSeqOf(account)} ORDER BY issued.key`,
  );
});

/** Returns the balances of one account's periods, for `insertPeriodsOfMany`. */
export function balancesToIssue(accountId: number | null, periods: readonly DuePeriod[]): object[] {
  return periods.flatMap(({ atMs, grant: { packId, packNumber, packName, externalRef, expiresAtMs, balances } }) =>
    balances.map((balance) => ({
      ...{ ...balance, accountId, packId, packNumber, packName, externalRef, expiresAtMs, atMs },
    })),
  );
}

/** Issues the balances of periods of a user. */
export function insertPeriods(writing: WriteContext, periods: readonly DuePeriod[]): Statement[] {
  return insertPeriodsOfMany(writing, balancesToIssue(writing.accountId, periods));
}

/** Returns the context of a write for several accounts. The values of each statement name the account. */
export const writeForMany = ({ environment, now }: Pick<TenantCtx, "environment" | "now">): WriteContext => ({
  ...{ environmentId: environment.id, userId: "", accountId: null, nowMs: now(), by: "cron" },
});

/** Issues the balances that `balancesToIssue` returned, in as many statements as their match rules need. */
export function insertPeriodsOfMany(writing: WriteContext, balances: readonly object[]): Statement[] {
  return jsonChunks(balances).map((issued) => insertPeriodsSql({ ...writingValues(writing), issued }));
}

/** Returns the statements that update the recurring grants and the test quota after due periods. */
export function periodChanges(ctx: Reader, accountId: number | null, plan: PeriodPlan): Statement[] {
  const { changes, newlyCounted } = plan;
  return [...changeRecurring(changes.map((change) => ({ ...change, accountId }))), ...countBalances(ctx, newlyCounted)];
}

/** Returns a `credits.granted` for each period, and a `recurring.suspended` for each recurring grant that is suspended. */
export function periodMessages(userId: string, { periods, changes }: PeriodPlan): LedgerMessage[] {
  return [
    ...periods.map(({ grant, recurringId }) => creditsGranted(userId, grant, { recurringId })),
    ...changes.flatMap(({ id, reason }) => (reason === null ? [] : [recurringSuspended(userId, id, reason)])),
  ];
}

function recurringSuspended(userId: string, recurringId: string, reason: string): LedgerMessage {
  return {
    type: "recurring.suspended",
    subject: userId,
    data: { userId, recurringId, reason },
    last: null,
    hasNoSeq: true,
  };
}

/** Returns periods and holds in order of time, in runs of periods and then holds. At equal times, periods come first (U8). */
export function inOrderOfMoments<Hold>(
  periods: readonly DuePeriod[],
  holds: readonly Hold[],
  endOf: (hold: Hold) => number,
): { readonly periods: DuePeriod[]; readonly holds: Hold[] }[] {
  const runs: { readonly periods: DuePeriod[]; readonly holds: Hold[] }[] = [];
  const rest = [...periods];
  const until = (atMs: number) => {
    const count = rest.findIndex((period) => period.atMs > atMs);
    return rest.splice(0, count === -1 ? rest.length : count);
  };
  for (const hold of holds) {
    const before = until(endOf(hold));
    const run = runs.at(-1);
    if (run === undefined || before.length > 0) runs.push({ periods: before, holds: [hold] });
    else run.holds.push(hold);
  }
  if (rest.length > 0) runs.push({ periods: rest, holds: [] });
  return runs;
}
