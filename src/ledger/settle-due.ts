import { countActivity } from "../activity/count.ts";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { guardFeatures } from "../db/features.ts";
import { all, batch, nowMsSql, type Statement, statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import type { TenantCtx } from "../runtime.ts";
import { noteMessages } from "../webhooks/outbox.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";
import { debitsOf } from "./debits.ts";
import { type DueHold, HOLDS_A_STATEMENT_MAX, returnsOf, settleHolds } from "./hold.ts";
import { insertSettlement, type SettlementEntry } from "./insert-entries.ts";
import { alertsAmong, alertWrites } from "./judge-alerts.ts";
import { type LedgerMessage, ledgerMessageWrites, reservationExpired, usageRecorded, wantedOf } from "./messages.ts";
import type { Motion } from "./motion.ts";
import { planDue, type SettledHold } from "./plan-due.ts";
import { stampCharge } from "./request-hash.ts";
import { selectBalancesOfDue } from "./spendable-balances.ts";

type Account = WriteContext & { readonly due: readonly DueHold[]; readonly features: string | null };

export const hasCharge = (due: readonly DueHold[]): boolean => due.some(({ charge }) => charge !== null);

/**
 * Returns or charges an account's due holds (U8, U15), in a batch of their own. Costs nothing when there are none. Fails with
 * a conflict when another write was faster, also when it recorded an event of a charge's id.
 */
export async function settleDue(ctx: TenantCtx, account: Account): Promise<void> {
  if (!hasCharge(account.due)) {
    if (account.due.length === 0) return;
    const settled = account.due.map((hold) => ({ hold, charged: null }));
    await sendSettlement(ctx, account, settleHolds(account, account.due, { state: "expired" }), settled);
    return;
  }
  const { accountId, nowMs } = account;
  assert(accountId !== null, "who has reservations has an account");
  const rows = await all(ctx.db, selectBalancesOfDue(ctx, { accountId }, { nowMs }));
  const { settled } = planDue(rows, account.due);
  const statements: Statement[] = [];
  for (let at = 0; at < settled.length; at += HOLDS_A_STATEMENT_MAX) {
    statements.push(...settlementOf(account, settled.slice(at, at + HOLDS_A_STATEMENT_MAX)));
  }
  await sendSettlement(ctx, account, statements, settled);
  for (const { balance, amountSteps } of settled.flatMap(({ charged }) => charged?.payment.legs ?? [])) {
    countActivity(ctx.environment, "spent", nowMs, balance.unit, amountSteps);
  }
}

async function sendSettlement(
  ctx: TenantCtx,
  account: Account,
  statements: readonly Statement[],
  settled: readonly SettledHold[],
): Promise<void> {
  const messages = wantedOf(ctx, account, () => settled.map((one) => messageOf(account.userId, one)));
  const alerts = alertWrites(ctx, account, chargesOf(settled));
  const all = [
    guardFeatures(account),
    ...statements,
    ...ledgerMessageWrites(ctx, account, messages),
    ...alerts.statements,
  ];
  const rows = await batch(ctx.db, all);
  noteMessages(ctx, [...messages, ...alertsAmong(alerts, all, rows)]);
}

/** The charges among settled holds. Returns come between them, and once more where one is reversed (U9). */
function chargesOf(settled: readonly SettledHold[]): Motion[] {
  const eventIds = settled.flatMap(({ hold, charged }) => (charged === null ? [] : [hold.id]));
  if (eventIds.length === 0) return [];
  const counts = settled.map(({ hold, charged }) => 2 * hold.legs.length + (charged?.payment.legs.length ?? 0));
  return [{ entries: counts.reduce((sum, count) => sum + count, 0), lifts: false, eventIds }];
}

function messageOf(userId: string, { hold, charged }: SettledHold): LedgerMessage {
  if (charged === null) return reservationExpired(userId, hold);
  const { event, model, quantities } = charged.charge;
  const hasEntries = hold.legs.length > 0 || charged.payment.legs.length > 0;
  return usageRecorded(userId, { eventId: hold.id, event, model, quantities, reservationId: hold.id, hasEntries });
}

/** The statements that settle some due holds. The events come before the entries that debit for them. */
function settlementOf(account: Account, some: readonly SettledHold[]): Statement[] {
  const values = writingValues(account);
  const lessSteps = new Map<string, number>();
  const entries: SettlementEntry[] = [];
  const append = (entry: SettlementEntry) => {
    entries.push(entry);
    lessSteps.set(entry.balanceId, (lessSteps.get(entry.balanceId) ?? 0) - entry.deltaSteps);
  };
  const events = some.flatMap(({ hold, charged }) => {
    for (const entry of returnsOf(hold, charged === null ? "reservation_expired" : "reservation_released"))
      append(entry);
    if (charged === null) return [];
    const { charge, payment } = charged;
    const ids = { reservationId: hold.id, eventId: hold.id };
    const legs = payment.legs.map(({ balance, amountSteps }) => {
      append({ balanceId: balance.id, deltaSteps: -amountSteps, reason: "event_committed", ...ids });
      const amount = fromSteps(balance.unit, amountSteps);
      return { balanceId: balance.id, amount, lessSteps: lessSteps.get(balance.id) };
    });
    const { quantities, occurredAtMs: occurredAt } = charge;
    const uncovered = payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered));
    const stamp = stampCharge({ quantities, occurredAt, onShortage: "partial" });
    return [{ id: hold.id, ...charge, legs, uncovered, stamp }];
  });
  const ids = JSON.stringify(some.map(({ hold }) => hold.id));
  const charged = JSON.stringify(events.map(({ id }) => id));
  return [
    settleDueSql({ ...values, ids, charged }),
    ...(events.length === 0 ? [] : [insertCharges({ ...values, charges: JSON.stringify(events) })]),
    ...insertSettlement(account, entries),
  ];
}

// One that was extended meanwhile is not due any more: the CHECK `reservations_state` aborts the batch.
const settleDueSql = statement<WriteContext & { ids: string; charged: string }>`
  UPDATE reservations SET
    state = CASE WHEN expires_at_ms > ${nowMsSql} THEN 'not due'
      WHEN id IN (SELECT value FROM json_each(:charged)) THEN 'committed' ELSE 'expired' END,
    settled_at_ms = ${nowMsSql}, settled_event_id = iif(id IN (SELECT value FROM json_each(:charged)), id, NULL)
  WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:ids))`;

/** The events of charges come in the order of their times, as their primary key needs it. */
const insertCharges = statement<WriteContext & { charges: string }>`
  INSERT INTO usage_events (
    account_id, occurred_by_ms, seq, environment_id, event_id, event, model, count_steps, tokens_steps, seconds_steps,
    cents_steps, occurred_at_ms, received_at_ms, reservation_id, request_hash, debits, uncovered
  )
  SELECT ${accountSql}, max(c.value ->> 'occurredAtMs', coalesce(last.occurred_by_ms, c.value ->> 'occurredAtMs')),
    coalesce(last.seq, 0) + 1 + c.key, CAST(:environmentId AS INTEGER), c.value ->> 'id', c.value ->> 'event',
    c.value ->> 'model', coalesce(c.value ->> '$.quantities.count', 0), c.value ->> '$.quantities.tokens',
    c.value ->> '$.quantities.seconds', c.value ->> '$.quantities.cents', c.value ->> 'occurredAtMs', ${nowMsSql},
    c.value ->> 'id', c.value ->> 'stamp', ${debitsOf("c.value -> 'legs'")}, c.value ->> 'uncovered'
  FROM json_each(:charges) AS c LEFT JOIN (
    SELECT occurred_by_ms, seq FROM usage_events WHERE account_id = ${accountSql}
    ORDER BY occurred_by_ms DESC, seq DESC LIMIT 1
  ) AS last
  ORDER BY c.key`;
