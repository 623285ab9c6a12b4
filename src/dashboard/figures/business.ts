import { and, eq, gt, isNotNull, isNull, lt, not, or, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { partsOf } from "../../books/amounts/amount-sql.ts";
import { isOpen } from "../../books/ledger/hold.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../../books/ledger/stored-legs.ts";
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
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { deleteOldRejections } from "../../db/rejections.ts";
import {
  accounts,
  businessFigures,
  businessWalks,
  creditBalances,
  environments,
  rejections,
  reservations,
} from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { DAY_MS, HOUR_MS } from "../../lib/time.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";

/** Figures older than this are computed again. */
const FIGURES_AGE_MAX_MS = HOUR_MS;
const ACCOUNTS_A_PAGE = 1_000;
/** How many pages of each database one run of the cron processes. */
const BUSINESS_PAGES_A_RUN_MAX = 30;
/** How many queries a page takes. The last page takes one more. */
const BUSINESS_QUERIES_A_PAGE = 6;
/** How many days back the figures show expired amounts. */
const EXPIRED_DAYS = 90;

type Moment = { nowMs: number };
const walkNow = (value: ValueOf<Moment>) => asInteger(value("nowMs"));

const selectWalk = query(() =>
  drizzle
    .select(fields(businessWalks, { beganAtMs: "beganAtMs", afterId: "afterAccountId" }))
    .from(businessWalks)
    .where(isNull(businessWalks.finishedAtMs)),
);

/** Begins a walk, unless one is running or the last one is recent. Two Workers at the same time begin only one. */
const beginWalk = query((value: ValueOf<Moment>) => {
  const { beganAtMs, finishedAtMs } = businessWalks;
  const isRecent = gt(beganAtMs, sql`${walkNow(value)} - ${FIGURES_AGE_MAX_MS}`);
  const hasRows = or(hasRow(accounts, undefined), hasRow(rejections, undefined));
  const isDue = and(not(hasRow(businessWalks, or(isNull(finishedAtMs), isRecent))), hasRows);
  return insertFrom(businessWalks, { beganAtMs: walkNow(value), afterAccountId: sql`0` }, sql`WHERE ${isDue}`);
});

const selectEnd = query((value: ValueOf<{ afterId: number }>) => {
  const { id } = accounts;
  const page = sql`SELECT ${id} FROM ${accounts} WHERE ${id} > ${value("afterId")} ORDER BY ${id} LIMIT ${ACCOUNTS_A_PAGE}`;
  return read(
    computed({ endId: sql<number | null>`max(${id})` }),
    (list) => sql`SELECT ${list} FROM (${page}) AS ${accounts}`,
  );
});

type BusinessPosition = { beganAtMs: number; afterId: number };
type BusinessPage = BusinessPosition & Moment & { endId: number };

const isAt = (value: ValueOf<BusinessPosition>) =>
  and(
    eq(businessWalks.beganAtMs, value("beganAtMs")),
    eq(businessWalks.afterAccountId, value("afterId")),
    isNull(businessWalks.finishedAtMs),
  );
const stepPage = query((value: ValueOf<BusinessPage>) =>
  drizzle
    .update(businessWalks)
    .set({ afterAccountId: asInteger(value("endId")) })
    .where(isAt(value)),
);

/** How many days ahead the figures show amounts that will expire. */
export const AHEAD_DAYS = 30;
/** The numbers of days for which active users are counted. */
export const ACTIVE_DAYS = [7, 30, 90] as const;

/** Selects the figures of a page: the environment, the kind, its label, the unit, and the sum in two parts. */
function figuresOf(value: ValueOf<BusinessPage>) {
  const { id, environmentId, isErased, lastActiveDay } = accounts;
  const { packId, unit, expiresAtMs } = creditBalances;
  const isInPage = sql`${id} > ${value("afterId")} AND ${id} <= ${value("endId")}`;
  const remaining = {
    minor: creditBalances.remainingMinor,
    from: sql`FROM ${accounts} CROSS JOIN ${creditBalances} INDEXED BY credit_balances_remaining
      ON ${creditBalances.accountId} = ${id} AND ${creditBalances.hasRemaining} = 1 WHERE ${isInPage}`,
  };
  const held = {
    minor: storedLeg.minor,
    from: sql`FROM ${accounts} CROSS JOIN ${reservations} INDEXED BY reservations_open
      ON ${reservations.accountId} = ${id} AND ${isOpen()} CROSS JOIN ${eachLeg(reservations.legs)}
      CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)} WHERE ${isInPage}`,
  };
  const { whole, rest } = partsOf(sql`portion.minor`);
  /** The sums of some amounts of balances. D1 takes at most five terms in a UNION, so each kind has one of its own. */
  const sumsOf = (
    kind: SQL,
    label: SQL | SQLiteColumn,
    where: SQL,
    amounts: readonly (typeof remaining | typeof held)[],
  ) => {
    const rows = amounts.map(
      ({ minor, from }) =>
        sql`SELECT ${environmentId} AS tenant, ${label} AS caption, ${unit} AS measure, ${minor} AS minor ${from} AND ${where}`,
    );
    return sql`SELECT portion.tenant, ${kind}, portion.caption, portion.measure, sum(${whole}), sum(${rest})
      FROM (${sql.join(rows, sql` UNION ALL `)}) AS portion GROUP BY 1, 3, 4`;
  };
  // The time of the account's environment.
  const time = sql`(${walkNow(value)} + coalesce((SELECT ahead.ms FROM ahead WHERE ahead.environment = ${environmentId}), 0))`;
  const day = sql`CAST(${expiresAtMs} / ${DAY_MS} AS TEXT)`;
  const isLive = sql`${expiresAtMs} > ${time}`;
  const hasExpired = sql`${expiresAtMs} <= ${time} AND ${expiresAtMs} > ${time} - ${EXPIRED_DAYS * DAY_MS}`;
  const isExpiring = sql`${isLive} AND ${expiresAtMs} <= ${time} + ${AHEAD_DAYS * DAY_MS}`;
  return sql`
    ${sumsOf(sql`'outstanding'`, packId, isLive, [remaining, held])}
    UNION ALL ${sumsOf(sql`'expired'`, day, hasExpired, [remaining, held])}
    UNION ALL ${sumsOf(sql`'expiring'`, day, isExpiring, [remaining])}
    UNION ALL
    SELECT ${environmentId}, 'users', '', '', count(*), 0 FROM ${accounts} WHERE ${isInPage} AND ${isErased} = 0 GROUP BY 1
    UNION ALL
    SELECT ${environmentId}, 'active', CAST(d.value AS TEXT), '', count(*), 0
    FROM ${accounts} CROSS JOIN json_each(${JSON.stringify(ACTIVE_DAYS)}) AS d
    WHERE ${isInPage} AND ${isErased} = 0 AND ${lastActiveDay} > ${time} / ${DAY_MS} - d.value GROUP BY 1, 3`;
}

/**
 * Adds a page's sums if the statement before it (`stepPage`) changed the position. So each page counts once, even if another
 * Worker walks at the same time or the batch is sent again.
 */
const addPage = query((value: ValueOf<BusinessPage>) => {
  const { settingsSnapshot } = environments;
  // How far the test clocks are ahead (D3). Few environments have a test clock, and the query reads only those.
  const ahead = sql`
    SELECT ${environments.id}, coalesce(${settingsSnapshot} ->> '$.clock.atMs' - ${walkNow(value)}, ${settingsSnapshot} ->> '$.clock.aheadMs')
    FROM ${environments} INDEXED BY environments_clock WHERE ${settingsSnapshot} ->> '$.clock' IS NOT NULL`;
  const figure = {
    environmentId: sql`figure.environment`,
    beganAtMs: asInteger(value("beganAtMs")),
    kind: sql`figure.row_kind`,
    label: sql`figure.row_label`,
    unit: sql`figure.row_unit`,
    whole: sql`figure.millions`,
    rest: sql`figure.minor`,
  };
  const { environmentId, beganAtMs, kind, label, unit, whole, rest } = businessFigures;
  const sums = assignments(businessFigures, {
    whole: sql`${whole} + excluded.${names(whole)}`,
    rest: sql`${rest} + excluded.${names(rest)}`,
  });
  return sql`
    WITH ahead (environment, ms) AS MATERIALIZED (${ahead}),
    figure (environment, row_kind, row_label, row_unit, millions, minor) AS (${figuresOf(value)})
    ${insertFrom(businessFigures, figure, sql`FROM figure WHERE changes() = 1`)}
    ON CONFLICT (${names(environmentId, beganAtMs, kind, label, unit)}) DO UPDATE SET ${sums}`;
});

const finishWalk = query((value: ValueOf<BusinessPosition & Moment>) =>
  drizzle
    .update(businessWalks)
    .set({ finishedAtMs: walkNow(value) })
    .where(isAt(value)),
);
const isOld = ({ beganAtMs }: typeof businessWalks | typeof businessFigures) => {
  const latest = computed({ latest: sql<number | null>`max(${businessWalks.beganAtMs})` });
  return lt(beganAtMs, scalar(drizzle.select(latest).from(businessWalks).where(isNotNull(businessWalks.finishedAtMs))));
};
const deleteOldFigures = query(() => drizzle.delete(businessFigures).where(isOld(businessFigures)));
const deleteOldWalks = query(() => drizzle.delete(businessWalks).where(isOld(businessWalks)));

/**
 * Computes the business figures of the overview, hourly, in pages: outstanding amounts by unit and pack, expired amounts by day, both
 * with what open reservations hold of them, and the number of active users. A run that does not finish a database's users leaves the
 * rest to the next run.
 */
export async function walkBusiness({ db, now, allowance }: CronCtx): Promise<readonly unknown[]> {
  await all(db, beginWalk({ nowMs: now() }));
  for (let pages = 0; pages < BUSINESS_PAGES_A_RUN_MAX; pages++) {
    const [state] = await all(db, selectWalk({}));
    if (state === undefined || !allowance.has(BUSINESS_QUERIES_A_PAGE)) break;
    const [page] = await all(db, selectEnd({ afterId: state.afterId }));
    const nowMs = now();
    const endId = page?.endId ?? null;
    if (endId === null) {
      await batch(db, [
        finishWalk({ ...state, nowMs }),
        deleteOldFigures({}),
        deleteOldWalks({}),
        deleteOldRejections({ nowMs }),
      ]);
      break;
    }
    await batch(db, [stepPage({ ...state, endId, nowMs }), addPage({ ...state, endId, nowMs })]);
  }
  return [];
}

export const figuresPart: CronPart = {
  code: "figures_not_computed",
  weight: 2,
  queriesOfStep: BUSINESS_QUERIES_A_PAGE + 2,
  work: walkBusiness,
};
