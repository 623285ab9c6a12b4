import { and, eq, isNull, sql } from "drizzle-orm";
import { creditBalances } from "../db/schema.ts";
import { batchAll } from "../db/statement.ts";
import { PurserError } from "../errors.ts";
import { reversed } from "../ledger/entries.ts";
import { dueHolds, landAfterDue, readHold, settleDue } from "../ledger/holds.ts";
import type { Ctx } from "../runtime.ts";
import type { RevokeOutput } from "./answers.ts";
import type { RevokeInput } from "./schemas.ts";

/**
 * Zeroes one balance: what remains is reversed in the ledger as `admin_adjust` with the reason as its note, also when
 * nothing remains; what was spent stays spent. Again: 200, no second row (C15). Throws `credit_balance_not_found`.
 */
export async function revoke(ctx: Ctx, input: RevokeInput): Promise<RevokeOutput> {
  const { balanceId } = input;
  const isIt = and(eq(creditBalances.environmentId, ctx.environment.id), eq(creditBalances.id, balanceId));
  const [[found], dueRows] = await ctx.db.batch([
    ctx.db
      .select({ userId: creditBalances.userId, revokedAtMs: creditBalances.revokedAtMs })
      .from(creditBalances)
      .where(isIt),
    dueHolds(ctx, { ofBalance: balanceId }),
  ]);
  if (found === undefined) throw balanceNotFound();
  const due = dueRows.map(readHold);
  if (found.revokedAtMs !== null) await settleDue(ctx, found.userId, due);
  else {
    await landAfterDue(ctx, found.userId, due, (returns) =>
      batchAll(ctx.db, [
        ...returns,
        reversed(ctx, found.userId, balanceId, input.reason ?? null),
        ctx.db
          .update(creditBalances)
          .set({ revokedAtMs: sql`CAST(${ctx.now()} AS INTEGER)` })
          .where(and(isIt, isNull(creditBalances.revokedAtMs))),
      ]),
    );
  }
  return { balanceId, remaining: 0 };
}

export function balanceNotFound(): PurserError {
  return new PurserError("credit_balance_not_found", "There is no such credit balance.", { param: "balanceId" });
}
