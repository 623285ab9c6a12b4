import { and, eq, gte, sql } from "drizzle-orm";
import { isConflict } from "../../db/attempt.ts";
import { hasFailed, mayTry, type Piece, workOnEach } from "../../db/cron-work.ts";
import { boundLimit, computed, drizzle, fields, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { accounts, usageEvents, usageToSum } from "../../db/schema.ts";
import { all, batch, type Db, type StatementRow } from "../../db/sql.ts";
import { usageSummed } from "../../db/views.ts";
import { DAY_MS, MINUTE_MS } from "../../lib/time.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";
import { partsOfMinor } from "../amounts/amount-sql.ts";
import { readStoredLegs } from "../ledger/stored-legs.ts";
import { addDaySums, addTotals, DAY_COLUMNS, SUMMED_IN_PARTS, SUMS, TOTAL_COLUMNS } from "./add-sums.ts";
import { addSentMeters, type DayMeters } from "./meter-sums.ts";

/** The sums of this number of events fit into one value of D1, even with the longest names. */
const EVENTS_A_PAGE_MAX = 1_000;
/** The characters of a page's names and meters, for the same reason. */
const CHARACTERS_A_PAGE_MAX = 400_000;
const SUM_PAGES_A_RUN_MAX = 200;
const SUM_QUERIES_A_PAGE = 4;
/** A prime number, so that runs begin at accounts spread over the whole range. */
const STRIDE = 7_919;

const SUMS_PART = "usage_not_summed";
type SumPosition = { environmentId: number; accountId: number };

/** The account at which a run begins. */
const selectStart = query((value: ValueOf<{ from: number }>) =>
  drizzle
    .select(fields(accounts, { environmentId: "environmentId", accountId: "id" }))
    .from(accounts)
    .where(gte(accounts.id, sql`${value("from")} % (SELECT max(${accounts.id}) + 1 FROM ${accounts})`))
    .orderBy(accounts.id)
    .limit(1),
);

/** Events that are not summed yet, from a position on, account by account in order. */
const selectUnsummedEvents = query((value: ValueOf<SumPosition & { realMs: number; limit: number }>) => {
  const { environmentId, accountId, seq } = usageToSum;
  return drizzle
    .select({
      ...fields(
        usageEvents,
        ...(["environmentId", "accountId", "seq", "event", "model", "memberNumber", "occurredAtMs"] as const),
        ...(["countMinor", "tokensMinor", "secondsMinor", "centsMinor", "costMinor", "meters", "debits"] as const),
      ),
      ...fields(usageToSum, { markSeq: "seq" }),
      ...computed({ hasFailed: hasFailed(SUMS_PART, accountId) }),
    })
    .from(usageToSum)
    .crossJoin(usageEvents)
    .where(
      and(
        eq(usageEvents.accountId, accountId),
        gte(usageEvents.seq, seq),
        sql`(${environmentId}, ${accountId}) >= (${value("environmentId")}, ${value("accountId")})`,
        mayTry(SUMS_PART, value, accountId),
      ),
    )
    .orderBy(environmentId, accountId, usageEvents.seq)
    .limit(boundLimit(value("limit")));
});
type Event = StatementRow<typeof selectUnsummedEvents>;

/** Returns the first events of a page whose names and meters are not too long together. */
function asFit(events: readonly Event[]): readonly Event[] {
  let characters = 0;
  const end = events.findIndex(({ event, model, meters }) => {
    characters += event.length + (model?.length ?? 0) + 2 * (meters?.length ?? 0);
    return characters > CHARACTERS_A_PAGE_MAX;
  });
  return end === -1 ? events : events.slice(0, end);
}

/** Deletes the marks of the page, or moves them to the first later event. Aborts when a mark has moved since it was read. */
const moveMarks = query((value: ValueOf<{ marks: string }>) =>
  insertFrom(
    usageSummed,
    {
      environmentId: sql`item.value ->> 0`,
      accountId: sql`item.value ->> 1`,
      seq: sql`item.value ->> 2`,
      lastSeq: sql`item.value ->> 3`,
    },
    sql`FROM json_each(${value("marks")}) AS item`,
  ),
);

type SumKey = Readonly<Record<(typeof DAY_COLUMNS)[number], string | number>>;

/** Returns what balances in cents paid of an event, in minor units. */
const debitedCents = (debits: string): number =>
  readStoredLegs(debits).reduce((sum, { unit, minor }) => (unit === "cents" ? sum + minor : sum), 0);

/** Returns the sums of a page's events by some columns, as JSON: lists in the order of these columns, `SUMS` and meters. */
function sumPage(events: readonly Event[], columns: readonly (keyof SumKey)[]): string {
  const sums = new Map<
    string,
    { readonly key: (string | number)[]; readonly sums: number[]; meters: DayMeters | null }
  >();
  for (const {
    environmentId,
    accountId,
    event,
    model,
    memberNumber,
    occurredAtMs,
    meters,
    debits,
    ...stored
  } of events) {
    const minor = { ...stored, debitedMinor: debitedCents(debits) };
    const all: SumKey = {
      ...{ environmentId, accountId, event, day: Math.floor(occurredAtMs / DAY_MS) },
      ...{ model: model ?? "", memberNumber: memberNumber ?? 0 },
    };
    const key = columns.map((column) => all[column]);
    const name = JSON.stringify(key);
    const sum = sums.get(name) ?? { key, sums: SUMS.map(() => 0), meters: null };
    sums.set(name, sum);
    const added = [
      1,
      Number(minor.costMinor === null),
      ...SUMMED_IN_PARTS.flatMap((of) => partsOfMinor(minor[`${of}Minor`] ?? 0)),
    ];
    for (const [index, number] of added.entries()) sum.sums[index] = (sum.sums[index] ?? 0) + number;
    if (meters !== null) {
      sum.meters ??= {};
      addSentMeters(sum.meters, meters);
    }
  }
  return JSON.stringify([...sums.values()].map(({ key, sums, meters }) => [...key, ...sums, meters]));
}

/** Returns, for each account of a page, the position of its mark and the page's last event. */
function movedMarks(events: readonly Event[]): number[][] {
  const marks = new Map<number, number[]>();
  for (const { environmentId, accountId, seq, markSeq } of events) {
    marks.set(accountId, [environmentId, accountId, markSeq, seq]);
  }
  return [...marks.values()];
}

/** Sums events in one batch, which fails if another run has summed some of them. */
async function sumEvents(db: Db, events: readonly Event[]): Promise<void> {
  await batch(db, [
    moveMarks({ marks: JSON.stringify(movedMarks(events)) }),
    addDaySums({ sums: sumPage(events, DAY_COLUMNS) }),
    addTotals({ sums: sumPage(events, TOTAL_COLUMNS) }),
  ]);
}

/** Sums the events of each account in a batch of its own. An account whose batch fails is set aside. Returns errors. */
async function sumOneByOne(root: CronCtx, events: readonly Event[]): Promise<unknown[]> {
  const accounts = [...Map.groupBy(events, ({ accountId }) => accountId)].map(([subject, ofAccount]) => ({
    ...({ part: SUMS_PART, environmentId: ofAccount[0]?.environmentId ?? 0, subject } as const),
    ...({ hasFailed: ofAccount[0]?.hasFailed ?? 0, events: ofAccount } as const),
  }));
  const pieces = { queries: SUM_QUERIES_A_PAGE, pieceOf: (account: Piece) => account };
  return workOnEach(root, accounts, pieces, ({ events: ofAccount }) => sumEvents(root.db, ofAccount));
}

/**
 * Adds the events of marked accounts to the sums of their days (U18). Each batch changes the marks together with the sums, and aborts
 * if a mark has changed. If a page fails, also if it conflicts twice, its accounts are summed one by one. Runs begin at different
 * accounts, so that no account waits forever. Returns errors.
 */
export async function sumDays(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance, now } = root;
  const failures: unknown[] = [];
  const [start] = await all(db, selectStart({ from: Math.floor(now() / MINUTE_MS) * STRIDE }));
  if (start === undefined) return [];
  let position: SumPosition = start;
  let isFromStart = true;
  let isAgain = false;
  for (let page = 0; page < SUM_PAGES_A_RUN_MAX && allowance.has(SUM_QUERIES_A_PAGE); page++) {
    const read = await all(db, selectUnsummedEvents({ ...position, realMs: now(), limit: EVENTS_A_PAGE_MAX }));
    const events = asFit(read);
    const last = events.at(-1);
    if (last !== undefined) {
      try {
        if (events.some(({ hasFailed }) => hasFailed === 1)) failures.push(...(await sumOneByOne(root, events)));
        else await sumEvents(db, events);
        isAgain = false;
      } catch (error) {
        // Another run summed these events first.
        if (isConflict(error) && !isAgain) {
          isAgain = true;
          continue;
        }
        isAgain = false;
        failures.push(...(await sumOneByOne(root, events)));
      }
    }
    if (last !== undefined && (events.length < read.length || read.length === EVENTS_A_PAGE_MAX)) {
      // The last account may have more events. If not, its mark is deleted.
      position = { environmentId: last.environmentId, accountId: last.accountId };
    } else if (isFromStart) {
      position = { environmentId: 0, accountId: 0 };
      isFromStart = false;
    } else {
      break;
    }
  }
  return failures;
}

export const daySumsPart: CronPart = {
  code: SUMS_PART,
  weight: 4,
  queriesOfStep: SUM_QUERIES_A_PAGE + 1,
  work: sumDays,
};
