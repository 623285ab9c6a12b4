import { clockSql, timesOf } from "../../db/clock.ts";
import { databaseIndexOf } from "../../db/databases.ts";
import type { Steps } from "../../db/schema.ts";
import { all, type RowOf, select, statement } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { AdminCtx, Environment, TenantCtx } from "../../runtime.ts";
import { amountRule, amountStepsMax, fromSteps, toSteps, type Unit } from "../amounts/amount.ts";
import { aboutAccount, accountSql, type WriteContext, writingValues } from "../ledger/account.ts";
import { adjustmentColumns } from "../ledger/balance.ts";
import { type Outcome, replay, writeReturning } from "../ledger/decision.ts";
import { insertEntries } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import { compareStamp, idempotencyConflict, stampRequest } from "../ledger/request-hash.ts";
import { withReturns } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import type { AdjustOutput } from "./responses.ts";
import { balanceNotFound } from "./revoke.ts";

export interface AdjustInput {
  readonly balanceId: string;
  /** In the balance's unit. */
  readonly delta: number;
  readonly note: string;
  /** The idempotency key. A repeat returns the first result. If absent, each call is new. */
  readonly adjustmentId?: string | undefined;
}

/** The tenant of a balance. Its id is unique among all applications. Throws `credit_balance_not_found`. */
export async function findTenant(root: AdminCtx, balanceId: string): Promise<TenantCtx> {
  const [found] = await all(root.db, selectEnvironment({ balanceId }));
  if (found === undefined) throw balanceNotFound();
  const { clock, ...environment } = found;
  const database = databaseIndexOf(balanceId) ?? 0;
  return { ...root, ...timesOf(clock, root), environment: { ...environment, database }, caller: root.caller };
}

const selectEnvironment = statement<{ balanceId: string }, Omit<Environment, "database"> & { clock: string | null }>`
  SELECT e.id AS id, e.app_id AS appId, e.mode AS mode, ${clockSql("e.features")} AS clock
  FROM credit_balances AS b
  CROSS JOIN accounts AS a ON a.id = b.account_id
  CROSS JOIN environments AS e ON e.id = a.environment_id
  WHERE b.id = :balanceId`;

/**
 * Adds to or deducts from a balance: one `admin_adjust` entry with the note. An expired balance stays expired. Throws
 * `credit_balance_not_found`; `invalid_quantity` below 0; `idempotency_conflict`; and `invalid_request` for a revoked balance
 * or an amount that the unit cannot hold, together with what is reserved.
 */
export async function adjustBalance(ctx: TenantCtx, input: AdjustInput): Promise<Outcome<AdjustOutput>> {
  const { adjustmentId = ctx.newId("adj_"), ...request } = input;
  const { balanceId, note } = request;
  const stamp = await stampRequest(ctx, ["adjust"], request, ["delta", "note"]);
  const adjusted = await writeForUser(ctx, {
    user: { balanceId },
    nonce: stamp.nonce,
    read: () => [
      selectBalance(ctx, { balanceId }, { balanceId }),
      selectAdjustment({ environmentId: ctx.environment.id, adjustmentId }),
    ],
    decide: ([[balance], [earlier]], writing) => {
      assert(balance !== undefined, "the account was found by this balance");
      if (earlier !== undefined) {
        const whose = compareStamp(earlier.requestHash, stamp);
        if (whose === "other") {
          const message = "Another adjustment was made under this id.";
          throw idempotencyConflict(message, "adjustmentId", earlier.requestHash, stamp);
        }
        return replay({ output: adjustOutput(balance, earlier.remainingSteps), replayed: whose === "replay" });
      }
      const [returned = balance] = withReturns([balance], writing.due);
      const heldSteps = balance.heldSteps - (returned.remainingSteps - balance.remainingSteps);
      const isRevoked = balance.revokedAtMs !== null;
      const deltaSteps = planAdjustment({ ...returned, isRevoked, heldSteps }, input.delta);
      const adjustment = insertAdjustment({
        ...writingValues(writing),
        adjustmentId,
        balanceId,
        requestHash: stamp.stored,
      });
      const entry = { balanceId, deltaSteps, reason: "admin_adjust", note } as const;
      return writeReturning(
        {
          before: [countAdjusted({ balanceId, deltaSteps }), adjustment, ...insertEntries(writing, [entry])],
          returning: selectAdjustment({ environmentId: writing.environmentId, adjustmentId }),
          act: { action: "credits.adjusted", target: balanceId, details: { delta: input.delta, unit: balance.unit } },
          messages: () => [entryWritten("credits.adjusted", writing.userId)],
        },
        ([written]) => {
          assert(written !== undefined, "an adjustment that was written is there");
          return { output: adjustOutput(balance, written.remainingSteps), replayed: false };
        },
      );
    },
    refusals: { credit_balances_remaining_within_bounds: tooMuch },
  });
  if (adjusted === null) throw balanceNotFound();
  return adjusted;
}

type BalanceToAdjust = RowOf<typeof adjustmentColumns> & { readonly heldSteps: number };

/** The balance, and the amount that open reservations hold of it. */
const selectBalance = aboutAccount<{ balanceId: string }, BalanceToAdjust>(
  (of) => statement`
    SELECT ${select(adjustmentColumns)}, coalesce((
        SELECT sum(leg.value ->> 'amountSteps') FROM reservations AS r, json_each(r.legs) AS leg
        WHERE r.account_id = ${of} AND r.state = 'open' AND leg.value ->> 'balanceId' = :balanceId
      ), 0) AS heldSteps
    FROM credit_balances WHERE account_id = ${of} AND id = :balanceId`,
);

const selectAdjustment = statement<
  { environmentId: number; adjustmentId: string },
  { requestHash: string; remainingSteps: Steps }
>`
  SELECT a.request_hash AS requestHash, l.balance_after_steps AS remainingSteps
  FROM credit_adjustments AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.account_id AND l.seq = a.seq
  WHERE a.environment_id = :environmentId AND a.id = :adjustmentId`;

/** The adjustment's own row. In the same batch its ledger entry must follow, as the account's next entry. */
const insertAdjustment = statement<WriteContext & { adjustmentId: string; balanceId: string; requestHash: string }>`
  INSERT INTO credit_adjustments (environment_id, id, account_id, balance_id, seq, request_hash)
  SELECT CAST(:environmentId AS INTEGER), :adjustmentId, ${accountSql}, :balanceId, 1 + (
    SELECT seq FROM credit_ledger WHERE account_id = ${accountSql} ORDER BY seq DESC LIMIT 1
  ), :requestHash`;

/** What the operator took of a payment's balance was not spent (S6). */
const countAdjusted = statement<{ balanceId: string; deltaSteps: number }>`
  UPDATE payment_grants SET operator_steps = operator_steps - CAST(:deltaSteps AS INTEGER) WHERE balance_id = :balanceId`;

function adjustOutput({ id, unit }: BalanceToAdjust, remainingSteps: Steps): AdjustOutput {
  return { balanceId: id, remaining: fromSteps(unit, remainingSteps) };
}

interface Adjustable {
  readonly unit: Unit;
  readonly isRevoked: boolean;
  readonly remainingSteps: number;
  readonly heldSteps: number;
}

/** The steps to add. Throws what `adjustBalance` throws for the balance and the amount. */
export function planAdjustment(balance: Adjustable, delta: number): Steps {
  if (balance.isRevoked) throw invalid("balanceId", "The balance is revoked.");
  const deltaSteps = toSteps(balance.unit, delta);
  if (deltaSteps === null) throw invalid("delta", amountRule(balance.unit));
  const remainingSteps = balance.remainingSteps + deltaSteps;
  if (remainingSteps < 0) {
    throw new PurserError("invalid_quantity", "would make the balance negative", { param: "delta" });
  }
  // Reserved amounts may be returned, and must fit.
  if (remainingSteps + balance.heldSteps > amountStepsMax[balance.unit]) {
    throw tooMuch();
  }
  return deltaSteps;
}

function tooMuch(): PurserError {
  return invalid("delta", "would make the balance larger than its unit allows");
}
