import { and, eq, sql } from "drizzle-orm";
import { mayUseApp } from "../../auth/scopes.ts";
import {
  asInteger,
  computed,
  drizzle,
  fields,
  insertFrom,
  query,
  returning,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import {
  accounts,
  creditAdjustments,
  creditBalances,
  creditLedger,
  environments,
  type Minor,
  paymentGrants,
} from "../../db/schema.ts";
import { parseDatabaseIndex } from "../../db/session.ts";
import { clockOf, timesOf } from "../../db/settings-snapshot.ts";
import { all, type StatementRow } from "../../db/sql.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import type { AdminCtx, TenantCtx } from "../../runtime.ts";
import { amountMinorMax, amountRule, fromMinor, toMinor } from "../amounts/amount.ts";
import { accountOfWrite, isAccountOfBalance, type WriteContext, writingValues } from "../ledger/account.ts";
import { ADJUSTMENT_FIELDS } from "../ledger/balance.ts";
import {
  compareFingerprint,
  fingerprintRequest,
  idempotencyConflict,
  type Outcome,
  replay,
  writeReturning,
} from "../ledger/decision.ts";
import { heldMinorOf, heldMinorOfBalance } from "../ledger/hold.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import { entryWritten } from "../ledger/messages.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { apply, changesOfHolds } from "../ledger/settle.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";
import { balanceNotFound, selectBalance, showBalance } from "./read-balance.ts";

export interface AdjustOutput {
  readonly balanceId: string;
  readonly remaining: number;
}

export interface AdjustInput {
  readonly balanceId: string;
  /** In the balance's unit. */
  readonly delta: number;
  readonly note: string;
  /** The idempotency key. A repeat returns the first result. If absent, each call is new. */
  readonly adjustmentId?: string | undefined;
}

/**
 * Returns the context of a balance's tenant, which the id determines, because balance ids are unique across all applications. Throws
 * `credit_balance_not_found`.
 */
export async function findTenant(root: AdminCtx, balanceId: string): Promise<TenantCtx> {
  const [found] = await all(root.db, selectEnvironmentOfBalance({ balanceId }));
  if (found === undefined || !mayUseApp(root, found.appId)) throw balanceNotFound();
  const { clock, ...environment } = found;
  const database = parseDatabaseIndex(balanceId) ?? 0;
  return { ...root, ...timesOf(clock, root), environment: { ...environment, database }, caller: root.caller };
}

const selectEnvironmentOfBalance = query((value: ValueOf<{ balanceId: string }>) =>
  drizzle
    .select({ ...fields(environments, "id", "appId", "mode"), ...computed({ clock: clockOf() }) })
    .from(creditBalances)
    .innerJoin(accounts, eq(accounts.id, creditBalances.accountId))
    .innerJoin(environments, eq(environments.id, accounts.environmentId))
    .where(eq(creditBalances.id, value("balanceId"))),
);

/**
 * Adds to or deducts from a balance with one `admin_adjust` entry, which has the note. An expired balance stays expired. Throws
 * `credit_balance_not_found`; `invalid_quantity` if the balance would be negative; `idempotency_conflict`; and `invalid_request` for a
 * revoked balance, or if the new amount together with the reserved amounts exceeds the unit's maximum.
 */
export async function adjustBalance(ctx: TenantCtx, input: AdjustInput): Promise<Outcome<AdjustOutput>> {
  const { adjustmentId = ctx.newId("adj_"), ...request } = input;
  const { balanceId, note } = request;
  const fingerprint = await fingerprintRequest(ctx, ["adjust"], request, ["delta", "note"]);
  const adjusted = await writeForUser(ctx, {
    user: { balanceId },
    read: () => [
      selectAdjustedBalance({ environmentId: ctx.environment.id, balanceId }),
      selectAdjustment({ environmentId: ctx.environment.id, adjustmentId }),
    ],
    decide: ([[balance], [earlier]], writing) => {
      assert(balance !== undefined, "the account was found by this balance");
      if (earlier !== undefined) {
        const comparison = compareFingerprint(earlier.requestHash, fingerprint);
        if (comparison === "other") {
          const message = "Another adjustment has this id. Send a new `adjustmentId`.";
          throw idempotencyConflict(message, "adjustmentId", earlier.requestHash, fingerprint);
        }
        return replay({
          output: presentAdjustment(balance, earlier.remainingMinor),
          replayed: comparison === "replay",
        });
      }
      const { deltaMinor } = decideAdjustment(balance, writing, input.delta);
      const adjustment = { adjustmentId, balanceId, deltaMinor, requestHash: fingerprint.stored };
      return writeReturning(
        {
          before: [countOperatorDeduction({ balanceId, deltaMinor })],
          returning: insertAdjustment({ ...writingValues(writing), ...adjustment }),
          entries: [{ balanceId, deltaMinor, kind: "adjustment", note }],
          audit: { action: "credits.adjusted", target: balanceId, balanceIds: [balanceId] },
          messages: () => [entryWritten("credits.adjusted", writing.userId)],
        },
        ([written]) => {
          assert(written !== undefined, "the insert returns the amount");
          return { output: presentAdjustment(balance, written.remainingMinor), replayed: false };
        },
      );
    },
    rejections: { credit_balances_remaining_within_bounds: exceedsUnit },
  });
  if (adjusted === null) throw balanceNotFound();
  return adjusted;
}

/** Returns the balance, and the result that an adjustment would have. Throws the rejections of `adjustBalance`, except for repeats. */
export async function previewAdjustment(ctx: TenantCtx, { balanceId, delta }: { balanceId: string; delta: number }) {
  const environmentId = ctx.environment.id;
  const preview = await previewForUser(ctx, {
    user: { balanceId },
    read: () => [selectAdjustedBalance({ environmentId, balanceId }), selectBalance({ environmentId, balanceId })],
    decide: ([[balance], [shown]], account) => {
      assert(balance !== undefined && shown !== undefined, "the account was found by this balance");
      const { remainingMinor, afterMinor } = decideAdjustment(balance, account, delta);
      const { userId } = account;
      return {
        balance: { userId, ...showBalance({ ...shown, remainingMinor }, account.nowMs) },
        remaining: fromMinor(balance.unit, afterMinor),
      };
    },
  });
  if (preview === null) throw balanceNotFound();
  return preview;
}

/** Selects the balance, and the amount that open reservations hold of it. */
const selectAdjustedBalance = query((value: ValueOf<{ environmentId: number; balanceId: string }>) =>
  drizzle
    .select({ ...fields(creditBalances, ...ADJUSTMENT_FIELDS), ...computed({ heldMinor: heldMinorOfBalance() }) })
    .from(creditBalances)
    .innerJoin(accounts, isAccountOfBalance(value))
    .where(eq(creditBalances.id, value("balanceId"))),
);
type BalanceToAdjust = StatementRow<typeof selectAdjustedBalance>;

const selectAdjustment = query((value: ValueOf<{ environmentId: number; adjustmentId: string }>) => {
  const { environmentId, id, accountId, seq } = creditAdjustments;
  return drizzle
    .select({
      ...fields(creditAdjustments, "requestHash"),
      ...fields(creditLedger, { remainingMinor: "balanceAfterMinor" }),
    })
    .from(creditAdjustments)
    .innerJoin(creditLedger, and(eq(creditLedger.accountId, accountId), eq(creditLedger.seq, seq)))
    .where(and(eq(environmentId, value("environmentId")), eq(id, value("adjustmentId"))));
});

type NewAdjustment = { adjustmentId: string; balanceId: string; deltaMinor: number; requestHash: string };

/** Inserts the adjustment's row, and returns the amount after its ledger entry, which must be the account's next one. */
const insertAdjustment = query((value: ValueOf<WriteContext & NewAdjustment>) => {
  const insert = insertFrom(
    creditAdjustments,
    {
      environmentId: asInteger(value("environmentId")),
      id: value("adjustmentId"),
      accountId: accountOfWrite(value),
      balanceId: value("balanceId"),
      seq: sql`1 + ${lastSeqOf(accountOfWrite(value))}`,
      requestHash: value("requestHash"),
    },
    sql``,
  );
  const remaining = drizzle
    .select(fields(creditBalances, "remainingMinor"))
    .from(creditBalances)
    .where(eq(creditBalances.id, value("balanceId")));
  const remainingMinor = sql<Minor>`${scalar(remaining)} + ${asInteger(value("deltaMinor"))}`;
  return returning(computed({ remainingMinor }), (list) => sql`${insert} RETURNING ${list}`);
});

/** Records the amount that the operator deducted from a payment's balance, so that it does not count as spent (S6). */
const countOperatorDeduction = query((value: ValueOf<{ balanceId: string; deltaMinor: number }>) =>
  drizzle
    .update(paymentGrants)
    .set({ operatorSteps: sql`${paymentGrants.operatorSteps} - ${asInteger(value("deltaMinor"))}` })
    .where(eq(paymentGrants.balanceId, value("balanceId"))),
);

function presentAdjustment({ id, unit }: BalanceToAdjust, remainingMinor: Minor): AdjustOutput {
  return { balanceId: id, remaining: fromMinor(unit, remainingMinor) };
}

/**
 * Returns the minor units to add, and the balance before and after. Throws the errors of `adjustBalance` that concern the balance and the
 * amount. Pure.
 */
function decideAdjustment(stored: BalanceToAdjust, { due, settled }: AccountAtRead, delta: number) {
  const [{ id, unit, remainingMinor, revokedAtMs } = stored] = apply([stored], changesOfHolds(settled));
  if (revokedAtMs !== null) throw invalid("balanceId", "The balance is revoked.");
  const deltaMinor = toMinor(unit, delta);
  if (deltaMinor === null) throw invalid("delta", amountRule(unit, delta));
  // A double represents the largest amounts of a unit exactly.
  const afterMinor = (remainingMinor + deltaMinor) as Minor;
  if (afterMinor < 0) {
    throw new PurserError("invalid_quantity", "would make the balance negative", { param: "delta" });
  }
  // Reserved amounts may be returned, so they must fit too.
  if (afterMinor + stored.heldMinor - heldMinorOf(due, id) > amountMinorMax[unit]) throw exceedsUnit();
  return { deltaMinor, remainingMinor, afterMinor };
}

function exceedsUnit(): PurserError {
  return invalid("delta", "would make the balance larger than its unit allows");
}
