import { fromSteps } from "../books/amounts/amount.ts";
import { presentExpiry } from "../books/ledger/balance.ts";
import { choosePack, selectPack } from "../catalog/packs/pack.ts";
import { batch } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import type { SettlePaymentInput } from "./schemas.ts";
import { planSettlement, settingOf } from "./settle.ts";
import { stateOf } from "./state.ts";
import { readPayment, selectPayments } from "./stored-payment.ts";
import { selectSetting } from "./stripe-setting.ts";

/** What a settlement would issue now, without doing it. Its refusals are those of `settlePayment` but for the test quota. */
export async function previewSettlement(ctx: TenantCtx, paymentKey: string, input: SettlePaymentInput) {
  const environmentId = ctx.environment.id;
  const names = [paymentKey];
  const [rows, [stored], packs] = await batch(ctx.db, [
    selectPayments({ environmentId, names: JSON.stringify(names) }),
    selectSetting({ environmentId }),
    selectPack(ctx, input.packId),
  ]);
  const state = stateOf(rows.map(readPayment), { names, facts: [], customer: null }, null);
  const packOf = () => choosePack(input.packId, packs);
  const terms = { nowMs: ctx.now(), newId: String, packOf };
  const { packName, balances, expiresAtMs } = planSettlement(input, state, settingOf(stored), terms);
  return {
    packName,
    ignoresQuantity: (packOf()?.items.length ?? 0) > 0 && typeof input.quantity === "number",
    expiresAt: presentExpiry(expiresAtMs),
    amounts: balances.map(({ unit, amountSteps }) => ({ unit, amount: fromSteps(unit, amountSteps), amountSteps })),
  };
}
