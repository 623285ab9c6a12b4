import { and, not, sql } from "drizzle-orm";
import { fromMinor, type Unit } from "../books/amounts/amount.ts";
import { addFractions, fraction, leastOf, multiplyFractions, ONE } from "../books/amounts/fraction.ts";
import { type GrantOutput, presentGrant } from "../books/credits/grant.ts";
import type { Share } from "../books/credits/stored-refund.ts";
import { presentExpiry } from "../books/ledger/balance.ts";
import { compareFingerprint, fingerprintRequest, idempotencyConflict, type Outcome } from "../books/ledger/decision.ts";
import { isDue, willBeCharged } from "../books/ledger/hold.ts";
import { type NewBalances, planGrant } from "../books/ledger/new-balances.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "../books/ledger/stored-legs.ts";
import { inEnvironmentOf, requireEnvironment } from "../catalog/apps.ts";
import { choosePack, selectPack } from "../catalog/pack.ts";
import { computed, drizzle, query, type ValueOf } from "../db/query.ts";
import { creditBalances, type Minor, paymentGrants, paymentNames, reservations } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { assert, PurserError } from "../errors.ts";
import type { AdminCtx, Mode, TenantCtx } from "../runtime.ts";
import type { SettleTerms } from "./decide.ts";
import { filterFacts } from "./facts.ts";
import { calculateShare } from "./money.ts";
import { applyChange } from "./move.ts";
import { planChanges } from "./next-step.ts";
import { makeReference } from "./offer.ts";
import { noPayment } from "./payment-lists.ts";
import { multiplyGrant, timesOfText, unitsOfPart } from "./plan-offer.ts";
import { derivePaymentState, type PaymentState, shownKey } from "./state.ts";
import { readPayment, type StoredGrant, type StoredPayment, selectPayments } from "./stored-payment.ts";
import { readStoredSetting, type StripeSetting, selectSetting } from "./stripe-setting.ts";

export interface SettlePaymentInput {
  readonly mode: Mode;
  readonly userId: string;
  readonly packId: string;
  readonly quantity?: number | null | undefined;
}

/**
 * Grants a pack for an unmatched payment to the user whom the administrator names. The same batch takes amounts that are already due
 * back. A repeat returns the first grant. Throws `not_found`, `credit_pack_not_found`, `invalid_quantity`, and `idempotency_conflict`
 * for a payment that has another grant.
 */
export async function settlePayment(
  admin: AdminCtx,
  appId: string,
  paymentKey: string,
  input: SettlePaymentInput,
): Promise<Outcome<GrantOutput>> {
  const { mode, userId, packId } = input;
  const environment = await requireEnvironment(admin, appId, mode);
  const ctx = inEnvironmentOf(admin, environment);
  const fingerprint = await fingerprintRequest(ctx, ["settle"], input, ["userId", "packId", "quantity"]);
  const [stored] = await all(admin.db, selectSetting({ environmentId: environment.id }));
  const setting = parseSetting(stored);
  const plan = (state: PaymentState, terms: SettleTerms) => planSettlement(input, state, setting, terms);
  const change = {
    ...{ eventId: null, asked: null },
    type: "",
    at: 0,
    note: `Stripe ${paymentKey}`,
    names: [paymentKey],
    facts: [],
    customer: null,
  };
  const settle = { userId, fingerprint: fingerprint.stored, packs: [packId], plan };
  const { outcome } = await applyChange(ctx, { setting, change, mayGrant: true, settle });

  const rows = await all(
    admin.db,
    selectPayments({ environmentId: environment.id, names: JSON.stringify([paymentKey]) }),
  );
  const [payment] = rows.map(readPayment);
  if (payment === undefined) throw noPayment();
  const replayed = outcome !== "granted";
  const { settledBy } = payment;
  if (replayed && (settledBy === null || compareFingerprint(settledBy, fingerprint) === "other")) {
    throw idempotencyConflict("The payment already has another grant.", "paymentKey", settledBy ?? "", fingerprint);
  }
  return { output: presentSettledGrant(payment), replayed };
}

/** Returns the administrator's grant for a payment. Without a quantity, Stripe's quantity is used. */
function planSettlement(
  { packId, quantity }: SettlePaymentInput,
  state: PaymentState,
  { currency }: Pick<StripeSetting, "currency">,
  { nowMs, newId, packOf }: SettleTerms,
): NewBalances {
  if (state.known.length === 0) throw noPayment();
  const pack = packOf(packId);
  const [session] = [...filterFacts(state.facts, "session"), ...filterFacts(state.facts, "intent")];
  const atStripe = session?.data.quantity ?? null;
  const key = shownKey(state.names);
  const notes = `Stripe ${key}: settled by the administrator`;
  const paid = { source: "purchase" as const, cause: "payment" as const, externalRef: makeReference(key), notes };
  const input = { packId, ...paid };
  if (pack === null || pack.unit === null) {
    const times = timesOfText(quantity ?? atStripe ?? 1) ?? (quantity == null ? ONE : null);
    const granted = planGrant(input, pack, nowMs, newId);
    const multiplied = times === null ? null : multiplyGrant(granted, times);
    if (multiplied === null) throw wrongTimes();
    return multiplied;
  }
  const part = atStripe === null && session !== undefined ? { amount: session.data } : { units: atStripe ?? "" };
  const units = quantity ?? unitsOfPart({ quantity: part }, pack.unit, currency);
  return planGrant({ ...input, quantity: typeof units === "number" ? units : null }, pack, nowMs, newId);
}

const wrongTimes = (): PurserError =>
  new PurserError(
    "invalid_quantity",
    "must be a whole number from 1 to 100 for a pack with items, and must not make an amount too large",
    {
      param: "quantity",
    },
  );

const parseSetting = (stored: { readonly setting: string | null } | undefined) =>
  stored?.setting == null ? { currency: "", prices: [] } : readStoredSetting(stored.setting);

function presentSettledGrant({ grants }: StoredPayment): GrantOutput {
  const firstGrants = grants.filter(({ isSurplus }) => isSurplus === 0);
  assert(firstGrants.length > 0, "a granted payment has a grant");
  return presentGrant(firstGrants.map((grant) => ({ ...grant, id: grant.balanceId })));
}

/** Returns the balances that a settlement would issue now. Throws the rejections of `settlePayment`, except for the test quota. */
export async function previewSettlement(ctx: TenantCtx, paymentKey: string, input: SettlePaymentInput) {
  const environmentId = ctx.environment.id;
  const names = [paymentKey];
  const [rows, [stored], packs] = await batch(ctx.db, [
    selectPayments({ environmentId, names: JSON.stringify(names) }),
    selectSetting({ environmentId }),
    selectPack(ctx, input.packId),
  ]);
  const state = derivePaymentState(rows.map(readPayment), { names, facts: [], customer: null }, null);
  const packOf = () => choosePack(input.packId, packs);
  const terms = { nowMs: ctx.now(), newId: String, packOf };
  const { packName, balances, expiresAtMs } = planSettlement(input, state, parseSetting(stored), terms);
  return {
    packName,
    ignoresQuantity: false,
    expiresAt: presentExpiry(expiresAtMs),
    amounts: balances.map(({ unit, amountMinor }) => ({ unit, amount: fromMinor(unit, amountMinor), amountMinor })),
  };
}

const selectReturns = query((value: ValueOf<{ environmentId: number; name: string; nowMs: number }>) =>
  drizzle
    .select(
      computed({
        balanceId: sql<string>`${creditBalances.id}`,
        minor: sql<number>`sum(${storedLeg.minor})`,
      }),
    )
    .from(sql`(
      SELECT DISTINCT ${paymentGrants.accountId} AS account FROM ${paymentNames}
      CROSS JOIN ${paymentGrants} ON ${paymentGrants.environmentId} = ${paymentNames.environmentId}
      AND ${paymentGrants.paymentId} = ${paymentNames.paymentId}
      WHERE ${paymentNames.environmentId} = ${value("environmentId")} AND ${paymentNames.name} = ${value("name")}
    ) AS granted`)
    .crossJoin(reservations)
    .crossJoin(eachLeg(reservations.legs))
    .crossJoin(creditBalances)
    .where(and(isDue(value, sql`granted.account`), not(willBeCharged()), isBalanceOfLeg(reservations.accountId)))
    .groupBy(sql`1`),
);

/** Returns the amounts that a refund of a share of a payment would take from its balances now (C21). Throws `not_found`. */
export async function previewPaymentRefund(ctx: TenantCtx, paymentKey: string, { part, of }: NonNullable<Share>) {
  const environmentId = ctx.environment.id;
  const nowMs = ctx.now();
  const names = JSON.stringify([paymentKey]);
  const [rows, returnRows] = await batch(ctx.db, [
    selectPayments({ environmentId, names }),
    selectReturns({ environmentId, name: paymentKey, nowMs }),
  ]);
  if (rows.length === 0) throw noPayment();
  const state = derivePaymentState(rows.map(readPayment), { names: [paymentKey], facts: [], customer: null }, null);
  // Stripe refunds whole numbers of the currency's smallest unit.
  const amount = (state.money.captured * BigInt(part)) / BigInt(of);
  const money = afterRefund(state.money, amount);
  const returns = new Map(returnRows.map(({ balanceId, minor }) => [balanceId, minor]));
  const changes = planChanges({ money }, state.grants);
  const balances = state.grants.map((grant) => {
    const change = changes.find(({ balanceId }) => balanceId === grant.balanceId);
    const returned = withReturn(grant, returns.get(grant.balanceId) ?? 0);
    const { taken, remaining } = afterChange(returned, (change?.dueMinor ?? grant.dueMinor) as Minor);
    return presentPreview(grant, { taken: taken - grant.clawedBackMinor, remaining });
  });
  return { amount: Number(amount), currency: state.money.currency, balances };
}

/** Returns a payment's money after a refund, which is at most the paid amount. */
function afterRefund(money: PaymentState["money"], amount: bigint): PaymentState["money"] {
  const { captured, whole, share } = money;
  const after = leastOf(fraction(captured), addFractions(multiplyFractions(share, whole), fraction(amount)));
  return { ...money, share: calculateShare(after, whole) };
}

/** Returns a grant after holds returned some minor units. A return to a revoked balance is taken back immediately (U9). */
function withReturn(grant: StoredGrant, minor: number): StoredGrant {
  if (minor === 0 || grant.isClosed === 1) return grant;
  const isRevoked = grant.dueMinor === grant.initialMinor;
  if (isRevoked) return { ...grant, clawedBackMinor: (grant.clawedBackMinor + minor) as Minor };
  return { ...grant, remainingMinor: (grant.remainingMinor + minor) as Minor };
}

/** Returns a balance after `due` is due back. It computes what the SQL of insert-clawbacks.ts does. */
function afterChange(grant: StoredGrant, due: Minor): { readonly remaining: number; readonly taken: number } {
  const { remainingMinor: remaining, clawedBackMinor: taken } = grant;
  if (due === grant.dueMinor || grant.isClosed === 1) return { remaining, taken };
  const delta = due === grant.initialMinor ? -remaining : Math.max(taken - due, -remaining);
  return { remaining: remaining + delta, taken: taken - delta };
}

function presentPreview(
  { balanceId, unit }: { readonly balanceId: string; readonly unit: Unit },
  { taken, remaining }: { readonly taken: number; readonly remaining: number },
) {
  assert(remaining >= 0, "a balance never falls below 0");
  const amountOf = (minor: number) => fromMinor(unit, minor as Minor);
  return { balanceId, unit, taken: amountOf(taken), remaining: amountOf(remaining) };
}
