import { and, eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../context.ts";
import { creditBalances } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import { reversed } from "./ledger.ts";
import type { RevokeInput, RevokeOutput } from "./schemas.ts";

/**
 * Zeroes one balance: what remains is reversed in the ledger as `admin_adjust` with the reason as its note, also when
 * nothing remains; what was spent stays spent. Again: 200, no second row (C15). Throws `credit_balance_not_found`.
 */
export async function revoke(ctx: Ctx, input: RevokeInput): Promise<RevokeOutput> {
  const isIt = and(eq(creditBalances.environmentId, ctx.environment.id), eq(creditBalances.id, input.balanceId));
  const [found] = await ctx.db.batch([
    ctx.db.select({ id: creditBalances.id }).from(creditBalances).where(isIt),
    reversed(ctx, input.balanceId, input.reason ?? null),
    ctx.db
      .update(creditBalances)
      .set({ revokedAtMs: sql`CAST(${ctx.now()} AS INTEGER)` })
      .where(and(isIt, isNull(creditBalances.revokedAtMs))),
  ]);
  if (found.length === 0) throw balanceNotFound();
  return { balanceId: input.balanceId, remaining: 0 };
}

export function balanceNotFound(): PurserError {
  return new PurserError("credit_balance_not_found", "There is no such credit balance.", { param: "balanceId" });
}
