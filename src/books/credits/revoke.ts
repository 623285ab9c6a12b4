import { and, eq, not, sql } from "drizzle-orm";
import { computed, drizzle, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, paymentGrants } from "../../db/schema.ts";
import { guards } from "../../db/views.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isAccountOfBalance, type WriteContext, writingValues } from "../ledger/account.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import { insertReversal } from "../ledger/insert-clawbacks.ts";
import { isBalanceOf } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import { writeForUser } from "../ledger/write.ts";
import { balanceNotFound } from "./read-balance.ts";

export interface RevokeInput {
  readonly balanceId: string;
  readonly reason?: string | undefined;
}

export interface RevokeOutput {
  readonly balanceId: string;
  readonly remaining: 0;
}

/**
 * Sets a balance to 0 with one `admin_adjust` entry whose note is the reason, even if nothing remains. Spent credits stay spent, and a
 * payment at Stripe can no longer restore the balance. A repeat changes nothing (C15). Throws `credit_balance_not_found`.
 */
export async function revokeBalance(ctx: TenantCtx, { balanceId, reason }: RevokeInput): Promise<RevokeOutput> {
  const answer = { balanceId, remaining: 0 } as const;
  const revoked = await writeForUser(ctx, {
    user: { balanceId },
    read: () => [selectRevocation({ environmentId: ctx.environment.id, balanceId })],
    decide: ([[balance]], writing) => {
      assert(balance !== undefined, "the account was found by this balance");
      if (balance.isRevoked) return replay(answer);
      return writeAll(
        [
          guardNotRevoked({ ...writingValues(writing), balanceId }),
          preventRestoring({ balanceId }),
          insertReversal({ ...writingValues(writing), balanceId, note: reason ?? null }),
        ],
        () => answer,
        {
          audit: { action: "credits.revoked", target: balanceId, balanceIds: [balanceId] },
          messages: () => [entryWritten("credits.revoked", writing.userId)],
        },
      );
    },
  });
  if (revoked === null) throw balanceNotFound();
  return revoked;
}

type RevokedBalanceKey = { balanceId: string };

/** Returns a condition: a balance is revoked permanently. A payment can restore a balance that it revoked itself (S4). */
function isRevoked() {
  const { id, revokedAtMs } = creditBalances;
  const byPayment = and(eq(paymentGrants.balanceId, id), eq(paymentGrants.isRevoked, 1));
  return sql<boolean>`${revokedAtMs} IS NOT NULL AND ${not(hasRow(paymentGrants, byPayment))}`.mapWith(Boolean);
}

const selectRevocation = query((value: ValueOf<RevokedBalanceKey & { environmentId: number }>) =>
  drizzle
    .select(computed({ isRevoked: isRevoked() }))
    .from(creditBalances)
    .innerJoin(accounts, isAccountOfBalance(value))
    .where(eq(creditBalances.id, value("balanceId"))),
);

/** Aborts the batch with `guard_balance` if another revoke came first. */
const guardNotRevoked = query((value: ValueOf<WriteContext & RevokedBalanceKey>) =>
  insertFrom(
    guards,
    { name: sql`'balance'`, holds: sql`NOT (${isRevoked()})` },
    sql`FROM ${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** Prevents a payment that took the whole balance from restoring it later (S4). */
const preventRestoring = query((value: ValueOf<RevokedBalanceKey>) =>
  drizzle
    .update(paymentGrants)
    .set({ isRevoked: 0 })
    .where(and(eq(paymentGrants.balanceId, value("balanceId")), eq(paymentGrants.isRevoked, 1))),
);
