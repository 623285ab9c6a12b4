import { sql } from "drizzle-orm";
import type * as z from "zod";
import { fromSteps, reduceFraction, type Unit } from "../books/amounts/amount.ts";
import type { shareAtMostOne } from "../books/credits/schemas.ts";
import { isDue, willBeCharged } from "../books/ledger/hold.ts";
import { computed, query, read, type ValueOf } from "../db/query.ts";
import { paymentGrants, paymentNames, reservations, type Steps } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import type { TenantCtx } from "../runtime.ts";
import { least } from "./line.ts";
import { noPayment } from "./list.ts";
import { planAccount, withReturn } from "./plan.ts";
import { moved } from "./plan-lines.ts";
import { type PaymentState, stateOf } from "./state.ts";
import { readDebt, selectDebts } from "./stored-debts.ts";
import { readPayment, selectPayments } from "./stored-payment.ts";

const selectReturns = query((value: ValueOf<{ environmentId: number; name: string; nowMs: number }>) =>
  read(
    computed({
      balanceId: sql<string>`leg.value ->> 'balanceId'`,
      steps: sql<number>`sum(leg.value ->> 'amountSteps')`,
    }),
    (list) => sql`SELECT ${list} FROM (
        SELECT DISTINCT ${paymentGrants.accountId} AS account FROM ${paymentNames}
        CROSS JOIN ${paymentGrants} ON ${paymentGrants.environmentId} = ${paymentNames.environmentId}
        AND ${paymentGrants.paymentId} = ${paymentNames.paymentId}
        WHERE ${paymentNames.environmentId} = ${value("environmentId")} AND ${paymentNames.name} = ${value("name")}
      ) AS granted
      CROSS JOIN ${reservations} ON ${isDue(value, sql`granted.account`)} AND NOT ${willBeCharged()}
      CROSS JOIN json_each(${reservations.legs}) AS leg GROUP BY 1`,
  ),
);

/** The amounts that a refund of a share of a payment would take from its balances now (C21). Throws `not_found`. */
export async function previewRefund(ctx: TenantCtx, paymentKey: string, { part, of }: z.infer<typeof shareAtMostOne>) {
  const environmentId = ctx.environment.id;
  const nowMs = ctx.now();
  const names = JSON.stringify([paymentKey]);
  const [rows, debtRows, returnRows] = await batch(ctx.db, [
    selectPayments({ environmentId, names }),
    selectDebts({ environmentId, names, customer: "", userId: "" }),
    selectReturns({ environmentId, name: paymentKey, nowMs }),
  ]);
  if (rows.length === 0) throw noPayment();
  const stored = stateOf(rows.map(readPayment), { names: [paymentKey], facts: [], customer: null }, null);
  // Stripe refunds whole units.
  const amount = (stored.money.captured * BigInt(part)) / BigInt(of);
  const state = { ...stored, money: afterRefund(stored.money, amount) };
  const books = { payments: [state], debts: debtRows.map(readDebt), customer: state.customer ?? "" };
  const returns = new Map(returnRows.map(({ balanceId, steps }) => [balanceId, steps]));
  const accountIds = [...new Set(state.grants.map(({ accountId }) => accountId))];
  const plans = accountIds.map((accountId) => planAccount(books, { accountId, nowMs, newDebtId: String, returns }));
  const motions = plans.flatMap((plan) => plan.motions);
  const balances = state.grants.map((grant) => {
    const motion = motions.find(({ balanceId }) => balanceId === grant.balanceId);
    const returned = withReturn(grant, returns.get(grant.balanceId) ?? 0);
    const { taken, remaining } = moved(returned, (motion?.dueSteps ?? grant.dueSteps) as Steps);
    return presentPreview(grant, { taken: taken - grant.takenSteps, remaining });
  });
  return { amount: Number(amount), currency: state.money.currency, balances };
}

/** The money of a payment after a refund, which is at most what was paid. */
function afterRefund(money: PaymentState["money"], amount: bigint): PaymentState["money"] {
  const { captured, whole, share } = money;
  if (whole === 0n) return money;
  const before = (share.numerator * whole) / share.denominator;
  const after = least(captured, before + amount);
  return { ...money, share: reduceFraction({ numerator: after, denominator: whole }) };
}

function presentPreview(
  { balanceId, unit }: { readonly balanceId: string; readonly unit: Unit },
  { taken, remaining }: { readonly taken: number; readonly remaining: number },
) {
  assert(remaining >= 0, "a balance never falls below 0");
  const amountOf = (steps: number) => fromSteps(unit, steps as Steps);
  return { balanceId, unit, taken: amountOf(taken), remaining: amountOf(remaining) };
}
