import { countRejection } from "../../db/count-activity.ts";
import type { Minor } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, presentQuantities, type Quantities, type Unit, type UnitAmounts } from "../amounts/amount.ts";
import { areMetersRounded, impliesCount, isRounded, withImplied } from "../amounts/given-quantities.ts";
import { type MatchRule, ruleInWords, rulesCover } from "../amounts/match.ts";
import { type MeterAmounts, metersJson, presentMeters, type SentMeters } from "../amounts/meters.ts";
import {
  computeStatus,
  inSpendingOrder,
  type PayingRow,
  type SpendableBalance,
  spendableBalances,
} from "../ledger/balance.ts";
import { burnDown, LEGS_MAX, spendingOrder, type Usage } from "../ledger/burn-down.ts";
import { counterKey } from "../ledger/counters.ts";
import type { Debit, PlannedPayment } from "../ledger/debits.ts";
import { inOrderOfEnds, readDueHold } from "../ledger/due-holds.ts";
import { readDuePeriods, selectDuePeriods } from "../ledger/due-periods.ts";
import type { DueHold } from "../ledger/hold.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import { apply, changesOfHolds, settle } from "../ledger/settle.ts";
import { selectDueLegs, selectNewestUnspendable, selectPayingOrChargeable } from "../ledger/spendable-balances.ts";
import { rejectingLimits, type UsageOfMember } from "../limits/count-usage.ts";
import { counterOf, limitOf, selectUserLimits, type UserLimitRow } from "../limits/read-user-limits.ts";
import type { PricedUsage } from "../prices/priced-usage.ts";
import { type Prices, withPrices } from "../prices/prices-in-force.ts";
import { announceMissingPrices } from "./announce-missing-prices.ts";

/** The quantities of a usage, and how they came about, in the form of the API. */
interface PriceOutput {
  readonly quantities: UnitAmounts;
  readonly meters: MeterAmounts | null;
  readonly priceVersion: number | null;
}

const presentPriced = ({ quantities, meters, priceVersion }: PricedUsage): PriceOutput => ({
  quantities: presentQuantities(quantities),
  meters: meters === null ? null : presentMeters(metersJson(meters)),
  priceVersion,
});

export interface PlanOutput extends PriceOutput {
  readonly memberId: string | null;
  readonly debits: Debit[];
  readonly uncovered: UnitAmounts | null;
  readonly skipped: {
    readonly balanceId: string;
    readonly packName: string;
    readonly unit: Unit;
    readonly remaining: number;
    readonly reason: "depleted" | "expired" | "no_match" | "not_needed" | "revoked" | "wrong_unit";
  }[];
  readonly limits: {
    readonly limitId: string;
    readonly memberId: string | null;
    readonly name: string;
    readonly unit: Unit;
    readonly amount: number;
    readonly used: number;
    readonly asked: number;
    readonly resetsAt: string;
  }[];
}

const USAGE_AHEAD_MS_MAX = 24 * 3_600_000;

/** Throws `invalid_request` for usage that is more than a day ahead (L5). `param` is the name of the request's time. */
export function assertNotAhead(atMs: number | undefined, nowMs: number, param = "occurredAt"): void {
  if (atMs === undefined || atMs <= nowMs + USAGE_AHEAD_MS_MAX) return;
  throw invalid(param, "must be at most a day ahead of this service's clock");
}

export interface PlanInput {
  readonly userId: string;
  readonly memberId?: string | undefined;
  readonly event: string;
  readonly model: string | undefined;
  /** Undefined if meters were sent. */
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
  readonly properties: JsonObject | undefined;
  readonly onShortage: "partial" | "reject";
  readonly occurredAt?: number | undefined;
}

/** The legs in further rows of a due hold. */
const NO_LEGS = "[]";
/** The most balances that a rejection explains. */
const SKIPPED_BALANCES_MAX = 20;
const SHORTAGE_REASONS = ["exhausted", "wrong_unit", "no_match"] as const;

/**
 * Returns `insufficient_credits` (402), with the quantities that are not covered, and why each balance that can pay now does
 * not cover them (U12); `invalid_request` if too many balances would have to pay (L6). `spendable` is in the order in which the
 * balances pay.
 */
export function insufficientCredits(
  uncovered: Quantities,
  { legs, isCut }: PlannedPayment,
  spendable: readonly SpendableBalance[],
  usage: Pick<Usage, "event" | "model"> & PricedUsage,
  heldUnits: readonly Unit[] = [],
): PurserError {
  const { event, model } = usage;
  if (isCut) return tooManyLegs();
  const paying = new Set(legs.map(({ balance }) => balance.id));
  const reasonOf = ({ id, rules }: SpendableBalance): (typeof SHORTAGE_REASONS)[number] => {
    // If the rest is not covered, a balance that pays a part pays its whole amount.
    if (paying.has(id)) return "exhausted";
    return rulesCover(rules, event, model) ? "wrong_unit" : "no_match";
  };
  const all = spendable.toSorted(spendingOrder).map((balance) => ({
    balanceId: balance.id,
    packName: balance.packName,
    unit: balance.unit,
    remaining: fromMinor(balance.unit, balance.remainingMinor),
    reason: reasonOf(balance),
  }));
  const skipped = SHORTAGE_REASONS.flatMap((shortage) => all.filter(({ reason }) => reason === shortage));
  const message =
    spendable.length === 0
      ? "The user has no balance to spend in this mode: nothing was granted under this userId, or all of it is spent, held, expired or revoked."
      : `The user's balances do not cover the usage. \`details.skipped\` says why each does not.${adviceOnRules(
          spendable.toSorted(spendingOrder).find((balance) => reasonOf(balance) === "no_match"),
        )}`;
  return new PurserError("insufficient_credits", message + adviceOnHeld(heldUnits, uncovered), {
    details: {
      uncovered: presentQuantities(uncovered),
      skipped: skipped.slice(0, SKIPPED_BALANCES_MAX),
      ...presentPriced(usage),
    },
  });
}

/** The most rules of a balance that a message quotes. */
const QUOTED_RULES_MAX = 3;

/** Returns a sentence with the rules of a balance that does not pay for the event, in words. */
function adviceOnRules(balance: SpendableBalance | undefined): string {
  if (balance === undefined) return "";
  const quoted = balance.rules.slice(0, QUOTED_RULES_MAX).map(ruleInWords);
  const rest = balance.rules.length - quoted.length;
  return ` The first with \`no_match\` pays only for ${quoted.join(" or ")}${rest > 0 ? `, or by ${rest} more rules` : ""}.`;
}

/** Returns a sentence with the units that a reservation held, if the commit misses one that they do not cover. */
function adviceOnHeld(heldUnits: readonly Unit[], uncovered: Quantities): string {
  const units = [...new Set(heldUnits)];
  const isOther = units.length > 0 && units.every((unit) => (uncovered[unit] ?? 0) === 0);
  return isOther
    ? ` The reservation held ${units.map((unit) => `\`${unit}\``).join(" and ")}: commit in that unit.`
    : "";
}

function tooManyLegs(): PurserError {
  const message = "This usage needs more balances than one write can debit. Split it into several smaller ones.";
  return new PurserError("invalid_request", message, { param: "quantities", details: { limit: LEGS_MAX } });
}

/** The user, the event and the model of a usage. */
type RejectableUsage = Pick<Usage, "event" | "model"> & Pick<PlanInput, "userId" | "memberId">;

/** Runs a verb. If credits, a limit or the price list reject it, notes the rejection of `usage` for the operator. */
export async function noteIfRejected<Answer>(
  ctx: TenantCtx,
  usage: RejectableUsage,
  verb: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await verb();
  } catch (error) {
    noteRejectedUsage(ctx, usage, error);
    await announceMissingPrices(ctx, [error]);
    throw error;
  }
}

/** Notes a rejection, if it is one for insufficient credits or by a usage limit. */
export function noteRejectedUsage(
  ctx: TenantCtx,
  { userId, memberId, event, model }: RejectableUsage,
  rejection: unknown,
): void {
  if (!(rejection instanceof PurserError)) return;
  const usage = { userId, memberId, subject: event, model };
  if (rejection.code === "insufficient_credits") countRejection(ctx, "shortage", rejection, usage);
  if (rejection.code === "usage_limit_reached") countRejection(ctx, "usage_limit", rejection, usage);
}

/** Warns when a balance in `count` pays, or is held, for an event that names only other quantities, or if one was rounded (W16). */
export function warnOfQuantities(
  ctx: TenantCtx,
  { quantities, meters }: Pick<PlanInput, "quantities" | "meters">,
  legs: readonly { readonly unit: Unit }[],
): void {
  if (meters !== undefined && areMetersRounded(meters)) warn(ctx, "quantity_rounded");
  if (quantities === undefined) return;
  if (impliesCount(quantities) && legs.some(({ unit }) => unit === "count")) warn(ctx, "count_implied");
  if (isRounded(quantities)) warn(ctx, "quantity_rounded");
}

/**
 * Returns the debits that an event would have now (U11). It uses the same burn-down, as if due holds were settled and due periods
 * granted. It also returns why other balances would not pay (at most the newest hundred that cannot pay at all), and which usage
 * limits would reject the event. Warns of an implied count (W16). Changes nothing.
 */
export const planUsage = (ctx: TenantCtx, input: PlanInput): Promise<PlanOutput> =>
  withPrices(ctx, (prices) => planPriced(ctx, withImplied(input), prices));

async function planPriced(ctx: TenantCtx, sent: PlanInput, prices: Prices): Promise<PlanOutput> {
  const nowMs = ctx.now();
  assertNotAhead(sent.occurredAt, nowMs);
  const user = { userId: sent.userId };
  const [paying, unspendable, due, limits, periods, listed] = await batch(ctx.db, [
    selectPayingOrChargeable(ctx, user, { nowMs }),
    selectNewestUnspendable(ctx, user, { nowMs }),
    selectDueLegs(ctx, user, { nowMs }),
    selectUserLimits(ctx, sent.userId, sent.memberId == null ? [] : [sent.memberId]),
    selectDuePeriods(ctx, user, { nowMs }),
    ...prices.select([sent], nowMs),
  ]);
  prices.take(listed);
  const input = { ...sent, ...prices.price(sent, prices.readBaseAt(nowMs, sent.occurredAt)) };
  const granted = balancesOfPeriods(readDuePeriods(ctx, periods, nowMs));
  due.sort(inOrderOfEnds);
  const holds = due.filter(({ legs }) => legs !== NO_LEGS).map(readDueHold);
  const stored = [...paying, ...unspendable, ...due, ...granted];
  const after = apply(stored, changesOfHolds(settle(stored, holds)));
  const reportedIds = new Set([...unspendable, ...due].map(({ id }) => id));
  // Other expired balances were read only for a charge.
  const rows = after.filter((row) => row.expiresAtMs > nowMs || reportedIds.has(row.id));
  const spendable = spendableBalances(rows, nowMs);
  const { legs, uncovered } = burnDown(spendable, input);
  const rulesOf = new Map(spendable.map(({ id, rules }) => [id, rules]));
  warnOfQuantities(
    ctx,
    sent,
    legs.map((leg) => leg.balance),
  );
  const debited = new Set(legs.map((leg) => leg.balance.id));
  return {
    memberId: sent.memberId ?? null,
    ...presentPriced(input),
    debits: legs.map(({ balance, amountMinor }) => ({
      balanceId: balance.id,
      packId: balance.packId,
      unit: balance.unit,
      amount: fromMinor(balance.unit, amountMinor),
      remaining: fromMinor(balance.unit, (balance.remainingMinor - amountMinor) as Minor),
    })),
    uncovered: uncovered === null ? null : presentQuantities(uncovered),
    skipped: inSpendingOrder(rows.filter((row) => !debited.has(row.id))).map((row) => ({
      balanceId: row.id,
      packName: row.packName,
      unit: row.unit,
      remaining: fromMinor(row.unit, row.remainingMinor),
      reason: whySkipped(row, rulesOf.get(row.id) ?? [], input, nowMs),
    })),
    limits: planLimits(limits, holds, { ...input, memberId: sent.memberId ?? null }, nowMs),
  };
}

/** Returns the limits that would reject the event. Due holds count as settled: a returned hold no longer counts, a charge does (Q3). */
function planLimits(
  rows: readonly UserLimitRow[],
  holds: readonly DueHold[],
  input: UsageOfMember & Pick<PlanInput, "onShortage">,
  nowMs: number,
): PlanOutput["limits"] {
  if (input.onShortage === "partial") return [];
  const counters = rows.flatMap((row) => counterOf(row) ?? []);
  const byKey = counters.map((counter) => [counterKey(counter.limitId, counter.memberId), counter] as const);
  const state = { nowMs, counters: new Map(byKey) };
  const due = holds.filter(({ charge }) => charge === null);
  return rejectingLimits({ ...state, due, limits: rows.map(limitOf) }, input);
}

/** Returns the first reason that applies. `rules`: those of a balance that can pay. */
function whySkipped(
  row: PayingRow,
  rules: readonly MatchRule[],
  usage: Usage,
  nowMs: number,
): PlanOutput["skipped"][number]["reason"] {
  const status = computeStatus(row, nowMs);
  if (status !== "active") return status;
  if (!rulesCover(rules, usage.event, usage.model)) return "no_match";
  return (usage.quantities[row.unit] ?? 0) === 0 ? "wrong_unit" : "not_needed";
}
