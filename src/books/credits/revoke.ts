import { and, eq, not, sql } from "drizzle-orm";
import { computed, drizzle, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditBalances, paymentGrants } from "../../db/schema.ts";
import { guards } from "../../db/views.ts";
import { PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type WriteContext, writingValues } from "../ledger/account.ts";
import { replay, write } from "../ledger/decision.ts";
import { insertReversal, isBalanceOf } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import { writeForUser } from "../ledger/write.ts";
import type { RevokeOutput } from "./responses.ts";
import type { RevokeInput } from "./schemas.ts";

/**
 * Sets a balance to 0 by one `admin_adjust` entry with the reason as its note, also when nothing remains. Credits already
 * spent stay spent, and a payment at Stripe gives nothing back to it any more. A repeat changes nothing (C15). Throws `credit_balance_not_found`.
 */
export async function revokeBalance(ctx: TenantCtx, { balanceId, reason }: RevokeInput): Promise<RevokeOutput> {
  const answer = { balanceId, remaining: 0 } as const;
  const revoked = await writeForUser(ctx, {
    user: { balanceId },
    nonce: ctx.newId(""),
    read: () => [selectRevocation(ctx, { balanceId }, { balanceId })],
    decide: ([[balance]], writing) => {
      assert(balance !== undefined, "the account was found by this balance");
      if (balance.isRevoked) return replay(answer);
      return write(
        [
          guardNotRevoked({ ...writingValues(writing), balanceId }),
          markReversed({ balanceId }),
          insertReversal({ ...writingValues(writing), balanceId, note: reason ?? null }),
        ],
        () => answer,
        {
          act: { action: "credits.revoked", target: balanceId },
          messages: () => [entryWritten("credits.revoked", writing.userId)],
        },
      );
    },
  });
  if (revoked === null) throw balanceNotFound();
  return revoked;
}

type OfBalance = { balanceId: string };

/** Whether the balance of a row is revoked for good. What a payment revoked, that payment may restore (S4). */
function isRevoked() {
  const { id, revokedAtMs } = creditBalances;
  const byPayment = and(eq(paymentGrants.balanceId, id), eq(paymentGrants.isRevoked, 1));
  return sql<boolean>`${revokedAtMs} IS NOT NULL AND ${not(hasRow(paymentGrants, byPayment))}`.mapWith(Boolean);
}

const selectRevocation = accountQuery((value: ValueOf<OfBalance>, account) =>
  drizzle
    .select(computed({ isRevoked: isRevoked() }))
    .from(creditBalances)
    .where(and(eq(creditBalances.accountId, account), eq(creditBalances.id, value("balanceId")))),
);

/** Aborts the batch with `guard_balance` when another revoke came first. */
const guardNotRevoked = query((value: ValueOf<WriteContext & OfBalance>) =>
  insertFrom(
    guards,
    { name: sql`'balance'`, holds: sql`NOT (${isRevoked()})` },
    sql`FROM ${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** A payment that took all of the balance gives nothing back from then on (S4). */
const markReversed = query((value: ValueOf<OfBalance>) =>
  drizzle
    .update(paymentGrants)
    .set({ isRevoked: 0 })
    .where(and(eq(paymentGrants.balanceId, value("balanceId")), eq(paymentGrants.isRevoked, 1))),
);

export function balanceNotFound(): PurserError {
  return new PurserError(
    "credit_balance_not_found",
    "The application has no such balance in this mode. Ids are compared exactly, and begin with `crb_`.",
    { param: "balanceId" },
  );
}
