import type { Steps } from "../../db/schema.ts";
import type { PayingRow, SpendableBalance } from "./balance.ts";
import { burnDown, type Payment } from "./burn-down.ts";
import type { Charge, DueHold, Hold } from "./hold.ts";
import { payersOfHold, spendableBalances } from "./payers.ts";
import { balancesOfPeriods, type PeriodPlan } from "./plan-periods.ts";

/** A change of one balance, relative to the amount that it has. */
export interface BalanceChange {
  readonly balanceId: string;
  readonly deltaSteps: number;
}

/** The fields of a balance that a change needs. */
interface Changeable {
  readonly id: string;
  readonly remainingSteps: Steps;
  readonly revokedAtMs?: number | null;
}

/** Returns each balance once, after some changes. A revoked balance stays at 0: a return to it is taken back at once (U9). */
export function apply<Row extends Changeable>(rows: Iterable<Row>, changes: readonly BalanceChange[]): Row[] {
  const balances = byId(rows);
  applyTo(balances, changes);
  return [...balances.values()];
}

const byId = <Row extends Changeable>(rows: Iterable<Row>): Map<string, Row> => {
  const balances = new Map<string, Row>();
  for (const row of rows) balances.set(row.id, row);
  return balances;
};

function applyTo<Row extends Changeable>(balances: Map<string, Row>, changes: readonly BalanceChange[]): void {
  for (const { balanceId, deltaSteps } of changes) {
    const row = balances.get(balanceId);
    if (row === undefined || typeof row.revokedAtMs === "number") continue;
    balances.set(balanceId, { ...row, remainingSteps: (row.remainingSteps + deltaSteps) as Steps });
  }
}

/** The settlement of a due hold. */
export interface SettledHold {
  readonly hold: DueHold;
  /** Its charge and the debits that pay for it. Null if the hold is only returned. */
  readonly charged: { readonly charge: Charge; readonly payment: Payment<SpendableBalance> } | null;
  /** Its returns, then the debits of its charge, then the payments of owed amounts. */
  readonly changes: readonly BalanceChange[];
}

/** Returns the changes of all settled holds, in order. */
export const changesOfHolds = (settled: readonly SettledHold[]): BalanceChange[] =>
  settled.flatMap(({ changes }) => changes);

/**
 * Settles due holds, in the order of their ends: each is returned, charged if required (U15), and its balances pay what they owe
 * (C21). A charge is paid like a commit at the reservation's end: balances granted later do not pay, and balances that expired since
 * do. `rows` are the balances that may pay charges; without charges, none are needed. Pure.
 */
export function settle(rows: readonly PayingRow[], due: readonly DueHold[]): SettledHold[] {
  const paid = new Map<string, number>();
  const balances = byId(rows);
  return due.map((hold) => {
    const returns = returnsOf(hold);
    applyTo(balances, returns);
    const charged = hold.charge === null ? null : chargeHold([...balances.values()], hold, hold.charge);
    const debits = (charged?.payment.legs ?? []).map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      deltaSteps: -amountSteps,
    }));
    const payments = paymentsOfOwed(hold, debits, paid);
    applyTo(balances, [...debits, ...payments]);
    return { hold, charged, changes: [...returns, ...debits, ...payments] };
  });
}

/** Returns the changes by which a hold comes back. */
export function returnsOf({ legs }: Hold): BalanceChange[] {
  return legs.map(({ balanceId, amountSteps }) => ({ balanceId, deltaSteps: amountSteps }));
}

function chargeHold(
  balances: readonly PayingRow[],
  hold: DueHold,
  charge: Charge,
): NonNullable<SettledHold["charged"]> {
  const { event, model, quantities, occurredAtMs } = charge;
  const granted = balances.filter(({ grantedAtMs }) => grantedAtMs <= occurredAtMs);
  const usage = { event, model: model ?? undefined, quantities };
  return { charge, payment: burnDown(payersOfHold(granted, hold, occurredAtMs), usage) };
}

/** Returns what the balances of a hold pay of what they owe, oldest first. `paid` has what earlier holds paid, by debt. */
function paymentsOfOwed(hold: DueHold, debits: readonly BalanceChange[], paid: Map<string, number>): BalanceChange[] {
  if (hold.owed.length === 0) return [];
  const debited = new Map(debits.map(({ balanceId, deltaSteps }) => [balanceId, deltaSteps]));
  return hold.legs.flatMap(({ balanceId, amountSteps }) => {
    let left = Math.max(0, amountSteps + (debited.get(balanceId) ?? 0));
    return hold.owed.flatMap((debt) => {
      if (debt.balanceId !== balanceId) return [];
      const key = `${debt.seq} ${balanceId}`;
      const before = paid.get(key) ?? 0;
      const pays = Math.min(left, debt.steps - before);
      paid.set(key, before + pays);
      left -= pays;
      return pays === 0 ? [] : [{ balanceId, deltaSteps: -pays }];
    });
  });
}

/** The periods and holds that the batch of a write settles before the write itself. */
interface DueOfAccount {
  readonly periods: PeriodPlan;
  readonly due: readonly DueHold[];
  readonly nowMs: number;
}

const afterDue = (rows: readonly PayingRow[], { periods, due }: DueOfAccount, more: readonly BalanceChange[]) =>
  apply([...rows, ...balancesOfPeriods(periods)], [...changesOfHolds(settle([], due)), ...more]);

/** Returns the balances that can pay for a write, in spending order (C13), after due holds and periods. */
export function spendableAfterDue(rows: readonly PayingRow[], account: DueOfAccount): SpendableBalance[] {
  return spendableBalances(afterDue(rows, account, []), account.nowMs);
}

/** Returns the balances that can pay for the commit of a hold, in its order (`payersOfHold`), after due holds and periods. */
export function payersOfCommit(rows: readonly PayingRow[], account: DueOfAccount, hold: Hold): SpendableBalance[] {
  return payersOfHold(afterDue(rows, account, returnsOf(hold)), hold, account.nowMs);
}

export const hasCharge = (due: readonly DueHold[]): boolean => due.some(({ charge }) => charge !== null);
