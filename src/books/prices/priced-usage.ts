/** A usage before and after the price list gave its quantities. */

import type { Minor } from "../../db/schema.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import type { Quantities } from "../amounts/amount.ts";
import { isUnstated } from "../amounts/given-quantities.ts";
import type { SentMeters } from "../amounts/meters.ts";
import { costUsage, type MeteredUsage, type Price } from "./price.ts";
import type { PriceVersion } from "./price-versions.ts";

/** A usage as it was sent: with meters or, if these are undefined, with quantities. */
export interface UnpricedUsage {
  readonly event: string;
  readonly model?: string | undefined;
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
}

/** The quantities of a usage, and how they came about. The other fields are null where quantities were sent. */
export interface PricedUsage {
  readonly quantities: Quantities;
  readonly meters: SentMeters | null;
  readonly priceVersion: number | null;
  readonly costMinor: Minor | null;
  /** The place of the rule that gave the quantity of each unit. */
  readonly rules: Extract<Price, { kind: "priced" }>["rules"];
}

/** Returns whether the price list decides about a usage: it has meters, or nothing that says how much it was. */
export const needsPrice = ({ meters, quantities }: UnpricedUsage): boolean =>
  meters !== undefined || (quantities !== undefined && isUnstated(quantities));

/** The price of a usage where no version is in force. */
export const noPriceFor = ({ meters }: MeteredUsage): Extract<Price, { kind: "missing" }> => ({
  ...{ kind: "missing", unit: null },
  meters: [...meters].filter(([, thousandths]) => thousandths > 0n).map(([name]) => name),
});

/** Returns a usage with its price and cost. Throws `price_not_found`, and `invalid_request` for meters that cost too much. */
export function priced(
  usage: UnpricedUsage,
  meters: SentMeters,
  metered: MeteredUsage,
  version: PriceVersion | null,
  price: Price,
): PricedUsage {
  if (price.kind === "missing" || version === null) throw priceNotFound(usage, price);
  if (price.kind === "too_large") {
    throw invalid("meters", `cost more than the largest amount of \`${price.unit}\` by the price list`);
  }
  const { quantities, rules } = price;
  return {
    ...{ quantities, meters, priceVersion: version.version, rules },
    costMinor: costUsage(version.costs, metered),
  };
}

/** Returns `price_not_found` (404), with the meters that have no price (PR4). */
export function priceNotFound({ event, model }: UnpricedUsage, price: Price): PurserError {
  assert(price.kind === "missing", "only a missing price is not found");
  const { unit, meters } = price;
  const message =
    unit === null
      ? "No rule of the price list matches this event. Nothing is recorded; the same id may be sent again once there is a price."
      : `The rule of the price list for \`${unit}\` that matches this event does not name each of its meters. Nothing is recorded; the ` +
        "same id may be sent again once there is a price.";
  return new PurserError("price_not_found", message, {
    param: "meters",
    details: { event, model: model ?? null, meters, ...(unit === null ? {} : { unit }) },
  });
}
