import type { Context } from "hono";
import { DAY_MS } from "../lib/time.ts";
import { countUnmatched } from "../payments/count-unmatched.ts";
import { listPayments } from "../payments/list.ts";
import { readLag } from "../webhooks/delete-old.ts";
import { readHealth } from "../webhooks/read-health.ts";
import type { DashboardEnv } from "./env.ts";
import { type Figure, readActivity, readPacks } from "./figures/read.ts";
import { readBusiness } from "./figures/read-business.ts";
import { readOutstanding } from "./figures/read-outstanding.ts";
import { AHEAD_DAYS } from "./figures/walk-business.ts";
import { twoSpans } from "./overview-spans.ts";

/** The revenue is added up of so many payments at the most, the newest. */
const PAYMENTS_MAX = 100;

/** All that the overview shows, of some days and as many before them. */
export async function readOverview(c: Context<DashboardEnv>, days: number) {
  const { ctx, root } = c.var;
  const today = ctx.now();
  const past = today - (days - 1) * DAY_MS;
  /** These days, and as many before them. */
  const both = async (kind: Figure["kind"]) =>
    twoSpans(await readActivity(ctx, kind, past - days * DAY_MS, 2 * days), days);
  const of = (kind: Figure["kind"]) => readActivity(ctx, kind, past, days);
  const { appId, mode } = ctx.environment;
  const [granted, spent, refunded, shortages, refused, minted, opened, links] = await Promise.all([
    both("granted"),
    both("spent"),
    both("refunded"),
    both("shortage"),
    of("failed_grant"),
    of("minted"),
    of("opened"),
    of("refused_claim"),
  ]);
  const [business, outstanding, packs, lag, health, unmatched, { payments, nextCursor }] = await Promise.all([
    readBusiness(ctx),
    readOutstanding(ctx),
    readPacks(ctx, past, days),
    readLag(ctx),
    readHealth(ctx),
    countUnmatched(ctx),
    listPayments(root, appId, { mode, limit: PAYMENTS_MAX }),
  ]);
  // A walk that ended before the application had users says nothing of it.
  const isOlder = business?.users === 0 && (outstanding?.users ?? 0) > 0;
  return {
    ...{ past, days, granted, spent, refunded, shortages, refused, minted, opened, links },
    expiring: (isOlder ? null : business)?.expiring(today, AHEAD_DAYS) ?? [],
    ...{
      business: isOlder ? null : business,
      outstanding,
      packs,
      lag,
      health,
      unmatched,
      payments,
      isAllPayments: nextCursor === null,
    },
  };
}
export type Overview = Awaited<ReturnType<typeof readOverview>>;
