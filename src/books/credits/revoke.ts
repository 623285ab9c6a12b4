import { fragment, statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount, accountSql, type WriteContext, writingValues } from "../ledger/account.ts";
import { replay, write } from "../ledger/decision.ts";
import { insertReversal } from "../ledger/insert-entries.ts";
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

// What a payment revoked, that payment may restore (S4), so it can be revoked still.
const isRevoked = fragment`revoked_at_ms IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM payment_grants WHERE balance_id = :balanceId AND is_revoked = 1
    )`;

const selectRevocation = aboutAccount<{ balanceId: string }, { isRevoked: 0 | 1 }>(
  (of) => statement`
    SELECT ${isRevoked} AS isRevoked FROM credit_balances WHERE account_id = ${of} AND id = :balanceId`,
);

/** Aborts the batch with `guard_balance` when another revoke came first. */
const guardNotRevoked = statement<WriteContext & { balanceId: string }>`
  INSERT INTO guards (name, holds) SELECT 'balance', NOT (${isRevoked})
  FROM credit_balances WHERE account_id = ${accountSql} AND id = :balanceId`;

/** A payment that took all of the balance gives nothing back from then on (S4). */
const markReversed = statement<{ balanceId: string }>`
  UPDATE payment_grants SET is_revoked = 0 WHERE balance_id = :balanceId AND is_revoked = 1`;

export function balanceNotFound(): PurserError {
  return new PurserError(
    "credit_balance_not_found",
    "The application has no such balance in this mode. Ids are compared exactly, and begin with `crb_`.",
    { param: "balanceId" },
  );
}
