import { type NextExpiry, selectNextExpiry, tellExpiries } from "../books/alerts/find-expiries.ts";
import { settleDueHolds } from "../books/ledger/write.ts";
import { type NextHold, selectNextHold } from "../books/usage/expire.ts";
import { batch } from "../db/sql.ts";
import { type NextUnmatched, selectNextUnmatched, tellOne } from "../payments/tell-unmatched.ts";
import type { TenantCtx } from "../runtime.ts";

/** What time brings about in an environment: a hold ends, a balance expires or will, a payment stays unmatched. */
export type Due =
  | { readonly kind: "hold"; readonly momentMs: number; readonly row: NextHold }
  | { readonly kind: "expiry"; readonly momentMs: number; readonly row: NextExpiry }
  | { readonly kind: "unmatched"; readonly momentMs: number; readonly row: NextUnmatched };

/** What is due next, up to `untilMs`; null for nothing. Of one moment holds come first: a notice tells what returned as well. */
export async function findNextDue(ctx: TenantCtx, untilMs: number): Promise<Due | null> {
  const { id } = ctx.environment;
  const [[hold], [expiry], [unmatched]] = await batch(ctx.db, [
    selectNextHold(id, untilMs),
    selectNextExpiry(id, ctx.now(), untilMs),
    selectNextUnmatched(id, untilMs),
  ] as const);
  const found: Due[] = [];
  if (hold !== undefined) found.push({ kind: "hold", momentMs: hold.momentMs, row: hold });
  if (expiry !== undefined) found.push({ kind: "expiry", momentMs: expiry.momentMs, row: expiry });
  if (unmatched !== undefined) found.push({ kind: "unmatched", momentMs: unmatched.momentMs, row: unmatched });
  return found.toSorted((a, b) => a.momentMs - b.momentMs)[0] ?? null;
}

/** Does what is due, at the environment's time. Whoever was faster has done it. */
export async function settleDue(ctx: TenantCtx, due: Due): Promise<void> {
  if (due.kind === "hold") await settleDueHolds(ctx, { accountId: due.row.accountId }, ctx.newId(""));
  else if (due.kind === "expiry") return tellExpiries(ctx, due.row);
  else return tellOne(ctx, due.row);
}
