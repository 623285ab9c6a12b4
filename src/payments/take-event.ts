import { all, batch, statement } from "../db/sql.ts";
import { batchBehind, underName } from "../db/tombstones/known.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Credited } from "./decide.ts";
import { type PaymentChange, readChange, type StripeEvent } from "./event.ts";
import type { CreditFact } from "./facts.ts";
import type { Credit } from "./invoice-event.ts";
import { type Moved, movePayment, stronger } from "./move.ts";
import { offersOf } from "./offers.ts";
import type { StripeEventOutput } from "./responses.ts";
import type { StripeSetting } from "./setting.ts";
import { type Outcome, selectUnmatchedOf } from "./stored-payment.ts";

/** Takes one of Stripe's events, in any order and however often (S2 to S6). Throws `temporarily_unavailable`. */
export async function takeEvent(
  ctx: TenantCtx,
  setting: StripeSetting,
  event: StripeEvent,
): Promise<StripeEventOutput> {
  const read = readChange(event);
  const change = read === null ? null : { ...read, credits: read.credits.filter(({ price }) => isSet(setting, price)) };
  if (change === null) return { received: true, outcome: "ignored" };
  const { link, facts, credits } = change;
  const credited = credits.length === 0 ? [] : await creditedBy(ctx, credits);
  if (credited.length === 0 && isOfAnother(change, setting)) return { received: true, outcome: "ignored" };
  let outcome: Outcome = "ignored";
  let paymentKey: string | undefined;
  const move = async (part: Partial<PaymentChange>): Promise<void> => {
    const mayGrant = link !== null || facts.some(({ kind }) => kind === "session" || kind === "invoice");
    const moved: Moved = await movePayment(ctx, { setting, change: { ...change, ...part }, credited, mayGrant });
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

const isSet = ({ prices }: StripeSetting, price: string): boolean => prices.some((one) => one.price === price);

/** Whether it is an invoice that sells nothing of what is set. */
function isOfAnother({ facts }: PaymentChange, setting: StripeSetting): boolean {
  const isInvoice = facts.some(({ kind }) => kind === "invoice");
  return isInvoice && offersOf(facts, setting, null).length === 0;
}

type Unnamed = { environmentId: number; id: string; price: string; subscription: string | null };
// What it was taken for before stays, when the event comes again.
const selectCreditedLine = statement<Unnamed, { invoice: string; lines: string }>`
  SELECT * FROM (
    SELECT (
      SELECT name FROM payment_names WHERE environment_id = f.environment_id AND payment_id = f.payment_id AND name GLOB 'in_*' LIMIT 1
    ) AS invoice, f.data ->> 'lines' AS lines
    FROM payment_facts AS f INDEXED BY payment_facts_credit
    WHERE f.environment_id = :environmentId AND f.id = :id AND f.kind = 'credit' LIMIT 1
  )
  UNION ALL SELECT * FROM (
    SELECT substr(line.value ->> 'key', 1, instr(line.value ->> 'key', ':') - 1) AS invoice,
      json_array(substr(line.value ->> 'key', instr(line.value ->> 'key', ':') + 1)) AS lines
    FROM payment_facts AS f INDEXED BY payment_facts_subscription
    CROSS JOIN payments AS p ON p.environment_id = f.environment_id AND p.id = f.payment_id
    CROSS JOIN json_each(p.lines) AS line
    WHERE f.environment_id = :environmentId AND f.subscription = :subscription
      AND coalesce(line.value ->> 'price', :price) = :price
    ORDER BY f.at_seconds DESC LIMIT 1
  )
  LIMIT 1`;

/** What negative lines credit, by the invoices of the credited lines. Those for which no line is found credit nothing. */
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
    // SQLite made this list.
    const lines = line === undefined ? [] : (JSON.parse(line.lines) as string[]);
    if (line !== undefined) named.push({ invoice: line.invoice, fact: { ...fact, data: { ...fact.data, lines } } });
  }
  const invoices = [...new Set(named.map(({ invoice }) => invoice))];
  return invoices.map((invoice) => ({
    invoice,
    facts: named.filter((one) => one.invoice === invoice).map(({ fact }) => fact),
  }));
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
