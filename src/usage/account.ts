import type { Selected } from "../db/prepared.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import { ableBalances, afterReturn, dueHolds, type Hold, readHold, spendable } from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";

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
  const [[stored], rows, dueRows] = await ctx.db.batch([underId, ableBalances(ctx, userId), dueHolds(ctx, userId)]);
  const due = dueRows.map(readHold);
  return { stored, due, able: spendable(afterReturn(rows, due), ctx.now()) };
}
