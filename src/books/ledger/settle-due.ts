import { sql } from "drizzle-orm";
import { countOfPack } from "../../db/activity.ts";
import { constraintOf, RetryAttempt } from "../../db/attempt.ts";
import { guardFeatures } from "../../db/features.ts";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { type Steps, usageEvents } from "../../db/schema.ts";
import { all, batch, type Statement } from "../../db/sql.ts";
import { personGuards, tombstoneSecretsIn } from "../../db/tombstones.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { noteMessages, wantedMessages } from "../../webhooks/outbox.ts";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { alertWrites } from "./alert-writes.ts";
import type { PayingRow, SpendableBalance } from "./balance.ts";
import { burnDown, LEGS_MAX, type Payment } from "./burn-down.ts";
import { keptJson } from "./counters.ts";
import { debitsOfLegs, lastEventOf, placeOfEvent } from "./debits.ts";
import { stampCharge } from "./decision.ts";
import { inOrderOfMoments, periodChanges, periodMessages } from "./due-periods.ts";
import {
  type Charge,
  type DueHold,
  HOLDS_A_STATEMENT_MAX,
  insertSettlements,
  type SettlementRow,
  settleHolds,
} from "./hold.ts";
import type { Motion } from "./insert-entries.ts";
import { ledgerMessageWrites, takingMessages } from "./insert-messages.ts";
import { type LedgerMessage, messagesAmong, reservationExpired, usageRecorded } from "./messages.ts";
import { OwedPlan } from "./owed.ts";
import { balancesOfPeriods } from "./plan-periods.ts";
import type { AccountAtRead } from "./read-account.ts";
import { countPeriods, grantPeriods } from "./send.ts";
import { payersOfHold, selectBalancesOfDue } from "./spendable-balances.ts";

/** The settlement of a due hold. */
export interface SettledHold {
  readonly hold: DueHold;
  /** Its charge and the debits that pay for it. Null if the hold is only returned. */
  readonly charged: { readonly charge: Charge; readonly payment: Payment<SpendableBalance> } | null;
  /** The owed amounts that its balances paid, after the charge. */
  readonly paid: readonly { readonly balanceId: string; readonly steps: number }[];
}

/**
 * Plans the settlement of due holds in order of their ends. Each hold is returned, charged if required (U15), and its balances pay
 * what they owe (C21). A charge is paid like a commit at the reservation's end: balances granted later do not pay, and balances that
 * expired since do. Returns each balance's final state once. Pure.
 */
export function planDue<Row extends PayingRow>(
  rows: readonly Row[],
  due: readonly DueHold[],
): { readonly settled: readonly SettledHold[]; readonly rows: readonly Row[] } {
  const balances = new Map(rows.map((row) => [row.id, row]));
  const addSteps = (id: string, steps: number) => {
    const row = balances.get(id);
    // A return to a revoked balance is taken back immediately (U9).
    if (row === undefined || row.revokedAtMs !== null) return;
    balances.set(id, { ...row, remainingSteps: (row.remainingSteps + steps) as Steps });
  };
  const plan = new OwedPlan();
  const settled = due.map((hold): SettledHold => {
    for (const { balanceId, amountSteps } of hold.legs) addSteps(balanceId, amountSteps);
    const charged = chargeOf(hold);
    const debited = new Map(charged?.payment.legs.map(({ balance, amountSteps }) => [balance.id, amountSteps]));
    for (const [id, steps] of debited) addSteps(id, -steps);
    const paid = hold.legs.map(({ balanceId, amountSteps }) => {
      const steps = plan.pay(hold.owed, balanceId, amountSteps - (debited.get(balanceId) ?? 0));
      addSteps(balanceId, -steps);
      return { balanceId, steps };
    });
    return { hold, charged, paid };
  });
  function chargeOf(hold: DueHold): SettledHold["charged"] {
    const { charge } = hold;
    if (charge === null) return null;
    const { event, model, quantities, occurredAtMs } = charge;
    const granted = [...balances.values()].filter(({ grantedAtMs }) => grantedAtMs <= occurredAtMs);
    const usage = { event, model: model ?? undefined, quantities };
    const payment = burnDown(payersOfHold(granted, hold, occurredAtMs), usage);
    return { charge, payment };
  }
  return { settled, rows: [...balances.values()] };
}

type Account = Omit<AccountAtRead, "lastSeq" | "recurringDueAtMs">;

export const hasCharge = (due: readonly DueHold[]): boolean => due.some(({ charge }) => charge !== null);

/**
 * Grants an account's due periods (R3), and returns or charges its due holds (U8, U15), in order of time, in a batch of their own.
 * Sends nothing if nothing is due. Fails with a conflict if another write came first, or recorded an event with a charge's id.
 */
export async function settleDue(ctx: TenantCtx, account: Account): Promise<void> {
  try {
    await settleAsPlanned(ctx, account);
  } catch (error) {
    if (isQuotaOfPeriods(error, account)) throw new RetryAttempt("The quota was used meanwhile.", { cause: error });
    if (constraintOf(error) !== "credit_balances_bounded" || account.periods.periods.length === 0) throw error;
    await settleAsPlanned(ctx, { ...account, periods: account.periods.refused() });
  }
}

/** Returns whether a batch failed on the test quota because of its periods, although their plan was within the quota. */
export const isQuotaOfPeriods = (error: unknown, { periods }: Pick<Account, "periods">): boolean =>
  periods.newlyCounted > 0 && constraintOf(error) === "environments_test_quota";

async function settleAsPlanned(ctx: TenantCtx, account: Account): Promise<void> {
  const { periods } = account.periods;
  if (account.due.length === 0 && account.periods.changes.length === 0) return;
  if (!hasCharge(account.due)) {
    const settled = account.due.map((hold) => ({ hold, charged: null, paid: [] }));
    const runs = inOrderOfMoments(periods, account.due, ({ endsAtMs }) => endsAtMs);
    const statements = runs.flatMap((run) => [
      ...grantPeriods(account, run.periods),
      ...settleHolds(account, run.holds, { state: "expired" }),
    ]);
    await sendSettlement(ctx, account, statements, settled);
    return;
  }
  const { accountId, nowMs } = account;
  assert(accountId !== null, "a user with reservations has an account");
  const rows = await all(ctx.db, selectBalancesOfDue(ctx, { accountId }, { nowMs }));
  const { settled } = planDue([...rows, ...balancesOfPeriods(account.periods)], account.due);
  const statements: Statement[] = [];
  for (const run of inOrderOfMoments(periods, settled, ({ hold }) => hold.endsAtMs)) {
    statements.push(...grantPeriods(account, run.periods));
    for (const holds of inStatements(run.holds)) statements.push(...settlementOf(account, holds));
  }
  await sendSettlement(ctx, account, statements, settled);
  for (const { balance, amountSteps } of settled.flatMap(({ charged }) => charged?.payment.legs ?? [])) {
    countOfPack(ctx.environment, "spent", nowMs, balance, amountSteps);
  }
}

/** Divides settled holds, so that each statement has a bounded number of holds and of balances that are charged. */
function inStatements(holds: readonly SettledHold[]): SettledHold[][] {
  const groups: SettledHold[][] = [];
  let legs = Infinity;
  for (const settled of holds) {
    const added = settled.charged?.payment.legs.length ?? 0;
    const group = groups.at(-1);
    if (group === undefined || group.length === HOLDS_A_STATEMENT_MAX || legs + added > LEGS_MAX) {
      groups.push([settled]);
      legs = added;
    } else {
      group.push(settled);
      legs += added;
    }
  }
  return groups;
}

async function sendSettlement(
  ctx: TenantCtx,
  account: Account,
  statements: readonly Statement[],
  settled: readonly SettledHold[],
): Promise<void> {
  const messages = wantedMessages(ctx, account.features, () => [
    ...periodMessages(account.userId, account.periods),
    ...settled.map((settledHold) => messageOf(account.userId, settledHold)),
  ]);
  const settledIds = settled.map(({ hold }) => hold.id);
  const takings = takingMessages(ctx, account, settledIds);
  const alerts = alertWrites(ctx, account, chargesOf(settled), settledIds);
  const all = [
    guardFeatures(account),
    ...(await personGuards(ctx, tombstoneSecretsIn(account.features), [account.userId])),
    ...periodChanges(ctx, account.accountId, account.periods),
    ...statements,
    ...ledgerMessageWrites(ctx, account, messages),
    ...takings.statements,
    ...alerts.statements,
  ];
  const rows = await batch(ctx.db, all);
  countPeriods(ctx, account);
  noteMessages(ctx, [...messages, ...messagesAmong(takings, all, rows), ...messagesAmong(alerts, all, rows)]);
}

/** Returns how the charges of settled holds change the user's credits. */
function chargesOf(settled: readonly SettledHold[]): Motion[] {
  const eventIds = settled.flatMap(({ hold, charged }) => (charged === null ? [] : [hold.id]));
  if (eventIds.length === 0) return [];
  return [{ entries: 0, raises: false, eventIds }];
}

function messageOf(userId: string, { hold, charged }: SettledHold): LedgerMessage {
  if (charged === null) return reservationExpired(userId, hold);
  const { event, model, quantities } = charged.charge;
  const hasEntries = hold.legs.length > 0 || charged.payment.legs.length > 0;
  return usageRecorded(userId, { eventId: hold.id, event, model, quantities, reservationId: hold.id, hasEntries });
}

/** Returns the statements that settle some due holds. The events come before the entries of their debits. */
function settlementOf(account: Account, holds: readonly SettledHold[]): Statement[] {
  const lessSteps = new Map<string, number>();
  const take = (balanceId: string, steps: number) =>
    lessSteps.set(balanceId, (lessSteps.get(balanceId) ?? 0) + steps).get(balanceId);
  const events: object[] = [];
  const settlements = holds.map(({ hold: { id, legs, counted }, charged, paid }): SettlementRow => {
    for (const { balanceId, amountSteps } of legs) take(balanceId, -amountSteps);
    const payAll = () => {
      for (const { balanceId, steps } of paid) take(balanceId, steps);
    };
    if (charged === null) {
      payAll();
      return { id, state: "expired" };
    }
    const { charge, payment } = charged;
    const debits = payment.legs.map(({ balance, amountSteps }) => {
      const amount = fromSteps(balance.unit, amountSteps);
      return { balanceId: balance.id, amount, lessSteps: take(balance.id, amountSteps) };
    });
    payAll();
    const { quantities, occurredAtMs: occurredAt } = charge;
    const uncovered = payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered));
    const stamp = stampCharge({ quantities, occurredAt, onShortage: "partial" });
    events.push({ id, ...charge, legs: debits, uncovered, stamp, counted: keptJson(counted) });
    const charges = payment.legs.map(({ balance, amountSteps }) => ({
      balanceId: balance.id,
      deltaSteps: -amountSteps,
    }));
    return { id, state: "committed", eventId: id, charges };
  });
  return [
    ...(events.length === 0 ? [] : [insertCharges({ ...writingValues(account), charges: JSON.stringify(events) })]),
    insertSettlements(account, settlements),
  ];
}

/** Inserts the events of charges, in order of time, as their primary key requires. */
const insertCharges = query((value: ValueOf<WriteContext & { charges: string }>) =>
  insertFrom(
    usageEvents,
    {
      ...placeOfEvent(value, sql`charge.value`, sql`charge.key`),
      environmentId: asInteger(value("environmentId")),
      eventId: sql`charge.value ->> 'id'`,
      event: sql`charge.value ->> 'event'`,
      model: sql`charge.value ->> 'model'`,
      countSteps: sql`coalesce(charge.value ->> '$.quantities.count', 0)`,
      tokensSteps: sql`charge.value ->> '$.quantities.tokens'`,
      secondsSteps: sql`charge.value ->> '$.quantities.seconds'`,
      centsSteps: sql`charge.value ->> '$.quantities.cents'`,
      occurredAtMs: sql`charge.value ->> 'occurredAtMs'`,
      receivedAtMs: asInteger(value("nowMs")),
      reservationId: sql`charge.value ->> 'id'`,
      requestHash: sql`charge.value ->> 'stamp'`,
      debits: debitsOfLegs(value, sql`charge.value -> 'legs'`),
      uncovered: sql`charge.value ->> 'uncovered'`,
      counted: sql`charge.value ->> 'counted'`,
    },
    sql`FROM json_each(${value("charges")}) AS charge LEFT JOIN ${lastEventOf(value)} ORDER BY charge.key`,
  ),
);
