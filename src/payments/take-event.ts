import { all, statement } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import { batchBehind, underName } from "../tombstones/known.ts";
import { type PaymentChange, readChange, type StripeEvent } from "./event.ts";
import { type Moved, movePayment, stronger } from "./move.ts";
import { offersOf } from "./offer.ts";
import type { StripeEventOutput } from "./responses.ts";
import type { StripeSetting } from "./setting.ts";
import { type Outcome, selectUnmatchedOf } from "./stored-payment.ts";

/** Takes one of Stripe's events, in any order and however often (S2 to S5). Throws `temporarily_unavailable`. */
export async function takeEvent(
  ctx: TenantCtx,
  setting: StripeSetting,
  event: StripeEvent,
): Promise<StripeEventOutput> {
  const change = readChange(event);
  if (change === null || isOfAnother(change, setting)) return { received: true, outcome: "ignored" };
  const { link, facts } = change;
  let outcome: Outcome = "ignored";
  let paymentKey: string | undefined;
  const move = async (part: Partial<PaymentChange>): Promise<void> => {
    const mayGrant = link !== null || facts.some(({ kind }) => kind === "session" || kind === "invoice");
    const moved: Moved = await movePayment(ctx, { setting, change: { ...change, ...part }, mayGrant });
    if (paymentKey === undefined || stronger(moved.outcome, outcome) !== outcome) paymentKey = moved.paymentKey;
    outcome = stronger(outcome, moved.outcome);
  };
  if (link !== null && (await rememberCustomer(ctx, link, change.at))) outcome = "remembered";
  if (change.names.length > 0) await move({});
  if (link !== null) {
    const { customer } = link;
    const waiting = await all(ctx.db, selectUnmatchedOf({ environmentId: ctx.environment.id, customer }));
    for (const { name } of waiting) await move({ names: [name] });
  }
  return { received: true, outcome, ...(paymentKey === undefined ? {} : { paymentKey }) };
}

/** Whether it is an invoice that sells nothing of what is set. */
function isOfAnother({ facts }: PaymentChange, setting: StripeSetting): boolean {
  const isInvoice = facts.some(({ kind }) => kind === "invoice");
  return isInvoice && offersOf(facts, setting, null).length === 0;
}

const upsertCustomer = statement<{ environmentId: number; customer: string; userId: string; at: number }, { isNew: 1 }>`
  INSERT INTO stripe_customers (environment_id, customer, user_id, at_seconds)
  VALUES (:environmentId, :customer, :userId, :at)
  ON CONFLICT (environment_id, customer) DO UPDATE SET user_id = excluded.user_id, at_seconds = excluded.at_seconds
  WHERE excluded.at_seconds > at_seconds
  RETURNING 1 AS isNew`;

/** Remembers whose a customer is: whom the newest session names. Whether that was news. */
async function rememberCustomer(
  ctx: TenantCtx,
  link: NonNullable<PaymentChange["link"]>,
  at: number,
): Promise<boolean> {
  const upsert = upsertCustomer({ environmentId: ctx.environment.id, ...link, at });
  // Nobody's customer is remembered who was erased (E4).
  const rows = await underName(ctx, link.userId, async (name, guards) =>
    name === link.userId ? (await batchBehind(ctx.db, guards, [upsert] as const))[0] : [],
  );
  return rows.length > 0;
}
