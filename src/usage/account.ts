import type { Ctx } from "../context.ts";
import type { PayingRow, SpendableBalance } from "../credits/balance.ts";
import { afterReturn, balancesOfDueHolds, dueHolds, type Hold, readHold, spendable } from "../credits/holds.ts";
import { liveBalances } from "../credits/list.ts";
import type { Selected } from "../db/prepared.ts";

/** What a debit or a hold is planned on. */
export interface Account<Row> {
  /** What stands under the caller's id already. */
  readonly stored: Row | undefined;
  /** Holds that nobody settled in time: to be returned first. */
  readonly due: readonly Hold[];
  /** The balances that can pay once those are returned, in spending order. */
  readonly able: readonly SpendableBalance[];
}

/** Reads a user's account in one trip, beside what stands under an id. */
export async function readAccount<Row>(ctx: Ctx, userId: string, underId: Selected<Row>): Promise<Account<Row>> {
  const [[stored], live, dueRows, ofDue] = await ctx.db.batch([
    underId,
    liveBalances(ctx, userId),
    dueHolds(ctx, userId),
    balancesOfDueHolds(ctx, userId),
  ]);
  const due = dueRows.map(readHold);
  const rows: readonly PayingRow[] = [...live, ...ofDue];
  return { stored, due, able: spendable(afterReturn(rows, due), ctx.now()) };
}
