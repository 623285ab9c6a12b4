import { sql } from "drizzle-orm";
import { batchWithGuards, underName } from "../db/known-tombstones.ts";
import { computed, drizzle, fields, names, query, type ValueOf } from "../db/query.ts";
import { paymentFacts, paymentNames, payments, stripeCustomers } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Credited } from "./decide.ts";
import { type PaymentChange, readChange } from "./event.ts";
import { type CreditFact, factsOf } from "./facts.ts";
import type { Credit } from "./invoice.ts";
import { type LogEntry, logIgnored, logStatement } from "./log.ts";
import { type Moved, moreImportant, movePayment } from "./move.ts";
import { offersOf } from "./offer.ts";
import { hintOf, type IgnoredReason } from "./reasons.ts";
import type { StripeEventOutput } from "./responses.ts";
import type { StripeEvent } from "./schemas.ts";
import { type PaymentOutcome, selectUnmatchedOf } from "./stored-payment.ts";
import type { AskedGrant } from "./stripe-objects.ts";
import type { StripeSetting } from "./stripe-setting.ts";

/** Processes a Stripe event. Events may come in any order and repeatedly (S2 to S6). Throws `temporarily_unavailable`. */
export async function takeEvent(
  ctx: TenantCtx,
  setting: StripeSetting,
  event: StripeEvent,
): Promise<StripeEventOutput> {
  const reading = readChange(event);
  if ("ignored" in reading) return ignore(ctx, event, reading.ignored, reading.asked);
  const change = { ...reading, credits: reading.credits.filter(({ price }) => isSet(setting, price)) };
  const { link, facts, credits, asked } = change;
  const credited = credits.length === 0 ? [] : await creditedBy(ctx, credits);
  if (credited.length === 0 && hasNoSetPrice(change, setting)) {
    const hint = { ...asked.hint, unset: unsetPrices(change, setting), hasFree: hasFreeLine(change, setting) };
    return ignore(ctx, event, "price_not_set", { ...asked, hint });
  }
  let outcome: PaymentOutcome = "ignored";
  let paymentKey: string | undefined;
  /** The key of the event's payment, which the response and the log name even if other payments also change. */
  let eventPaymentKey: string | undefined;
  let reason: IgnoredReason = "nothing_new";
  let isLogged = false;
  const move = async (part: Partial<PaymentChange>): Promise<void> => {
    const mayGrant = link !== null || facts.some(({ kind }) => GRANTING.includes(kind));
    const changeOfPart = { ...change, ...part };
    const input = { setting, change: changeOfPart, credited, mayGrant, eventPaymentKey };
    const moved: Moved = await movePayment(ctx, input);
    const isMoreImportant = moreImportant(moved.outcome, outcome) !== outcome;
    if (eventPaymentKey === undefined && (paymentKey === undefined || isMoreImportant)) paymentKey = moved.paymentKey;
    outcome = moreImportant(outcome, moved.outcome);
    if (moved.isTrialOver) reason = "trial_over";
    isLogged ||= moved.isLogged;
  };
  if (link !== null && (await rememberCustomer(ctx, link, change))) outcome = "remembered";
  if (change.names.length > 0) await move({});
  eventPaymentKey = paymentKey;
  if (link !== null) {
    const { customer } = link;
    const waiting = await all(ctx.db, selectUnmatchedOf({ environmentId: ctx.environment.id, customer }));
    for (const { name } of waiting) await move({ names: [name] });
  }
  // The log already has a repeated event.
  if (outcome === "ignored" && !isLogged) await logIgnored(ctx, entryOf(event, reason, asked, paymentKey));
  return { received: true, outcome, ...(paymentKey === undefined ? {} : { paymentKey }) };
}

const GRANTING: readonly string[] = ["session", "invoice", "intent"];

/** Returns the log entry of an ignored event. */
function entryOf(
  { id, type }: Pick<StripeEvent, "id" | "type">,
  reason: IgnoredReason,
  { objectId, pack, user, hint }: AskedGrant,
  paymentKey?: string,
): Omit<LogEntry, "outcome"> {
  return {
    ...{ eventId: id, type, reason, objectId, asked: { pack, user } },
    hint: hintOf(reason, type, hint),
    paymentKey: paymentKey ?? null,
  };
}

async function ignore(
  ctx: TenantCtx,
  event: StripeEvent,
  reason: IgnoredReason,
  asked: AskedGrant,
): Promise<StripeEventOutput> {
  await logIgnored(ctx, entryOf(event, reason, asked));
  return { received: true, outcome: "ignored" };
}

const UNSET_SHOWN = 3;
/** Returns the prices of an invoice's lines that are not in the setting. */
function unsetPrices({ facts }: PaymentChange, setting: StripeSetting): readonly string[] {
  const lines = factsOf(facts, "invoice").flatMap(({ data }) => data.lines);
  const prices = lines.flatMap(({ price }) => (price === null || isSet(setting, price) ? [] : [price]));
  return [...new Set(prices)].slice(0, UNSET_SHOWN);
}

const hasFreeLine = ({ facts }: PaymentChange, setting: StripeSetting): boolean =>
  factsOf(facts, "invoice").some(({ data }) =>
    data.lines.some(({ price, net }) => net === 0 && price !== null && isSet(setting, price)),
  );

const isSet = ({ prices }: StripeSetting, price: string): boolean =>
  prices.some((setPrice) => setPrice.price === price);

/** Returns whether the event is about an invoice without a price of the setting. */
function hasNoSetPrice({ facts }: PaymentChange, setting: StripeSetting): boolean {
  const isInvoice = facts.some(({ kind }) => kind === "invoice");
  return isInvoice && offersOf(facts, setting, null).length === 0;
}

type CreditWithoutLine = { environmentId: number; id: string; price: string; subscription: string | null };
const creditedLine = computed({ invoice: sql<string>`found.invoice`, lines: sql<string>`found.credited` });
// A repeated event credits the line that it credited before.
const selectCreditedLine = query((value: ValueOf<CreditWithoutLine>) => {
  const { environmentId, paymentId, id, kind, data, subscription, atSeconds } = paymentFacts;
  const invoice = sql`(
    SELECT ${paymentNames.name} FROM ${paymentNames} WHERE ${paymentNames.environmentId} = ${environmentId}
    AND ${paymentNames.paymentId} = ${paymentId} AND ${paymentNames.name} GLOB 'in_*' LIMIT 1
  )`;
  const taken = sql`SELECT ${invoice} AS invoice, ${data} ->> 'lines' AS credited
    FROM ${paymentFacts} INDEXED BY payment_facts_credit
    WHERE ${environmentId} = ${value("environmentId")} AND ${id} = ${value("id")} AND ${kind} = 'credit' LIMIT 1`;
  const newest = sql`SELECT substr(line.value ->> 'key', 1, instr(line.value ->> 'key', ':') - 1),
      json_array(substr(line.value ->> 'key', instr(line.value ->> 'key', ':') + 1))
    FROM ${paymentFacts} INDEXED BY payment_facts_subscription
    CROSS JOIN ${payments} ON ${payments.environmentId} = ${environmentId} AND ${payments.id} = ${paymentId}
    CROSS JOIN json_each(${payments.lines}) AS line
    WHERE ${environmentId} = ${value("environmentId")} AND ${subscription} = ${value("subscription")}
      AND coalesce(line.value ->> 'price', ${value("price")}) = ${value("price")}
    ORDER BY ${atSeconds} DESC LIMIT 1`;
  return drizzle
    .select(creditedLine)
    .from(sql`(SELECT * FROM (${taken}) UNION ALL SELECT * FROM (${newest})) AS found`)
    .limit(1);
});

/** Returns the credits of negative lines, by the invoices of the credited lines. Without a matching line there is no credit. */
async function creditedBy(ctx: TenantCtx, credits: readonly Credit[]): Promise<readonly Credited[]> {
  const environmentId = ctx.environment.id;
  const found = await batch(
    ctx.db,
    credits
      .filter(({ invoice }) => invoice === null)
      .map(({ fact, price, subscription }) => selectCreditedLine({ environmentId, id: fact.id, price, subscription })),
  );
  const named: { readonly invoice: string; readonly fact: CreditFact }[] = [];
  let index = 0;
  for (const { invoice, fact } of credits) {
    if (invoice !== null) {
      named.push({ invoice, fact });
      continue;
    }
    const [line] = found[index++] ?? [];
    // SQLite built this JSON.
    const lines = line === undefined ? [] : (JSON.parse(line.lines) as string[]);
    if (line !== undefined) named.push({ invoice: line.invoice, fact: { ...fact, data: { ...fact.data, lines } } });
  }
  const invoices = [...new Set(named.map(({ invoice }) => invoice))];
  return invoices.map((invoice) => ({
    invoice,
    facts: named.filter((credit) => credit.invoice === invoice).map(({ fact }) => fact),
  }));
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
