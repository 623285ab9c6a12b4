import { type SQL, sql } from "drizzle-orm";
import { countRefusal } from "../../db/activity/count.ts";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps, presentQuantities, type Quantities, type Unit } from "../amounts/amount.ts";
import { rulesCover } from "../amounts/match.ts";
import { impliesCount } from "../amounts/schemas.ts";
import type { WriteContext } from "../ledger/account.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import type { Payment, Usage } from "../ledger/burn-down.ts";
import { balancesOfLegs } from "../ledger/debits.ts";

/** The most balances that a refusal explains. */
const skippedBalancesMax = 20;
const REFUSED = ["exhausted", "wrong_unit", "no_match"] as const;

/**
 * `insufficient_credits` (402), with the quantities that are not covered (U3), and why each balance that can pay now does not
 * cover them (U12). `live` is in spending order.
 */
export function insufficientCredits(
  uncovered: Quantities,
  { legs }: PlannedPayment,
  live: readonly SpendableBalance[],
  { event, model }: Pick<Usage, "event" | "model">,
): PurserError {
  const paying = new Set(legs.map(({ balance }) => balance.id));
  const reasonOf = ({ id, rules }: SpendableBalance): (typeof REFUSED)[number] => {
    // A balance that pays a part, while the rest is not covered, pays all that it has.
    if (paying.has(id)) return "exhausted";
    return rulesCover(rules, event, model) ? "wrong_unit" : "no_match";
  };
  const all = live.map((balance) => ({
    balanceId: balance.id,
    packName: balance.packName,
    unit: balance.unit,
    remaining: fromSteps(balance.unit, balance.remainingSteps),
    reason: reasonOf(balance),
  }));
  const skipped = REFUSED.flatMap((refused) => all.filter(({ reason }) => reason === refused));
  const message =
    live.length === 0
      ? "The user has no balance to spend in this mode: nothing was granted under this userId, or all of it is spent, expired or revoked."
      : "The user's balances do not cover the usage. `details.skipped` says why, of each.";
  return new PurserError("insufficient_credits", message, {
    details: { uncovered: presentQuantities(uncovered), skipped: skipped.slice(0, skippedBalancesMax) },
  });
}

/** The user and the event of a usage. */
type AskedUsage = Pick<Usage, "event"> & { readonly userId: string };

/** Runs a verb, and counts a refusal for insufficient credits, for the overview. `asked` is read when it is refused. */
export async function countShortage<Answer>(
  ctx: TenantCtx,
  asked: AskedUsage,
  verb: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await verb();
  } catch (error) {
    noteShortage(ctx, asked, error);
    throw error;
  }
}

/** Counts a refusal, if it is one for insufficient credits. */
export function noteShortage(ctx: TenantCtx, { userId, event }: AskedUsage, refusal: unknown): void {
  if (!(refusal instanceof PurserError) || refusal.code !== "insufficient_credits") return;
  countRefusal(ctx, "shortage", refusal, { userId, subject: event });
}

/** Warns when a balance in `count` pays, or is held, for an event that names only other quantities (W16). */
export function warnOfCount(ctx: TenantCtx, quantities: Quantities, legs: readonly { readonly unit: Unit }[]): void {
  if (impliesCount(quantities) && legs.some(({ unit }) => unit === "count")) warn(ctx, "count_implied");
}

export type PlannedPayment = Payment<SpendableBalance>;

/** The debits of a payment as JSON, for `legsOf` and `debitsOfLegs`. */
export function legsJson({ legs }: PlannedPayment): string {
  return JSON.stringify(
    legs.map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      amount: fromSteps(balance.unit, amountSteps),
      amountSteps,
      lessSteps: amountSteps,
    })),
  );
}

/** The amounts of a hold by balance, as JSON in steps (`HoldLeg`). */
export function legsOf(value: ValueOf<WriteContext & { legs: string }>): SQL {
  const { id, packId, unit, remainingSteps } = creditBalances;
  return sql`(
    SELECT json_group_array(json_object(
      'balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit}, 'amountSteps', leg.value ->> 'amountSteps',
      'remainingSteps', ${remainingSteps} - (leg.value ->> 'amountSteps')
    ))
    FROM ${balancesOfLegs(value, sql`${value("legs")}`)}
  )`;
}
