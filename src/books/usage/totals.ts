import { invalid, PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { Unit, UnitAmounts } from "../amounts/amount.ts";
import type { MeterAmounts } from "../amounts/meters.ts";
import { presentMeterSums } from "./meter-sums.ts";
import { isTime, presentAmounts, readUsageGroups, type TotalsInput } from "./usage-groups.ts";

export interface TotalsOutput {
  readonly totals: { readonly event: string; readonly unit: Unit; readonly amount: number }[];
}

export interface GroupedTotalsOutput {
  readonly totals: {
    readonly events: number;
    readonly quantities: UnitAmounts;
    readonly debited: UnitAmounts;
    readonly meters: MeterAmounts;
    readonly time?: string | undefined;
    readonly event?: string | undefined;
    readonly model?: string | null | undefined;
    /** Null for usage without a member. */
    readonly memberId?: string | null | undefined;
  }[];
}

/**
 * Returns the user's quantities, from events that occurred in [from, to), by event and unit (U10) or by the requested groups (U17). Throws
 * `invalid_request` for a span with too many events or groups.
 */
export async function readUsageTotals(ctx: TenantCtx, input: TotalsInput): Promise<TotalsOutput | GroupedTotalsOutput> {
  const { groupBy: by } = input;
  if (ctx.caller.kind === "publishable" && by?.includes("member") === true) {
    throw new PurserError("requires_secret_key", "Only a secret key may group usage by member.", { param: "groupBy" });
  }
  if (by === undefined) {
    const groups = await readUsageGroups(ctx, { ...input, by: ["event"], isGrouped: false });
    return {
      totals: groups.flatMap(({ event, used }) =>
        Object.entries(presentAmounts(used)).map(([unit, amount]) => ({
          event: event ?? "",
          unit: unit as Unit,
          amount,
        })),
      ),
    };
  }
  if (input.from === undefined) throw invalid("from", "is required with `groupBy`");
  const groups = await readUsageGroups(ctx, { ...input, by, isGrouped: true });
  const isByTime = by.some(isTime);
  return {
    totals: groups.map(({ time, event, model, memberId, events, used, debited, meters }) => ({
      ...(isByTime && time !== null ? { time: iso(time) } : {}),
      ...(by.includes("event") && event !== null ? { event } : {}),
      ...(by.includes("model") ? { model } : {}),
      ...(by.includes("member") ? { memberId } : {}),
      events,
      quantities: presentAmounts(used),
      debited: presentAmounts(debited),
      meters: presentMeterSums(meters),
    })),
  };
}
