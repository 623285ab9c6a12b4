import { and, eq, isNull, sql } from "drizzle-orm";
import { isConflict } from "../../db/attempt.ts";
import { hasFailed, mayTry, workOnEach } from "../../db/cron-work.ts";
import {
  asInteger,
  assignments,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  names,
  query,
  read,
  type ValueOf,
} from "../../db/query.ts";
import {
  accounts,
  creditBalances,
  creditLedger,
  creditPacks,
  environments,
  reservations,
  statementLines,
  statements,
} from "../../db/schema.ts";
import { clockOf, timesOf } from "../../db/settings-snapshot.ts";
import { all, batch } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { jsonChunks } from "../../lib/json.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { minorOfSum, sumOfMinor } from "../amounts/amount-sql.ts";
import { spanOfMonth } from "../ledger/calendar.ts";
import { isOpen } from "../ledger/hold.ts";
import { isBalanceOfEntry, lastSeqOf } from "../ledger/insert-entries.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../ledger/stored-legs.ts";
import { back, walkBack } from "../ledger/walk-back.ts";
import { addAmounts, computeMonthLines, type Line, readAmounts, storedAmounts } from "./lines.ts";

const STATEMENTS_PART = "statements_not_made";
/** How many accounts a page has, of all environments, in the order of their ids. An account keeps its id if its name changes. */
const STATEMENT_ACCOUNTS_A_PAGE = 200;
const STATEMENT_QUERIES_A_PAGE = 10;

const selectRunningStatements = query((value: ValueOf<{ realMs: number }>) =>
  drizzle
    .select({
      ...fields(statements),
      ...fields(environments, "appId"),
      ...computed({ clock: clockOf(), hasFailed: hasFailed(STATEMENTS_PART, statements.id) }),
    })
    .from(sql`${statements} INDEXED BY statements_running`)
    .innerJoin(environments, eq(environments.id, statements.environmentId))
    .where(and(isNull(statements.completedAtMs), mayTry(STATEMENTS_PART, value, statements.id)))
    .limit(100),
);

type StatementPosition = { environmentId: number; month: string; afterId: number };
type AccountsPage = { environmentId: number; afterId: number; fromMs: number; toMs: number };

const isAtPosition = (value: ValueOf<StatementPosition>) =>
  and(
    eq(statements.environmentId, value("environmentId")),
    eq(statements.month, value("month")),
    eq(statements.afterAccountId, value("afterId")),
    isNull(statements.completedAtMs),
  );

/** Returns SQL for the id of the page's last account; null if no account is left. */
const lastAccountOfPage = (value: ValueOf<{ afterId: number }>) => sql<number | null>`(
  SELECT max(page.last) FROM (
    SELECT ${accounts.id} AS last FROM ${accounts} WHERE ${accounts.id} > ${value("afterId")} ORDER BY ${accounts.id} LIMIT ${STATEMENT_ACCOUNTS_A_PAGE}
  ) AS page
)`;
const selectStatementEnd = query((value: ValueOf<{ afterId: number }>) =>
  read(computed({ endId: lastAccountOfPage(value) }), (list) => sql`SELECT ${list}`),
);

const isInPage = (
  value: ValueOf<AccountsPage>,
) => sql`${accounts.id} > ${value("afterId")} AND ${accounts.id} <= ${lastAccountOfPage(value)}
  AND ${accounts.environmentId} = ${value("environmentId")}`;
/** The accounts, which SQLite then reads by their ids instead of an index. */
const fromAccounts = sql`${accounts} NOT INDEXED`;
/** The columns by which each query groups balances. They come first in its select list, for `GROUP BY 1, 2, …`. */
const groupColumns = (value: ValueOf<AccountsPage>) => ({
  ...fields(creditBalances, "packId", "unit", "source"),
  ...computed({
    wasExpired: sql`${creditBalances.expiresAtMs} <= ${value("fromMs")}`.mapWith(Boolean),
    isExpired: sql`${creditBalances.expiresAtMs} <= ${value("toMs")}`.mapWith(Boolean),
  }),
});

/** The remaining amounts of the page's balances. */
const selectRemaining = query((value: ValueOf<AccountsPage>) =>
  drizzle
    .select({ ...groupColumns(value), ...sumOfMinor(creditBalances.remainingMinor) })
    .from(fromAccounts)
    .crossJoin(sql`${creditBalances} INDEXED BY credit_balances_remaining`)
    .where(and(isInPage(value), eq(creditBalances.accountId, accounts.id), eq(creditBalances.hasRemaining, 1)))
    .groupBy(sql`1, 2, 3, 4, 5`),
);

/** The held amounts of the page's balances. */
const selectHeld = query((value: ValueOf<AccountsPage>) =>
  drizzle
    .select({ ...groupColumns(value), ...sumOfMinor(storedLeg.minor) })
    .from(fromAccounts)
    .crossJoin(reservations)
    .crossJoin(eachLeg(reservations.legs))
    .crossJoin(creditBalances)
    .where(
      and(isInPage(value), eq(reservations.accountId, accounts.id), isOpen(), isBalanceOfLeg(reservations.accountId)),
    )
    .groupBy(sql`1, 2, 3, 4, 5`),
);

/** The page's entries since the month began, summed by cause. Reads each account's entries from the last one backwards. */
const selectChanges = query((value: ValueOf<AccountsPage>) => {
  const { accountId, seq } = creditLedger;
  const isSince = sql`${back.occurredAtMs} >= ${value("fromMs")}`;
  const walk = walkBack({
    columns: ["grantSeq", "cause", "deltaMinor", "occurredAtMs"],
    start: sql`${fromAccounts} CROSS JOIN ${creditLedger} ON ${accountId} = ${accounts.id} AND ${seq} = ${lastSeqOf(sql`${accounts.id}`)}
      WHERE ${isInPage(value)}`,
    isOfAccount: true,
    continues: isSince,
  });
  const isAfter = sql`${back.occurredAtMs} >= ${value("toMs")}`;
  return read(
    {
      ...groupColumns(value),
      ...computed({ cause: sql<string>`${back.cause}`, isAfter: isAfter.mapWith(Boolean) }),
      ...sumOfMinor(back.deltaMinor),
    },
    (list) => sql`WITH RECURSIVE ${walk}
    SELECT ${list} FROM ${back} CROSS JOIN ${creditBalances} ON ${isBalanceOfEntry(back)}
    WHERE ${isSince} GROUP BY 1, 2, 3, 4, 5, 6, 7`,
  );
});

const selectStoredLines = query((value: ValueOf<{ statementId: string }>) =>
  drizzle
    .select(fields(statementLines))
    .from(statementLines)
    .where(eq(statementLines.statementId, value("statementId"))),
);

/** Aborts the batch with `guard_statement` if another run has added the page. */
const guardPosition = query((value: ValueOf<StatementPosition>) =>
  insertFrom(guards, { name: sql`'statement'`, holds: hasRow(statements, isAtPosition(value)) }, sql``),
);
const upsertLines = query((value: ValueOf<{ statementId: string; lines: string }>) => {
  const { statementId, unit, packId, amounts } = statementLines;
  const row = {
    statementId: value("statementId"),
    unit: sql`line.value ->> 'unit'`,
    packId: sql`line.value ->> 'packId'`,
    packName: sql`''`,
    amounts: sql`line.value -> 'amounts'`,
  };
  return sql`${insertFrom(statementLines, row, sql`FROM json_each(${value("lines")}) AS line WHERE true`)}
    ON CONFLICT (${names(statementId, unit, packId)})
    DO UPDATE SET ${assignments(statementLines, { amounts: sql`excluded.${names(amounts)}` })}`;
});
const moveStatement = query((value: ValueOf<StatementPosition & { endId: number }>) =>
  drizzle
    .update(statements)
    .set({ afterAccountId: asInteger(value("endId")) })
    .where(isAtPosition(value)),
);
const namePacks = query((value: ValueOf<{ statementId: string; appId: string }>) => {
  const name = sql`(
    SELECT ${creditPacks.name} FROM ${creditPacks}
    WHERE ${creditPacks.appId} = ${value("appId")} AND ${creditPacks.id} = ${statementLines.packId}
  )`;
  return drizzle
    .update(statementLines)
    .set({ packName: sql`coalesce(${name}, '')` })
    .where(eq(statementLines.statementId, value("statementId")));
});
const finishStatement = query((value: ValueOf<StatementPosition & { nowMs: number }>) =>
  drizzle
    .update(statements)
    .set({ completedAtMs: value("nowMs", statements.completedAtMs) })
    .where(isAtPosition(value)),
);

type RunningStatement = Awaited<ReturnType<typeof readRunning>>[number];
const readRunning = ({ db, now }: Pick<CronCtx, "db" | "now">) => all(db, selectRunningStatements({ realMs: now() }));

/** Adds a page to a statement, in one batch. Returns the page's last account, or null if the statement is complete. */
async function addStatementPage(root: CronCtx, statement: RunningStatement, afterId: number): Promise<number | null> {
  const { db } = root;
  const { environmentId, month, id: statementId, appId, clock } = statement;
  const span = spanOfMonth(month);
  if (span === null) return null;
  const page = { environmentId, afterId, ...span };
  const [[end], lines, remaining, held, changes] = await batch(db, [
    selectStatementEnd({ afterId }),
    selectStoredLines({ statementId }),
    selectRemaining(page),
    selectHeld(page),
    selectChanges(page),
  ] as const);
  const position = { environmentId, month, afterId };
  const endId = end?.endId ?? null;
  if (endId === null) {
    await batch(db, [
      guardPosition(position),
      namePacks({ statementId, appId }),
      finishStatement({ ...position, nowMs: timesOf(clock, root).now() }),
    ]);
    return null;
  }
  const added = computeMonthLines(
    [
      ...remaining.map((row) => ({ ...row, remaining: minorOfSum(row), held: 0n })),
      ...held.map((row) => ({ ...row, remaining: 0n, held: minorOfSum(row) })),
    ],
    changes.map((row) => ({ ...row, delta: minorOfSum(row) })),
  );
  const before = new Map(lines.map((line) => [`${line.unit} ${line.packId}`, readAmounts(line.amounts)]));
  const sums = added.map(({ unit, packId, amounts }: Line) => {
    const known = before.get(`${unit} ${packId}`);
    return { unit, packId, amounts: storedAmounts(known === undefined ? amounts : addAmounts(known, amounts)) };
  });
  await batch(db, [
    guardPosition(position),
    ...jsonChunks(sums).map((chunk) => upsertLines({ statementId, lines: chunk })),
    moveStatement({ ...position, endId }),
  ]);
  return endId;
}

/** Makes the requested statements in bounded pages. Because of the guard on the position, each page is added once. */
export async function makeStatements(root: CronCtx): Promise<readonly unknown[]> {
  const pieces = {
    queries: STATEMENT_QUERIES_A_PAGE,
    pieceOf: ({ id, environmentId, hasFailed }: RunningStatement) =>
      ({ part: STATEMENTS_PART, environmentId, subject: id, hasFailed }) as const,
  };
  return workOnEach(root, await readRunning(root), pieces, async (statement) => {
    let afterId: number | null = statement.afterAccountId;
    while (afterId !== null && root.allowance.has(STATEMENT_QUERIES_A_PAGE)) {
      // A conflict means that another run continues the statement, or that the response of a batch was lost.
      afterId = await addStatementPage(root, statement, afterId).catch((error: unknown) => {
        if (!isConflict(error)) throw error;
        return null;
      });
    }
  });
}

export const statementsPart: CronPart = {
  code: STATEMENTS_PART,
  weight: 2,
  queriesOfStep: STATEMENT_QUERIES_A_PAGE + 1,
  work: makeStatements,
};
