import type { Minor } from "../../db/schema.ts";
import { type PayingRow, payersAmong, type SpendableBalance, spendableBalances } from "./balance.ts";
import { burnDown, type Payment } from "./burn-down.ts";
import type { Charge, DueHold, Hold } from "./hold.ts";
import type { NewEntry } from "./insert-entries.ts";

/** A change of one balance, relative to the amount that it has. */
export interface BalanceChange {
  readonly balanceId: string;
  readonly deltaMinor: number;
}

/** The fields of a balance that a change needs. */
interface Changeable {
  readonly id: string;
  readonly remainingMinor: Minor;
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
  for (const { balanceId, deltaMinor } of changes) {
    const row = balances.get(balanceId);
    if (row === undefined || typeof row.revokedAtMs === "number") continue;
    balances.set(balanceId, { ...row, remainingMinor: (row.remainingMinor + deltaMinor) as Minor });
  }
}

/** A payment of an owed amount. `minor` may be 0. */
export interface OwedPayment {
  readonly balanceId: string;
  /** The seq of the entry that took too little. */
  readonly seq: number;
  readonly minor: number;
}

/** How a reservation ends. */
export interface Ending {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
  /** Whether its end must have passed. */
  readonly isDue?: true;
}

/** The settlement of a reservation. */
export interface Settlement {
  readonly hold: Hold;
  readonly ending: Ending;
  /** Its returns, those of them that are taken back, the debits of its usage, and the payments of owed amounts. */
  readonly entries: readonly NewEntry[];
  readonly payments: readonly OwedPayment[];
}

/** The settlement of a due hold. */
export interface SettledHold extends Settlement {
  readonly hold: DueHold;
  /** Its charge and the debits that pay for it. Null if the hold is only returned. */
  readonly charged: { readonly charge: Charge; readonly payment: Payment<SpendableBalance> } | null;
}

/** Returns the changes of all settled holds, in order. */
export const changesOfHolds = (settled: readonly SettledHold[]): BalanceChange[] =>
  settled.flatMap(({ entries }) => entries);

/**
 * Settles a reservation: each hold returns, what returns to a revoked balance is taken back (U9), and after the debits of the usage
 * its balances pay what they owe from the rest (C21). `paid` has the payments of earlier settlements, by `seq`. Pure.
 */
export function settleHold(
  hold: Hold,
  ending: Ending,
  debits: readonly NewEntry[] = [],
  paid: Map<number, number> = new Map(),
): Settlement {
  const { reservationNumber } = hold;
  const amounts = new Map(hold.legs.map(({ balanceId, amountMinor }) => [balanceId, amountMinor]));
  const taken = hold.revocations.flatMap(({ balanceId, seq }): NewEntry[] => {
    const amountMinor = amounts.get(balanceId);
    if (amountMinor === undefined) return [];
    const deltaMinor = -amountMinor;
    return [{ balanceId, deltaMinor, reservationNumber, repeatsSeq: seq, isRevoked: 1 }];
  });
  const payments = paymentsOfOwed(hold, debits, paid);
  const paying = payments.flatMap(({ balanceId, seq, minor }): NewEntry[] => {
    return minor === 0 ? [] : [{ balanceId, deltaMinor: -minor, reservationNumber, repeatsSeq: seq, isRevoked: 0 }];
  });
  return { hold, ending, payments, entries: [...planReturns(hold, ending), ...taken, ...debits, ...paying] };
}

/**
 * Settles due holds, in the order of their ends, and charges those that must be (U15). A charge is paid like a commit at the
 * reservation's end: balances granted later do not pay, and balances that expired since do. `rows` are the balances that may pay
 * charges, with those of due periods; without charges, none are needed. Pure.
 */
export function settle(rows: readonly PayingRow[], due: readonly DueHold[]): SettledHold[] {
  const paid = new Map<number, number>();
  const balances = byId(rows);
  return due.map((hold) => {
    const { charge, id } = hold;
    applyTo(balances, planReturns(hold));
    const charged = charge === null ? null : chargeHold([...balances.values()], hold, charge);
    const legs = charged?.payment.legs ?? [];
    const debits = legs.map(({ balance, amountMinor }) => planDebit(balance.id, amountMinor, id));
    const ending = charged === null ? DUE : { ...CHARGED, eventId: id };
    const settlement = settleHold(hold, ending, debits, paid);
    applyTo(balances, settlement.entries.slice(hold.legs.length));
    return { ...settlement, hold, charged };
  });
}

const DUE = { state: "expired", isDue: true } as const;
const CHARGED = { state: "committed", isDue: true } as const;

/** Returns the entry of a usage event's debit. */
export const planDebit = (balanceId: string, amountMinor: number, eventId: string): NewEntry => ({
  balanceId,
  deltaMinor: -amountMinor,
  kind: "usage",
  eventId,
});

/** Returns the entries by which a hold comes back. */
function planReturns(
  { reservationNumber, legs, revocations }: Hold,
  { state }: Pick<Ending, "state"> = DUE,
): NewEntry[] {
  const revoked = new Set(revocations.map(({ balanceId }) => balanceId));
  return legs.map(({ balanceId, amountMinor }) => ({
    balanceId,
    deltaMinor: amountMinor,
    kind: state === "expired" ? "expired" : "released",
    reservationNumber,
    isRevoked: revoked.has(balanceId) ? 1 : 0,
  }));
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

/** Returns the payments of a hold's balances towards what they owe, the oldest of each balance first. */
function paymentsOfOwed({ owed, legs }: Hold, debits: readonly BalanceChange[], paid: Map<number, number>) {
  if (owed.length === 0) return [];
  const debited = new Map(debits.map(({ balanceId, deltaMinor }) => [balanceId, deltaMinor]));
  const left = legs.map(({ balanceId, amountMinor }) => Math.max(0, amountMinor + (debited.get(balanceId) ?? 0)));
  return owed.flatMap(([leg, seq, owedMinor]): OwedPayment[] => {
    const [balanceId, rest] = [legs[leg]?.balanceId, left[leg]];
    if (balanceId === undefined || rest === undefined) return [];
    const before = paid.get(seq) ?? 0;
    const minor = Math.min(rest, owedMinor - before);
    paid.set(seq, before + minor);
    left[leg] = rest - minor;
    return [{ balanceId, seq, minor }];
  });
}

/** Returns the balances that can pay for the commit of a hold, in its order (`payersOfHold`). */
export function payersOfCommit(balances: readonly PayingRow[], hold: Hold, nowMs: number): SpendableBalance[] {
  return payersOfHold(apply(balances, planReturns(hold)), hold, nowMs);
}

/** Returns the due holds that are only returned, whose counts towards usage limits end (Q3). A charge keeps the counts of its hold. */
export const returnedHolds = (settled: readonly SettledHold[]): DueHold[] =>
  settled.filter(({ charged }) => charged === null).map(({ hold }) => hold);

/** Whether due holds must be settled before a verb is decided: its own reservation may owe what one of them pays (C21). */
export const mustSettleFirst = (due: readonly DueHold[]): boolean => due.some(({ owed }) => owed.length > 0);

/**
 * Returns the balances that can pay for the commit or charge of a hold that `rows` already contain as returned: its own balances
 * first, then the others, each group in spending order (U6). A held balance that has expired pays with its held amount alone.
 */
function payersOfHold(rows: readonly PayingRow[], { legs }: Hold, atMs: number): SpendableBalance[] {
  const heldMinor = new Map(legs.map(({ balanceId, amountMinor }) => [balanceId, amountMinor]));
  const held = rows.flatMap((row): PayingRow[] => {
    const amountMinor = heldMinor.get(row.id);
    if (amountMinor === undefined) return [];
    return [row.expiresAtMs > atMs ? row : { ...row, remainingMinor: amountMinor }];
  });
  const others = rows.filter(({ id }) => !heldMinor.has(id));
  return [...payersAmong(held), ...spendableBalances(others, atMs)];
}
