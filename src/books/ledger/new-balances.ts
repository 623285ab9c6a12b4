import type { Pack } from "../../catalog/pack.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import { DAY_MS } from "../../lib/time.ts";
import { amountRule, toSteps } from "../amounts/amount.ts";
import { NEVER_MS } from "./balance.ts";
import type { NewBalance, NewBalances } from "./insert-entries.ts";

/** The input of a grant, from any source. */
export interface GrantOfPack {
  readonly packId: string;
  readonly quantity?: number | null | undefined;
  readonly source: NewBalances["source"];
  readonly cause: NewBalances["cause"];
  readonly externalRef?: string | undefined;
  readonly notes?: string | undefined;
  /** Null for never. Absent: as the pack says. */
  readonly expiresAt?: number | null | undefined;
}

/** The ids of new balances. Every attempt of a grant gets the same ids. */
export type BalanceIds = (index: number) => string;

/**
 * The balances of a grant: one for each item, or one of `quantity` for a legacy pack. They copy what must not change later
 * (C8). Throws `credit_pack_not_found`, `invalid_quantity`, `invalid_request` for an expiry in the past.
 */
export function planGrant(input: GrantOfPack, pack: Pack | null, nowMs: number, idOf: BalanceIds): NewBalances {
  if (pack === null || pack.archivedAtMs !== null) throw grantPackNotFound(input.packId, pack);
  const balances = pack.items.length > 0 ? ofItems(pack, idOf) : [ofLegacyPack(pack, input.quantity, idOf)];
  if (typeof input.expiresAt === "number" && input.expiresAt <= nowMs) {
    throw invalid("expiresAt", "must be in the future");
  }
  const defaultMs = pack.defaultExpiryDays === null ? NEVER_MS : nowMs + pack.defaultExpiryDays * DAY_MS;
  return {
    packId: pack.id,
    packName: pack.name,
    source: input.source,
    cause: input.cause,
    externalRef: input.externalRef ?? null,
    notes: input.notes ?? null,
    expiresAtMs: input.expiresAt === undefined ? defaultMs : (input.expiresAt ?? NEVER_MS),
    balances,
  };
}

/** `credit_pack_not_found`, with a message about the way in which the pack was searched (C7). */
function grantPackNotFound(idOrName: string, pack: Pack | null): PurserError {
  if (/^(price|prod)_/.test(idOrName)) {
    const message =
      "This is an id of Stripe's. Name the credit pack; what Stripe's prices grant is set in the application's Stripe setting.";
    return new PurserError("credit_pack_not_found", message, { param: "packId" });
  }
  const isId = idOrName.startsWith("cpk_");
  const none = isId
    ? "The application has no credit pack with this id."
    : "The application has no credit pack with this name. Names are matched exactly but for case; archived packs have none.";
  const message = pack === null ? none : "The credit pack is archived. Restore it, or grant another.";
  return new PurserError("credit_pack_not_found", message, { param: "packId" });
}

function ofItems(pack: Pack, idOf: BalanceIds): NewBalance[] {
  return pack.items.map((item, index) => ({
    id: idOf(index),
    packItemId: item.id,
    unit: item.unit,
    matches: item.matches,
    priority: item.priority,
    amountSteps: item.amountSteps,
  }));
}

function ofLegacyPack(pack: Pack, quantity: number | null | undefined, idOf: BalanceIds): NewBalance {
  assert(pack.unit !== null, "a pack without items has a unit of its own");
  const refuse = (message: string) => new PurserError("invalid_quantity", message, { param: "quantity" });
  if (quantity === undefined || quantity === null)
    throw refuse(`is required for this pack, which has no items, in its unit \`${pack.unit}\``);
  if (!(quantity > 0)) throw refuse("must be more than 0");
  const amountSteps = toSteps(pack.unit, quantity);
  if (amountSteps === null) throw refuse(amountRule(pack.unit));
  return {
    id: idOf(0),
    packItemId: "",
    unit: pack.unit,
    matches: pack.matches,
    priority: pack.priority,
    amountSteps,
  };
}
