import { all } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { readRules, rulesPassFilter } from "../amounts/match.ts";
import { inSpendingOrder, presentBalance } from "../ledger/balance.ts";
import {
  LISTED_MAX,
  selectActive,
  selectAllBalances,
  selectAsOf,
  selectUnderReference,
  selectUnderReferenceAsOf,
} from "../ledger/select-balances.ts";
import type { ListOutput } from "./responses.ts";
import type { ListInput } from "./schemas.ts";

/**
 * The user's balances in spending order (C13): the active ones (C12); with `includeExpired` all; with `externalRef` all that
 * were granted under it (C22); with `asOf` all that were issued by then, as they were (C23). With `event`, only those whose
 * rules match it (C4). An unknown user has none. Throws `invalid_request` for a moment in the future, and for more than a list
 * may have (L6).
 */
export async function listBalances(ctx: TenantCtx, input: ListInput): Promise<ListOutput> {
  const { event } = input;
  // The query and the statuses use the same time, so that they agree.
  const nowMs = ctx.now();
  const atMs = input.asOf ?? nowMs;
  if (atMs > nowMs) throw invalid("asOf", "must not be in the future");
  const rows = await all(ctx.db, selectListed(ctx, input, atMs));
  if (rows.length > LISTED_MAX) throw tooManyListed();
  const covering = rows.filter((row) => event === undefined || rulesPassFilter(readRules(row.matches), event));
  return { credits: inSpendingOrder(covering).map((row) => presentBalance(row, atMs)) };
}

function tooManyListed(): PurserError {
  const message = "These are more balances than a list may have. Ask for those that can pay, or export the person.";
  return new PurserError("invalid_request", message, { details: { limit: LISTED_MAX } });
}

function selectListed(ctx: TenantCtx, { userId, externalRef, asOf: asOfMs, includeExpired }: ListInput, nowMs: number) {
  const user = { userId };
  if (asOfMs !== undefined) {
    if (externalRef === undefined) return selectAsOf(ctx, user, { asOfMs });
    return selectUnderReferenceAsOf(ctx, user, { asOfMs, externalRef });
  }
  if (externalRef !== undefined) return selectUnderReference(ctx, user, { externalRef });
  return includeExpired ? selectAllBalances(ctx, user, {}) : selectActive(ctx, user, { nowMs });
}
