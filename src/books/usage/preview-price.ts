import { batch } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { presentQuantities, type Unit, type UnitAmounts } from "../amounts/amount.ts";
import type { SentMeters } from "../amounts/meters.ts";
import { withPrices } from "../prices/prices-in-force.ts";
import { assertNotAhead } from "./plan.ts";

export interface UsageToPrice {
  readonly event: string;
  readonly model?: string | undefined;
  readonly meters: SentMeters;
  readonly occurredAt?: number | undefined;
}

export interface UsagePrice {
  readonly quantities: UnitAmounts;
  readonly priceVersion: number | null;
  readonly rules: { readonly unit: Unit; readonly rule: number }[];
}

/** Returns what the price list would make of some meters (PR6). Throws `price_not_found`. */
export function previewPrice(ctx: TenantCtx, usage: UsageToPrice): Promise<UsagePrice> {
  const nowMs = ctx.now();
  assertNotAhead(usage.occurredAt, nowMs);
  return withPrices(ctx, async (prices) => {
    prices.take((await batch(ctx.db, prices.select([usage], nowMs)))[0]);
    const { quantities, priceVersion, rules } = prices.price(usage, prices.readBaseAt(nowMs, usage.occurredAt));
    return { quantities: presentQuantities(quantities), priceVersion, rules: [...rules] };
  });
}
