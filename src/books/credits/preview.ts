import { choosePack, selectPack } from "../../catalog/packs/find.ts";
import { all } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromSteps } from "../amounts/amount.ts";
import { presentExpiry } from "../ledger/balance.ts";
import { planAdjustment } from "./adjust.ts";
import { planGrant } from "./new-balances.ts";
import { readBalance } from "./read-balance.ts";
import type { GrantInput } from "./schemas.ts";

/**
 * What a grant would issue now, without doing it: its refusals are those of `grantPack` but for the test quota. A quantity
 * that a pack with items disregards is told.
 */
export async function previewGrant(ctx: TenantCtx, input: GrantInput) {
  const pack = choosePack(input.packId, await all(ctx.db, selectPack(ctx, input.packId)));
  const { packName, balances, expiresAtMs } = planGrant(input, pack, ctx.now(), String);
  const ignoresQuantity = pack !== null && pack.items.length > 0 && typeof input.quantity === "number";
  return {
    packName,
    ignoresQuantity,
    expiresAt: presentExpiry(expiresAtMs),
    amounts: balances.map(({ unit, amountSteps }) => ({ unit, amount: fromSteps(unit, amountSteps), amountSteps })),
  };
}

/** What an adjustment would leave now, without making it. Its refusals are those of `adjustBalance`. */
export async function previewAdjustment(ctx: TenantCtx, { balanceId, delta }: { balanceId: string; delta: number }) {
  const balance = await readBalance(ctx, balanceId);
  const { remainingSteps, heldSteps, status } = balance;
  const deltaSteps = planAdjustment(
    { unit: balance.unit, isRevoked: status === "revoked", remainingSteps, heldSteps },
    delta,
  );
  // The largest amounts of a unit are within what a double holds.
  const after = (remainingSteps + deltaSteps) as typeof remainingSteps;
  return { balance, remaining: fromSteps(balance.unit, after) };
}
