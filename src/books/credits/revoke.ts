import { and, between, eq, ne, not, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { countActivity } from "../../db/activity.ts";
import { computed, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, paymentGrants, reservations, type Steps } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { assert, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type WriteContext, writingValues } from "../ledger/account.ts";
import { BALANCE_FIELDS, type BalanceRow, presentBalance } from "../ledger/balance.ts";
import { replay, writeAll } from "../ledger/decision.ts";
import { insertReversal, isBalanceOf } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import { writeForUser } from "../ledger/write.ts";
import type { RevokeOutput } from "./responses.ts";
import type { RevokeInput } from "./schemas.ts";

/**
 * Sets a balance to 0 with one `admin_adjust` entry whose note is the reason, even when nothing remains. Spent credits stay
 * spent, and a payment at Stripe can no longer restore the balance. A repeat changes nothing (C15). Throws
 * `credit_balance_not_found`.
 */
export async function revokeBalance(ctx: TenantCtx, { balanceId, reason }: RevokeInput): Promise<RevokeOutput> {
  const answer = { balanceId, remaining: 0 } as const;
  const revoked = await writeForUser(ctx, {
    user: { balanceId },
    read: () => [selectRevocation(ctx, { balanceId }, { balanceId })],
    decide: ([[balance]], writing) => {
      assert(balance !== undefined, "the account was found by this balance");
      if (balance.isRevoked) return replay(answer);
      return writeAll(
        [
          guardNotRevoked({ ...writingValues(writing), balanceId }),
          markReversed({ balanceId }),
          insertReversal({ ...writingValues(writing), balanceId, note: reason ?? null }),
        ],
        () => {
          countActivity(ctx.environment, "revoked", writing.nowMs, balance.unit, balance.remainingSteps);
          return answer;
        },
        {
          act: { action: "credits.revoked", target: balanceId, balanceIds: [balanceId] },
          messages: () => [entryWritten("credits.revoked", writing.userId)],
        },
      );
    },
  });
  if (revoked === null) throw balanceNotFound();
  return revoked;
}

type RevokedBalanceKey = { balanceId: string };

/** Returns whether a balance is revoked for good. A balance that a payment revoked can be restored by that payment (S4). */
function isRevoked() {
  const { id, revokedAtMs } = creditBalances;
  const byPayment = and(eq(paymentGrants.balanceId, id), eq(paymentGrants.isRevoked, 1));
  return sql<boolean>`${revokedAtMs} IS NOT NULL AND ${not(hasRow(paymentGrants, byPayment))}`.mapWith(Boolean);
}

const selectRevocation = accountQuery((value: ValueOf<RevokedBalanceKey>, account) =>
  drizzle
    .select({ ...fields(creditBalances, "unit", "remainingSteps"), ...computed({ isRevoked: isRevoked() }) })
    .from(creditBalances)
    .where(and(eq(creditBalances.accountId, account), eq(creditBalances.id, value("balanceId")))),
);

/** Aborts the batch with `guard_balance` when another revoke came first. */
const guardNotRevoked = query((value: ValueOf<WriteContext & RevokedBalanceKey>) =>
  insertFrom(
    guards,
    { name: sql`'balance'`, holds: sql`NOT (${isRevoked()})` },
    sql`FROM ${creditBalances} WHERE ${isBalanceOf(value, sql`${value("balanceId")}`)}`,
  ),
);

/** Stops a payment that took the whole balance from restoring it later (S4). */
const markReversed = query((value: ValueOf<RevokedBalanceKey>) =>
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

/** Returns the fields of a balance that the dashboard shows. */
export const shownBalanceFields = () => fields(creditBalances, ...BALANCE_FIELDS);

/** Returns a balance for the dashboard: as in the API, with its source. */
export function showBalance(row: BalanceRow, nowMs: number) {
  const { source, externalRef, notes } = row;
  return { ...presentBalance(row, nowMs), source, externalRef, notes };
}
export type ShownBalance = ReturnType<typeof showBalance>;

/** Returns the steps that open reservations hold of a balance. */
export const heldStepsOfBalance = () => sql<Steps>`coalesce((
  SELECT sum(leg.value ->> 'amountSteps') FROM ${reservations}, json_each(${reservations.legs}) AS leg
  WHERE ${reservations.accountId} = ${creditBalances.accountId} AND ${reservations.state} = 'open'
    AND leg.value ->> 'balanceId' = ${creditBalances.id}
), 0)`;

const selectBalance = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select({
      ...shownBalanceFields(),
      ...fields(accounts, "userId"),
      ...computed({ heldSteps: heldStepsOfBalance() }),
    })
    .from(creditBalances)
    .innerJoin(accounts, eq(accounts.id, creditBalances.accountId))
    .where(and(eq(creditBalances.id, value("balanceId")), eq(accounts.environmentId, value("environmentId")))),
);

/** Returns a balance with its owner and the amount that open reservations hold of it. Throws `credit_balance_not_found`. */
export async function readBalance(ctx: TenantCtx, balanceId: string) {
  const environmentId = ctx.environment.id;
  const [row] = await all(ctx.db, selectBalance({ environmentId, balanceId }));
  if (row === undefined) throw balanceNotFound();
  const { userId, heldSteps, remainingSteps } = row;
  return { userId, heldSteps, remainingSteps, ...showBalance(row, ctx.now()) };
}

/** The most balances of one grant that are shown. */
const SIBLINGS_MAX = 100;

const ownBalance = alias(creditBalances, "own");
const selectSiblings = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select(shownBalanceFields())
    .from(ownBalance)
    .crossJoin(accounts)
    .crossJoin(creditBalances)
    .where(
      and(
        eq(ownBalance.id, value("balanceId")),
        eq(accounts.id, ownBalance.accountId),
        eq(accounts.environmentId, value("environmentId")),
        eq(creditBalances.accountId, ownBalance.accountId),
        between(
          creditBalances.grantSeq,
          sql`${ownBalance.grantSeq} - ${SIBLINGS_MAX}`,
          sql`${ownBalance.grantSeq} + ${SIBLINGS_MAX}`,
        ),
        eq(creditBalances.packId, ownBalance.packId),
        eq(creditBalances.grantedAtMs, ownBalance.grantedAtMs),
        sql`${creditBalances.externalRef} IS ${ownBalance.externalRef}`,
        ne(creditBalances.id, ownBalance.id),
      ),
    )
    .orderBy(creditBalances.grantSeq)
    .limit(SIBLINGS_MAX),
);

/** Returns the other balances of the same grant, which other items of its pack issued. */
export async function readSiblings(ctx: TenantCtx, balanceId: string): Promise<readonly ShownBalance[]> {
  const rows = await all(ctx.db, selectSiblings({ environmentId: ctx.environment.id, balanceId }));
  return rows.map((row) => showBalance(row, ctx.now()));
}
