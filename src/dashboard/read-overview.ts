import { countSuspended } from "../books/recurring/recurring.ts";
import { listStatements, readStatement } from "../books/statements/monthly-statements.ts";
import { countFaults } from "../db/cron-work.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { readMoneyDays } from "../payments/money-days.ts";
import { countUnmatched, newestDisputed } from "../payments/payment-lists.ts";
import { readFullness } from "../people/limits/analytics-limits.ts";
import { readHealth, readLag } from "../webhooks/delivery-page.ts";
import { AHEAD_DAYS } from "./figures/business.ts";
import { type Figure, readActivity, readOutstanding, readPackFigures } from "./figures/read.ts";
import { readBusiness } from "./figures/read-business.ts";
import type { PageContext } from "./form.ts";

const DISPUTES_SHOWN = 5;

/** Returns all that the overview shows: figures for some days, and for as many days before them. */
export async function readOverview(c: PageContext, days: number) {
  const { ctx } = c.var;
  const today = ctx.now();
  const firstMs = today - (days - 1) * DAY_MS;
  /** Reads a kind of figure for these days, and for as many days before them. */
  const readTwoSpans = async (kind: Figure["kind"]) =>
    twoSpans(await readActivity(ctx, kind, firstMs - days * DAY_MS, 2 * days), days);
  const read = (kind: Figure["kind"]) => readActivity(ctx, kind, firstMs, days);
  const figures = await readAtOnce({
    granted: readTwoSpans("granted"),
    sold: read("sold"),
    purchase: read("purchase"),
    spent: readTwoSpans("spent"),
    refunded: read("refunded"),
    restored: read("restored"),
    revoked: read("revoked"),
    adjusted: read("adjusted"),
    erased: read("erased"),
    expired: read("expired"),
  });
  const rejections = await readAtOnce({
    shortages: readTwoSpans("shortage"),
    limited: read("usage_limit"),
    refused: read("failed_grant"),
    minted: read("minted"),
    opened: read("opened"),
    links: read("rejected_claim"),
  });
  const { business, ...state } = await readAtOnce({
    statement: readNewestStatement(c),
    business: readBusiness(ctx),
    outstanding: readOutstanding(ctx, firstMs),
    packs: readPackFigures(ctx, firstMs, days),
    lag: readLag(ctx),
    health: readHealth(ctx),
    unmatched: countUnmatched(ctx),
    suspended: countSuspended(ctx),
    faults: countFaults(ctx),
    fullness: readFullness(ctx),
    disputed: newestDisputed(ctx, DISPUTES_SHOWN),
    money: readMoneyDays(ctx, firstMs - days * DAY_MS, 2 * days),
  });
  // A walk that ended before the application had users has no useful figures.
  const isOlder = business?.users === 0 && (state.outstanding?.users ?? 0) > 0;
  const known = isOlder ? null : business;
  const expiring = known?.expiring(today, AHEAD_DAYS) ?? [];
  return { firstMs, days, ...figures, ...rejections, ...state, business: known, expiring };
}

/** Returns the statement of the newest month that has one. Null when there is none. */
async function readNewestStatement({ var: { root, appId, mode } }: PageContext) {
  const [newest] = (await listStatements(root, appId, mode)).statements;
  return newest === undefined ? null : readStatement(root, appId, newest.statementId);
}

export type Overview = Awaited<ReturnType<typeof readOverview>>;

/** The properties of every part of the overview. */
export interface OverviewProps {
  readonly overview: Overview;
}

/** Returns the first and the last day of the overview. */
export const spanOf = ({ firstMs, days }: Overview) => ({
  from: iso(firstMs).slice(0, 10),
  to: iso(firstMs + (days - 1) * DAY_MS).slice(0, 10),
});

/** Figures for some days, and for as many days before them. */
export interface TwoSpans {
  readonly now: readonly Figure[];
  readonly before: readonly Figure[];
}

/** Splits figures for twice as many days into two spans. */
const twoSpans = (figures: readonly Figure[], days: number): TwoSpans => ({
  now: figures.map((figure) => ({ ...figure, days: figure.days.slice(days) })),
  before: figures.map((figure) => ({ ...figure, days: figure.days.slice(0, days) })),
});

export const sumDayValues = ({ days }: { readonly days: readonly { readonly value: number }[] }): number =>
  days.reduce((sum, day) => sum + day.value, 0);

/** Returns a unit's days on the dates of the overview, with zeros where nothing was counted. */
export function inSpan(figures: readonly Figure[], unit: string, span: { firstMs: number; days: number }) {
  const figure = figures.find((each) => each.unit === unit);
  return Array.from({ length: span.days }, (_, index) => ({
    date: iso(span.firstMs + index * DAY_MS).slice(0, 10),
    value: figure?.days[index]?.value ?? 0,
  }));
}

/** Returns a unit's sum. */
export const sumOfUnit = (figures: readonly Figure[], unit: string): number => {
  const figure = figures.find((each) => each.unit === unit);
  return figure === undefined ? 0 : sumDayValues(figure);
};

/** Waits for some reads at once. Returns their results by the same names. */
async function readAtOnce<Reads extends Readonly<Record<string, unknown>>>(
  reads: Reads,
): Promise<{ readonly [Name in keyof Reads]: Awaited<Reads[Name]> }> {
  const results = await Promise.all(Object.values(reads));
  // The values stand in the order of the names.
  return Object.fromEntries(Object.keys(reads).map((name, index) => [name, results[index]])) as {
    readonly [Name in keyof Reads]: Awaited<Reads[Name]>;
  };
}
