import { sql } from "drizzle-orm";
import { batchWithGuards, underName } from "../db/known-tombstones.ts";
import { drizzle, fields, names, query, type ValueOf } from "../db/query.ts";
import { stripeCustomers } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Payer } from "./carry.ts";
import { filterFacts } from "./facts.ts";
import { MustWait } from "./failed-move.ts";
import { type LogEntry, logIgnored, logStatement } from "./log.ts";
import { applyChange, type Moved } from "./move.ts";
import { isSet, readOffers } from "./offer.ts";
import { moreImportant, type PaymentOutcome } from "./outcomes.ts";
import { findHint, type IgnoredReason } from "./reasons.ts";
import { payerKeys, readPayer, selectPayer } from "./stored-payer.ts";
import { selectUnmatchedOf } from "./stored-payment.ts";
import { type PaymentChange, readChange, type StripeEvent } from "./stripe-event.ts";
import type { GrantRequest } from "./stripe-objects.ts";
import type { StripeSetting } from "./stripe-setting.ts";

export interface StripeEventOutput {
  readonly received: true;
  readonly outcome: PaymentOutcome;
  readonly paymentKey?: string | undefined;
}

/** Processes a Stripe event. Events may come in any order and repeatedly (S2 to S6). Throws `temporarily_unavailable`. */
export async function handleStripeEvent(
  ctx: TenantCtx,
  setting: StripeSetting,
  event: StripeEvent,
): Promise<StripeEventOutput> {
  const change = readChange(event);
  if ("ignored" in change) return ignore(ctx, event, change.ignored, change.asked);
  const { link, facts } = change;
  const unset = { unset: unsetPrices(change, setting), hasFree: hasFreeLine(change, setting) };
  const asked = { ...change.asked, hint: { ...change.asked.hint, ...unset } };
  if (await hasNoCountedPrice(ctx, change, setting)) return ignore(ctx, event, "price_not_set", asked);
  let outcome: PaymentOutcome = "ignored";
  let paymentKey: string | undefined;
  /** The key of the event's payment, which the response and the log name even if other payments also change. */
  let eventPaymentKey: string | undefined;
  let reason: IgnoredReason = "nothing_new";
  let isLogged = false;
  const move = async (part: Partial<PaymentChange>): Promise<void> => {
    const mayGrant = link !== null || facts.some(({ kind }) => GRANTING.includes(kind));
    const changeOfPart = { ...change, ...part };
    const input = { setting, change: changeOfPart, mayGrant, eventPaymentKey };
    const moved: Moved = await applyChange(ctx, input).catch((error: unknown) => logWait(ctx, error, event, asked));
    const isMoreImportant = moreImportant(moved.outcome, outcome) !== outcome;
    if (eventPaymentKey === undefined && (paymentKey === undefined || isMoreImportant)) paymentKey = moved.paymentKey;
    outcome = moreImportant(outcome, moved.outcome);
    reason = moved.reason ?? reason;
    isLogged ||= moved.isLogged;
  };
  if (link !== null && (await rememberCustomer(ctx, link, change))) outcome = "remembered";
  if (change.names.length > 0) await move({});
  eventPaymentKey = paymentKey;
  if (link !== null) {
    const { customer } = link;
    const waiting = await all(ctx.db, selectUnmatchedOf({ environmentId: ctx.environment.id, customer }));
    for (const { name } of waiting) await move({ names: [name], customer });
  }
  // The log already has a repeated event.
  if (outcome === "ignored" && !isLogged) await logIgnored(ctx, createLogEntry(event, reason, asked, paymentKey));
  return { received: true, outcome, ...(paymentKey === undefined ? {} : { paymentKey }) };
}

/** Logs an event that must wait, and throws its error, so that Stripe sends it again. A repeat does not change its entry. */
async function logWait(ctx: TenantCtx, error: unknown, event: StripeEvent, asked: GrantRequest): Promise<never> {
  if (error instanceof MustWait) await logIgnored(ctx, createLogEntry(event, "refunds_owed", asked));
  throw error;
}

/** `invoice_payment` says which payment intent paid an invoice that may have waited for it. */
const GRANTING: readonly string[] = ["session", "invoice", "intent", "invoice_payment"];

/** Returns the log entry of an ignored event. */
function createLogEntry(
  { id, type }: Pick<StripeEvent, "id" | "type">,
  reason: IgnoredReason,
  { objectId, pack, user, hint }: GrantRequest,
  paymentKey?: string,
): Omit<LogEntry, "outcome"> {
  return {
    ...{ eventId: id, type, reason, objectId, asked: { pack, user } },
    hint: findHint(reason, type, hint),
    paymentKey: paymentKey ?? null,
  };
}

async function ignore(
  ctx: TenantCtx,
  event: StripeEvent,
  reason: IgnoredReason,
  asked: GrantRequest,
): Promise<StripeEventOutput> {
  await logIgnored(ctx, createLogEntry(event, reason, asked));
  return { received: true, outcome: "ignored" };
}

const UNSET_SHOWN = 3;
/** Returns the prices of an invoice's lines that are not in the setting. */
function unsetPrices({ facts }: PaymentChange, setting: StripeSetting): readonly string[] {
  const lines = filterFacts(facts, "invoice").flatMap(({ data }) => data.lines);
  const prices = lines.flatMap(({ price }) => (price === null || isSet(setting, price) ? [] : [price]));
  return [...new Set(prices)].slice(0, UNSET_SHOWN);
}

const hasFreeLine = ({ facts }: PaymentChange, setting: StripeSetting): boolean =>
  filterFacts(facts, "invoice").some(({ data }) =>
    data.lines.some(({ price, net }) => net === 0 && price !== null && isSet(setting, price)),
  );

/**
 * Whether the event is about an invoice of another product. The lines of a price that was granted to the customer count even if the
 * price has left the setting (S6).
 */
async function hasNoCountedPrice(ctx: TenantCtx, change: PaymentChange, setting: StripeSetting): Promise<boolean> {
  const { facts, customer } = change;
  const invoices = filterFacts(facts, "invoice");
  if (invoices.length === 0 || invoices.some(({ data }) => data.lines.some(({ net }) => net < 0))) return false;
  const hasOffer = (payer: Payer | null) => readOffers(facts, setting, { customerUser: null, payer }).length > 0;
  if (hasOffer(null)) return false;
  if (customer === null) return true;
  const keys = JSON.stringify(await payerKeys(ctx, customer));
  const [row] = await all(ctx.db, selectPayer({ environmentId: ctx.environment.id, keys }));
  return row === undefined || !hasOffer(readPayer(row, customer, ""));
}

type CustomerLink = { environmentId: number; customer: string; userId: string; at: number };
const upsertCustomer = query((value: ValueOf<CustomerLink>) => {
  const { environmentId, customer, userId, atSeconds } = stripeCustomers;
  return drizzle
    .insert(stripeCustomers)
    .values({
      environmentId: value("environmentId"),
      customer: value("customer"),
      userId: value("userId"),
      atSeconds: value("at"),
    })
    .onConflictDoUpdate({
      target: [environmentId, customer],
      set: { userId: sql`excluded.${names(userId)}`, atSeconds: sql`excluded.${names(atSeconds)}` },
      setWhere: sql`excluded.${names(atSeconds)} > ${atSeconds}`,
    })
    .returning(fields(stripeCustomers, "customer"));
});

/** Stores the user that the customer's newest session names. Returns whether the user changed. */
async function rememberCustomer(
  ctx: TenantCtx,
  link: NonNullable<PaymentChange["link"]>,
  { eventId, type, at, asked: { objectId, pack, user } }: PaymentChange,
): Promise<boolean> {
  const environmentId = ctx.environment.id;
  const upsert = upsertCustomer({ environmentId, ...link, at });
  const entry = { eventId, type, objectId, asked: { pack, user }, reason: null, hint: null, paymentKey: null };
  const log = logStatement(ctx, { ...entry, outcome: "remembered" }, { customer: link.customer, at });
  // The customer of an erased person is not stored (E4).
  const rows = await underName(ctx, link.userId, async (name, guards) =>
    name === link.userId ? (await batchWithGuards(ctx.db, guards, [upsert, log] as const))[0] : [],
  );
  return rows.length > 0;
}
