import type { Context } from "hono";
import { countSuspended } from "../books/recurring/recurring.ts";
import { listStatements, readStatement } from "../books/statements/statements.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { countUnmatched, listPayments } from "../payments/list.ts";
import { readFullness } from "../people/limits/limits.ts";
import { readHealth, readLag } from "../webhooks/list-deliveries.ts";
import { AHEAD_DAYS, readBusiness } from "./figures/business.ts";
import { type Figure, readActivity, readOutstanding, readPackFigures } from "./figures/read.ts";
import type { DashboardEnv } from "./form.ts";

/** How many of the newest payments the revenue adds up. */
const PAYMENTS_MAX = 100;

/** Returns all that the overview shows, for some days and as many before them. */
export async function readOverview(c: Context<DashboardEnv>, days: number) {
  const { ctx, root } = c.var;
  const today = ctx.now();
  const past = today - (days - 1) * DAY_MS;
  /** Reads these days, and as many before them. */
  const both = async (kind: Figure["kind"]) =>
    twoSpans(await readActivity(ctx, kind, past - days * DAY_MS, 2 * days), days);
  const of = (kind: Figure["kind"]) => readActivity(ctx, kind, past, days);
  const { appId, mode } = ctx.environment;
  const [granted, sold, spent, refunded, restored, revoked, adjusted, erased] = await Promise.all([
    both("granted"),
    of("sold"),
    both("spent"),
    of("refunded"),
    of("restored"),
    of("revoked"),
    of("adjusted"),
    of("erased"),
  ]);
  const [shortages, refused, minted, opened, links] = await Promise.all([
    both("shortage"),
    of("failed_grant"),
    of("minted"),
    of("opened"),
    of("refused_claim"),
  ]);
  const [statement, business, outstanding, packs, lag, health, unmatched, suspended, fullness, paid] =
    await Promise.all([
      readNewestStatement(c),
      readBusiness(ctx),
      readOutstanding(ctx),
      readPackFigures(ctx, past, days),
      readLag(ctx),
      readHealth(ctx),
      countUnmatched(ctx),
      countSuspended(ctx),
      readFullness(ctx),
      listPayments(root, appId, { mode, limit: PAYMENTS_MAX }),
    ]);
  // A walk that ended before the application had users has no useful figures.
  const isOlder = business?.users === 0 && (outstanding?.users ?? 0) > 0;
  return {
    ...{ past, days, granted, sold, spent, refunded, restored, revoked, adjusted, erased },
    ...{ shortages, refused, minted, opened, links, statement },
    expiring: (isOlder ? null : business)?.expiring(today, AHEAD_DAYS) ?? [],
    ...{
      business: isOlder ? null : business,
      outstanding,
      packs,
      lag,
      health,
      unmatched,
      suspended,
      fullness,
      payments: paid.payments,
      isAllPayments: paid.nextCursor === null,
    },
  };
}

/** Returns the statement of the newest month that has one. Null when there is none. */
async function readNewestStatement({ var: { ctx, root } }: Context<DashboardEnv>) {
  const { appId, mode } = ctx.environment;
  const [newest] = (await listStatements(root, appId, mode)).statements;
  return newest === undefined ? null : readStatement(root, appId, newest.statementId);
}

export type Overview = Awaited<ReturnType<typeof readOverview>>;

/** The properties of every part of the overview. */
export interface OverviewProps {
  readonly c: Context<DashboardEnv>;
  readonly overview: Overview;
}

/** Returns the first and the last day of the overview. */
export const spanOf = ({ past, days }: Overview) => ({
  from: iso(past).slice(0, 10),
  to: iso(past + (days - 1) * DAY_MS).slice(0, 10),
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

export const sumOf = ({ days }: { readonly days: readonly { readonly value: number }[] }): number =>
  days.reduce((sum, day) => sum + day.value, 0);

/** Returns a unit's days on the dates of the overview, with zeros where nothing was counted. */
export function inSpan(figures: readonly Figure[], unit: string, span: { past: number; days: number }) {
  const figure = figures.find((each) => each.unit === unit);
  return Array.from({ length: span.days }, (_, index) => ({
    date: iso(span.past + index * DAY_MS).slice(0, 10),
    value: figure?.days[index]?.value ?? 0,
  }));
}

/** Returns a unit's sum. */
export const sumOfUnit = (figures: readonly Figure[], unit: string): number => {
  const figure = figures.find((each) => each.unit === unit);
  return figure === undefined ? 0 : sumOf(figure);
};
